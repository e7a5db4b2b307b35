from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import spearmanr

from hpn.datasets import Graph
from hpn.experiment.run.checkpoint import load_checkpoint, save_checkpoint
from hpn.learners import ERGNN, GEM
from hpn.learners.gnn.replay import Kept
from hpn.streams import GraphView, Step, TaskStream

CHOSEN = torch.tensor([11, 0, 5])


@pytest.fixture(params=["dense", "sparse"])
def any_graph(request: pytest.FixtureRequest, graph: Graph) -> Graph:
    if request.param == "dense":
        return graph
    x = (graph.x * (graph.x > 0.5)).to_sparse_csr()
    return Graph.build("sparse", x=x, links=graph.edge_index, y=graph.y, class_order=graph.class_order)


def rows(view: GraphView, nodes: Any) -> list[list[float]]:
    return view.x.to_dense()[nodes].tolist()


def neighbours(view: GraphView, node: int) -> list[int]:
    return view.edge_index[1][view.edge_index[0] == node].tolist()


def test_where_the_old_graph_is_gone_features_and_labels_are_kept_and_nothing_else(any_graph: Graph) -> None:
    stream = TaskStream(any_graph)
    task = stream.step(0)
    kept = Kept.of(task, CHOSEN)
    assert kept.ids is None
    assert kept.x is not None
    assert kept.x.layout == task.graph.x.layout
    assert kept.x.to_dense().tolist() == rows(task.graph, task.train[CHOSEN])
    assert kept.y.tolist() == task.train_y[CHOSEN].tolist()
    view, nodes = kept.find(stream.step(1))
    assert view.edge_index.shape == (2, 0)
    assert view.num_nodes == 3
    assert rows(view, nodes) == rows(task.graph, task.train[CHOSEN])


def test_what_is_kept_is_a_copy(any_graph: Graph) -> None:
    task = TaskStream(any_graph).step(0)
    kept = Kept.of(task, CHOSEN)
    assert kept.x is not None
    before = kept.x.to_dense().clone()
    values = task.graph.x.values() if kept.x.layout == torch.sparse_csr else task.graph.x
    values += 1
    assert torch.equal(kept.x.to_dense(), before)
    values -= 1


def test_where_nodes_stay_in_view_names_are_kept_and_no_features(any_graph: Graph) -> None:
    stream = TaskStream(any_graph, edges="seen")
    for index in range(2):
        task = stream.step(index)
        kept = Kept.of(task, CHOSEN)
        assert kept.x is None
        assert kept.ids is not None
        assert kept.ids.tolist() == task.graph.ids[task.train[CHOSEN]].tolist()
        for later in range(index, 3):
            view, nodes = kept.find(stream.step(later))
            assert view is stream.step(later).graph
            assert rows(view, nodes) == rows(task.graph, task.train[CHOSEN])


def test_a_node_is_found_again_with_the_neighbourhood_it_has_by_then(graph: Graph) -> None:
    stream = TaskStream(graph, edges="seen")
    first, last = stream.step(0), stream.step(2)
    everything = torch.arange(len(first.train))
    _, nodes = Kept.of(first, everything).find(last)
    grown = 0
    for before, now in zip(first.train.tolist(), nodes.tolist(), strict=True):
        then = {int(first.graph.ids[other]) for other in neighbours(first.graph, before)}
        around = {int(last.graph.ids[other]) for other in neighbours(last.graph, now)}
        assert then <= around
        grown += len(around) - len(then)
    assert grown > 50


def test_names_are_the_same_in_every_view_and_each_is_one_nodes(graph: Graph) -> None:
    stream = TaskStream(graph, edges="seen")
    features: dict[int, tuple[float, ...]] = {}
    for index in range(3):
        view = stream.step(index).graph
        assert len(set(view.ids.tolist())) == view.num_nodes
        for name, row in zip(view.ids.tolist(), view.x.tolist(), strict=True):
            assert features.setdefault(name, tuple(row)) == tuple(row)
    assert len(features) == graph.num_nodes
    query, _ = stream.query(step=0, after=2, evaluate="global")
    assert set(query.graph.ids.tolist()) == set(features)


def test_names_tell_nothing(graph: Graph) -> None:
    """Neither order in the graph or the view, nor class, task, split or degree."""
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


def test_other_seeds_draw_other_names(graph: Graph) -> None:
    first, second = (TaskStream(graph, seed=seed).step(0).graph.ids for seed in (0, 1))
    assert not set(first.tolist()) & set(second.tolist())


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_state_round_trip(any_graph: Graph, edges: Any, tmp_path: Path) -> None:
    stream = TaskStream(any_graph, edges=edges)
    kept = Kept.of(stream.step(0), CHOSEN)
    save_checkpoint(tmp_path, {"kept": kept.to_state()})
    saved = load_checkpoint(tmp_path)
    assert saved is not None
    again = Kept.from_state(saved["kept"], any_graph.x.shape[1])
    assert torch.equal(again.y, kept.y)
    assert (again.x is None, again.ids is None) == (edges == "seen", edges == "within")
    if kept.x is not None:
        assert again.x is not None
        assert again.x.layout == kept.x.layout
    for one, other in zip(kept.find(stream.step(1)), again.find(stream.step(1)), strict=True):
        first, second = (part.x.to_dense() if isinstance(part, GraphView) else part for part in (one, other))
        assert torch.equal(first, second)


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
        filled = sum(int((kept.x.to_dense() != 0).sum()) for kept in learner.kept_ if kept.x is not None)
        assert learner.num_stored == weights + 3 * 7 + 2 * filled + 3 * 8
    else:
        assert learner.num_stored == weights + 3 * 7 * 13


@pytest.mark.parametrize("kind", [GEM, ERGNN])
def test_later_tasks_need_nothing_but_what_was_kept(graph: Graph, kind: Any) -> None:
    """A new learner with the state alone, and the second task alone, continues as the old one."""
    stream = TaskStream(graph)
    learner = kind(epochs=3).fit_task(stream.step(0))
    other = kind(epochs=3).load_state_dict(copy.deepcopy(learner.state_dict()))
    second = stream.step(1)
    alone = Step(
        1, second.classes, "task", GraphView(second.graph.x.clone(), second.graph.edge_index), second.train,
        second.train_y, second.val, second.val_y,
    )  # fmt: skip
    for one, again in zip(
        learner.fit_task(second).network_.parameters(), other.fit_task(alone).network_.parameters(), strict=True
    ):
        assert torch.equal(one, again)
