r"""The extractor of one task: least squares on one slot, chosen on held-out nodes and frozen.

With the task given there are few classes, and what distinguishes them differs from task to task. So each task chooses
one slot (own features or a hop; a mean or the symmetric normalisation; unit or raw rows) and one strength of
regularisation, by accuracy on held-out nodes and then by their log-likelihood. Held-out nodes are the validation nodes
and, if there are at least as many, the training nodes, each predicted from the others:

.. math:: \hat{t}_i - t_i = \frac{(\hat{T} - T)_i}{1 - \ell_i}

where :math:`\ell_i` is the leverage of node i.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy  # whose parts are imported when they are first used
import torch

from hpn.learners.hpn.partitions import Labelled, given_slots, measure_rows, smooth_columns
from hpn.nn.encoder import Block, Features, scale_rows, see, to_dense
from hpn.nn.fold import current_runner
from hpn.nn.smoothing import Normalization
from hpn.streams import GraphView

HOPS = (0, 1, 2, 3)
ARRAYS = ("weight", "bias", "positions")
NORMALIZATIONS: tuple[Normalization, ...] = ("row", "sym")
STRENGTHS = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0)
"""Regularisation as multiples of the mean squared length of a centred row."""
LARGEST_SYSTEM = 4096
"""Maximum number of nodes if there are more features than this as well."""
MOST_NODES = 1 << 14
"""Maximum number of nodes."""


@dataclass(frozen=True, eq=False)
class TaskExtractor:
    """Evidence for the classes of a task from one slot."""

    hop: int
    normalization: Normalization
    is_unit: bool  # whether rows are scaled to length 1
    weight: np.ndarray  # [num_features, C]
    bias: np.ndarray  # [C]
    scale: float  # usual size of the evidence
    positions: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # atomic prototypes of training nodes

    def evidence(self, view: GraphView, nodes: np.ndarray) -> np.ndarray:
        """Evidence for each class, centred and scaled ``[len(nodes), C]``."""
        slots = see(view, self.normalization)
        found = slots.project(self.hop, self.weight, nodes)
        if self.is_unit:
            found = found / slots.lengths(self.hop, nodes)[:, None]
        found = found + self.bias
        return np.asarray((found - found.mean(axis=1, keepdims=True)) / self.scale)

    def describe(self) -> str:
        """The name of the slot."""
        if self.hop == 0:
            return "its own features"
        return f"the mean over its neighbourhood, {self.hop} {'hop' if self.hop == 1 else 'hops'} away"

    def state(self) -> dict[str, Any]:
        """As tensors and numbers."""
        numbers = {name: getattr(self, name) for name in ("hop", "normalization", "is_unit", "scale")}
        return numbers | {name: torch.from_numpy(getattr(self, name).copy()) for name in ARRAYS}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> TaskExtractor:
        """The extractor of which :meth:`state` was the result."""
        return cls(**{**state, **{name: state[name].numpy().copy() for name in ARRAYS}})


Candidate = tuple[tuple[float, float], TaskExtractor]
"""The score of an extractor on held-out nodes, and the extractor."""


def choose_extractor(view: GraphView, train: Labelled, val: Labelled, num_classes: int) -> TaskExtractor:
    """Solve the extractor of a task for every slot and strength, and keep the best on held-out nodes.

    Classes of ``train`` and ``val`` are positions in the task; there may be no validation nodes.
    """
    is_large = len(train[0]) > MOST_NODES  # then only the slots of the pooled sums are tried
    is_wide = min(len(train[0]), view.num_features) > LARGEST_SYSTEM
    # Nodes of a task arrive in random order, so the sample is fair.
    train, val = _sample(train, LARGEST_SYSTEM if is_wide else MOST_NODES), _sample(val, MOST_NODES)
    pool, smoothed = current_runner(), {}
    candidates: list[Candidate] = []
    for normalization in NORMALIZATIONS[:1] if is_large else NORMALIZATIONS:
        hops = [hop for hop in HOPS if hop > 0 or normalization == "row"]
        smoothed[normalization] = smooth_columns(view, normalization)
        shared = pool.share(view), normalization, train, val, num_classes, *smoothed[normalization]
        for found in pool.get(pool.map(_try_slot, hops, *shared)):
            candidates += found
    best = max(candidates, key=lambda candidate: candidate[0])[1]  # the first of the best
    if best.is_unit:
        measure_rows(view, best.normalization, best.hop, smoothed[best.normalization])
    return best


def _sample(labelled: Labelled, most: int) -> Labelled:
    nodes, y = labelled
    some = np.linspace(0, len(nodes) - 1, most).astype(np.int64) if len(nodes) > most else slice(None)
    return nodes[some], y[some]


def _try_slot(
    hop: int,
    view: GraphView,
    normalization: Normalization,
    train: Labelled,
    val: Labelled,
    num_classes: int,
    *blocks: Block,
) -> list[Candidate]:
    """The best extractors on a slot, with unit and with raw rows, and their scores."""
    slots, found = given_slots(view, normalization, blocks), []
    for is_unit in (True, False):
        x, x_val = (slots.smoothed(hop, nodes) for nodes in (train[0], val[0]))
        if is_unit:
            x, x_val = scale_rows(x), scale_rows(x_val)
        candidates = []
        for weight, bias, left_out in solve_path(x, np.eye(num_classes)[train[1]]):
            held, y = np.asarray(x_val @ weight) + bias, val[1]
            if len(train[1]) >= len(y):
                held, y = np.concatenate([held, left_out]), np.concatenate([y, train[1]])
            held = held - held.mean(axis=1, keepdims=True)
            scale = max(float(np.sqrt((held**2).mean())), 1e-9)
            arrays = weight.astype(np.float32), bias.astype(np.float32)
            extractor = TaskExtractor(hop, normalization, is_unit, *arrays, scale)
            candidates.append((_score(held / scale, y), extractor))
        found.append(max(candidates, key=lambda candidate: candidate[0]))
    return found


def solve_path(x: Features, target: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield weights, intercept, and each training row predicted from the others, for each strength.

    Whichever of ``x.T @ x`` and ``x @ x.T`` is smaller is decomposed, once for all strengths.
    """
    count = x.shape[0]
    x = x.astype(np.float64)
    mean, level = np.asarray(x.mean(axis=0)).ravel(), target.mean(axis=0)
    centred = target - level
    if count <= x.shape[1]:
        gram = to_dense(x @ x.T)
        rows = gram.mean(axis=1, keepdims=True)
        values, basis = np.linalg.eigh(gram - rows - rows.T + gram.mean())
    else:
        values, basis = np.linalg.eigh(to_dense(x.T @ x) - count * np.outer(mean, mean))
    values = np.maximum(values, 0)
    unit = max(values.sum() / count, 1e-9 * float(mean @ mean), 1e-12)
    if count <= x.shape[1]:
        along = basis.T @ centred
        for strength in STRENGTHS:
            dual = basis @ (along / (values + strength * unit)[:, None])
            weight = np.asarray(x.T @ dual) - np.outer(mean, dual.sum(axis=0))
            leverage = (basis**2) @ (values / (values + strength * unit)) + 1 / count
            fitted = target - strength * unit * dual
            yield weight, level - mean @ weight, _leave_out(fitted, target, leverage)
        return
    rotated = np.asarray(x @ basis) - mean @ basis
    along = rotated.T @ centred
    for strength in STRENGTHS:
        inner = along / (values + strength * unit)[:, None]
        weight = basis @ inner
        leverage = (rotated**2) @ (1 / (values + strength * unit)) + 1 / count
        yield weight, level - mean @ weight, _leave_out(rotated @ inner + level, target, leverage)


def _leave_out(fitted: np.ndarray, target: np.ndarray, leverage: np.ndarray) -> np.ndarray:
    own = np.minimum(leverage, 1 - 1e-6)[:, None]
    return np.asarray((fitted - own * target) / (1 - own))


def _score(evidence: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Accuracy, and mean log-likelihood to break ties."""
    likelihood = scipy.special.log_softmax(2 * evidence, axis=1)[np.arange(len(y)), y].mean()
    return round(float((evidence.argmax(axis=1) == y).mean()), 9), float(likelihood)
