from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from hpn.datasets import Graph, load_dataset
from hpn.errors import ConfigError
from hpn.streams import TaskStream, plan_tasks
from hpn.streams.views import Edges

Trace = Any


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_views_hold_nodes_edges_and_labels_of_their_steps(tagged: Graph, trace: Trace, edges: Edges) -> None:
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
    for task, after in itertools.combinations_with_replacement(range(3), 2):
        query, key = stream.query(step=task, after=after, evaluate="oracle")
        assert not query.grouped
        assert [int(tagged.y[node]) for node in trace.ids(query.graph, query.nodes)] == key.y.tolist()
        assert trace.edges(query.graph) == trace.edges(stream.step(task).graph), "the same after any later task"


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
    ends = ([_task_of(stream, int(tagged.y[node])) for node in edge] for edge in trace.edges(query.graph))
    assert any(source != target for source, target in ends) == (edges == "seen")


def test_node_numbers_carry_no_information() -> None:
    order = torch.arange(200) // 100  # sorted by class, as users' files often are
    graph = Graph.build("sorted", x=torch.ones(200, 1), links=torch.zeros(2, 0).long(), y=order)
    stream = TaskStream(graph)
    query, key = stream.query(step=0, after=0, evaluate="oracle")
    early = key.y[query.nodes < 100].float().mean()
    assert 0.2 < early < 0.8


def test_unlabelled_nodes_and_classes_in_no_task_are_in_no_view(tagged: Graph, trace: Trace) -> None:
    y = tagged.y.clone()
    y[:6] = -1
    stream = TaskStream(Graph.build("part", x=tagged.x, links=tagged.edge_index, y=y), tasks="0,1;2,3", edges="seen")
    seen = set(trace.ids(stream.step(1).graph))
    assert seen == {node for node in range(6, 60) if node % 6 < 4}


def test_description(tagged: Graph) -> None:
    described = TaskStream(tagged, tasks="0,1;2,3").describe()
    assert [task["nodes"] for task in described["tasks"]] == [20, 20]
    assert [c["id"] for c in described["left_out"]] == [4, 5]
    first = described["tasks"][0]
    assert (first["train"], first["val"], first["test"]) == (12, 4, 4)


def toy(sizes: list[int], **extra: object) -> Graph:
    y = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    names = [f"class {label}" for label in range(len(sizes))]
    links = torch.zeros(2, 0).long()
    return Graph.build("toy", x=torch.ones(len(y), 1), links=links, y=y, class_names=names, **extra)  # type: ignore[arg-type]


ORDERED = {"class_order": [2, 0, 3, 1]}
PLANS: dict[str, tuple[list[int], dict[str, Any], dict[str, Any], Any]] = {
    "by size": ([3, 9, 5, 7], {}, {}, ((1, 3), (2, 0))),
    "ties go by number": ([5, 5, 5, 5], {}, {}, ((0, 1), (2, 3))),
    "order of the data set": ([3, 9, 5, 7], ORDERED, {}, ((2, 0), (3, 1))),
    "paper": ([3, 9, 5, 7], ORDERED, {"tasks": "paper"}, ((2, 0), (3, 1))),
    "size": ([3, 9, 5, 7], ORDERED, {"tasks": "size"}, ((1, 3), (2, 0))),
    "a single remaining class is left out": ([5] * 3, {}, {}, ((0, 1),)),
    "unless it is listed": ([5] * 3, {}, {"tasks": "0,1;2"}, ((0, 1), (2,))),
    "one class per task": ([5] * 3, {}, {"classes_per_task": 1}, ((0,), (1,), (2,))),
    "one task": ([5] * 3, {}, {"classes_per_task": 5}, ((0, 1, 2),)),
    "a smaller last task": ([5] * 5, {}, {"classes_per_task": 3}, ((0, 1, 2), (3, 4))),
    "sequences": ([5] * 4, {}, {"tasks": [[0, 1, 2], [3]]}, ((0, 1, 2), (3,))),
    "names": ([5] * 4, {}, {"tasks": "class 3, 0; class 1,2"}, ((3, 0), (1, 2))),
}


@pytest.mark.parametrize(("sizes", "fields", "options", "expected"), PLANS.values(), ids=PLANS)
def test_plans(sizes: list[int], fields: dict[str, Any], options: dict[str, Any], expected: Any) -> None:
    plan = plan_tasks(toy(sizes, **fields), **options)
    assert plan.classes == expected
    assert {*plan.left_out, *(c for task in expected for c in task)} == set(range(len(sizes)))


def test_shuffles_are_seeded() -> None:
    graph = toy([5] * 10)
    assert plan_tasks(graph, "shuffle:3") == plan_tasks(graph, "shuffle:3")
    assert plan_tasks(graph, "shuffle") == plan_tasks(graph, "shuffle:0")
    assert plan_tasks(graph, "shuffle:3") != plan_tasks(graph, "shuffle:4")
    assert sorted(c for task in plan_tasks(graph, "shuffle").classes for c in task) == list(range(10))


INVALID = [
    ([5] * 4, {"tasks": "0,0;1,2"}, "task 0 lists class 0 twice"),
    ([5] * 4, {"tasks": "0,1;1,2"}, "task 1 lists class 1 also in task 0"),
    ([5] * 4, {"tasks": "0,9"}, "no class 9; classes are numbered 0 to 3"),
    ([5] * 4, {"tasks": "0,1;;2"}, "a task is empty"),
    ([5] * 4, {"tasks": "0,,1"}, "a comma is superfluous"),
    ([5] * 4, {"tasks": "0,class 33"}, "did you mean 'class 3'"),
    ([5] * 4, {"tasks": "shuffle:x"}, "whole number"),
    ([5] * 4, {"tasks": []}, "no tasks"),
    ([5] * 4, {"tasks": [[0], []]}, "task 1 has no classes"),
    ([5, 2], {}, r"class 1 \('class 1'\) of task 0 has 2 labelled nodes"),
    ([5] * 4, {"tasks": "0,1", "classes_per_task": 2}, "not both"),
    ([5] * 4, {"classes_per_task": 0}, "at least 1"),
    ([5, 5], {"tasks": "paper"}, "no class order of its own"),
]


@pytest.mark.parametrize(("sizes", "options", "message"), INVALID)
def test_invalid_tasks_are_refused(sizes: list[int], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        plan_tasks(toy(sizes), **options)
    assert "\n" not in str(error.value)


PAPER = {
    "digits": ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9)),
    "cora": ((0, 1), (2, 3), (4, 5)),
    "citeseer": ((0, 1), (2, 3), (4, 5)),
    "actor": ((0, 1), (2, 3)),
    "texas": ((0, 2), (3, 4)),
    "wisconsin": ((0, 1), (2, 3)),
    "cornell": ((0, 1), (2, 3)),
}


@pytest.mark.parametrize(("name", "tasks"), PAPER.items())
def test_the_sequences_of_the_paper(name: str, tasks: tuple[tuple[int, int], ...], data_root: Path) -> None:
    assert plan_tasks(load_dataset(name, data_root=data_root)).classes == tasks
