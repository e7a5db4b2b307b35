"""Importance of weights: Fisher information (EWC) and sensitivity of the output (MAS), next to their formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.learners import EWC, MAS, FineTune
from hpn.streams import TaskStream


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


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_the_center_of_mas_is_where_the_last_task_ended(graph: Graph, scenario: Any) -> None:
    stream, learner = TaskStream(graph, scenario=scenario), MAS(epochs=3, num_samples=3)
    for index in range(2):
        learner.fit_task(stream.step(index))
        assert learner.center_ == {}, "it is the network itself"
    ends = {name: weight.detach().clone() for name, weight in learner.network_.named_parameters()}
    learner._arrive(stream.step(2))
    learner._begin_task(stream.step(2))
    assert learner.center_.keys() == ends.keys()
    for name, weight in ends.items():
        assert torch.equal(learner.center_[name][tuple(slice(size) for size in weight.shape)], weight)


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
