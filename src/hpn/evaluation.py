"""Asking a learner about the tasks so far, and marking its answers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpn.learners import Learner
from hpn.streams import AnswerKey, Evaluate, TaskStream
from hpn.streams.stream import Part


@dataclass(frozen=True)
class Row:
    """One row of the accuracy matrices, in per cent: tasks ``0 … after``.

    Args:
        accuracy: Share of right answers.
        balanced: The same for each class, averaged over the task's classes.
    """

    accuracy: list[float]
    balanced: list[float]


def evaluate(learner: Learner, stream: TaskStream, *, after: int, mode: Evaluate, part: Part = "test") -> Row:
    """Ask ``learner`` about every task up to ``after``, once.

    Args:
        learner: The learner, which sees queries only.
        stream: Where the questions come from.
        after: The task learned last.
        mode: ``oracle`` (the task is given), ``global`` (each node alone, among all classes seen) or
            ``grouped`` (a task's nodes together, the task to be inferred).
        part: ``test`` to report; ``val`` to choose anything.
    """
    tasks = range(after + 1)
    marks: list[tuple[Tensor, AnswerKey]] = []
    for task in [None] if mode == "global" else tasks:
        query, key = stream.query(task=task, after=after, evaluate=mode, part=part)
        marks.append((learner.predict(query) == key.y, key))
    right = torch.cat([mark for mark, _ in marks])
    y = torch.cat([key.y for _, key in marks])
    owner = torch.cat([key.task for _, key in marks])
    return Row(
        accuracy=[_percent(right[owner == task]) for task in tasks],
        balanced=[_balanced_percent(right[owner == task], y[owner == task]) for task in tasks],
    )


def _percent(right: Tensor) -> float:
    return 100.0 * int(right.sum()) / len(right)


def _balanced_percent(right: Tensor, y: Tensor) -> float:
    recalls = [_percent(right[y == label]) for label in torch.unique(y)]
    return sum(recalls) / len(recalls)
