from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hpn.datasets import Graph
from hpn.learners import LwF
from hpn.streams import TaskStream


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def formula(student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    said, taught = softmax(student / temperature), softmax(teacher / temperature)
    return float(-(taught * np.log(said)).sum(axis=1).mean())


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin"])
@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize("tasks", ["0,1;2,3;4,5", "0,1,2;3,4;5"])
def test_the_loss_by_hand(graph: Graph, backbone: Any, scenario: Any, tasks: str) -> None:
    """One old term on shared logits; one per earlier task where every class has a logit of its own."""
    stream = TaskStream(graph, scenario=scenario, tasks=tasks)
    learner = LwF(backbone=backbone, epochs=4, lr=0.05, dropout=0.0, strength=3.0, temperature=2.0)
    for index in range(2):
        learner.fit_task(stream.step(index))
        assert learner.teacher_ is None
        assert "teacher" not in learner.state_dict()
    step = stream.step(2)
    adjacency = learner.network_.prepare(step.graph.edge_index, step.graph.num_nodes)

    def logits() -> np.ndarray:
        with torch.no_grad():
            return learner.network_(step.graph.x, adjacency)[step.train].double().numpy()

    old = logits()
    learner._arrive(step)
    learner._begin_task(step)
    with torch.no_grad():
        for weight in learner.network_.parameters():
            weight.add_(0.1 * torch.rand_like(weight))
    now, ends = logits(), np.cumsum([0, *map(len, stream.classes)])
    own, groups, offset = range(ends[3]), [range(ends[0], ends[1]), range(ends[1], ends[2])], ends[2]
    if scenario == "task":
        own, groups, offset = range(len(step.classes)), [range(max(map(len, stream.classes[:2])))], 0
    column = [offset + step.classes.index(label) for label in step.train_y.tolist()]
    expected = -np.log(softmax(now[:, own])[np.arange(len(column)), column]).mean()
    expected += 3 * sum(formula(now[:, group], old[:, group], 2.0) for group in groups)
    assert learner._loss(learner._training_data(step)).item() == pytest.approx(expected, rel=1e-4)
