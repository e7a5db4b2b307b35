from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hpn.datasets import Graph
from hpn.learners import EWC, MAS, TWP, FineTune, LwF
from hpn.learners.gnn.consolidation import Consolidation, Weights
from hpn.learners.gnn.training_data import TrainingData
from hpn.streams import TaskStream


class Drawn(Consolidation):
    """Importance is drawn, many entries are exactly 0; what was drawn is written down."""

    def _importance(self, data: TrainingData) -> Weights:
        importance = {
            name: torch.rand(weight.shape) * (torch.rand(weight.shape) < 0.5)
            for name, weight in self.network_.named_parameters()
        }
        self.log = [*getattr(self, "log", []), (self._weights(), importance)]
        return importance


def fit(learner: Any, stream: TaskStream) -> Any:
    for index in range(len(stream)):
        learner.fit_task(stream.step(index))
    return learner


def parabolas(learner: Drawn) -> float:
    """The sum over tasks, as the formula has it; earlier tasks know the leading block of a weight only."""
    total = 0.0
    weights = dict(learner.network_.named_parameters())
    for then, importance in learner.log:
        for name, before in then.items():
            now = weights[name][tuple(slice(size) for size in before.shape)].double()
            total += (importance[name].double() * (now - before.double()) ** 2).sum().item()
    return total


def scatter(learner: FineTune) -> None:
    with torch.no_grad():
        for weight in learner.network_.parameters():
            weight.copy_(torch.randn(weight.shape))


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin"])
@pytest.mark.parametrize("scenario", ["task", "class"])
def test_one_parabola_is_the_sum_of_all_up_to_a_constant(graph: Graph, backbone: Any, scenario: Any) -> None:
    learner = fit(Drawn(backbone=backbone, epochs=2, lr=0.1), TaskStream(graph, scenario=scenario))
    assert len(learner.log) == 3
    torch.manual_seed(0)
    found, expected = [], []
    for _ in range(4):
        scatter(learner)
        found.append(learner._penalty().item())
        expected.append(parabolas(learner))
    assert np.diff(found) == pytest.approx(np.diff(expected), rel=1e-4, abs=1e-2)
    assert np.abs(np.diff(expected)).max() > 10


def test_the_loss_has_half_the_strength_times_the_penalty(graph: Graph) -> None:
    stream = TaskStream(graph)
    learner = fit(Drawn(epochs=2, dropout=0.0, strength=7.0), stream)
    scatter(learner)
    data = learner._training_data(stream.step(2))
    logits = learner.network_(data.x, data.adjacency)[data.nodes].log_softmax(dim=1)
    entropy = -logits[torch.arange(len(data)), data.target].mean()
    parts = [
        (learner.importance_[name] * (weight - learner.center_[name]) ** 2).sum()
        for name, weight in learner.network_.named_parameters()
    ]
    assert learner._loss(data).item() == pytest.approx((entropy + 3.5 * sum(parts)).item(), rel=1e-5)


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin"])
def test_new_logits_are_free_when_the_head_grows(graph: Graph, backbone: Any) -> None:
    stream = TaskStream(graph, scenario="class")
    learner = Drawn(backbone=backbone, epochs=1)
    learner.fit_task(stream.step(0))
    ((weights, drawn),) = learner.log
    learner._arrive(stream.step(1))
    learner._begin_task(stream.step(1))
    for name, importance in learner.importance_.items():
        old = tuple(slice(size) for size in drawn[name].shape)
        assert importance.shape == learner.center_[name].shape == dict(learner.network_.named_parameters())[name].shape
        assert torch.equal(importance[old], drawn[name])
        assert float(importance.sum()) == pytest.approx(float(drawn[name].sum()), rel=1e-5), "0 elsewhere"
        assert torch.equal(learner.center_[name][old][drawn[name] > 0], weights[name][drawn[name] > 0])
    assert sum(map(torch.numel, learner.importance_.values())) > sum(map(torch.numel, drawn.values()))


@pytest.mark.parametrize(("kind", "times"), [(EWC, 3), (TWP, 3), (MAS, 2), (LwF, 1), (FineTune, 1)])
@pytest.mark.parametrize(("scenario", "outputs"), [("task", [2, 2, 2]), ("class", [2, 4, 6])])
def test_numbers_kept_between_tasks(
    graph: Graph, kind: type[FineTune], times: int, scenario: Any, outputs: list[int]
) -> None:
    few = {"num_samples": 2} if kind in (EWC, MAS) else {}
    stream, learner = TaskStream(graph, scenario=scenario), kind(epochs=1, **few)
    for index, count in enumerate(outputs):
        learner.fit_task(stream.step(index))
        weights = 12 * 16 + 16 + 16 * count + count
        assert learner.num_parameters == weights
        assert learner.num_stored == times * weights
