from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph, load_dataset
from hpn.datasets.sparse import is_sparse
from hpn.learners import HPN
from hpn.streams import GraphView, TaskStream
from hpn.streams import cutting as stream_module
from hpn.streams.views import Edges, FeatureRows


def tagged(num_nodes: int = 60, num_classes: int = 6) -> Graph:
    """A random graph whose one feature tells which node a row is, for the test to look up."""
    generator = torch.Generator().manual_seed(0)
    links = torch.randint(num_nodes, (2, 6 * num_nodes), generator=generator)
    y = torch.arange(num_nodes) % num_classes
    x = torch.arange(num_nodes).float().unsqueeze(1)
    return Graph.build("tagged", x=x, links=links, y=y)


def ids(view: GraphView, rows: Tensor | None = None) -> list[int]:
    x = view.x if rows is None else view.x[rows]
    return [int(value) for value in x[:, 0]]


def edge_set(view: GraphView) -> set[tuple[int, int]]:
    names = torch.tensor(ids(view))
    return {tuple(pair) for pair in names[view.edge_index].t().tolist()}


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_views_hold_what_they_should(edges: Edges) -> None:
    graph = tagged()
    stream = TaskStream(graph, edges=edges)
    everything = {tuple(pair) for pair in graph.edge_index.t().tolist()}
    for index in range(len(stream)):
        task = stream.step(index)
        in_view = {index} if edges == "within" else set(range(index + 1))
        owner = {node: _task_of(stream, int(graph.y[node])) for node in range(graph.num_nodes)}
        nodes = {node for node in owner if owner[node] in in_view}
        assert set(ids(task.graph)) == nodes
        assert edge_set(task.graph) == {(a, b) for a, b in everything if a in nodes and b in nodes}
        for rows, labels in ((task.train, task.train_y), (task.val, task.val_y)):
            assert [int(graph.y[node]) for node in ids(task.graph, rows)] == labels.tolist()
            assert {_task_of(stream, int(label)) for label in labels} == {index}


def _task_of(stream: TaskStream, label: int) -> int:
    return next(index for index, task in enumerate(stream.classes) if label in task)


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_oracle_queries(edges: Edges) -> None:
    graph = tagged()
    stream = TaskStream(graph, edges=edges)
    for after, task in itertools.product(range(3), range(3)):
        if task > after:
            continue
        query, key = stream.query(step=task, after=after, evaluate="oracle")
        assert query.task == task
        assert query.classes == stream.classes[task]
        assert not query.grouped
        assert [int(graph.y[node]) for node in ids(query.graph, query.nodes)] == key.y.tolist()
        assert edge_set(query.graph) == edge_set(stream.step(task).graph), "the same after any later task"


@pytest.mark.parametrize("evaluate", ["global", "grouped"])
@pytest.mark.parametrize("edges", ["within", "seen"])
def test_queries_without_the_task(edges: Edges, evaluate: str) -> None:
    graph = tagged()
    stream = TaskStream(graph, edges=edges, scenario="class")
    task = None if evaluate == "global" else 1
    query, key = stream.query(step=task, after=1, evaluate=evaluate)  # type: ignore[arg-type]
    assert query.task is None
    assert query.grouped == (evaluate == "grouped")
    assert query.classes == (*stream.classes[0], *stream.classes[1])
    assert set(ids(query.graph)) == {n for n in range(60) if int(graph.y[n]) in query.classes}
    if evaluate == "global":
        assert set(key.step.tolist()) == {0, 1}
        assert key.step.tolist() != sorted(key.step.tolist()), "tasks must not come in order"
    else:
        assert set(key.step.tolist()) == {1}
    crossing = {
        (a, b)
        for a, b in edge_set(query.graph)
        if _task_of(stream, int(graph.y[a])) != _task_of(stream, int(graph.y[b]))
    }
    assert bool(crossing) == (edges == "seen")


def test_node_numbers_tell_nothing() -> None:
    order = torch.arange(200) // 100  # sorted by class, as users' files often are
    graph = Graph.build("sorted", x=torch.ones(200, 1), links=torch.zeros(2, 0).long(), y=order)
    stream = TaskStream(graph)
    query, key = stream.query(step=0, after=0, evaluate="oracle")
    early = key.y[query.nodes < 100].float().mean()
    assert 0.2 < early < 0.8


def test_the_seed_numbers_the_nodes_and_nothing_else_changes() -> None:
    graph = tagged()
    first, second = TaskStream(graph, seed=0).step(0), TaskStream(graph, seed=1).step(0)
    assert ids(first.graph) != ids(second.graph)
    assert set(ids(first.graph)) == set(ids(second.graph))


def test_sparse_features_stay_sparse() -> None:
    graph = tagged()
    sparse = Graph.build(
        "sparse", x=graph.x.to_sparse_csr(), links=graph.edge_index, y=graph.y, class_order=range(6)
    )
    view = TaskStream(sparse).step(0).graph
    assert is_sparse(view.x)
    assert torch.equal(view.x.to_dense(), TaskStream(graph, tasks=[[0, 1]]).step(0).graph.x)


