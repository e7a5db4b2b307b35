"""Options that commands share, and what is made of them."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hpn.errors import ConfigError

if TYPE_CHECKING:
    from hpn.experiment.watch import Watcher

Command = TypeVar("Command", bound=Callable[..., None])

DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder with the data; default HPN_DATA, else the cache folder.", metavar="DIR"),
]
Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="A name of `hpn datasets`, or a path.")]
Method = Annotated[
    str, typer.Option(metavar="NAME", help="Learner; `hpn methods` lists them; MODULE:CLASS is your own.")
]
Backbone = Annotated[str | None, typer.Option(metavar="NAME", help="gcn, gat or gin.")]
Scenario = Annotated[str | None, typer.Option(metavar="NAME", help="task or class.")]
Edges = Annotated[str | None, typer.Option(metavar="WHICH", help="within (a task) or seen (all so far).")]
Evaluate = Annotated[str | None, typer.Option(metavar="HOW", help="oracle, global or grouped.")]
StreamKind = Annotated[str, typer.Option(metavar="KIND", help="tasks, or time for graphs with node times.")]
Tasks = Annotated[
    str | None, typer.Option(help='"0,1;2,3", paper, size, shuffle or shuffle:SEED.', metavar="TASKS")
]
ClassesPerTask = Annotated[int | None, typer.Option(metavar="N", help="Default 2.")]
Seeds = Annotated[int | None, typer.Option(metavar="N", help="Run seeds 0 … N-1.")]
Seed = Annotated[list[int] | None, typer.Option(metavar="S", help="Run this seed.")]
NumWorkers = Annotated[
    int | None, typer.Option("--workers", metavar="N", help="Processes; default all cores.")
]
Ray = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Run on this Ray cluster, or local for a new one.")
]
Device = Annotated[
    str,
    typer.Option(metavar="DEVICE", help="cpu, cuda, cuda:N, mps, or auto: an accelerator if there is one."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")]


def protocol(
    scenario: Scenario = None,
    edges: Edges = None,
    evaluate: Evaluate = None,
    stream: StreamKind = "tasks",
    tasks: Tasks = None,
    classes_per_task: ClassesPerTask = None,
) -> None:
    """Options that state what is learned and how it is evaluated."""


def where(device: Device = "auto", ray: Ray = None, data_root: DataRoot = None) -> None:
    """Options that state where it is computed, and where the data is."""


def sharing(*groups: Callable[..., None]) -> Callable[[Command], Command]:
    """Give a command the options that functions like :func:`protocol` declare, as ``**shared``."""

    def add(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True)
        kept = [parameter for parameter in own.parameters.values() if parameter.name != "shared"]
        for group in groups:
            kept += inspect.signature(group, eval_str=True).parameters.values()
        command.__signature__ = own.replace(parameters=kept)  # type: ignore[attr-defined]
        return command

    return add


def watching(quiet: bool) -> contextlib.AbstractContextManager[Watcher]:
    """What watches a command: nothing, bars in a terminal, lines elsewhere."""
    if quiet:
        from hpn.experiment.watch import Watcher

        return contextlib.nullcontext(Watcher())
    from hpn.display.progress import LiveProgress, PlainProgress

    return LiveProgress() if sys.stderr.isatty() else contextlib.nullcontext(PlainProgress())


def print_json(content: Any) -> None:
    """Print one JSON object on one line."""
    typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False))


def chosen_workers(workers: int | None, ray: str | None) -> int:
    """How many processes; on a cluster that is not for the user to say."""
    if ray is not None and workers is not None:
        raise ConfigError("give --workers N or --ray ADDRESS, not both: a cluster uses the cores it has")
    if workers is None:
        import joblib  # takes a while

        return int(joblib.cpu_count())
    return workers


def chosen_recipe(file: Path | None, no_recipe: bool) -> Path | str | None:
    """A recipe's file, ``auto`` for the packaged one, or none."""
    if file is not None and no_recipe:
        raise ConfigError("give --recipe FILE or --no-recipe, not both")
    return None if no_recipe else file or "auto"


def chosen_seeds(count: int | None, chosen: list[int] | None) -> int | list[int]:
    """How many seeds, or which."""
    if count is not None and chosen:
        raise ConfigError("give --seeds N or --seed S, not both")
    if count is not None and count < 1:
        raise ConfigError(f"--seeds must be at least 1, got {count}")
    return chosen or (1 if count is None else count)


def read_settings(pairs: Iterable[str] | None) -> dict[str, str]:
    """``KEY=VALUE`` words by their keys."""
    settings = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair!r}: expected KEY=VALUE, such as --set epochs=50")
        settings[key.strip()] = value.strip()
    return settings
