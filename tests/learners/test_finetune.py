from __future__ import annotations

import torch

from hpn.datasets import Graph
from hpn.evaluation import evaluate
from hpn.learners import FineTune
from hpn.metrics import forgetting_mean
from hpn.streams import TaskStream


def test_the_head_is_shared_or_grows(graph: Graph) -> None:
    sizes = {}
    for scenario in ("task", "class"):
        stream = TaskStream(graph, scenario=scenario)  # type: ignore[arg-type]
        learner = FineTune(epochs=2)
        for index in range(len(stream)):
            learner.fit_task(stream.task(index))
        sizes[scenario] = learner.network_.num_outputs
    assert sizes == {"task": 2, "class": 6}


def test_it_forgets(graph: Graph) -> None:
    """The point of the baseline: with one shared head, a later task overwrites an earlier one."""
    stream = TaskStream(graph)
    learner = FineTune(epochs=80)
    matrix = []
    for index in range(len(stream)):
        learner.fit_task(stream.task(index))
        matrix.append(evaluate(learner, stream, after=index, mode="oracle").accuracy)
    assert min(matrix[i][i] for i in range(3)) > 70
    fm = forgetting_mean(matrix)
    assert fm is not None
    assert fm < -10


def test_weights_start_from_the_last_task(stream: TaskStream) -> None:
    learner = FineTune(epochs=5).fit_task(stream.task(0))
    before = {key: value.clone() for key, value in learner.network_.state_dict().items()}  # type: ignore[attr-defined]
    slow = FineTune(epochs=1, lr=1e-9, weight_decay=0.0).load_state_dict(learner.state_dict())
    slow.fit_task(stream.task(1))
    for key, value in slow.network_.state_dict().items():  # type: ignore[attr-defined]
        assert torch.allclose(value, before[key], atol=1e-6)


def test_a_lesson_allows_the_tasks_classes_only(graph: Graph) -> None:
    for scenario, columns in (("task", [True, True, False]), ("class", [True] * 5)):
        stream = TaskStream(graph, tasks="0,1,2;3,4", scenario=scenario)  # type: ignore[arg-type]
        learner = FineTune(epochs=1).fit_task(stream.task(0)).fit_task(stream.task(1))
        lesson = learner._lesson(stream.task(1))  # type: ignore[attr-defined]
        assert lesson.allowed[0].tolist() == columns
        offset = 0 if scenario == "task" else 3
        assert set(lesson.target.tolist()) == {offset, offset + 1}
