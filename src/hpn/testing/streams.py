"""The contract of a kind of stream: nothing of a later step, and no label of a query, is ever in view."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import SkipTest

import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.streams import GraphView, Query, Step, Stream
from hpn.testing.suite import Check, Verdict, expect, find_checks, run_checks

TAG = 2.0**22
"""Features of the column by which nodes are recognised in views: this and the number of the node."""


class StreamCase:
    """A kind of stream with its options, on a graph whose nodes can be recognised in views.

    Args:
        kind: The class of the stream.
        graph: A graph that it can cut into steps.
        options: Options of its plan.
    """

    def __init__(self, kind: type[Stream], graph: Graph, options: dict[str, Any]) -> None:
        self.kind, self.options = kind, options
        tags = TAG + torch.arange(graph.num_nodes, dtype=torch.float32)
        x = torch.cat([graph.x[:].to_dense().float(), tags[:, None]], dim=1)
        self.graph = replace(graph, x=x, feature_names=None)

    def make(self, **choices: Any) -> Stream:
        """A new stream."""
        return self.kind(self.graph, **choices, **self.options)

    def streams(self) -> Iterator[Stream]:
        """A stream of every scenario and of every choice of edges."""
        for scenario in self.kind.scenarios:
            for edges in self.kind.edge_modes:
                yield self.make(scenario=scenario, edges=edges, seed=1)

    def nodes(self, view: GraphView, rows: Tensor | None = None) -> list[int]:
        """Nodes of the graph that some rows of a view are."""
        return [int(tag - TAG) for tag in view.take(rows)[:, -1].tolist()]


def stream_checks(stream: type[Stream], graph: Graph, /, **options: Any) -> list[Check]:
    """The checks of a kind of stream on a graph, to be called one by one; see :func:`check_stream`."""
    return find_checks(__name__, StreamCase(stream, graph, options))


def check_stream(
    stream: type[Stream], graph: Graph, /, *, raise_on_failure: bool = False, **options: Any
) -> dict[str, Verdict]:
    """Check that a kind of stream follows the contract of :class:`hpn.streams.Stream`; verdicts by check.

    Args:
        stream: The class of the stream.
        graph: A small graph that it can cut into steps; a column is added to its features.
        raise_on_failure: Whether the first failure is raised.
        options: Options of its plan.

    Raises:
        ContractError: At the first failure, if that is requested.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.streams import TaskStream
        >>> verdicts = check_stream(TaskStream, load_dataset("synthetic", num_nodes=200))
        >>> {verdict.outcome for verdict in verdicts.values()}
        {'passed'}
    """
    return run_checks(stream_checks(stream, graph, **options), raise_on_failure=raise_on_failure)


def same_seed_gives_the_same_steps(case: StreamCase) -> None:
    """Two streams with the same seed give the same steps and queries, in whatever order they are requested."""
    one, other = case.make(seed=3), case.make(seed=3)
    backwards = [other.step(index) for index in reversed(range(len(other)))][::-1]
    for index, step in enumerate(backwards):
        for left, right in ((one.step(index), step), (_query(one, index), _query(other, index))):
            same = all(map(torch.equal, _tensors(left), _tensors(right)))
            expect(same, f"step {index} or its query differs between two streams with the same seed")


def later_steps_are_out_of_reach(case: StreamCase) -> None:
    """No feature of a node of a later step can be reached from a step, from its past or from a query."""
    for stream in case.streams():
        _, key = stream.query(step=None, after=len(stream) - 1, evaluate="global")
        arrival = dict(zip(key.node.tolist(), key.step.tolist(), strict=True))
        for index in range(len(stream)):
            step = stream.step(index)
            arrival |= dict.fromkeys(case.nodes(step.graph, torch.cat([step.train, step.val])), index)
        for index in range(len(stream)):
            for what, thing in (
                ("step", stream.step(index, with_past=True)),
                ("query after step", _query(stream, index)),
            ):
                tags = {tag for tensor in _tensors(thing) for tag in tensor[tensor >= TAG].tolist()}
                later = sum(arrival.get(int(tag - TAG), 0) > index for tag in tags)
                expect(not later, f"the {what} {index} holds features of {later} nodes of later steps")


def edges_are_those_of_the_graph(case: StreamCase) -> None:
    """Edges in view are edges of the graph; with ``within``, between nodes that arrive together."""
    edges = {(a, b) for a, b in case.graph.edge_index.t().tolist()}
    for stream in case.streams():
        for index in range(len(stream)):
            for view in (stream.step(index).graph, _query(stream, index).graph):
                names = torch.tensor(case.nodes(view))
                extra = {(a, b) for a, b in names[view.edge_index].t().tolist()} - edges
                expect(not extra, f"the view of step {index} has {len(extra)} edges that the graph does not have")


def query_nodes_are_never_learned_from(case: StreamCase) -> None:
    """A node that is evaluated is in no step a node to learn from, and no node is learned from twice."""
    for stream in case.streams():
        learned: list[int] = []
        tested: set[int] = set()
        for index in range(len(stream)):
            step, query = stream.step(index), _query(stream, index)
            learned += case.nodes(step.graph, torch.cat([step.train, step.val]))
            tested |= set(case.nodes(query.graph, query.nodes))
        expect(len(learned) == len(set(learned)), "a node is learned from in two steps")
        expect(not tested & set(learned), f"{len(tested & set(learned))} test nodes are learned from as well")


def steps_have_the_classes_of_the_plan(case: StreamCase) -> None:
    """Training nodes have exactly the classes of their step; tasks share no class."""
    for stream in case.streams():
        for index, classes in enumerate(stream.classes):
            found = set(stream.step(index).train_y.tolist())
            expect(found == set(classes), f"step {index} has classes {classes}, its training nodes {sorted(found)}")
        every = [label for classes in stream.classes for label in classes]
        is_new = not stream.has_tasks or len(every) == len(set(every))
        expect(is_new, "has_tasks is declared, but a class is in two steps")


def queries_carry_no_labels(case: StreamCase) -> None:
    """A query is a ``Query``, holds no labels, and states a task in oracle evaluation only."""
    for stream in case.streams():
        for index in range(len(stream)):
            query, key = stream.query(step=None, after=index, evaluate="global")
            expect(type(query) is Query, f"a query should be a Query, got {type(query).__name__}")
            expect(query.task is None, "a query states the task in global evaluation")
            hidden = any(tensor.shape == key.y.shape and torch.equal(tensor, key.y) for tensor in _tensors(query))
            expect(not hidden, f"the query after step {index} holds the labels of its nodes")
            seen = {label for classes in stream.classes[: index + 1] for label in classes}
            expect(set(query.classes) == seen, f"a query after step {index} should have the classes seen so far")


def oracle_queries_are_about_one_task(case: StreamCase) -> None:
    """With tasks, an oracle query states its task and has its classes."""
    if not case.kind.has_tasks:
        raise SkipTest("it has no tasks")
    for stream in case.streams():
        for index, classes in enumerate(stream.classes):
            query, key = stream.query(step=index, after=len(stream) - 1, evaluate="oracle")
            expect((query.task, query.classes) == (index, classes), f"the query about task {index} states another task")
            expect(set(key.y.tolist()) <= set(classes), f"test nodes of task {index} have classes of another one")


def _query(stream: Stream, after: int) -> Query:
    return stream.query(step=None, after=after, evaluate="global")[0]


def _tensors(thing: Step | Query) -> list[Tensor]:
    """Every tensor that can be reached from an object through its attributes and containers."""
    found: list[Tensor] = []
    seen: set[int] = set()
    todo: list[Any] = [thing]
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, type):
            continue
        seen.add(id(item))
        if isinstance(item, Tensor):
            found.append(item)
            todo.append(item._base)
        elif isinstance(item, list | tuple | set | dict) or dataclasses.is_dataclass(item):
            todo.extend(gc.get_referents(item))
    return found
