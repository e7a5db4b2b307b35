"""Importance of weights: Fisher information (EWC) and sensitivity of the output (MAS), next to the chain rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.learners import EWC, MAS, FineTune, Learner, Observer, Progress
from hpn.streams import GraphView, Step, TaskStream

Arrays = dict[str, np.ndarray]
LABELS = torch.tensor([0, 1, 1, 0])


def lonely_task() -> Step:
    """Four nodes and no edge: a GCN is a two-layer perceptron here."""
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros(0, dtype=torch.int64)
    view = GraphView(x, torch.zeros(2, 0, dtype=torch.int64))
    return Step(0, (0, 1), "task", view, torch.arange(4), LABELS, nothing, nothing)


class Perceptron:
    """The network of a learner on one node, in double precision."""

    def __init__(self, learner: FineTune, x: np.ndarray) -> None:
        self.x = x
        self.w = {name: weight.detach().double().numpy() for name, weight in learner.network_.named_parameters()}
        self.before = self.w["first.lin.weight"] @ x + self.w["first.bias"]
        self.hidden = np.maximum(self.before, 0)
        self.logits = self.w["second.lin.weight"] @ self.hidden + self.w["second.bias"]
        self.p = np.exp(self.logits) / np.exp(self.logits).sum()

    def slopes(self, by_logits: np.ndarray) -> Arrays:
        """Derivative by each weight of what has the given derivative by the logits."""
        by_hidden = (self.w["second.lin.weight"].T @ by_logits) * (self.before > 0)
        return {
            "first.lin.weight": np.outer(by_hidden, self.x),
            "first.bias": by_hidden,
            "second.lin.weight": np.outer(by_logits, self.hidden),
            "second.bias": by_logits,
        }

    def log_slopes(self, column: int) -> Arrays:
        return self.slopes(np.eye(2)[column] - self.p)


def by_hand(learner: FineTune, x: np.ndarray) -> Arrays:
    """The importance of each weight, from its definition."""
    total: Arrays = {}
    for node in (Perceptron(learner, row) for row in x):
        if isinstance(learner, EWC):
            terms = [{k: node.p[c] * g**2 for k, g in node.log_slopes(c).items()} for c in range(2)]
        else:
            terms = [{name: np.abs(slope) for name, slope in node.slopes(2 * node.logits).items()}]
        for term in terms:
            total = {name: total.get(name, 0) + part / len(x) for name, part in term.items()}
    return total


def agrees(learner: Any, expected: Arrays) -> bool:
    return all(np.allclose(learner.importance_[k].numpy(), expected[k], rtol=1e-4, atol=1e-6) for k in expected)


@pytest.mark.parametrize("kind", [EWC, MAS])
def test_importance_of_a_perceptron_by_the_chain_rule(kind: Any) -> None:
    task, learner = lonely_task(), kind(epochs=5, dropout=0.0)
    learner.fit_task(task)
    expected = by_hand(learner, task.graph.x.double().numpy())
    assert expected.keys() == learner.importance_.keys()
    assert min(part.max() for part in expected.values()) > 1e-3
    assert agrees(learner, expected)


def test_fisher_information_is_not_the_square_of_the_mean_gradient() -> None:
    task, learner = lonely_task(), EWC(epochs=5, dropout=0.0)
    learner.fit_task(task)
    mean: Arrays = {}
    for row, label in zip(task.graph.x.double().numpy(), LABELS.tolist(), strict=True):
        mean = {k: mean.get(k, 0) + g / 4 for k, g in Perceptron(learner, row).log_slopes(label).items()}
    for name, importance in learner.importance_.items():
        assert not np.allclose(importance.numpy(), mean[name] ** 2, rtol=0.1, atol=1e-6), name


@pytest.mark.parametrize("kind", [EWC, MAS])
def test_of_one_sampled_node_only_its_own_gradients_count(kind: Any) -> None:
    task, learner = lonely_task(), kind(epochs=5, dropout=0.0, num_samples=1)
    learner.fit_task(task)
    each = [by_hand(learner, row[None, :]) for row in task.graph.x.double().numpy()]
    assert sum(agrees(learner, one) for one in each) == 1


@pytest.mark.parametrize("kind", [EWC, MAS])
@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin"])
def test_importance_on_a_graph_by_the_gradients_of_the_whole_graph(graph: Graph, backbone: Any, kind: Any) -> None:
    """Three classes then two in one head: the third logit is not an output of the second task."""
    stream = TaskStream(graph, tasks="0,1,2;3,4")
    learner = kind(backbone=backbone, epochs=2, num_samples=1000).fit_task(stream.step(0))
    before = {name: importance.clone() for name, importance in learner.importance_.items()}
    task = stream.step(1)
    task = replace(task, train=task.train[:12], train_y=task.train_y[:12])
    learner.fit_task(task)
    adjacency = learner.network_.prepare(task.graph.edge_index, task.graph.num_nodes)
    weights = list(learner.network_.parameters())
    expected = [torch.zeros_like(weight) for weight in weights]
    for node in task.train:
        logits = learner.network_(task.graph.x, adjacency)[node, :2]
        values = logits.log_softmax(dim=0) if kind is EWC else logits.square().sum(dim=0, keepdim=True)
        for value in values:
            slopes = torch.autograd.grad(value, weights, retain_graph=True)
            for total, slope in zip(expected, slopes, strict=True):
                size = value.exp().detach() * slope**2 if kind is EWC else slope.abs()
                total.add_(size / len(task.train))
    for (name, importance), new in zip(learner.importance_.items(), expected, strict=True):
        assert torch.allclose(importance, before[name] + new, rtol=1e-3, atol=1e-5), name


def test_mas_uses_no_labels(stream: TaskStream) -> None:
    learner = MAS(epochs=3, num_samples=15)
    learner.fit_task(stream.step(0))
    data = learner._training_data(stream.step(0)).part(torch.arange(15))
    first, second = learner._importance(data), learner._importance(replace(data, target=1 - data.target))
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
def test_the_center_of_mas_is_where_the_last_task_ended(graph: Graph, scenario: Any) -> None:
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


@pytest.mark.parametrize("kind", [EWC, MAS])
def test_a_large_strength_keeps_the_predictions(stream: TaskStream, kind: Any) -> None:
    def shift(learner: FineTune) -> Tensor:
        learner.fit_task(stream.step(0))
        query, _ = stream.query(step=0, after=0, evaluate="oracle")
        before = learner.predict_scores(query)
        learner.fit_task(stream.step(1))
        return (learner.predict_scores(query).exp() - before.exp()).abs().mean()

    training: dict[str, Any] = {"epochs": 40, "lr": 0.01, "weight_decay": 0.0}
    assert shift(FineTune(**training)) > 0.2
    assert shift(kind(strength=1e7, **training)) < 0.02
