from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import spearmanr

from hpn.datasets import Graph
from hpn.learners import GEM
from hpn.learners.gnn.replay import find, keep
from hpn.streams import GraphView, TaskStream
from hpn.testing.learners import _through_disk

CHOSEN = torch.tensor([11, 0, 5])


@pytest.fixture(params=["dense", "sparse"])
def any_graph(request: pytest.FixtureRequest, graph: Graph) -> Graph:
    if request.param == "dense":
        return graph
    x = (graph.x * (graph.x > 0.5)).to_sparse_csr()
    return Graph.build("sparse", x=x, links=graph.edge_index, y=graph.y, class_order=graph.class_order)


def rows(view: GraphView, nodes: Any) -> list[list[float]]:
    return view.x.to_dense()[nodes].tolist()


def test_where_the_old_graph_is_gone_copies_of_features_and_labels_are_kept(any_graph: Graph) -> None:
    stream = TaskStream(any_graph)
    task = stream.step(0)
    kept, before = keep(task, CHOSEN), rows(task.graph, task.train[CHOSEN])
    assert kept.keys() == {"x", "y"}
    assert kept["y"].tolist() == task.train_y[CHOSEN].tolist()
    values = task.graph.x.values() if task.graph.is_sparse else task.graph.x
    values += 1
    view, nodes = find(_through_disk(kept), stream.step(1))
    assert (view.num_nodes, view.num_edges, view.is_sparse) == (3, 0, task.graph.is_sparse)
    assert rows(view, nodes) == before
    values -= 1


def test_where_nodes_stay_in_view_they_are_found_again_by_their_ids(any_graph: Graph) -> None:
    stream = TaskStream(any_graph, edges="seen")
    for index in range(2):
        task = stream.step(index)
        kept = _through_disk(keep(task, CHOSEN))
        assert kept.keys() == {"ids", "y"}
        for later in range(index, 3):
            view, nodes = find(kept, stream.step(later))
            assert view is stream.step(later).graph
            assert rows(view, nodes) == rows(task.graph, task.train[CHOSEN])


def test_a_node_is_found_again_with_the_neighbourhood_it_has_by_then(graph: Graph) -> None:
    def around(view: GraphView, node: int) -> set[int]:
        return set(view.ids[view.edge_index[1][view.edge_index[0] == node]].tolist())

    stream = TaskStream(graph, edges="seen")
    first, last = stream.step(0), stream.step(2)
    _, nodes = find(keep(first, torch.arange(len(first.train))), last)
    pairs = [
        (around(first.graph, before), around(last.graph, now))
        for before, now in zip(first.train.tolist(), nodes.tolist(), strict=True)
    ]
    assert all(then <= now for then, now in pairs)
    assert sum(len(now) - len(then) for then, now in pairs) > 50


def test_ids_say_nothing(graph: Graph) -> None:
    """Neither order in the graph or the view, nor class, task, split or degree; other seeds draw others."""
    stream = TaskStream(graph, edges="seen")
    view = stream.step(2).graph
    number = {tuple(row): at for at, row in enumerate(graph.x.tolist())}
    nodes = torch.tensor([number[tuple(row)] for row in view.x.tolist()])
    arrival = torch.tensor([stream.classes.index(next(t for t in stream.classes if y in t)) for y in graph.y.tolist()])
    degree = torch.bincount(view.edge_index[0], minlength=view.num_nodes)
    is_train = torch.zeros(view.num_nodes)
    is_train[stream.step(2).train] = 1
    for known in (nodes, torch.arange(view.num_nodes), graph.y[nodes], arrival[nodes], degree, is_train):
        assert abs(spearmanr(view.ids.numpy(), known.numpy()).statistic) < 0.2
    assert not set(view.ids.tolist()) & set(TaskStream(graph, seed=1).step(0).graph.ids.tolist())


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_numbers_kept_between_tasks(any_graph: Graph, edges: Any) -> None:
    """Weights, and of each node its label and what it is found again by."""
    stream, learner = TaskStream(any_graph, edges=edges), GEM(epochs=1, memory_size=7)
    for index in range(3):
        learner.fit_task(stream.step(index))
    weights = 12 * 16 + 16 + 16 * 2 + 2
    if edges == "seen":
        assert learner.num_stored == weights + 3 * 7 * 2
    elif any_graph.x.layout == torch.sparse_csr:
        filled = sum(int((kept["x"][2] != 0).sum()) for kept in learner.kept_)
        assert learner.num_stored == weights + 3 * 7 + 2 * filled + 3 * 8
    else:
        assert learner.num_stored == weights + 3 * 7 * 13
