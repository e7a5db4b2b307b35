"""``hpn fit``, ``hpn update``, ``hpn forget`` and ``hpn show``: a model of one's own graph."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpn.cli.app import app
from hpn.cli.models import (
    GraphPath,
    Missing,
    ModelPath,
    UnknownEdges,
    count,
    describe_classes,
    describe_prototypes,
    describe_size,
    folder_size,
    open_graph,
    open_model,
    report,
    working,
)
from hpn.cli.options import AsJson, DataRoot, Quiet
from hpn.errors import ConfigError, DataError

if TYPE_CHECKING:
    from hpn.model.changes import Encoding
    from hpn.model.core import ClassifierCore


@app.command()
def fit(
    graph: GraphPath,
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The folder to write.")],
    text: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column of text; may be given several times.")
    ] = None,
    missing: Missing = None,
    unknown_edges: UnknownEdges = None,
    width: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Random features: more are slower and more accurate. Default 500 to 2000, by size.",
        ),
    ] = None,
    strength: Annotated[
        float, typer.Option(metavar="X", help="Regularisation: more trusts single labels less.")
    ] = 0.1,
    balance: Annotated[
        float, typer.Option(metavar="X", help="0: nodes count the same; 1: classes do.")
    ] = 0.75,
    threshold: Annotated[
        float, typer.Option(metavar="T", help="Distance within which prototypes match.")
    ] = 0.003,
    seed: Annotated[
        int, typer.Option(metavar="S", min=0, help="Draws random features and the held-out nodes.")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing model.")] = False,
    data_root: DataRoot = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn the labelled nodes of a graph, and write a model.

    States the accuracy on labelled nodes that are held out, then learns from all of them.
    """
    from hpn.cli.held_out import measure
    from hpn.model.core import ClassifierCore

    _check_out(out, force)
    loaded = open_graph(
        graph, data_root, quiet, text=tuple(text or ()), missing=missing, unknown_edges=unknown_edges
    )
    model = ClassifierCore(
        width=width, strength=strength, balance=balance, threshold=threshold, random_state=seed
    )
    with working(f"measuring on held-out nodes of {graph}", quiet):
        held_out = measure(model, loaded, seed)
    with working(f"learning {graph}", quiet):
        model.update(loaded)  # with what was learned already, the same as learning all at once
    with working(f"writing {out}", quiet):
        model.save(out)
    counts = model.counts_
    content = {
        "graph": graph,
        "nodes": loaded.num_nodes,
        "edges": loaded.num_edges,
        "features": loaded.num_features,
        "classes": _by_name(counts),
        "learned": sum(counts.values()),
        "held_out": held_out.split,
        "accuracy": held_out.accuracy,
        "prototypes": model.prototype_counts_,
        "bounds": model.prototype_bounds_,
        "notes": list(loaded.notes),
        "out": str(out),
    }
    lines = [
        f"{graph}: {count(loaded.num_nodes, 'node')}, {count(loaded.num_edges, 'edge')}, "
        f"{count(loaded.num_features, 'feature')}",
        held_out.line,
        f"learned from all {count(sum(counts.values()), 'labelled node')}:",
        *describe_classes(counts),
        describe_prototypes(model.prototype_counts_, model.prototype_bounds_),
        f"model: {out} ({describe_size(out)})",
        f"next: hpn predict {out} {graph} --unlabelled --out predictions.csv",
    ]
    report(content, lines, as_json)


