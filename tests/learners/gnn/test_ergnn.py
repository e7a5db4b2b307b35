from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from hpn.datasets import Graph
from hpn.learners import ERGNN
from hpn.learners.gnn.replay import find
from hpn.learners.gnn.selection import influence
from hpn.streams import GraphView, Step, TaskStream

POSITIONS = [0.0, 1.0, 2.0, 50.0, 51.0, 100.0, 101.0, 103.0]
CLASSES = [0, 0, 0, 0, 1, 1, 1, 1]


def line_task(sparse: bool = False) -> Step:
    """Two classes on a line that meet in the middle; training nodes are in no order."""
    x = torch.tensor([POSITIONS, [1.0] * 8]).T.contiguous()
    train = torch.tensor([7, 2, 5, 0, 3, 4, 6, 1])
    nothing = torch.zeros(0, dtype=torch.int64)
    view = GraphView(x.to_sparse_csr() if sparse else x, torch.tensor([[0, 5], [5, 0]]))
    return Step(0, (0, 1), "task", view, train, torch.tensor(CLASSES)[train], nothing, nothing)


def kept_positions(learner: ERGNN) -> list[float]:
    view, _ = find(learner.kept_[0], line_task())
    positions = view.x.to_dense()[:, 0].tolist()
    assert learner.kept_[0]["y"].tolist() == [CLASSES[POSITIONS.index(position)] for position in positions]
    return sorted(positions)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("selection", "buffer_size", "expected"),
    [
        ("mean", 1, [2, 100]),  # the means are 13.25 and 88.75
        ("mean", 2, [1, 2, 100, 101]),
        ("coverage", 3, [0, 1, 2, 100, 101, 103]),
        ("coverage", 4, POSITIONS),
        ("mean", 100, POSITIONS),
    ],
)
def test_the_right_nodes_are_kept(selection: Any, buffer_size: int, expected: list[float], sparse: bool) -> None:
    learner = ERGNN(selection=selection, buffer_size=buffer_size, epochs=1)
    learner.fit_task(line_task(sparse))
    assert kept_positions(learner) == expected


def test_nodes_nearest_to_the_mean_of_the_hidden_units_are_kept(stream: TaskStream) -> None:
    task = stream.step(0)
    learner: Any = ERGNN(selection="mean", space="embeddings", buffer_size=4, epochs=5).fit_task(task)
    adjacency = learner.network_.prepare(task.graph.edge_index, task.graph.num_nodes)
    hidden = learner.network_.embed(task.graph.x, adjacency)[task.train].detach().numpy()
    expected = []
    for label in task.classes:
        own = np.nonzero((task.train_y == label).numpy())[0]
        distance = ((hidden[own] - hidden[own].mean(axis=0)) ** 2).sum(axis=1)
        expected.extend(own[np.argsort(distance)[:4]])
    assert sorted(learner.kept_[0]["x"].tolist()) == sorted(task.graph.x[task.train[expected]].tolist())


def test_the_most_influential_nodes_are_kept(stream: TaskStream) -> None:
    task = stream.step(0)
    learner = ERGNN(selection="influence", buffer_size=2, epochs=5, dropout=0.0).fit_task(task)
    network = learner.network_  # type: ignore[attr-defined]
    adjacency = network.prepare(task.graph.edge_index, task.graph.num_nodes)
    log_p = network(task.graph.x, adjacency)[task.train].log_softmax(dim=1)
    column = torch.tensor([task.classes.index(label) for label in task.train_y.tolist()])
    rank = influence(-log_p[torch.arange(len(column)), column], list(network.parameters())).double()
    own = [torch.nonzero(column == at).flatten() for at in range(2)]
    expected = torch.cat([nodes[rank[nodes].argsort(stable=True)[:2]] for nodes in own])
    kept = learner.kept_[0]["x"]  # type: ignore[attr-defined]
    assert torch.equal(kept, task.graph.x[task.train[expected]])


@pytest.mark.parametrize("selection", ["mean", "coverage", "influence"])
@pytest.mark.parametrize("batch_size", [None, 16])
def test_as_many_nodes_are_kept_of_each_class_as_asked(graph: Graph, selection: Any, batch_size: int | None) -> None:
    stream = TaskStream(graph, tasks="0,1,2;3;4,5", scenario="class")
    learner = ERGNN(selection=selection, buffer_size=3, epochs=1, batch_size=batch_size)
    for index in range(3):
        learner.fit_task(stream.step(index))
    assert [sorted(kept["y"].tolist()) for kept in learner.kept_] == [
        [label for label in sorted(classes) for _ in range(3)] for classes in stream.classes
    ]
    assert all(len({tuple(row) for row in kept["x"].tolist()}) == len(kept["y"]) for kept in learner.kept_)


@pytest.mark.parametrize("new_share", [None, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("edges", ["within", "seen"])
@pytest.mark.parametrize("scenario", ["task", "class"])
def test_new_and_old_losses_are_weighed(graph: Graph, scenario: Any, edges: Any, new_share: float | None) -> None:
    stream = TaskStream(graph, scenario=scenario, edges=edges)
    learner = ERGNN(buffer_size=5, epochs=2, lr=0.05, dropout=0.0, new_share=new_share)
    for index in range(2):
        learner.fit_task(stream.step(index))
    step = stream.step(2)
    learner._arrive(step)
    learner._begin_task(step)
    learner._recall(step)

    def losses(view: GraphView, nodes: Tensor, y: Tensor, classes: tuple[int, ...]) -> Tensor:
        """Of each node, among the classes of its own task or all seen."""
        logits = learner.network_(view.x, learner.network_.prepare(view.edge_index, view.num_nodes))[nodes]
        known = classes if scenario == "task" else learner.classes_
        return F.cross_entropy(logits, torch.tensor([known.index(label) for label in y.tolist()]), reduction="none")

    kept = zip(learner.kept_, learner.tasks_, strict=False)
    old = torch.cat([losses(*find(part, step), part["y"], classes) for part, classes in kept])
    new = losses(step.graph, step.train, step.train_y, step.classes)
    assert len(old) == 20
    share = len(old) / (len(new) + len(old)) if new_share is None else new_share
    expected = share * new.mean() + (1 - share) * old.mean()
    assert learner._loss(learner._training_data(step)).item() == pytest.approx(expected.item(), rel=1e-4)
