"""Evaluation of a learner on the steps so far."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpn.learners import Learner
from hpn.streams import Evaluate, Stream
from hpn.streams.stream import Part


@dataclass(frozen=True)
class Row:
    """One row of the accuracy matrices, in percent: steps ``0 … after``, then those still to come.

    Args:
        accuracy: Share of correct predictions.
        balanced: The same for each class, averaged over the classes of the step.
        chance: Accuracy of guessing among the classes to choose from.
    """

    accuracy: list[float]
    balanced: list[float]
    chance: list[float]


def evaluate(
    learner: Learner, stream: Stream, *, after: int, mode: Evaluate, part: Part = "test", ahead: int = 0
) -> Row:
    """Evaluate ``learner`` once on every step up to ``after``.

    Args:
        learner: The learner, which sees queries only.
        stream: Where the queries come from.
        after: The step learned last.
        mode: ``oracle`` (the task is given), ``global`` (each node alone, among all classes seen) or
            ``grouped`` (the nodes of a task together, the task to be inferred).
        part: ``test`` to report; ``val`` to choose anything.
        ahead: Steps to come that are evaluated as well.
    """
    right, y, owner = [], [], []
    chance: dict[int, float] = {}
    for query, key in stream.queries(after=after, evaluate=mode, part=part, ahead=ahead):
        right.append(learner.predict(query) == key.y)
        y.append(key.y)
        owner.append(key.step)
        chance |= dict.fromkeys(torch.unique(key.step).tolist(), 100.0 / len(query.classes))
    is_right, labels, step_of = torch.cat(right), torch.cat(y), torch.cat(owner)
    steps = range(min(after + ahead, len(stream) - 1) + 1)
    return Row(
        accuracy=[_percent(is_right[step_of == step]) for step in steps],
        balanced=[_balanced_percent(is_right[step_of == step], labels[step_of == step]) for step in steps],
        chance=[chance[step] for step in steps],
    )


def _percent(right: Tensor) -> float:
    return 100.0 * int(right.sum()) / len(right)


def _balanced_percent(right: Tensor, y: Tensor) -> float:
    recalls = [_percent(right[y == label]) for label in torch.unique(y)]
    return sum(recalls) / len(recalls)
