"""``hpn recipes``, ``hpn report``, ``hpn methods`` and ``hpn datasets``: what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from hpn.cli.app import app
from hpn.cli.options import DataRoot, DataSettings, Output, read_settings, with_options

datasets_app = typer.Typer(help="Data sets: what there is, what is on disk.")
app.add_typer(datasets_app, name="datasets")


@app.command()
@with_options
def recipes(output: Output) -> None:
    """List the packaged recipes: settings that `hpn run` uses where they apply."""
    from hpn.display import print_recipes
    from hpn.experiment.recipes import packaged_recipes

    output.report([recipe.model_dump(mode="json") for recipe in packaged_recipes()], print_recipes)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, comparisons or tuning.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The HTML file.")] = Path("report.html"),
) -> None:
    """Write one self-contained HTML file about one or more runs; folders without a result are skipped."""
    from hpn.report import write_report

    typer.echo(str(write_report(runs, out, on_skip=lambda line: typer.echo(f"hpn: {line}", err=True))))


@app.command()
@with_options
def methods(output: Output) -> None:
    """List the learners with their hyper-parameters: the values that take effect, and what they mean."""
    from hpn.learners import LEARNERS
    from hpn.params import declared_params, read_meanings

    described: dict[str, dict[str, Any]] = {}
    for name in (*LEARNERS, "hpn preset=paper"):
        method, _, preset = name.partition(" preset=")
        learner = LEARNERS[method].variant({"preset": preset} if preset else {})
        params = {key: param.default for key, param in declared_params(learner).items() if key != "seed"}
        meanings = read_meanings(learner)
        described[name] = {
            "about": (learner.__doc__ or "").strip().splitlines()[0],
            "params": params,
            "meanings": {key: meanings[key] for key in params},
        }
    output.report(described, _print_methods)


def _print_methods(described: dict[str, dict[str, Any]]) -> None:
    for name, entry in described.items():
        typer.secho(name, bold=True, nl=False)
        typer.echo(f"  {entry['about']}")
        pairs = {key: f"{key}={value}" for key, value in entry["params"].items()}
        width = max(map(len, pairs.values()))
        for key, pair in pairs.items():
            typer.echo(f"    --set {pair:<{width}}  {_first_sentence(entry['meanings'][key])}")


@datasets_app.callback(invoke_without_command=True)
@with_options
def datasets_list(context: typer.Context, *, data_root: DataRoot = None, output: Output) -> None:
    """List the data sets with their statistics, and whether they are on disk."""
    if context.invoked_subcommand is not None:
        return
    from hpn.datasets import CATALOG, default_data_root
    from hpn.display import print_datasets

    where = data_root or default_data_root()
    sizes = ("nodes", "edges", "features", "classes")
    rows: list[dict[str, Any]] = []
    for info in CATALOG.values():
        on_disk = "built in" if info.folder is None else ("yes" if info.is_on_disk(where) else "no")
        published = zip(sizes, info.published, strict=True)
        rows.append({"name": info.name, "about": info.about, **dict(published), "on_disk": on_disk})
    output.report(rows, lambda rows: print_datasets(rows, where))


@datasets_app.command("info")
@with_options
def datasets_info(
    name: Annotated[str, typer.Argument(help="A name, or a path.")],
    *,
    tasks: Annotated[str | None, typer.Option(metavar="TASKS")] = None,
    classes_per_task: Annotated[int | None, typer.Option(metavar="N")] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Draws a seeded split.")] = 0,
    set_: DataSettings = None,
    data_root: DataRoot = None,
    output: Output,
) -> None:
    """Show a data set's classes and sizes, task sequence and splits."""
    from hpn.datasets import describe_graph, load_dataset
    from hpn.display import print_dataset
    from hpn.streams import TaskStream

    graph = load_dataset(name, data_root=data_root, **read_settings(set_, "data."))
    stream = TaskStream(graph, tasks=tasks, classes_per_task=classes_per_task, seed=seed)
    output.report({**describe_graph(graph), **stream.describe()}, print_dataset)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<!Eq)\. ", text)[0].rstrip(".")
