"""The command line. Heavy imports wait until a command needs them, so that help is instant."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpn import __version__
from hpn.errors import ConfigError, HPNError

if TYPE_CHECKING:
    from types import FrameType

app = typer.Typer(
    name="hpn",
    help="Continual learning on graphs that keep growing.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
datasets_app = typer.Typer(help="Data sets: what there is, what is on disk.")
app.add_typer(datasets_app, name="datasets")

DataRoot = Annotated[
    Path | None,
    typer.Option(help="Folder with the data; default HPN_DATA, else the cache folder.", metavar="DIR"),
]
Dataset = Annotated[str, typer.Argument(help="A name of `hpn datasets`, or a path.")]
Method = Annotated[str, typer.Option(help="Learner; `hpn methods` lists them.")]
Backbone = Annotated[str | None, typer.Option(help="gcn, gat or gin.")]
Scenario = Annotated[str | None, typer.Option(help="task or class.")]
Edges = Annotated[str, typer.Option(help="within (a task) or seen (all so far).")]
Evaluate = Annotated[str | None, typer.Option(help="oracle, global or grouped.")]
Tasks = Annotated[
    str | None, typer.Option(help='"0,1;2,3", paper, size, shuffle or shuffle:SEED.', metavar="TASKS")
]
ClassesPerTask = Annotated[int | None, typer.Option(metavar="N", help="Default 2.")]
Seeds = Annotated[int | None, typer.Option(metavar="N", help="Run seeds 0 … N-1.")]
Seed = Annotated[list[int] | None, typer.Option(metavar="S", help="Run this seed.")]
NumWorkers = Annotated[int | None, typer.Option(metavar="W", help="Processes; default all cores.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Continual learning on graphs that keep growing."""
    if version:
        typer.echo(f"hpn {__version__}")
        raise typer.Exit


@app.command()
def run(
    dataset: Dataset,
    method: Method = "hpn",
    backbone: Backbone = None,
    scenario: Scenario = None,
    edges: Edges = "within",
    evaluate: Evaluate = None,
    tasks: Tasks = None,
    classes_per_task: ClassesPerTask = None,
    seeds: Seeds = None,
    seed: Seed = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter, or data.OPTION."),
    ] = None,
    recipe: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings from this recipe.")] = None,
    no_recipe: Annotated[
        bool, typer.Option("--no-recipe", help="The learner's defaults, not the packaged recipe.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Run folder.")] = None,
    data_root: DataRoot = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier run in the folder.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn the tasks of a data set one after another, and measure after each.

    The same command again goes on where an interrupted run stopped.
    """
    from hpn import display, experiment

    with _progress("run", quiet) as watcher:
        result = experiment.run(
            dataset,
            method=method,
            backbone=backbone,
            scenario=scenario,
            edges=edges,
            evaluate=evaluate,
            tasks=tasks,
            classes_per_task=classes_per_task,
            seeds=_seeds(seeds, seed),
            settings=_settings(set_ or []),
            recipe=_recipe(recipe, no_recipe),
            out=out,
            data_root=data_root,
            fresh=fresh,
            watcher=watcher,
        )
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, allow_nan=False))
    else:
        display.print_result(result)


@app.command()
def compare(
    dataset: Dataset,
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="all, or names and name:backbone, such as hpn,ewc:gat."),
    ] = None,
    backbones: Annotated[str, typer.Option(help="For methods that have one.")] = "gcn,gat,gin",
    scenario: Scenario = None,
    edges: Edges = "within",
    evaluate: Evaluate = None,
    tasks: Tasks = None,
    classes_per_task: ClassesPerTask = None,
    seeds: Seeds = None,
    seed: Seed = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="METHOD.KEY or data.OPTION."),
    ] = None,
    no_recipe: Annotated[bool, typer.Option("--no-recipe", help="The learners' defaults.")] = False,
    workers: NumWorkers = None,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Run folders: the cache.")] = Path("runs"),
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the tables go.")] = None,
    data_root: DataRoot = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace earlier runs.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run many methods on a data set and put them in one table, the paper's numbers beside them.

    Runs are kept: adding a method or seeds runs only what is missing, and the same command again goes on
    where an interrupted one stopped.
    """
    from hpn import display, experiment
    from hpn.experiment.parallel import default_workers
    from hpn.report.comparison import write_comparison

    with _progress("compare", quiet) as watcher:
        comparison = experiment.compare(
            dataset,
            methods=methods or "all",
            backbones=backbones,
            scenario=scenario,
            edges=edges,
            evaluate=evaluate,
            tasks=tasks,
            classes_per_task=classes_per_task,
            seeds=_seeds(seeds, seed),
            settings=_settings(set_ or []),
            use_recipes=not no_recipe,
            workers=default_workers() if workers is None else workers,
            runs=runs,
            out=out,
            data_root=data_root,
            fresh=fresh,
            watcher=watcher,
        )
    write_comparison(comparison)
    if as_json:
        typer.echo(json.dumps(comparison, ensure_ascii=False, allow_nan=False))
    else:
        display.print_comparison(comparison)
    failed = sum(row["error"] is not None for row in comparison["rows"])
    if failed:
        message = f"{failed} of {len(comparison['rows'])} cells failed; the same command tries them again"
        raise typer.Exit(_fail(message, 1))


