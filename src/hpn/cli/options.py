"""Options that commands share, alone and in groups, and how a command reports its result."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer
from typer import Argument, Option

from hpn.errors import ConfigError

if TYPE_CHECKING:
    from hpn.experiment.watch import Watcher

T = TypeVar("T")

Dataset = Annotated[str, Argument(metavar="DATASET", help="A name of `hpn datasets`, or a path.")]
Method = Annotated[str, Option(metavar="NAME", help="A name of `hpn methods`, or MODULE:CLASS for your own.")]
Backbone = Annotated[str | None, Option(metavar="NAME", help="gcn, gat or gin.")]
Edges = Annotated[str | None, Option(metavar="WHICH", help="Edges in view: within (a task) or seen (all so far).")]
Tasks = Annotated[
    str | None, Option(help='Classes of each task: "0,1;2,3", paper, size, shuffle or shuffle:SEED.', metavar="TASKS")
]
ClassesPerTask = Annotated[int | None, Option(metavar="N", help="Classes per task; default 2.")]
Seed = Annotated[list[int] | None, Option(metavar="S", help="Run this seed.")]
Settings = Annotated[
    list[str] | None, Option("--set", metavar="KEY=VALUE", help="Set a hyper-parameter, or data.OPTION.")
]
DataSettings = Annotated[
    list[str] | None, Option("--set", metavar="data.KEY=VALUE", help="Set an option of the data set.")
]
DataRoot = Annotated[
    Path | None, Option(help="Folder with the data; default HPN_DATA, else the cache folder.", metavar="DIR")
]
EvaluateAhead = Annotated[bool, Option("--evaluate-ahead", help="Also evaluate on all steps still to come.")]
Runs = Annotated[Path, Option(metavar="DIR", help="Folder of the run folders.")]
Track = Annotated[
    str | None, Option(metavar="NAME", help="Also send metrics per step and run to tensorboard or mlflow.")
]
Fresh = Annotated[bool, Option("--fresh", help="Replace earlier runs.")]


class OptionGroup:
    """Options that belong together: a dataclass with one field per option."""

    def arguments(self) -> dict[str, Any]:
        """The options as arguments of the function that the command calls."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]


@dataclass(frozen=True)
class ProtocolOptions(OptionGroup):
    """The protocol: what is learned, and how it is evaluated."""

    scenario: Annotated[str | None, Option(metavar="NAME", help="task: a task is given; class: no task is given.")] = (
        None
    )
    edges: Edges = None
    evaluate: Annotated[str | None, Option(metavar="HOW", help="oracle (the task is given), global or grouped.")] = None
    stream: Annotated[str, Option(metavar="KIND", help="tasks, or time for graphs with node times.")] = "tasks"
    tasks: Tasks = None
    classes_per_task: ClassesPerTask = None


@dataclass(frozen=True)
class Seeds(OptionGroup):
    """How many seeds, or which."""

    default: ClassVar[int] = 1

    seeds: Annotated[int | None, Option(metavar="N", help="Run seeds 0 … N-1.")] = None
    seed: Seed = None

    def arguments(self) -> dict[str, Any]:
        """The option that is given."""
        if self.seeds is not None and self.seed:
            raise ConfigError("give --seeds N or --seed S, not both")
        if self.seeds is not None and self.seeds < 1:
            raise ConfigError(f"--seeds must be at least 1, got {self.seeds}")
        return {"seeds": self.seed or self.seeds or self.default}


@dataclass(frozen=True)
class FiveSeeds(Seeds):
    """As many as the paper has."""

    default: ClassVar[int] = 5

    seeds: Annotated[int | None, Option(metavar="N", help="Run seeds 0 … N-1. Default 5.")] = None


@dataclass(frozen=True)
class Place(OptionGroup):
    """Where a run is computed, and where the data is."""

    device: Annotated[
        str, Option(metavar="DEVICE", help="cpu, cuda, cuda:N, mps, or auto: an accelerator if there is one.")
    ] = "auto"
    ray: Annotated[
        str | None, Option(metavar="ADDRESS", help="Address of a Ray cluster to run on; local starts one.")
    ] = None
    data_root: DataRoot = None


@dataclass(frozen=True)
class Places(Place):
    """Where many runs are computed."""

    workers: Annotated[int | None, Option(metavar="N", help="Number of processes; default one per core.")] = None

    def arguments(self) -> dict[str, Any]:
        """The choices; by default one worker per core."""
        if self.ray is not None and self.workers is not None:
            raise ConfigError("give --workers N or --ray ADDRESS, not both: a cluster uses the cores it has")
        if self.workers is not None:
            return super().arguments()
        import joblib  # takes a while

        return {**super().arguments(), "workers": int(joblib.cpu_count())}


@dataclass(frozen=True, kw_only=True)
class OutputOptions(OptionGroup):
    """How a command reports its result."""

    as_json: Annotated[bool, Option("--json", help="Print exactly one JSON object.")] = False

    def arguments(self) -> dict[str, Any]:
        """Nothing: results do not depend on them."""
        return {}

    def report(self, found: Any, show: Callable[[Any], None] | Iterable[str]) -> None:
        """Print one line of JSON, or what people read (without empty lines)."""
        if self.as_json:
            content = found.to_json() if hasattr(found, "to_json") else found
            typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False))
        elif callable(show):
            show(found)
        else:
            typer.echo("\n".join(filter(None, show)))


@dataclass(frozen=True, kw_only=True)
class WatchedOutput(OutputOptions):
    """How a long command shows its progress and reports its result."""

    quiet: Annotated[bool, Option("--quiet", help="Show no progress.")] = False

    def watching(self) -> contextlib.AbstractContextManager[Watcher]:
        """The progress display: none, bars in a terminal, or lines elsewhere."""
        if self.quiet:
            from hpn.experiment.watch import Watcher

            return contextlib.nullcontext(Watcher())
        from hpn.display.progress import LiveProgress, PlainProgress

        return LiveProgress() if sys.stderr.isatty() else contextlib.nullcontext(PlainProgress())

    def watch(self, function: Callable[..., T], given: Mapping[str, Any]) -> T:
        """Call a function with these arguments, and show its progress."""
        with self.watching() as watcher:
            return function(**given, watcher=watcher)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters that are an :class:`OptionGroup` by their options."""
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {name: p.annotation for name, p in own.items() if is_dataclass(p.annotation)}
    options: list[inspect.Parameter] = []
    for name, parameter in own.items():
        group = groups.get(name)
        options += inspect.signature(group, eval_str=True).parameters.values() if group else [parameter]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    keyword = inspect.Parameter.KEYWORD_ONLY
    call.__signature__ = inspect.Signature([option.replace(kind=keyword) for option in options])  # type: ignore[attr-defined]
    call.__annotations__ = {}  # Typer would prefer them, and a group may be called like one of its options
    return call


def arguments(given: Mapping[str, Any], *without: str) -> dict[str, Any]:
    """The parameters of a command as arguments of the function it calls, ``without`` some of them."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, OptionGroup):
            found |= value.arguments()
        elif name not in without:
            found |= {"settings": read_settings(value)} if name == "set_" else {name: value}
    return found


def read_settings(pairs: Iterable[str] | None, prefix: str = "") -> dict[str, str]:
    """``KEY=VALUE`` arguments as a dictionary; the prefix of keys is removed."""
    settings = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair!r}: expected KEY=VALUE, such as --set epochs=50")
        settings[key.strip().removeprefix(prefix)] = value.strip()
    return settings