def test_unlabelled_nodes_and_classes_in_no_task_are_in_no_view() -> None:
    graph = tagged()
    y = graph.y.clone()
    y[:6] = -1
    stream = TaskStream(
        Graph.build("part", x=graph.x, links=graph.edge_index, y=y), tasks="0,1;2,3", edges="seen"
    )
    seen = set(ids(stream.step(1).graph))
    assert seen == {node for node in range(6, 60) if node % 6 < 4}


def test_description() -> None:
    told = TaskStream(tagged(), tasks="0,1;2,3").describe()
    assert [task["nodes"] for task in told["tasks"]] == [20, 20]
    assert [c["id"] for c in told["left_out"]] == [4, 5]
    first = told["tasks"][0]
    assert (first["train"], first["val"], first["test"]) == (12, 4, 4)


def views(graph: Graph, edges: Edges) -> list[GraphView]:
    """Views of every kind: of one task, of several, and of several whose edges between tasks are left out."""
    stream = TaskStream(graph, edges=edges, scenario="class", tasks="4,1;0,3;2")
    asked = [stream.query(step=None, after=after, evaluate="global")[0].graph for after in range(3)]
    return [stream.step(index).graph for index in range(3)] + asked


def assert_same_view(one: GraphView, other: GraphView) -> None:
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.indptr, other.indptr)
    assert torch.equal(one.indices, other.indices)
    assert (one.ids is None and other.ids is None) or torch.equal(one.ids, other.ids)  # type: ignore[arg-type]


@pytest.mark.parametrize("edges", ["within", "seen"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_view_of_a_large_graph_holds_what_a_copy_would(
    edges: Edges, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = tagged()
    half = Graph.build("half", x=graph.x.to(dtype), links=graph.edge_index, y=graph.y)
    copied = views(half, edges)
    monkeypatch.setattr(stream_module, "COPIED", 0)
    for copy, fetched in zip(copied, views(half, edges), strict=True):
        assert isinstance(copy.features, Tensor)
        assert isinstance(fetched.features, FeatureRows)
        assert copy.x.dtype == fetched.x.dtype == torch.float32
        assert_same_view(fetched, copy)
        rows = torch.arange(0, copy.num_nodes, 3).flip(0)
        assert torch.equal(fetched.take(rows), copy.take(rows))
        for view, out_of_view in itertools.product((copy, fetched), (copy.num_nodes, 59)):
            with pytest.raises(IndexError):
                view.take(torch.tensor([out_of_view]))


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_small_parts_cut_the_same_views(edges: Edges, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = tagged()
    whole = views(graph, edges)
    monkeypatch.setattr(stream_module, "EDGES_AT_ONCE", 7)
    assert int(graph.indptr.diff().max()) > 7, "a node may have more edges than are looked at at once"
    for one, other in zip(views(graph, edges), whole, strict=True):
        assert_same_view(one, other)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("edges", ["within", "seen"])
def test_neighbours_are_in_the_order_of_the_view_whatever_order_they_had(
    edges: Edges, index_type: Any
) -> None:
    stream = TaskStream(tagged(), edges=edges)
    stream._index_type = index_type
    for view in (stream.step(0).graph, stream.query(step=None, after=2, evaluate="global")[0].graph):
        assert torch.equal(view.edge_index, GraphView(view.x, view.edge_index.flip(1)).edge_index)
        assert edge_set(view) <= {tuple(pair) for pair in tagged().edge_index.t().tolist()}
        assert view.num_edges > 20


@pytest.mark.parametrize("edges_at_once", [1, 1 << 22])
def test_nodes_without_edges_are_in_view(edges_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "EDGES_AT_ONCE", edges_at_once)
    x, y = torch.arange(12.0).unsqueeze(1), torch.arange(12) % 2
    for links in (torch.zeros(2, 0, dtype=torch.long), torch.tensor([[3, 4], [5, 5]])):
        view = TaskStream(Graph.build("lonely", x=x, links=links, y=y)).step(0).graph
        assert sorted(ids(view)) == list(range(12))
        assert len(view.indptr) == 13
        assert view.num_edges == links.shape[1]
        expected = {pair for a, b in links.t().tolist() for pair in ((a, b), (b, a))}
        assert edge_set(view) == expected


RUNS: dict[str, dict[str, Any]] = {
    "best": {"width": 50},
    "paper": {"preset": "paper", "epochs": 3, "warmup_epochs": 1},
    "one neighbour": {"preset": "paper", "drawn": "1", "dim": 4, "epochs": 2, "warmup_epochs": 0},
}


def tensors(state: Any) -> list[Tensor]:
    if isinstance(state, Tensor):
        return [state]
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list) else []
    return [tensor for part in parts for tensor in tensors(part)]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_does_not_depend_on_where_features_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_dataset("synthetic", num_nodes=200, num_links=500, num_features=8, num_classes=4)
    found = []
    for most in (stream_module.COPIED, 0):
        monkeypatch.setattr(stream_module, "COPIED", most)
        stream, learner = TaskStream(graph, edges="seen"), HPN(**RUNS[name])
        for index in range(2):
            learner.fit_task(stream.step(index))
        queries = [stream.query(step=task, after=1, evaluate="oracle")[0] for task in range(2)]
        assert isinstance(queries[0].graph.features, Tensor) == (most > 0)
        state = tensors(learner.state_dict())
        assert len(state) > 5
        found.append([*state, *(learner.predict_scores(query) for query in queries)])
    assert len(found[0]) == len(found[1])
    assert all(map(torch.equal, *found))
