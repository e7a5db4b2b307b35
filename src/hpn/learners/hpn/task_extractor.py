r"""The extractor of one task: least squares on one slot, chosen on held-out nodes and frozen.

With the task given there are few classes to tell apart, and what tells them apart differs from task to
task. So each task chooses one slot (own features or a hop, a mean or the symmetric normalisation,
directions or lengths as they are) and one strength of regularisation, by accuracy on held-out nodes and
then by their log-likelihood. Held-out nodes are the validation nodes and, where there are at least as many,
the training nodes, each predicted from the others:

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
from hpn.nn.encoder import Block, Features, is_csr, scale_rows, see
from hpn.nn.fold import current_runner
from hpn.nn.smoothing import Normalization
from hpn.streams import GraphView

HOPS = (0, 1, 2, 3)
NORMALIZATIONS: tuple[Normalization, ...] = ("row", "sym")
STRENGTHS = (0.01, 0.1, 1.0, 3.0, 10.0, 30.0)
"""Regularisation as multiples of the mean squared length of a centred row."""
LARGEST_SYSTEM = 4096
"""Nodes used at most where there are more features than this as well."""
MOST_NODES = 1 << 14
"""Nodes used at most."""


@dataclass(frozen=True, eq=False)
class TaskExtractor:
    """Evidence for the classes of a task from one slot.

    Args:
        hop: Which slot.
        normalization: How neighbourhoods are averaged.
        is_unit: Whether rows are scaled to length 1.
        weight: ``[num_features, C]``.
        bias: ``[C]``.
        scale: The usual size of the evidence.
        positions: Atomic prototypes that training nodes are matched to.
    """

    hop: int
    normalization: Normalization
    is_unit: bool
    weight: np.ndarray
    bias: np.ndarray
    scale: float
    positions: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def evidence(self, view: GraphView, nodes: np.ndarray) -> np.ndarray:
        """Evidence for each class, centred and scaled ``[len(nodes), C]``."""
        slots = see(view, self.normalization)
        found = slots.project(self.hop, self.weight, nodes)
        if self.is_unit:
            found = found / slots.lengths(self.hop, nodes)[:, None]
        found = found + self.bias
        return np.asarray((found - found.mean(axis=1, keepdims=True)) / self.scale)

    def describe(self) -> str:
        """What it looks at."""
        if self.hop == 0:
            return "its own features"
        return f"the mean over its neighbourhood, {self.hop} {'hop' if self.hop == 1 else 'hops'} away"

    def state(self) -> dict[str, Any]:
        """As tensors and numbers."""
        return {
            "hop": self.hop,
            "normalization": self.normalization,
            "is_unit": self.is_unit,
            "scale": self.scale,
            "weight": torch.from_numpy(self.weight.copy()),
            "bias": torch.from_numpy(self.bias.copy()),
            "positions": torch.from_numpy(self.positions.copy()),
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> TaskExtractor:
        """Make it again of :meth:`state`."""
        arrays = {name: state[name].numpy().copy() for name in ("weight", "bias", "positions")}
        return cls(state["hop"], state["normalization"], state["is_unit"], **arrays, scale=state["scale"])


Candidate = tuple[tuple[float, float], TaskExtractor]
"""How good an extractor is on held-out nodes, and the extractor."""


def choose_extractor(view: GraphView, train: Labelled, val: Labelled, num_classes: int) -> TaskExtractor:
    """Solve the extractor of a task for every slot and strength, and keep the best on held-out nodes.

    Args:
        view: The graph.
        train: Training nodes, and the positions of their classes in the task.
        val: The same of validation nodes; there may be none.
        num_classes: Classes of the task.
    """
    is_large = len(train[0]) > MOST_NODES  # then only what was smoothed for the pooled sums is tried
    is_wide = min(len(train[0]), view.num_features) > LARGEST_SYSTEM
    # Nodes of a task come in a drawn order, so some of them are a fair sample.
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
    """The best extractor on a slot, with directions and with lengths as they are, and how good it is."""
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
        gram = _dense(x @ x.T)
        rows = gram.mean(axis=1, keepdims=True)
        values, basis = np.linalg.eigh(gram - rows - rows.T + gram.mean())
    else:
        values, basis = np.linalg.eigh(_dense(x.T @ x) - count * np.outer(mean, mean))
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


def _dense(matrix: Features) -> np.ndarray:
    return np.asarray(matrix.toarray() if is_csr(matrix) else matrix)
