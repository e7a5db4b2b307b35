"""``hpn check``, ``import``, ``datasets``, ``recipes``, ``methods`` and ``report``: what there is, and results."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpn.cli.app import app
from hpn.cli.options import (
    ClassesPerTask,
    DataRoot,
    Dataset,
    DataSettings,
    OutputOptions,
    Settings,
    Tasks,
    read_settings,
    with_options,
)
from hpn.cli.session import Session, TextColumns, count, describe_sizes
from hpn.errors import ConfigError

if TYPE_CHECKING:
    from hpn.learners import Learner

datasets_app = typer.Typer(help="List the data sets, and which of them are on disk.")
app.add_typer(datasets_app, name="datasets")


@app.command()
@with_options
def check(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="MODULE:CLASS, or a name of `hpn methods`.")],
    *,
    set_: Settings = None,
    output: OutputOptions,
) -> None:
    """Check that a learner follows the contract, with one verdict per check.

    The current folder is searched for MODULE as well. Few epochs make it quick: --set epochs=4. The exit code
    is 1 if a check fails.
    """
    from hpn.learners.finding import find_learner
    from hpn.testing import learner_checks

    name, _ = find_learner(method)
    settings = read_settings(set_)
    verdicts, explained = [], dict[str, str]()
    for one in learner_checks(method, **settings):
        verdict = one.run()
        verdicts.append(verdict)
        first = explained.setdefault(verdict.reason, verdict.name) if verdict.reason else verdict.name
        if not output.as_json:  # a mistake that breaks many checks is stated once
            typer.echo(str(verdict if first == verdict.name else replace(verdict, reason=f"same as {first}")))
    counts = {word: sum(one.outcome == word for one in verdicts) for word in ("passed", "failed", "skipped")}
    found = {"schema": 1, "method": name, "settings": settings, **counts, "checks": list(map(asdict, verdicts))}
    output.report(found, [f"{name}: " + ", ".join(f"{count} {word}" for word, count in counts.items())])
    if counts["failed"]:
        raise typer.Exit(1)


@app.command("import")
@with_options
def import_(
    source: Dataset,
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The folder to create.")],
    *,
    features: Annotated[
        str, typer.Option(metavar="TYPE", help="Type of dense features: float32 or float16.")
    ] = "float32",
    text: TextColumns = None,
    set_: DataSettings = None,
    session: Session,
) -> None:
    """Write a data set as a store: flat arrays that commands map into memory instead of reading them.

    Tables are streamed, so that they may be larger than memory. Every command that takes a data set takes a store.
    """
    from hpn.datasets.catalog import describe_graph, import_dataset
    from hpn.datasets.store import FEATURE_TYPES

    if features not in FEATURE_TYPES:
        raise ConfigError(f"--features {features}: expected {' or '.join(FEATURE_TYPES)}")
    options = {**read_settings(set_, "data."), **session.reading(text=",".join(text or []))}
    with session.watching() as watcher:
        graph = import_dataset(
            source, store, features=features, begin=watcher.reading, data_root=session.data_root, options=options
        )
    lines = [
        f"{graph.name}: {describe_sizes(graph)}, {count(graph.num_classes, 'class')}",
        *(f"- {note}" for note in graph.notes),
        f"store: {store}",
    ]
    session.report({**describe_graph(graph), "notes": list(graph.notes), "store": str(store)}, lines)


@app.command()
@with_options
def recipes(output: OutputOptions) -> None:
    """List the packaged recipes: settings that `hpn run` uses where they apply."""
    from hpn.display.runs import print_recipes
    from hpn.experiment.recipes import packaged_recipes

    output.report([recipe.model_dump(mode="json") for recipe in packaged_recipes()], print_recipes)


@app.command()
@with_options
def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs, comparisons or searches; with --graph, one model.")
    ],
    *,
    graph: Annotated[
        str | None, typer.Option(metavar="GRAPH", help="Show the nodes of this graph with the predictions of a model.")
    ] = None,
    map_: Annotated[
        str, typer.Option("--map", metavar="HOW", help="With --graph: pca, or tsne for up to 3,000 nodes.")
    ] = "pca",
    out: Annotated[Path, typer.Option(metavar="FILE", help="The HTML file.")] = Path("report.html"),
    data_root: DataRoot = None,
) -> None:
    """Write one self-contained HTML file about runs, or about a model and a graph.

    Folders of runs without a result are skipped. For a model, the file has the node explorer.
    """
    from hpn.model.saved import is_model

    models = [path for path in runs if is_model(path)]
    if graph is None and not models:
        from hpn.report import write_report

        typer.echo(str(write_report(runs, out, on_skip=lambda line: typer.echo(f"hpn: {line}", err=True))))
        return
    if graph is None:
        raise ConfigError(f"{models[0]} is a model; give the graph to show as --graph GRAPH")
    if len(runs) != 1 or not models:
        what = "several folders" if len(runs) > 1 else f"{runs[0]}, which is not a model"
        raise ConfigError(f"--graph needs the folder of one model of hpn fit, got {what}")
    if map_ not in {"pca", "tsne"}:
        raise ConfigError(f"--map must be pca or tsne, got {map_!r}")
    typer.echo(str(_report_model(runs[0], graph, map_, out, data_root)))


def _report_model(model: Path, graph: str, drawing: Any, out: Path, data_root: Path | None) -> Path:
    session = Session(data_root=data_root)
    learned, loaded = session.open_both(model, graph)
    with session.working(f"explaining the nodes of {graph}"):
        from hpn.report.page import explorer_page, write_page

        found = learned.explore(loaded, drawing=drawing)
        return write_page(lambda: explorer_page(found, f"{model.name} on {loaded.name}"), out)


@app.command()
@with_options
def methods(output: OutputOptions) -> None:
    """List the learners with their hyper-parameters, default values and meanings.

    Learners of installed packages (entry points of the group hpn.learners) come last.
    """
    from hpn.learners import LEARNERS
    from hpn.learners.finding import import_offer, installed_offers

    described = {name: _describe(learner.variant({})) for name, learner in LEARNERS.items()}
    described["hpn preset=paper"] = _describe(LEARNERS["hpn"].variant({"preset": "paper"}))
    for offer in installed_offers():
        try:
            described[offer.name] = _describe(import_offer(offer), str(offer))
        except ConfigError as error:
            name = offer.target if offer.name in described else offer.name
            described[name] = {"from": str(offer), "about": "", "error": str(error), "params": {}, "meanings": {}}
    output.report(described, _print_methods)


def _describe(learner: type[Learner], origin: str = "hpn") -> dict[str, Any]:
    from hpn.params import declared_params, read_meanings

    params = {key: param.default for key, param in declared_params(learner).items() if key != "seed"}
    meanings = read_meanings(learner)
    return {
        "from": origin,
        "about": (learner.__doc__ or "").strip().partition("\n")[0],
        "params": params,
        "meanings": {key: meanings.get(key, "") for key in params},
    }


def _print_methods(described: dict[str, dict[str, Any]]) -> None:
    for name, entry in described.items():
        typer.secho(name, bold=True, nl=False)
        typer.echo(f"  {entry.get('error', entry['about'])}")
        if entry["from"] != "hpn":
            typer.echo(f"    from {entry['from']}")
        pairs = {key: f"{key}={value}" for key, value in entry["params"].items()}
        width = max(map(len, pairs.values()), default=0)
        for key, pair in pairs.items():
            typer.echo(f"    --set {pair:<{width}}  {_first_sentence(entry['meanings'][key])}".rstrip())


@datasets_app.callback(invoke_without_command=True)
@with_options
def datasets_list(context: typer.Context, *, data_root: DataRoot = None, output: OutputOptions) -> None:
    """List the data sets with their statistics, and whether they are on disk."""
    if context.invoked_subcommand is not None:
        return
    from hpn.datasets import CATALOG, default_data_root
    from hpn.display.runs import print_datasets

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
    name: Annotated[str, typer.Argument(help="A name of `hpn datasets`, or a path.")],
    *,
    tasks: Tasks = None,
    classes_per_task: ClassesPerTask = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of the split.")] = 0,
    set_: DataSettings = None,
    data_root: DataRoot = None,
    output: OutputOptions,
) -> None:
    """Show a data set's classes and sizes, task sequence and splits."""
    from hpn.datasets import describe_graph, load_dataset
    from hpn.display.runs import print_dataset
    from hpn.streams import TaskStream

    graph = load_dataset(name, data_root=data_root, **read_settings(set_, "data."))
    stream = TaskStream(graph, tasks=tasks, classes_per_task=classes_per_task, seed=seed)
    output.report({**describe_graph(graph), **stream.describe()}, print_dataset)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<!Eq)\. ", text)[0].rstrip(".")
