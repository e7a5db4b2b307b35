from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from hpn.datasets import CATALOG, Graph, load_dataset
from hpn.datasets.formats.ogb import CLASS_ORDERS
from hpn.errors import ConfigError
from hpn.streams import TaskStream, plan_tasks
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
    stream = TaskStream(Graph.build("part", x=tagged.x, links=tagged.edge_index, y=y), tasks="0,1;2,3", edges="seen")
    seen = set(trace.ids(stream.step(1).graph))
    assert seen == {node for node in range(6, 60) if node % 6 < 4}


def test_description(tagged: Graph) -> None:
    told = TaskStream(tagged, tasks="0,1;2,3").describe()
    assert [task["nodes"] for task in told["tasks"]] == [20, 20]
    assert [c["id"] for c in told["left_out"]] == [4, 5]
    first = told["tasks"][0]
    assert (first["train"], first["val"], first["test"]) == (12, 4, 4)


def toy(sizes: list[int], **extra: object) -> Graph:
    y = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)])
    names = [f"class {label}" for label in range(len(sizes))]
    links = torch.zeros(2, 0).long()
    return Graph.build("toy", x=torch.ones(len(y), 1), links=links, y=y, class_names=names, **extra)  # type: ignore[arg-type]


def test_by_size_is_the_default_for_a_users_file() -> None:
    assert plan_tasks(toy([3, 9, 5, 7])).classes == ((1, 3), (2, 0))
    assert plan_tasks(toy([5, 5, 5, 5])).classes == ((0, 1), (2, 3)), "ties go by number"


def test_the_data_sets_own_order_wins_unless_asked() -> None:
    graph = toy([3, 9, 5, 7], class_order=[2, 0, 3, 1])
    assert plan_tasks(graph).classes == ((2, 0), (3, 1))
    assert plan_tasks(graph, "paper").classes == ((2, 0), (3, 1))
    assert plan_tasks(graph, "size").classes == ((1, 3), (2, 0))
    with pytest.raises(ConfigError, match="no class order of its own"):
        plan_tasks(toy([5, 5]), "paper")


def test_a_class_on_its_own_is_left_out_but_may_be_asked_for() -> None:
    graph = toy([5, 5, 5])
    assert plan_tasks(graph).classes == ((0, 1),)
    assert plan_tasks(graph).left_out == (2,)
    assert plan_tasks(graph, "0,1;2").classes == ((0, 1), (2,))
    assert plan_tasks(graph, classes_per_task=1).classes == ((0,), (1,), (2,))
    assert plan_tasks(graph, classes_per_task=5).classes == ((0, 1, 2),)


def test_uneven_tasks() -> None:
    assert plan_tasks(toy([5] * 5), classes_per_task=3).classes == ((0, 1, 2), (3, 4))
    assert plan_tasks(toy([5] * 4), [[0, 1, 2], [3]]).classes == ((0, 1, 2), (3,))


def test_shuffles_are_seeded() -> None:
    graph = toy([5] * 10)
    assert plan_tasks(graph, "shuffle:3") == plan_tasks(graph, "shuffle:3")
    assert plan_tasks(graph, "shuffle") == plan_tasks(graph, "shuffle:0")
    assert plan_tasks(graph, "shuffle:3") != plan_tasks(graph, "shuffle:4")
    assert sorted(c for task in plan_tasks(graph, "shuffle").classes for c in task) == list(range(10))


def test_names_may_stand_for_numbers() -> None:
    assert plan_tasks(toy([5] * 4), "class 3, 0; class 1,2").classes == ((3, 0), (1, 2))


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ("0,0;1,2", "task 0 lists class 0 twice"),
        ("0,1;1,2", "task 1 lists class 1 also in task 0"),
        ("0,9", "no class 9; classes are numbered 0 to 3"),
        ("0,1;;2", "a task is empty"),
        ("0,,1", "a comma is superfluous"),
        ("", "a task is empty"),
        ("0,class 33", "did you mean 'class 3'"),
        ("shuffle:x", "whole number"),
        ([], "no tasks"),
        ([[0], []], "task 1 has no classes"),
    ],
)
def test_lists_that_cannot_be(tasks: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        plan_tasks(toy([5] * 4), tasks)
    assert "\n" not in str(error.value)


def test_classes_with_too_few_labels() -> None:
    with pytest.raises(ConfigError, match=r"class 1 \('class 1'\) of task 0 has 2 labelled nodes"):
        plan_tasks(toy([5, 2]))
    with pytest.raises(ConfigError, match=r"class 1 .* has 0 labelled nodes"):
        plan_tasks(toy([5, 0, 5]), "0,1")


def test_list_and_size_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="not both"):
        plan_tasks(toy([5] * 4), "0,1", classes_per_task=2)
    with pytest.raises(ConfigError, match="at least 1"):
        plan_tasks(toy([5] * 4), classes_per_task=0)


PAPER = {
    "cora": ((0, 1), (2, 3), (4, 5)),
    "citeseer": ((0, 1), (2, 3), (4, 5)),
    "actor": ((0, 1), (2, 3)),
    "texas": ((0, 2), (3, 4)),
    "wisconsin": ((0, 1), (2, 3)),
    "cornell": ((0, 1), (2, 3)),
}


@pytest.mark.parametrize(("name", "tasks"), PAPER.items())
def test_the_papers_sequences(name: str, tasks: tuple[tuple[int, int], ...], data_root: Path) -> None:
    assert plan_tasks(load_dataset(name, data_root=data_root)).classes == tasks


def test_the_papers_large_sequences() -> None:
    arxiv, products = CLASS_ORDERS["ogbn-arxiv"], CLASS_ORDERS["ogbn-products"]
    assert arxiv[:4] == (35, 12, 15, 21)
    assert arxiv[-2:] == (29, 32)
    assert sorted(arxiv) == list(range(40))
    assert products[:4] == (4, 7, 6, 3)
    assert products[-2:] == (45, 40)
    assert sorted(products) == list(range(46)), "the class with one node is left out"


def test_digits_come_two_at_a_time() -> None:
    plan = plan_tasks(load_dataset("digits"))
    assert plan.classes == ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
    assert "digits" in CATALOG
