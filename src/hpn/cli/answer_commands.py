"""``hpn predict`` and ``hpn explain``: what a model makes of the nodes of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
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
    node_ids,
    note,
    open_graph,
    open_model,
    report,
    working,
)
from hpn.cli.options import AsJson, DataRoot, Quiet
from hpn.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from hpn.datasets import Graph
    from hpn.model.core import ClassifierCore

AT_ONCE = 1 << 16
"""Nodes that are predicted at once."""

Answer = tuple[Any, Any, float, Any, float | None]
"""Id, class, probability, second class and its probability."""


@app.command()
def predict(
    model: ModelPath,
    graph: GraphPath,
    nodes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only these nodes: a table with a column id.")
    ] = None,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="Only nodes without a label.")] = False,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="A .csv or .parquet file; - is standard output.")
    ] = Path("-"),
    missing: Missing = None,
    unknown_edges: UnknownEdges = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the classes of nodes: id, class, probability, and the second likeliest class."""
    from hpn.cli import node_files

    if nodes is not None and unlabelled:
        raise ConfigError("give --nodes FILE or --unlabelled, not both")
    is_file = str(out) != "-"
    if is_file:
        node_files.check_table(out, Path(graph))
    ids = None if nodes is None else node_files.read_ids_file(nodes)
    learned = open_model(model, quiet)
    loaded = open_graph(graph, data_root, quiet, learned, missing=missing, unknown_edges=unknown_edges)
    rows = _find_nodes(loaded, ids, unlabelled)
    with working(f"predicting {count(len(rows), 'node')}", quiet):
        answers = [answer for part in _predict(learned, loaded, rows) for answer in part]
    if unlabelled and not answers:
        note("every node has a label", quiet)
    if not is_file:
        predictions = [dict(zip(node_files.COLUMNS, answer, strict=True)) for answer in answers]
        report({"predictions": predictions}, [node_files.to_csv(answers).removesuffix("\n")], as_json)
        return
    with working(f"writing {out}", quiet):
        has_whole_ids = all(isinstance(answer[0], int) for answer in answers)
        node_files.write_table(out, answers, has_whole_ids)
    counts = {str(label): times for label, times in Counter(answer[1] for answer in answers).most_common()}
    lines = [f"{count(len(answers), 'node')} predicted:", *describe_classes(counts), f"written to {out}"]
    report({"nodes": len(answers), "classes": counts, "out": str(out)}, lines, as_json)


@app.command()
def explain(
    model: ModelPath,
    graph: GraphPath,
    node: Annotated[str, typer.Option(metavar="ID", help="The id of the node.")],
    missing: Missing = None,
    unknown_edges: UnknownEdges = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Explain a prediction: what speaks for which class, and which neighbours and features matter most."""
    learned = open_model(model, quiet)
    loaded = open_graph(graph, data_root, quiet, learned, missing=missing, unknown_edges=unknown_edges)
    rows = loaded.index([node])
    with working(f"explaining {node}", quiet):
        (found,) = learned.explain(loaded, rows)
    neighbors = []
    for share in found.neighbors:
        label, (name,) = int(loaded.y[share.of]), node_ids(loaded, [share.of])
        known = loaded.class_names[label] if label >= 0 else f"predicted {share.label}"
        neighbors.append(replace(share, of=name, label=known))
    found = replace(found, node=node_ids(loaded, rows)[0], neighbors=tuple(neighbors))
    report(asdict(found), [str(found)], as_json)


def _find_nodes(graph: Graph, ids: list[Any] | None, unlabelled: bool) -> np.ndarray:
    """Positions of the nodes asked about, in the order asked."""
    import numpy as np

    if ids is not None:
        return graph.index(ids)
    return np.flatnonzero(graph.y.numpy() < 0) if unlabelled else np.arange(graph.num_nodes)


def _predict(model: ClassifierCore, graph: Graph, rows: np.ndarray) -> Iterator[Iterator[Answer]]:
    """Answers about nodes, some nodes at a time."""
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        probabilities = model.predict_proba(graph, part)
        classes, order = model.classes_.tolist(), (-probabilities).argsort(axis=1, kind="stable")
        best = probabilities[range(len(part)), order[:, 0]].tolist()
        firsts = [classes[at] for at in order[:, 0]]
        seconds: list[Any] = [None] * len(part)
        runners_up: list[float | None] = [None] * len(part)
        if len(classes) > 1:
            seconds = [classes[at] for at in order[:, 1]]
            runners_up = probabilities[range(len(part)), order[:, 1]].tolist()
        yield zip(node_ids(graph, part), firsts, best, seconds, runners_up, strict=True)