@app.command()
def tune(
    dataset: Dataset,
    method: Method = "hpn",
    backbone: Backbone = None,
    trials: Annotated[int, typer.Option(metavar="N", help="Settings to try.")] = 30,
    seeds: Annotated[int, typer.Option(metavar="N", help="Seeds that a trial is averaged over.")] = 3,
    final_seeds: Annotated[int, typer.Option(metavar="N", help="Seeds of the test of the chosen.")] = 5,
    scenario: Scenario = None,
    edges: Edges = "within",
    evaluate: Evaluate = None,
    tasks: Tasks = None,
    classes_per_task: ClassesPerTask = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Fixed, not searched; or data.OPTION."),
    ] = None,
    workers: NumWorkers = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the search.")] = None,
    recipe_out: Annotated[Path | None, typer.Option(metavar="FILE", help="A copy of the recipe.")] = None,
    data_root: DataRoot = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier search.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Choose a method's hyper-parameters on validation nodes, and write them down as a recipe.

    Test nodes are asked about once the choice is made, not before. The same command again goes on where
    an interrupted one stopped.
    """
    from hpn import display, experiment
    from hpn.experiment.parallel import default_workers

    with _progress("tune", quiet) as watcher:
        tuned = experiment.tune(
            dataset,
            method=method,
            backbone=backbone,
            trials=trials,
            seeds=seeds,
            final_seeds=final_seeds,
            scenario=scenario,
            edges=edges,
            evaluate=evaluate,
            tasks=tasks,
            classes_per_task=classes_per_task,
            settings=_settings(set_ or []),
            workers=default_workers() if workers is None else workers,
            out=out,
            recipe_out=recipe_out,
            data_root=data_root,
            fresh=fresh,
            watcher=watcher,
        )
    if as_json:
        typer.echo(json.dumps(tuned, ensure_ascii=False, allow_nan=False))
    else:
        display.print_tuned(tuned)


@app.command()
def recipes(as_json: AsJson = False) -> None:
    """List the packaged recipes: settings that `hpn run` uses where they apply."""
    from hpn import display
    from hpn.experiment.recipes import packaged_recipes

    found = [recipe.model_dump(mode="json") for recipe in packaged_recipes()]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        display.print_recipes(found)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The HTML file.")] = Path("report.html"),
) -> None:
    """Write one self-contained HTML file about one or more runs."""
    from hpn.report import write_report

    typer.echo(str(write_report(runs, out)))


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the learners with their hyper-parameters and defaults."""
    from hpn.learners import LEARNERS
    from hpn.params import declared_params

    described = {
        name: {
            "about": (learner.__doc__ or "").strip().splitlines()[0],
            "params": {
                key: parameter.default for key, parameter in declared_params(learner).items() if key != "seed"
            },
        }
        for name, learner in LEARNERS.items()
    }
    if as_json:
        typer.echo(json.dumps(described))
        return
    for name, entry in described.items():
        typer.secho(name, bold=True, nl=False)
        typer.echo(f"  {entry['about']}")
        for key, default in entry["params"].items():  # type: ignore[attr-defined]
            typer.echo(f"    --set {key}={default}")


