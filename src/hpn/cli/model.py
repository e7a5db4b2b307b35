"""A model of one's own graph: ``hpn fit``, ``update``, ``forget``, ``show``, ``predict`` and ``explain``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from hpn.cli.app import app
from hpn.cli.options import OutputOptions, with_options
from hpn.cli.session import (
    GraphPath,
    ModelPath,
    Session,
    TextColumns,
    count,
    describe_classes,
    describe_names,
    describe_sizes,
    node_ids,
)
from hpn.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

    from hpn.datasets import Graph
    from hpn.model.changes import Forgotten, Update
    from hpn.model.core import ClassifierCore

AT_ONCE = 1 << 16
"""Nodes that are predicted at once."""
HELD_OUT = 5
"""One in so many labelled nodes of a class is held out, if the graph has no split of its own."""


@app.command()
@with_options
def fit(
    graph: GraphPath,
    *,
    out: Annotated[Path, Option(metavar="MODEL", help="The folder to write.")],
    text: TextColumns = None,
    width: Annotated[
        int | None, Option(metavar="N", help="Random features; by default 500 to 2,000 by size of the graph.")
    ] = None,
    strength: Annotated[float, Option(metavar="X", help="Strength of the regularisation.")] = 0.1,
    balance: Annotated[float, Option(metavar="X", help="0 gives all nodes the same weight, 1 all classes.")] = 0.75,
    threshold: Annotated[
        float, Option(metavar="T", help="Distance within which evidence matches a prototype.")
    ] = 0.003,
    seed: Annotated[int, Option(metavar="S", min=0, help="Seed of the random features and of the held-out nodes.")] = 0,
    force: Annotated[bool, Option("--force", help="Replace an existing model.")] = False,
    session: Session,
) -> None:
    """Learn the labelled nodes of a graph, and write a model.

    Reports the accuracy on labelled nodes that are held out, then learns from all of them.
    """
    from hpn.model.core import ClassifierCore

    _check_out(out, force)
    loaded = session.open_graph(graph, text=tuple(text or ()))
    model = ClassifierCore(width=width, strength=strength, balance=balance, threshold=threshold, random_state=seed)
    with session.working(f"measuring on held-out nodes of {graph}"):
        held_out, accuracy = _measure(model, loaded, seed)
    with session.working(f"learning {graph}"):
        model.update(loaded)  # with what was learned already, the same as learning all at once
    session.save(model, out)
    counts = _by_name(model.counts_)
    content: dict[str, Any] = {
        "graph": graph,
        "nodes": loaded.num_nodes,
        "edges": loaded.num_edges,
        "features": loaded.num_features,
        "classes": counts,
        "learned": sum(counts.values()),
        **held_out,
        "prototypes": model.prototype_counts_,
        "bounds": model.prototype_bounds_,
        "notes": list(loaded.notes),
        "out": str(out),
    }
    lines = [
        f"{graph}: {describe_sizes(loaded)}",
        accuracy,
        f"learned from all {count(content['learned'], 'labelled node')}:",
        *describe_classes(counts),
        _describe_prototypes(content),
        f"model: {out} ({_size(out) / 1e6:,.1f} MB)",
        f"next: hpn predict {out} {graph} --unlabelled --out predictions.csv",
    ]
    session.report(content, lines)


@app.command()
@with_options
def update(
    model: ModelPath,
    graph: GraphPath,
    *,
    refresh: Annotated[bool, Option("--refresh", help="Learn all nodes again; equals a new fit, bit for bit.")] = False,
    session: Session,
) -> None:
    """Learn the labels of a graph that are new or have changed since."""
    learned, loaded = session.open_both(model, graph)
    with session.working(f"learning what is new in {graph}"):
        done = learned.update(loaded, refresh=refresh)
    if refresh or done.new or done.changed:
        session.save(learned, model)
    counts, fate = _by_name(learned.counts_), "forgotten" if refresh else "kept"
    unlabelled = f"{count(done.unlabelled, 'learned node')} without a label in this graph: {fate}"
    lines = [
        f"{done.new:,} new and {count(done.changed, 'changed label')} learned",
        describe_names("new classes", done.new_classes),
        unlabelled if done.unlabelled else "",
        *_describe_consequences(done, "" if refresh else ", because labels of another graph changed"),
        f"model: {model}, {_describe_counts(counts)}",
    ]
    session.report({**asdict(done), "classes": counts, "model": str(model)}, lines)


@app.command()
@with_options
def forget(
    model: ModelPath,
    graph: GraphPath,
    *,
    nodes: Annotated[Path | None, Option(metavar="FILE", help="Nodes to forget: a table with a column id.")] = None,
    class_: Annotated[
        str | None, Option("--class", metavar="NAME", help="Class to forget, with all its nodes.")
    ] = None,
    session: Session,
) -> None:
    """Forget nodes or a class exactly, as if they had never been learned.

    If the graph has changed since they were learned, all other nodes are encoded again.
    """
    if (nodes is None) == (class_ is None):
        raise ConfigError("give either --nodes FILE or --class NAME")
    learned, loaded = session.open_both(model, graph)
    # Models made in Python may have classes that are numbers.
    label = next((label for label in learned.classes_.tolist() if str(label) == class_), class_)
    given: dict[str, Any] = {"label": label}
    if nodes is not None:
        from hpn.cli.node_files import read_ids_file

        try:
            given = {"nodes": loaded.index(read_ids_file(nodes))}
        except DataError as error:
            raise DataError(
                f"{error}; nodes to forget must be in the graph: give the graph with them, or use "
                "hpn update --refresh, which learns the graph as it is and nothing else"
            ) from None
    with session.working(f"forgetting in {graph}"):
        done = learned.forget(loaded, **given)
    session.save(learned, model)  # even if none was learned: an interrupted command may have left files
    counts = _by_name(learned.counts_)
    not_learned = f", {done.not_learned:,} not learned" if done.not_learned else ""
    lines = [
        f"{count(done.nodes, 'node')} forgotten{not_learned}",
        describe_names("classes forgotten", done.classes),
        *_describe_consequences(done, ", because they were learned in another graph"),
        f"model: {model}, {_describe_counts(counts)}",
    ]
    session.report({**asdict(done), "remaining": counts, "model": str(model)}, lines)


@app.command()
@with_options
def show(model: ModelPath, output: OutputOptions) -> None:
    """Show what a model has learned, and its size."""
    from hpn.model.saved import read_summary

    session = Session(as_json=output.as_json, quiet=True)
    # Without PyTorch, unless the model is of an earlier version or damaged.
    found = read_summary(model) or session.open_model(model).summarize()
    counts, columns, kinds = _by_name(dict(found["classes"])), found["columns"], found["column_kinds"] or {}
    content = {"model": str(model), **found, "classes": counts, "bytes": _size(model)}
    features = count(found["features"], "feature")
    shown = [f"{name} ({kinds[name]})" if name in kinds else name for name in columns[:8]]
    shown += ["…"] if len(columns) > 8 else []
    lines = [
        f"{_describe_counts(counts)}:",
        *describe_classes(counts),
        describe_names(features, shown) or features,
        *(
            f"learned {count(fit['learned'], 'node')} in graph {fit['fingerprint'][:8]} "
            f"({count(fit['num_nodes'], 'node')}, {count(fit['num_edges'], 'edge')})"
            for fit in found["fits"]
        ),
        describe_names("tasks", found["tasks"]),
        _describe_prototypes(content),
        describe_names("parameters", (f"{name} {value}" for name, value in found["parameters"].items())),
        f"on disk: {content['bytes'] / 1e6:,.1f} MB",
    ]
    session.report(content, lines)


@app.command()
@with_options
def predict(
    model: ModelPath,
    graph: GraphPath,
    *,
    nodes: Annotated[Path | None, Option(metavar="FILE", help="Only these nodes: a table with a column id.")] = None,
    unlabelled: Annotated[bool, Option("--unlabelled", help="Only nodes without a label.")] = False,
    out: Annotated[Path, Option(metavar="FILE", help="A .csv or .parquet file; - is standard output.")] = Path("-"),
    session: Session,
) -> None:
    """Predict the classes of nodes: id, class, probability, and the second most probable class."""
    import numpy as np

    from hpn.cli import node_files

    if nodes is not None and unlabelled:
        raise ConfigError("give --nodes FILE or --unlabelled, not both")
    is_file = str(out) != "-"
    if is_file:
        node_files.check_table(out, Path(graph))
    ids = None if nodes is None else node_files.read_ids_file(nodes)
    learned, loaded = session.open_both(model, graph)
    if ids is not None:
        rows = loaded.index(ids)
    else:
        rows = np.flatnonzero(loaded.y.numpy() < 0) if unlabelled else np.arange(loaded.num_nodes)
    with session.working(f"predicting {count(len(rows), 'node')}"):
        answers = list(_predict(learned, loaded, rows))
    if unlabelled and not answers:
        session.note("every node has a label")
    if not is_file:
        predictions = [dict(zip(node_files.COLUMNS, answer, strict=True)) for answer in answers]
        session.report({"predictions": predictions}, [node_files.to_csv(answers).removesuffix("\n")])
        return
    with session.working(f"writing {out}"):
        node_files.write_table(out, answers)
    counts = {str(label): times for label, times in Counter(answer[1] for answer in answers).most_common()}
    lines = [f"{count(len(answers), 'node')} predicted:", *describe_classes(counts), f"written to {out}"]
    session.report({"nodes": len(answers), "classes": counts, "out": str(out)}, lines)


@app.command()
@with_options
def explain(
    model: ModelPath,
    graph: GraphPath,
    *,
    node: Annotated[str, Option(metavar="ID", help="The id of the node.")],
    session: Session,
) -> None:
    """Explain a prediction: evidence for each class, and the neighbours and features that matter most."""
    learned, loaded = session.open_both(model, graph)
    rows = loaded.index([node])
    with session.working(f"explaining {node}"):
        (found,) = learned.explain(loaded, rows)
    neighbors = []
    for share in found.neighbors:
        label, (name,) = int(loaded.y[share.of]), node_ids(loaded, [share.of])
        known = loaded.class_names[label] if label >= 0 else f"predicted {share.label}"
        neighbors.append(replace(share, of=name, label=known))
    found = replace(found, node=node_ids(loaded, rows)[0], neighbors=tuple(neighbors))
    session.report(asdict(found), [str(found)])


def _measure(model: ClassifierCore, graph: Graph, seed: int) -> tuple[dict[str, Any], str]:
    """Fit a new model to part of the labelled nodes and evaluate it on the others, if any can be held out.

    A graph with masks has training and test nodes. Otherwise the seed draws a fifth of each class as test nodes.

    Returns:
        The ``accuracy`` in percent and the split ``held_out``, and a line that states them.
    """
    import numpy as np

    y = graph.y.numpy()
    is_labelled = y >= 0
    if not is_labelled.any():
        raise DataError(f"{graph.name}: no node has a label; label some of them to learn from")
    if graph.masks is not None:
        is_train, is_test = graph.masks.train.numpy(), graph.masks.test.numpy()
        split: dict[str, Any] = {"split": "given", "seed": None}
        words, reason = "the test nodes of the graph's own split", "the graph's own split has none"
    else:
        order = np.random.default_rng(seed).permutation(np.flatnonzero(is_labelled))
        is_test = np.zeros(len(y), bool)
        for label in np.unique(y[order]):
            members = order[y[order] == label]
            is_test[members[: len(members) // HELD_OUT]] = True
        is_train, split = ~is_test, {"split": "seeded", "seed": seed}
        words, reason = f"a fifth of each class, seed {seed}", f"no class has {HELD_OUT} labels"
    train, test = (np.flatnonzero(mask & is_labelled) for mask in (is_train, is_test))
    if len(np.unique(y[is_labelled])) < 2:
        why = "the labelled nodes are all of one class"
    elif len(train) == 0 or len(test) == 0:
        why = f"there are too few labels to hold any out ({reason})"
    else:
        accuracy = 100 * model.partial_fit(graph, train).score(graph, test)
        line = f"accuracy: {accuracy:.1f} % of {count(len(test), 'held-out node')} ({words})"
        return {"held_out": {**split, "train": len(train), "test": len(test)}, "accuracy": accuracy}, line
    return {"held_out": None, "accuracy": None}, f"accuracy: not measured, as {why}"


def _check_out(out: Path, force: bool) -> None:
    """Refuse to replace a folder that is not a model, or a model without --force."""
    from hpn.model.saved import is_model

    if is_model(out):
        if not force:
            raise ConfigError(f"--out {out} is a model already; hpn update {out} adds to it, --force replaces it")
    elif out.exists():
        left_over = ("state-*.safetensors", ".*.part")  # by an interrupted command
        if not out.is_dir() or not all(any(map(path.match, left_over)) for path in out.iterdir()):
            raise ConfigError(f"--out {out} exists and is not a model; choose another folder")


def _size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _by_name(counts: dict[Any, int]) -> dict[str, int]:
    return {str(label): number for label, number in counts.items()}


def _describe_counts(counts: dict[str, int]) -> str:
    return f"{count(sum(counts.values()), 'node')} of {count(len(counts), 'class')}"


def _describe_prototypes(content: dict[str, Any]) -> str:
    """Prototypes of each level against the most there can ever be."""
    counts, bounds = content["prototypes"], content["bounds"]
    return describe_names("prototypes", (f"{counts[at]} of at most {bounds[at]} ({at})" for at in counts))


def _describe_consequences(done: Update | Forgotten, why: str) -> list[str]:
    again = done.encoded_again
    return [
        f"{count(again.nodes, 'node')} encoded again in {again.seconds:.1f} s{why}" if again.nodes else "",
        describe_names("tasks dropped, as they had learned from these nodes", done.dropped_tasks),
    ]


def _predict(model: ClassifierCore, graph: Graph, rows: np.ndarray) -> Iterator[tuple[Any, ...]]:
    """Id, class, probability, second class and its probability per node; a single class has no second."""
    import numpy as np

    classes = model.classes_.tolist()
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        probabilities = model.predict_proba(graph, part)
        order = (-probabilities).argsort(axis=1, kind="stable")[:, :2]
        best = np.take_along_axis(probabilities, order, axis=1)
        for node, places, values in zip(node_ids(graph, part), order.tolist(), best.tolist(), strict=True):
            answers = zip(places, values, strict=True)
            yield (node, *(cell for at, value in answers for cell in (classes[at], value)), None, None)[:5]
