from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.learners import EWC, FineTune
from hpn.streams import GraphView, Step, TaskStream

Arrays = dict[str, np.ndarray]
LABELS = torch.tensor([0, 1, 1, 0])


def lonely_task() -> Step:
    """Four nodes and no edge: a GCN is a two-layer perceptron here."""
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros(0, dtype=torch.int64)
    view = GraphView(x, torch.zeros(2, 0, dtype=torch.int64))
    return Step(0, (0, 1), "task", view, torch.arange(4), LABELS, nothing, nothing)


def perceptron_gradients(learner: FineTune, x: np.ndarray, column: int) -> tuple[float, Arrays]:
    """Probability of a class for one node, and the derivative of its logarithm, by the chain rule."""
    w = {name: weight.detach().double().numpy() for name, weight in learner.network_.named_parameters()}
    before = w["first.lin.weight"] @ x + w["first.bias"]
    hidden = np.maximum(before, 0)
    logits = w["second.lin.weight"] @ hidden + w["second.bias"]
    p = np.exp(logits) / np.exp(logits).sum()
    by_logits = np.eye(len(p))[column] - p
    by_hidden = (w["second.lin.weight"].T @ by_logits) * (before > 0)
    return p[column], {
        "first.lin.weight": np.outer(by_hidden, x),
        "first.bias": by_hidden,
        "second.lin.weight": np.outer(by_logits, hidden),
        "second.bias": by_logits,
    }


def fisher(learner: FineTune, x: np.ndarray) -> Arrays:
    total: Arrays = {}
    for row in x:
        for column in range(2):
            p, gradients = perceptron_gradients(learner, row, column)
            total = {name: total.get(name, 0) + p * g**2 / len(x) for name, g in gradients.items()}
    return total


def test_fisher_information_of_a_perceptron_by_the_chain_rule() -> None:
    task = lonely_task()
    learner = EWC(epochs=5, dropout=0.0)
    learner.fit_task(task)
    expected = fisher(learner, task.graph.x.double().numpy())
    assert expected.keys() == learner.importance_.keys()
    for name, importance in learner.importance_.items():
        assert expected[name].max() > 1e-3
        assert np.allclose(importance.numpy(), expected[name], rtol=1e-4, atol=1e-7), name


def test_it_is_not_the_square_of_the_mean_gradient() -> None:
    task = lonely_task()
    learner = EWC(epochs=5, dropout=0.0)
    learner.fit_task(task)
    mean: Arrays = {}
    for row, label in zip(task.graph.x.double().numpy(), LABELS.tolist(), strict=True):
        _, gradients = perceptron_gradients(learner, row, label)
        mean = {name: mean.get(name, 0) + g / 4 for name, g in gradients.items()}
    for name, importance in learner.importance_.items():
        assert not np.allclose(importance.numpy(), mean[name] ** 2, rtol=0.1, atol=1e-6), name


def test_of_one_node_only_its_own_gradients_count() -> None:
    task = lonely_task()
    learner = EWC(epochs=5, dropout=0.0, num_samples=1)
    learner.fit_task(task)
    each = [fisher(learner, row[None, :]) for row in task.graph.x.double().numpy()]
    close = [
        all(np.allclose(learner.importance_[name].numpy(), one[name], rtol=1e-4, atol=1e-7) for name in one)
        for one in each
    ]
    assert sum(close) == 1


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin"])
def test_information_on_a_graph_by_the_whole_graphs_gradients(graph: Graph, backbone: Any) -> None:
    """Three classes then two in one head: the third logit is not allowed in the second task."""
    stream = TaskStream(graph, tasks="0,1,2;3,4")
    learner = EWC(backbone=backbone, epochs=2, num_samples=1000)
    learner.fit_task(stream.step(0))
    before = {name: importance.clone() for name, importance in learner.importance_.items()}
    task = stream.step(1)
    task = replace(task, train=task.train[:12], train_y=task.train_y[:12])
    learner.fit_task(task)
    adjacency = learner.network_.prepare(task.graph.edge_index, task.graph.num_nodes)
    weights = list(learner.network_.parameters())
    expected = [torch.zeros_like(weight) for weight in weights]
    for node in task.train:
        log_p = learner.network_(task.graph.x, adjacency)[node, :2].log_softmax(dim=0)
        for column in range(2):
            slopes = torch.autograd.grad(log_p[column], weights, retain_graph=True)
            for total, slope in zip(expected, slopes, strict=True):
                total.add_(log_p[column].exp().detach() * slope**2 / len(task.train))
    for (name, importance), new in zip(learner.importance_.items(), expected, strict=True):
        assert torch.allclose(importance, before[name] + new, rtol=1e-3, atol=1e-6), name


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_without_strength_it_is_fine_tuning(stream: TaskStream, optimizer: Any) -> None:
    """Without dropout, that is: drawing the nodes moves the random numbers of the next task."""
    learners = [
        EWC(strength=0.0, num_samples=3, epochs=4, dropout=0.0, optimizer=optimizer),
        FineTune(epochs=4, dropout=0.0, optimizer=optimizer),
    ]
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
    assert shift(EWC(strength=1e7, **training)) < 0.02
