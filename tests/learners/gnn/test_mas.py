from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.learners import MAS, FineTune, Learner, Observer, Progress
from hpn.streams import GraphView, Step, TaskStream


def lonely_task() -> Step:
    """Four nodes and no edge: a GCN is a two-layer perceptron here."""
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros(0, dtype=torch.int64)
    view = GraphView(x, torch.zeros(2, 0, dtype=torch.int64))
    return Step(0, (0, 1), "task", view, torch.arange(4), torch.tensor([0, 1, 1, 0]), nothing, nothing)


def by_hand(learner: FineTune, x: np.ndarray) -> dict[str, np.ndarray]:
    """Mean over nodes of the size of the derivative of the logits' squared length, by the chain rule."""
    w = {name: weight.detach().double().numpy() for name, weight in learner.network_.named_parameters()}
    total: dict[str, np.ndarray] = {}
    for row in x:
        before = w["first.lin.weight"] @ row + w["first.bias"]
        hidden = np.maximum(before, 0)
        by_logits = 2 * (w["second.lin.weight"] @ hidden + w["second.bias"])
        by_hidden = (w["second.lin.weight"].T @ by_logits) * (before > 0)
        gradients = {
            "first.lin.weight": np.outer(by_hidden, row),
            "first.bias": by_hidden,
            "second.lin.weight": np.outer(by_logits, hidden),
            "second.bias": by_logits,
        }
        total = {name: total.get(name, 0) + np.abs(g) / len(x) for name, g in gradients.items()}
    return total


def test_importance_of_a_perceptron_by_the_chain_rule() -> None:
    task, learner = lonely_task(), MAS(epochs=5, dropout=0.0)
    learner.fit_task(task)
    expected = by_hand(learner, task.graph.x.double().numpy())
    assert expected.keys() == learner.importance_.keys()
    for name, importance in learner.importance_.items():
        assert expected[name].max() > 1e-2
        assert np.allclose(importance.numpy(), expected[name], rtol=1e-4, atol=1e-6), name


def test_of_one_node_only_its_own_output_counts() -> None:
    task, learner = lonely_task(), MAS(epochs=5, dropout=0.0, num_samples=1)
    learner.fit_task(task)
    each = [by_hand(learner, row[None, :]) for row in task.graph.x.double().numpy()]
    close = [
        all(np.allclose(learner.importance_[name].numpy(), one[name], rtol=1e-4, atol=1e-6) for name in one)
        for one in each
    ]
    assert sum(close) == 1


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin"])
def test_importance_on_a_graph_by_the_whole_graphs_gradients(graph: Graph, backbone: Any) -> None:
    """Three classes then two in one head: the third logit is no output of the second task."""
    stream = TaskStream(graph, tasks="0,1,2;3,4")
    learner = MAS(backbone=backbone, epochs=2, num_samples=1000)
    learner.fit_task(stream.step(0))
    before = {name: importance.clone() for name, importance in learner.importance_.items()}
    task = stream.step(1)
    task = replace(task, train=task.train[:12], train_y=task.train_y[:12])
    learner.fit_task(task)
    adjacency = learner.network_.prepare(task.graph.edge_index, task.graph.num_nodes)
    weights = list(learner.network_.parameters())
    expected = [torch.zeros_like(weight) for weight in weights]
    for node in task.train:
        length = (learner.network_(task.graph.x, adjacency)[node, :2] ** 2).sum()
        for total, slope in zip(expected, torch.autograd.grad(length, weights), strict=True):
            total.add_(slope.abs() / len(task.train))
    for (name, importance), new in zip(learner.importance_.items(), expected, strict=True):
        assert torch.allclose(importance, before[name] + new, rtol=1e-3, atol=1e-5), name


def test_labels_are_not_used(stream: TaskStream) -> None:
    learner = MAS(epochs=3, num_samples=15)
    learner.fit_task(stream.step(0))
    data = learner._training_data(stream.step(0)).part(torch.arange(15))
    swapped = replace(data, target=1 - data.target)
    first, second = learner._importance(data), learner._importance(swapped)
    for name, importance in first.items():
        assert torch.allclose(importance, second[name], rtol=1e-4, atol=1e-6)


class Watch(Observer):
    """Writes down the center after the first step of each task."""

    def __init__(self) -> None:
        self.centers: list[dict[str, Tensor]] = []

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        assert isinstance(learner, MAS)
        if progress.done == 1:
            self.centers.append(dict(learner.center_))


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_the_center_is_where_the_last_task_ended(graph: Graph, scenario: Any) -> None:
    stream, watch = TaskStream(graph, scenario=scenario), Watch()
    learner, ends = MAS(epochs=3, num_samples=3), []
    for index in range(3):
        learner.fit_task(stream.step(index), watch)
        assert learner.center_ == {}
        ends.append({name: weight.detach().clone() for name, weight in learner.network_.named_parameters()})
    assert watch.centers[0] == {}
    for end, center in zip(ends[:2], watch.centers[1:], strict=True):
        for name, weight in end.items():
            assert torch.equal(center[name][tuple(slice(size) for size in weight.shape)], weight)
            assert scenario == "class" or center[name].shape == weight.shape


def test_without_strength_it_is_fine_tuning(stream: TaskStream) -> None:
    learners = [MAS(strength=0.0, num_samples=3, epochs=4, dropout=0.0), FineTune(epochs=4, dropout=0.0)]
    for learner in learners:
        for index in range(3):
            learner.fit_task(stream.step(index))
    for one, other in zip(*(learner.network_.parameters() for learner in learners), strict=True):
        assert torch.equal(one, other)


def test_a_huge_strength_keeps_the_old_answers(stream: TaskStream) -> None:
    def shift(learner: FineTune) -> Tensor:
        learner.fit_task(stream.step(0))
        query, _ = stream.query(step=0, after=0, evaluate="oracle")
        before = learner.predict_scores(query)
        learner.fit_task(stream.step(1))
        return (learner.predict_scores(query).exp() - before.exp()).abs().mean()

    training: dict[str, Any] = {"epochs": 40, "lr": 0.01, "weight_decay": 0.0}
    assert shift(FineTune(**training)) > 0.2
    assert shift(MAS(strength=1e7, **training)) < 0.02
