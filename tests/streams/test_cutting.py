from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph, load_dataset
from hpn.datasets.sparse import is_sparse
from hpn.learners import HPN
from hpn.streams import GraphView, TaskStream, cutting
from hpn.streams.views import Edges, FeatureRows

Trace = Any


def test_sparse_features_stay_sparse(tagged: Graph) -> None:
    sparse = Graph.build(
        "sparse", x=tagged.x.to_sparse_csr(), links=tagged.edge_index, y=tagged.y, class_order=range(6)
    )
    view = TaskStream(sparse).step(0).graph
    assert is_sparse(view.x)
    assert torch.equal(view.x.to_dense(), TaskStream(tagged, tasks=[[0, 1]]).step(0).graph.x)


def views(graph: Graph, edges: Edges) -> list[GraphView]:
    """Views of every kind: of one task, of several, and of several whose edges between tasks are left out."""
    stream = TaskStream(graph, edges=edges, scenario="class", tasks="4,1;0,3;2")
    queries = [stream.query(step=None, after=after, evaluate="global")[0].graph for after in range(3)]
    return [stream.step(index).graph for index in range(3)] + queries


def assert_same_view(one: GraphView, other: GraphView) -> None:
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.indptr, other.indptr)
    assert torch.equal(one.indices, other.indices)
    assert torch.equal(one.ids, other.ids)


@pytest.mark.parametrize("edges", ["within", "seen"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_view_of_a_large_graph_holds_what_a_copy_would(
    tagged: Graph, edges: Edges, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = Graph.build("half", x=tagged.x.to(dtype), links=tagged.edge_index, y=tagged.y)
    copied = views(half, edges)
    monkeypatch.setattr(cutting, "COPIED", 0)
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
def test_small_parts_cut_the_same_views(tagged: Graph, edges: Edges, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = views(tagged, edges)
    monkeypatch.setattr(cutting, "EDGES_AT_ONCE", 7)
    assert int(tagged.indptr.diff().max()) > 7, "a node may have more edges than are processed at once"
    for one, other in zip(views(tagged, edges), whole, strict=True):
        assert_same_view(one, other)


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_neighbours_are_in_the_order_of_the_view(tagged: Graph, trace: Trace, edges: Edges) -> None:
    stream = TaskStream(tagged, edges=edges)
    for view in (stream.step(0).graph, stream.query(step=None, after=2, evaluate="global")[0].graph):
        assert torch.equal(view.edge_index, GraphView(view.x, view.edge_index.flip(1)).edge_index)
        assert trace.edges(view) <= {tuple(pair) for pair in tagged.edge_index.t().tolist()}
        assert view.num_edges > 20


@pytest.mark.parametrize("edges_at_once", [1, 1 << 22])
def test_nodes_without_edges_are_in_view(trace: Trace, edges_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "EDGES_AT_ONCE", edges_at_once)
    x, y = torch.arange(12.0).unsqueeze(1), torch.arange(12) % 2
    for links in (torch.zeros(2, 0, dtype=torch.long), torch.tensor([[3, 4], [5, 5]])):
        view = TaskStream(Graph.build("lonely", x=x, links=links, y=y)).step(0).graph
        assert sorted(trace.ids(view)) == list(range(12))
        assert len(view.indptr) == 13
        assert view.num_edges == links.shape[1]
        expected = {pair for a, b in links.t().tolist() for pair in ((a, b), (b, a))}
        assert trace.edges(view) == expected


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
    for most in (cutting.COPIED, 0):
        monkeypatch.setattr(cutting, "COPIED", most)
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
