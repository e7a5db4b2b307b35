from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from hpn.datasets import Graph
from hpn.streams import TaskStream
from hpn.streams.views import Edges

Trace = Any


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_views_hold_what_they_should(tagged: Graph, trace: Trace, edges: Edges) -> None:
    stream = TaskStream(tagged, edges=edges)
    everything = {tuple(pair) for pair in tagged.edge_index.t().tolist()}
    for index in range(len(stream)):
        task = stream.step(index)
        in_view = {index} if edges == "within" else set(range(index + 1))
        owner = {node: _task_of(stream, int(tagged.y[node])) for node in range(tagged.num_nodes)}
        nodes = {node for node in owner if owner[node] in in_view}
        assert set(trace.ids(task.graph)) == nodes
        assert trace.edges(task.graph) == {(a, b) for a, b in everything if a in nodes and b in nodes}
        for rows, labels in ((task.train, task.train_y), (task.val, task.val_y)):
            assert [int(tagged.y[node]) for node in trace.ids(task.graph, rows)] == labels.tolist()
            assert {_task_of(stream, int(label)) for label in labels} == {index}


def _task_of(stream: TaskStream, label: int) -> int:
    return next(index for index, task in enumerate(stream.classes) if label in task)


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_oracle_queries(tagged: Graph, trace: Trace, edges: Edges) -> None:
    stream = TaskStream(tagged, edges=edges)
    for after, task in itertools.product(range(3), range(3)):
        if task > after:
            continue
        query, key = stream.query(step=task, after=after, evaluate="oracle")
        assert query.task == task
        assert query.classes == stream.classes[task]
        assert not query.grouped
        assert [int(tagged.y[node]) for node in trace.ids(query.graph, query.nodes)] == key.y.tolist()
        assert trace.edges(query.graph) == trace.edges(stream.step(task).graph), (
            "the same after any later task"
        )


@pytest.mark.parametrize("evaluate", ["global", "grouped"])
@pytest.mark.parametrize("edges", ["within", "seen"])
def test_queries_without_the_task(tagged: Graph, trace: Trace, edges: Edges, evaluate: str) -> None:
    stream = TaskStream(tagged, edges=edges, scenario="class")
    task = None if evaluate == "global" else 1
    query, key = stream.query(step=task, after=1, evaluate=evaluate)  # type: ignore[arg-type]
    assert query.task is None
    assert query.grouped == (evaluate == "grouped")
    assert query.classes == (*stream.classes[0], *stream.classes[1])
    assert set(trace.ids(query.graph)) == {n for n in range(60) if int(tagged.y[n]) in query.classes}
    if evaluate == "global":
        assert set(key.step.tolist()) == {0, 1}
        assert key.step.tolist() != sorted(key.step.tolist()), "tasks must not come in order"
    else:
        assert set(key.step.tolist()) == {1}
    crossing = {
        (a, b)
        for a, b in trace.edges(query.graph)
        if _task_of(stream, int(tagged.y[a])) != _task_of(stream, int(tagged.y[b]))
    }
    assert bool(crossing) == (edges == "seen")


def test_node_numbers_tell_nothing() -> None:
    order = torch.arange(200) // 100  # sorted by class, as users' files often are
    graph = Graph.build("sorted", x=torch.ones(200, 1), links=torch.zeros(2, 0).long(), y=order)
    stream = TaskStream(graph)
    query, key = stream.query(step=0, after=0, evaluate="oracle")
    early = key.y[query.nodes < 100].float().mean()
    assert 0.2 < early < 0.8


def test_unlabelled_nodes_and_classes_in_no_task_are_in_no_view(tagged: Graph, trace: Trace) -> None:
    y = tagged.y.clone()
    y[:6] = -1
    stream = TaskStream(
        Graph.build("part", x=tagged.x, links=tagged.edge_index, y=y), tasks="0,1;2,3", edges="seen"
    )
    seen = set(trace.ids(stream.step(1).graph))
    assert seen == {node for node in range(6, 60) if node % 6 < 4}


def test_description(tagged: Graph) -> None:
    told = TaskStream(tagged, tasks="0,1;2,3").describe()
    assert [task["nodes"] for task in told["tasks"]] == [20, 20]
    assert [c["id"] for c in told["left_out"]] == [4, 5]
    first = told["tasks"][0]
    assert (first["train"], first["val"], first["test"]) == (12, 4, 4)