@app.command()
def update(
    model: ModelPath,
    graph: GraphPath,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Learn the whole graph anew: equals a new fit, bit for bit.")
    ] = False,
    missing: Missing = None,
    unknown_edges: UnknownEdges = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn the labels of a graph, as it is now, that are new or have changed since."""
    learned = open_model(model, quiet)
    loaded = open_graph(graph, data_root, quiet, learned, missing=missing, unknown_edges=unknown_edges)
    with working(f"learning what is new in {graph}", quiet):
        done = learned.update(loaded, refresh=refresh)
    if refresh or done.new or done.changed:
        with working(f"writing {model}", quiet):
            learned.save(model)
    has, are, stay = ("has", "is", "stays") if done.unlabelled == 1 else ("have", "are", "stay")
    fate = f"{are} forgotten" if refresh else f"{stay} learned"
    unlabelled = f"{count(done.unlabelled, 'learned node')} {has} no label in this graph and {fate}"
    lines = [
        f"{done.new:,} new and {done.changed:,} changed labels learned",
        *([f"new classes: {', '.join(map(str, done.new_classes))}"] if done.new_classes else []),
        *([unlabelled] if done.unlabelled else []),
        *_describe_encoding(
            done.encoded_again, "" if refresh else ", because labels of another graph changed"
        ),
        *_describe_tasks(done.dropped_tasks),
        f"model: {model}, {_describe_counts(learned.counts_)}",
    ]
    report({**asdict(done), "classes": _by_name(learned.counts_), "model": str(model)}, lines, as_json)


@app.command()
def forget(
    model: ModelPath,
    graph: GraphPath,
    nodes: Annotated[Path | None, typer.Option(metavar="FILE", help="A table with a column id.")] = None,
    class_: Annotated[
        str | None, typer.Option("--class", metavar="NAME", help="A class, with its nodes.")
    ] = None,
    missing: Missing = None,
    unknown_edges: UnknownEdges = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Forget nodes or a class exactly, as if they had never been learned.

    Where the graph is not the one they were learned in, everything else is encoded again in the graph given.
    """
    if (nodes is None) == (class_ is None):
        raise ConfigError("give --nodes FILE or --class NAME, one of them")
    learned = open_model(model, quiet)
    loaded = open_graph(graph, data_root, quiet, learned, missing=missing, unknown_edges=unknown_edges)
    given: dict[str, Any] = {"label": _find_label(learned, class_)}
    if nodes is not None:
        from hpn.cli.node_files import read_ids_file

        try:
            given = {"nodes": loaded.index(read_ids_file(nodes))}
        except DataError as error:
            raise DataError(
                f"{error}; what is to be forgotten must be in the graph: give the graph with it, or use "
                "hpn update --refresh, which learns the graph as it is and nothing else"
            ) from None
    with working(f"forgetting in {graph}", quiet):
        done = learned.forget(loaded, **given)
    with working(f"writing {model}", quiet):
        learned.save(model)  # also if nothing was learned of them: an interrupted command may have left files
    lines = [
        f"{count(done.nodes, 'node')} forgotten"
        + (f", {done.not_learned:,} not learned" if done.not_learned else ""),
        *([f"classes forgotten: {', '.join(map(str, done.classes))}"] if done.classes else []),
        *_describe_encoding(done.encoded_again, ", because they were learned in another graph"),
        *_describe_tasks(done.dropped_tasks),
        f"model: {model}, {_describe_counts(learned.counts_)}",
    ]
    report({**asdict(done), "remaining": _by_name(learned.counts_), "model": str(model)}, lines, as_json)


@app.command()
def show(model: ModelPath, as_json: AsJson = False) -> None:
    """Show what a model has learned, and what it takes."""
    from hpn.model.saved import read_summary

    # Without PyTorch, unless the model is of an earlier version or damaged.
    found = read_summary(model) or open_model(model, quiet=True).summarize()
    counts, columns, kinds = dict(found["classes"]), found["columns"], found["column_kinds"] or {}
    content = {"model": str(model), **found, "classes": _by_name(counts), "bytes": folder_size(model)}
    shown = [f"{name} ({kinds[name]})" if name in kinds else name for name in columns[:8]]
    listed = f": {', '.join(shown)}{', …' if len(columns) > 8 else ''}" if shown else ""
    lines = [
        f"{_describe_counts(counts)}:",
        *describe_classes(counts),
        f"{count(found['features'], 'feature')}{listed}",
        *(
            f"learned {count(fit['learned'], 'node')} in graph {fit['fingerprint'][:8]} "
            f"({count(fit['num_nodes'], 'node')}, {count(fit['num_edges'], 'edge')})"
            for fit in found["fits"]
        ),
        *([f"tasks: {', '.join(map(str, found['tasks']))}"] if found["tasks"] else []),
        describe_prototypes(found["prototypes"], found["bounds"]),
        "parameters: " + ", ".join(f"{name} {value}" for name, value in found["parameters"].items()),
        f"on disk: {describe_size(model)}",
    ]
    report(content, lines, as_json)


def _check_out(out: Path, force: bool) -> None:
    """Refuse to write over what is no model, or over a model unless that is wanted."""
    from hpn.model.saved import is_model

    if is_model(out):
        if not force:
            raise ConfigError(
                f"--out {out} is a model already; hpn update {out} adds to it, --force replaces it"
            )
    elif out.exists() and not (out.is_dir() and all(map(_is_left_over, out.iterdir()))):
        raise ConfigError(f"--out {out} exists and is not a model; choose another folder")


def _is_left_over(path: Path) -> bool:
    """Whether a file is what an interrupted command may leave in the folder of a model."""
    return path.match("state-*.safetensors") or path.match(".*.part")


def _find_label(model: ClassifierCore, name: str | None) -> Any:
    """A class by its name; models made in Python may have classes that are numbers."""
    return next((label for label in model.classes_.tolist() if str(label) == name), name)


def _by_name(counts: dict[Any, int]) -> dict[str, int]:
    return {str(label): number for label, number in counts.items()}


def _describe_counts(counts: dict[Any, int]) -> str:
    return f"{count(sum(counts.values()), 'node')} of {count(len(counts), 'class')}"


def _describe_encoding(again: Encoding, why: str) -> list[str]:
    nodes = count(again.nodes, "node")
    return [f"{nodes} encoded again in {again.seconds:.1f} s{why}"] if again.nodes else []


def _describe_tasks(names: tuple[Any, ...]) -> list[str]:
    return (
        [f"tasks dropped, as they had learned from these nodes: {', '.join(map(str, names))}"]
        if names
        else []
    )