@datasets_app.callback(invoke_without_command=True)
def datasets_list(context: typer.Context, data_root: DataRoot = None, as_json: AsJson = False) -> None:
    """List the data sets with their statistics, and whether they are on disk."""
    if context.invoked_subcommand is not None:
        return
    from hpn import display
    from hpn.datasets import CATALOG, default_data_root

    where = data_root or default_data_root()
    rows = []
    for info in CATALOG.values():
        nodes, edges, features, classes = info.published
        on_disk = "built in" if info.folder is None else ("yes" if info.is_on_disk(where) else "no")
        rows.append(
            {
                "name": info.name,
                "about": info.about,
                "nodes": nodes,
                "edges": edges,
                "features": features,
                "classes": classes,
                "on_disk": on_disk,
            }
        )
    if as_json:
        typer.echo(json.dumps(rows))
    else:
        display.print_datasets(rows, where)


@datasets_app.command("info")
def datasets_info(
    name: Annotated[str, typer.Argument(help="A name, or a path.")],
    tasks: Annotated[str | None, typer.Option(metavar="TASKS")] = None,
    classes_per_task: Annotated[int | None, typer.Option(metavar="N")] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Draws a seeded split.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="data.KEY=VALUE")] = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
) -> None:
    """Show a data set's classes and sizes, task sequence and splits."""
    from hpn import display
    from hpn.datasets import describe_graph, load_dataset
    from hpn.streams import TaskStream

    options = {key.removeprefix("data."): value for key, value in _settings(set_ or []).items()}
    graph = load_dataset(name, data_root=data_root, **options)
    stream = TaskStream(graph, tasks=tasks, classes_per_task=classes_per_task, seed=seed)
    info = {**describe_graph(graph), **stream.describe()}
    if as_json:
        typer.echo(json.dumps(info, ensure_ascii=False))
    else:
        display.print_dataset(info)


def main() -> None:
    """Run the command line: exit code 0 done, 2 a wrong argument or bad data, 1 anything else."""
    logging.captureWarnings(True)
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, _interrupt)
    try:
        code = app(standalone_mode=False)
    except HPNError as error:
        code = _fail(str(error), 2)
    except typer.TyperException as error:
        code = _fail(f"{_message(error)}; see hpn --help", getattr(error, "exit_code", 2))
    except Interrupted:
        code = _fail("interrupted; the same command goes on from the last checkpoint", 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:  # the disk is full, a folder went away
        code = _fail(f"{error}; mend that, and the same command goes on from the last checkpoint", 1)
    sys.exit(code if isinstance(code, int) else 0)


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM. A KeyboardInterrupt would be turned into exit code 130 on its way up."""


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise Interrupted


def _fail(message: str, code: int) -> int:
    # Names in a message may come from a file: no line breaks, no terminal control sequences.
    line = "".join(sign if sign.isprintable() else "?" for sign in " ".join(message.split()))
    sys.stderr.write(f"hpn: {line}\n")
    return code


def _message(error: Exception) -> str:
    formatted = error.format_message() if hasattr(error, "format_message") else str(error)
    return str(formatted).rstrip(".")


def _progress(what: str, quiet: bool) -> contextlib.AbstractContextManager[Any]:
    """Who watches a command: nobody, bars in a terminal, lines elsewhere."""
    from hpn import experiment, progress

    watchers: dict[str, tuple[Any, Any, Any]] = {
        "run": (experiment.Watcher, progress.LiveProgress, progress.PlainProgress),
        "compare": (experiment.ComparisonWatcher, progress.LiveComparison, progress.PlainComparison),
        "tune": (experiment.TuneWatcher, progress.LiveTuning, progress.PlainTuning),
    }
    silent, live, plain = watchers[what]
    context: contextlib.AbstractContextManager[Any]
    if not quiet and sys.stderr.isatty():
        context = live()
    else:
        context = contextlib.nullcontext(silent() if quiet else plain())
    return context


def _recipe(file: Path | None, no_recipe: bool) -> Path | str | None:
    if file is not None and no_recipe:
        raise ConfigError("give --recipe FILE or --no-recipe, not both")
    return None if no_recipe else file or "auto"


def _seeds(count: int | None, chosen: list[int] | None) -> int | list[int]:
    if count is not None and chosen:
        raise ConfigError("give --seeds N or --seed S, not both")
    if count is not None and count < 1:
        raise ConfigError(f"--seeds must be at least 1, got {count}")
    return chosen or (1 if count is None else count)


def _settings(pairs: list[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair!r}: expected KEY=VALUE, such as --set epochs=50")
        settings[key.strip()] = value.strip()
    return settings
