r"""Banks of evidence, and the plane in which their evidence is matched to prototypes.

A *bank* examines a node in one way and gives evidence for every class. Three solve least squares on a random layer
over a node's own features and those up to hop 2 and 3, three compare slots with class means, and one averages the
evidence of nearby nodes. A bank is an atomic feature extractor of the paper: node extractors use the node itself,
structure extractors its neighbourhood.

Evidence z of a bank for a class becomes an *atomic embedding*, a direction in a plane that all banks, classes and
tasks share,

.. math:: e = \frac{b + \kappa z\, a}{\lVert b + \kappa z\, a \rVert}

whose angle states how strongly this bank supports this class. It is matched to the nearest of a fixed lattice of
:math:`\lfloor 2\pi / \arccos(1 - t) \rfloor` angles, the candidates for atomic prototypes. The evidence of the matched
prototypes, weighted by bank, is the evidence of the node level, which is matched on a coarser lattice; the class level
uses an even coarser one. Matching preserves the order of evidence, so the upper levels never change the predicted
class; they summarise it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from hpn.learners.hpn.partitions import Layer
from hpn.learners.hpn.statistics import LAYER_HOPS, MEAN_HOPS, ClassMeans, LeastSquares
from hpn.nn.encoder import ROWS, see
from hpn.nn.fold import cut, one_blas_thread, run_threads
from hpn.streams import GraphView

NEARBY_HOPS = 2
BANKS = (
    "its own features",
    "features up to 2 hops away",
    "features up to 3 hops away",
    "class means of its own features",
    "class means 1 hop away",
    "class means 2 hops away",
    "evidence of nearby nodes",
)
MANY_NODES = 1 << 18
"""A view with more nodes is very large."""
FEW = 16
"""Less than one in this many of the nodes of a view are few."""
STEEPNESS = 2.0
"""The factor κ: how fast the angle grows with the evidence."""
PRIOR = 4.0
"""Sum of the weights of all banks before they are fitted."""
LEAST_WEIGHT = 1e-3
"""If the sum of the fitted weights is smaller, the banks are wrong about the few nodes, and get equal weights."""
SHRINKAGE = 1.0
"""Penalty on the spread of the weights, in log-likelihood of a node."""


@dataclass(frozen=True)
class Plane:
    """A level's prototypes: a lattice of angles on the unit circle.

    Any two are at least the threshold apart (packing), and every direction has one within it (cover).
    """

    threshold: float  # cosine distance t

    @property
    def size(self) -> int:
        """The maximum number of prototypes (Theorem 1 in two dimensions)."""
        return max(1, math.floor(2 * math.pi / math.acos(1 - self.threshold) + 1e-9))

    def match(self, evidence: np.ndarray) -> np.ndarray:
        """The position of the nearest prototype; 0 is neutral, positive supports the class."""
        most = max(0, math.ceil(self.size / 4) - 1)  # evidence stays within a right angle of neutral
        position = np.rint(np.arctan(STEEPNESS * evidence) / self.angle(1))
        return np.asarray(np.clip(position, -most, most), dtype=np.int64)

    def evidence(self, position: np.ndarray) -> np.ndarray:
        """The evidence at a prototype."""
        return np.asarray(np.tan(self.angle(position)) / STEEPNESS)

    def snap(self, evidence: np.ndarray) -> np.ndarray:
        """The evidence of the nearest prototypes."""
        most = self.size // 4 + 1
        return np.asarray(self.evidence(np.arange(-most, most + 1))[self.match(evidence) + most])

    def angle(self, position: Any) -> Any:
        """The angle of a prototype; 0 is neutral."""
        return position * (2 * math.pi / self.size)

    def closest_cosine(self) -> float:
        """The largest cosine of two prototypes."""
        return math.cos(2 * math.pi / self.size) if self.size > 1 else -1.0


Weights = tuple[np.ndarray, np.ndarray]
"""Scales and weights of the banks."""


@dataclass(eq=False)
class Extractors:
    """Solved extractors of all banks, and the weights of the banks."""

    classes: list[int]  # class numbers, the columns of the evidence
    layers: list[LeastSquares]  # on the random layers
    means: list[ClassMeans]  # of the slots
    layer: Layer
    scales: np.ndarray = field(default_factory=lambda: np.ones(len(BANKS)))  # usual size of a bank's evidence
    weights: np.ndarray = field(default_factory=lambda: np.full(len(BANKS), PRIOR / len(BANKS)))
    _nearby: dict[GraphView, np.ndarray] = field(default_factory=dict)

    def evidence(self, view: GraphView, nodes: np.ndarray, *, to_weigh: bool = False) -> np.ndarray:
        """Evidence of each bank, centred over the classes and scaled ``[num_banks, len(nodes), C]``.

        Evidence that is only matched to prototypes may be rounded differently, so the last bank is computed for a few
        nodes alone; to fit weights (``to_weigh``), this is done for very large graphs only.
        """
        slots = see(view)
        if len(nodes):
            slots.prepare(LAYER_HOPS, *self.layer)
        is_few = len(nodes) < view.num_nodes // FEW and (view.num_nodes > MANY_NODES or not to_weigh)
        nearby = self._find_nearby(view, nodes, is_few)

        def look(rows: slice) -> np.ndarray:
            hidden = slots.layers(LAYER_HOPS, nodes[rows], *self.layer)
            banks = [layer.evidence(part) for layer, part in zip(self.layers, hidden, strict=True)]
            for hop, means in zip(MEAN_HOPS, self.means, strict=True):
                banks.append(means.evidence(slots.products(hop, means.vectors, nodes[rows])))
            found = np.stack([*banks, nearby[rows]])
            found -= found.mean(axis=2, keepdims=True)
            found /= self.scales[:, None, None].astype(found.dtype)
            return found

        return np.concatenate(run_threads(look, cut(len(nodes), ROWS)), axis=1)

    def _find_nearby(self, view: GraphView, nodes: np.ndarray, is_few: bool) -> np.ndarray:
        """Evidence of the layer with the farthest hop, averaged over nearby nodes.

        It is computed for all nodes of a view at once and kept, unless there are few query nodes.
        """
        slots = see(view)
        if is_few:  # even if all are known: a prediction must not depend on earlier queries
            return slots.smoothing.average(NEARBY_HOPS, nodes, partial(self._far_layer, view))
        if view not in self._nearby:
            found = self._far_layer(view, np.arange(view.num_nodes))
            self._nearby.clear()
            self._nearby[view] = slots.smooth_array(found, NEARBY_HOPS)
        return np.asarray(self._nearby[view][nodes])

    def nearby_shares(self, view: GraphView, node: int) -> tuple[np.ndarray, np.ndarray]:
        """Nearby nodes ``[n]``, and what each adds to the evidence of the last bank before scaling ``[n, C]``."""
        reach = see(view).smoothing.reach(np.array([node]), NEARBY_HOPS)
        return reach.indices, reach.data[:, None] * self._far_layer(view, reach.indices)

    def _far_layer(self, view: GraphView, nodes: np.ndarray) -> np.ndarray:
        slots = see(view)
        slots.prepare(LAYER_HOPS, *self.layer)

        def look(some: np.ndarray) -> np.ndarray:
            (hidden,) = slots.layers(LAYER_HOPS[-1:], some, *self.layer)
            return self.layers[-1].evidence(hidden).astype(np.float32)

        return np.concatenate(run_threads(look, [nodes[part] for part in cut(len(nodes), ROWS)]))

    def weigh(self, view: GraphView, nodes: np.ndarray, y: np.ndarray) -> Weights:
        """Fit scales and weights to labelled nodes that were not learned from.

        The weights correspond to the paper's selection of relevant extractors, based on what holds in this graph: one
        non-negative number per bank, by logistic regression with balanced classes. ``y`` are columns of the evidence.
        """
        evidence = replace(self, scales=np.ones(len(BANKS))).evidence(view, nodes, to_weigh=True)
        scales = np.maximum(np.sqrt((evidence**2).mean(axis=(1, 2))), 1e-9)
        return scales, fit_weights(evidence / scales[:, None, None], y)

    def __getstate__(self) -> dict[str, Any]:
        """Without the graph of the last query."""
        return {**self.__dict__, "_nearby": {}}

    def restrict(self, classes: list[int]) -> Extractors:
        """The same extractors for some of the classes."""
        at = [self.classes.index(label) for label in classes]
        layers = [LeastSquares(np.ascontiguousarray(weight[:, at]), bias[at]) for weight, bias in self.layers]
        means = [part._replace(directions=part.directions[at]) for part in self.means]
        return Extractors(list(classes), layers, means, self.layer, self.scales, self.weights)

    def state(self) -> dict[str, Any]:
        """As tensors."""
        arrays = {"scales": self.scales, "weights": self.weights}
        for at, (weight, bias) in enumerate(self.layers):
            arrays |= {f"layer{at}": weight, f"bias{at}": bias}
        for at, (center, directions) in enumerate(self.means):
            arrays |= {f"center{at}": center, f"means{at}": directions}
        tensors = {key: torch.from_numpy(value.copy()) for key, value in arrays.items()}
        return {"classes": self.classes, **self.layer._asdict(), **tensors}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Extractors:
        """The extractors of which :meth:`state` was the result."""
        value = {key: part.numpy().copy() for key, part in state.items() if isinstance(part, torch.Tensor)}
        layers = [LeastSquares(value[f"layer{at}"], value[f"bias{at}"]) for at in range(len(LAYER_HOPS))]
        means = [ClassMeans(value[f"center{at}"], value[f"means{at}"]) for at in range(len(MEAN_HOPS))]
        layer = Layer(state["width"], state["seed"])
        return cls(list(state["classes"]), layers, means, layer, value["scales"], value["weights"])


def fit_weights(evidence: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Non-negative weights of banks by class-balanced logistic regression, shrunk towards each other.

    Shapes:
        - ``evidence``: ``[num_banks, n, C]``
        - ``y``: ``[n]``
        - result: ``[num_banks]``
    """
    from scipy.optimize import minimize  # slow to import, and often not needed

    num_banks, count, num_classes = evidence.shape
    share = 1 / np.bincount(y, minlength=num_classes).clip(1)[y]
    share *= count / share.sum()
    rows = np.arange(count)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = np.tensordot(weights, evidence, 1)
        logits -= logits.max(axis=1, keepdims=True)
        log_proba = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        gap = np.exp(log_proba)
        gap[rows, y] -= 1
        spread = weights - weights.mean()
        value = -(share * log_proba[rows, y]).sum() + SHRINKAGE * (spread**2).sum()
        return value, np.einsum("nc,bnc->b", gap * share[:, None], evidence) + 2 * SHRINKAGE * spread

    start = np.full(num_banks, PRIOR / num_banks)
    bounds = [(0, None)] * num_banks
    with one_blas_thread():  # seven numbers are not worth a second thread
        found = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    return np.asarray(found if found.sum() > LEAST_WEIGHT else start)
