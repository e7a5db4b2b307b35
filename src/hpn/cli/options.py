"""Options that commands share, and what is made of them."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from hpn.errors import ConfigError

DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder with the data; default HPN_DATA, else the cache folder.", metavar="DIR"),
]
Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="A name of `hpn datasets`, or a path.")]
Method = Annotated[str, typer.Option(metavar="NAME", help="Learner; `hpn methods` lists them.")]
Backbone = Annotated[str | None, typer.Option(metavar="NAME", help="gcn, gat or gin.")]
Scenario = Annotated[str | None, typer.Option(metavar="NAME", help="task or class.")]
Edges = Annotated[str, typer.Option(metavar="WHICH", help="within (a task) or seen (all so far).")]
Evaluate = Annotated[str | None, typer.Option(metavar="HOW", help="oracle, global or grouped.")]
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


def watching(what: str, quiet: bool) -> contextlib.AbstractContextManager[Any]:
    """Who watches a command: nobody, bars in a terminal, lines elsewhere."""
    from hpn import progress
    from hpn.experiment.tune.progress import TuneWatcher
    from hpn.experiment.watch import BatchWatcher, Watcher

    watchers: dict[str, tuple[Any, Any, Any]] = {
        "run": (Watcher, progress.LiveProgress, progress.PlainProgress),
        "compare": (BatchWatcher, progress.LiveComparison, progress.PlainComparison),
        "reproduce": (BatchWatcher, progress.LiveReproduction, progress.PlainComparison),
        "import": (progress.SilentImport, progress.LiveImport, progress.PlainImport),
        "tune": (TuneWatcher, progress.LiveTuning, progress.PlainTuning),
    }
    silent, live, plain = watchers[what]
    context: contextlib.AbstractContextManager[Any]
    if not quiet and sys.stderr.isatty():
        context = live()
    else:
        context = contextlib.nullcontext(silent() if quiet else plain())
    return context


def chosen_workers(workers: int | None, ray: str | None) -> int:
    """How many processes; on a cluster that is not for the user to say."""
    from hpn.experiment.execute.local import default_workers

    if ray is not None and workers is not None:
        raise ConfigError("give --workers N or --ray ADDRESS, not both: a cluster uses the cores it has")
    return default_workers() if workers is None else workers


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


def read_settings(pairs: list[str]) -> dict[str, str]:
    """``KEY=VALUE`` words by their keys."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair!r}: expected KEY=VALUE, such as --set epochs=50")
        settings[key.strip()] = value.strip()
    return settings
