from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.learners import Learner, LwF, Observer, Progress
from hpn.streams import TaskStream


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def formula(student: np.ndarray, teacher: np.ndarray, temperature: float) -> float:
    said, taught = softmax(student / temperature), softmax(teacher / temperature)
    return float(-(taught * np.log(said)).sum(axis=1).mean())


class Watch(Observer):
    """Writes down the loss, and what it is made of, in the middle of each task."""

    def __init__(self, stream: TaskStream) -> None:
        self.stream = stream
        self.teachers: list[dict[str, Tensor] | None] = []
        self.losses: list[float] = []
        self.logits: list[Tensor] = []

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        assert isinstance(learner, LwF)
        if progress.done != 2:
            return
        data = learner._training_data(self.stream.step(progress.task))
        teacher = learner.teacher_
        self.teachers.append(None if teacher is None else {k: v.clone() for k, v in teacher.state_dict().items()})
        self.losses.append(learner._loss(data).item())
        with torch.no_grad():
            self.logits.append(learner.network_(data.x, data.adjacency)[data.nodes].double())


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin"])
@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize("tasks", ["0,1;2,3;4,5", "0,1,2;3,4;5"])
def test_the_loss_by_hand(graph: Graph, backbone: Any, scenario: Any, tasks: str) -> None:
    """One old term on shared logits; one an earlier task where every class has a logit of its own."""
    stream = TaskStream(graph, scenario=scenario, tasks=tasks)
    watch = Watch(stream)
    learner = LwF(backbone=backbone, epochs=4, lr=0.05, dropout=0.0, strength=3.0, temperature=2.0)
    for index in range(3):
        task, widths = stream.step(index), [len(classes) for classes in stream.classes[: index + 1]]
        starts = np.cumsum([0, *widths])
        if index > 0:
            with torch.no_grad():  # the network as it is before the task, so with the old logits only
                adjacency = learner.network_.prepare(task.graph.edge_index, task.graph.num_nodes)
                old = learner.network_(task.graph.x, adjacency)[task.train].double().numpy()
        learner.fit_task(task, watch)
        now = watch.logits[index].numpy()
        if scenario == "task":
            own, groups = range(widths[-1]), [range(max(widths[:-1], default=0))]
        else:
            own, groups = range(starts[-1]), [range(*starts[at : at + 2]) for at in range(index)]
        offset = 0 if scenario == "task" else starts[-2]
        column = [offset + task.classes.index(label) for label in task.train_y.tolist()]
        expected = -np.log(softmax(now[:, own])[np.arange(len(column)), column]).mean()
        if index > 0:
            expected += 3 * sum(formula(now[:, group], old[:, group], 2.0) for group in groups)
        assert watch.losses[index] == pytest.approx(expected, rel=1e-4), index


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_the_teacher_is_the_network_before_the_task_and_only_there_while_it_is_learned(
    graph: Graph, scenario: Any
) -> None:
    stream = TaskStream(graph, scenario=scenario)
    watch, learner = Watch(stream), LwF(epochs=4)
    for index in range(3):
        before = {k: v.clone() for k, v in learner.network_.state_dict().items()} if index else {}
        learner.fit_task(stream.step(index), watch)
        assert learner.teacher_ is None
        assert "teacher" not in learner.state_dict()
        teacher = watch.teachers[index]
        assert (teacher is None) == (index == 0)
        for name, weight in before.items():
            assert teacher is not None
            assert torch.equal(teacher[name][tuple(slice(size) for size in weight.shape)], weight), name
