r"""The solved warm-up: extractors that tell a task's classes apart from the start.

Instead of training extractors before prototypes are established, they are computed. Ridge regression
predicts a node's class from each candidate slot; the prediction is then written as a direction in the
embedding space, in which every column of the classifier has a fixed *code*:

.. math:: e(v) = r(v)\, b + \kappa w \sum_j z_j(v)\, c_j

where :math:`z` are the predictions, :math:`c_j` the codes, :math:`r` the prediction of a constant, which
gives the direction something to be measured against, :math:`b` a direction of its own, and :math:`w` how
much this slot is to say. The angle tells how sure the slot is. Tasks that share columns meet in the same
codes and so share prototypes.

The strength of regularisation, the reach of the structure slot and the shares :math:`w` are chosen by
accuracy (ties by likelihood) on held-out nodes: the task's validation nodes, and each training node predicted
from the others where there are at least as many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor

from hpn.nn.propagation import Features
from hpn.nn.ridge import fit_reference, ridge_path, thin_out

STRENGTHS = (0.1, 1.0, 3.0, 10.0, 30.0)
SHARES = ((1.0, 0.0), (0.75, 0.25), (0.5, 0.5), (0.25, 0.75), (0.0, 1.0))
INTERCEPT_STRENGTH, REFERENCE_STRENGTH = 0.001, 0.1
"""Regularisation of the stand-in for an intercept, and of the reference, which is to know its own nodes."""
STEEPNESS = 3.0
"""The factor κ: how fast the angle grows with the evidence."""

Score = tuple[float, float]


@dataclass(frozen=True)
class Labelled:
    """Features of some nodes, hop by hop, and the positions of their classes in the task."""

    hops: Sequence[Features]
    y: np.ndarray


@dataclass(frozen=True)
class Start:
    """Where the extractors of a task start.

    Shapes:
        - ``node``, ``structure``: ``[num_features, dim]``
    """

    node: Tensor
    structure: Tensor
    reach: int


@dataclass(frozen=True)
class _Reading:
    """What one slot says of the held-out nodes, and the weights that say it."""

    score: Score
    evidence: np.ndarray  # [n, num_classes], of unit mean square length
    reference: np.ndarray  # [n]
    y: np.ndarray  # [n]
    weights: np.ndarray  # [num_features, num_classes + 1], the reference last


def solve_start(train: Labelled, val: Labelled, num_classes: int, codes: Tensor) -> Start:
    """Compute extractors for a task.

    Args:
        train: Training nodes.
        val: Validation nodes; may be empty.
        num_classes: Classes of the task.
        codes: ``[1 + num_classes, dim]``, the direction b first.
    """
    readings = [_read_slot(train, val, hop, num_classes) for hop in range(len(train.hops))]
    held_out = readings[0].y
    reach = max(range(1, len(readings)), key=lambda hop: readings[hop].score, default=0)
    pair = readings[0], readings[reach]

    def score(shares: tuple[float, float]) -> Score:
        votes = sum(_vote(reading, share) for reading, share in zip(pair, shares, strict=True))
        return _score(STEEPNESS * np.asarray(votes), held_out)

    shares = max(SHARES, key=score)
    node, structure = (_extractor(r, share, codes) for r, share in zip(pair, shares, strict=True))
    return Start(node, structure, reach)


def _read_slot(train: Labelled, val: Labelled, hop: int, num_classes: int) -> _Reading:
    """Fit a slot with every strength and keep the best on held-out nodes."""
    x, target = thin_out(train.hops[hop], np.eye(num_classes)[train.y] - 1 / num_classes)
    paths = list(ridge_path(x, target, fit_reference(x, INTERCEPT_STRENGTH), STRENGTHS))
    reference = fit_reference(x, REFERENCE_STRENGTH)
    predictions = [np.asarray(val.hops[hop] @ weights) for weights, _ in paths]
    constant, y = np.asarray(val.hops[hop] @ reference), val.y
    if len(train.y) >= len(val.y):
        first = len(paths[0][1])
        predictions = [np.concatenate([p, path[1]]) for p, path in zip(predictions, paths, strict=True)]
        constant = np.concatenate([constant, np.asarray(x[:first] @ reference)])
        y = np.concatenate([y, target[:first].argmax(axis=1)])
    scores = [_score(2 * predicted / _spread(predicted), y) for predicted in predictions]
    at = max(range(len(paths)), key=scores.__getitem__)
    spread, level = _spread(predictions[at]), float(constant.mean())
    # Features around zero predict no constant; then there is nothing to measure against.
    scale = 1 / level if level > 0.1 else 0.0
    weights = np.concatenate([paths[at][0] / spread, scale * reference[:, None]], axis=1)
    return _Reading(scores[at], predictions[at] / spread, constant * scale, y, weights)


def _spread(evidence: np.ndarray) -> float:
    return max(float(np.sqrt((evidence**2).sum(axis=1).mean())), 1e-12)


def _vote(reading: _Reading, share: float) -> np.ndarray:
    """Evidence as it is left in a unit vector."""
    evidence = STEEPNESS * share * reading.evidence
    length = np.sqrt((evidence**2).sum(axis=1) + reading.reference**2)
    return np.asarray(evidence / np.maximum(length, 1e-12)[:, None])


def _score(logits: np.ndarray, y: np.ndarray) -> Score:
    """Accuracy, and mean log-likelihood to break ties."""
    likelihood = log_softmax(logits, axis=1)[np.arange(len(y)), y].mean()
    return float((logits.argmax(axis=1) == y).mean()), float(likelihood)


def _extractor(reading: _Reading, share: float, codes: Tensor) -> Tensor:
    weights = torch.from_numpy(reading.weights)
    evidence = STEEPNESS * share * weights[:, :-1] @ codes[1:].double()
    return (evidence + weights[:, -1:] @ codes[:1].double()).float()
