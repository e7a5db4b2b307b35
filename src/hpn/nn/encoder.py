r"""What is seen of a node without learning: its features, its neighbourhood's, and a frozen random layer.

The *slots* of node v are its own features and the means over its neighbourhood at hop 1, 2, …, as directions:

.. math:: u_{v,k} = \frac{(\hat{A}^k X)_v}{\lVert (\hat{A}^k X)_v \rVert} \qquad
          h_v^{(K)} = \max\Bigl(0, \sum_{k=0}^{K} 2^{k-K} P_k^\top u_{v,k}\Bigr)

where :math:`\hat{A}` is the normalised adjacency matrix with self-loops and the entries of :math:`P_k` are
:math:`\pm 1`, drawn from a seed and never stored. A farther hop weighs more, because it is smoother.

**Whole numbers.** Slots are rounded to multiples of :math:`2^{-12}` and h to 7 bits. Products of whole
numbers are exact in single precision as long as no sum passes :math:`2^{24}`, so h does not depend on which
nodes are encoded together, on threads or on the BLAS library, and sums over nodes are the same in any order.

**Project first, then smooth.** Sparse features with more columns than ``width`` would fill up when smoothed;
there :math:`\hat{A}^k (X P_k)` is computed, and lengths are taken after the projection, which preserves them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse, to_scipy
from hpn.nn.device import CPU
from hpn.streams import GraphView

Normalization = Literal["sym", "row"]
Features = Any
"""A SciPy CSR matrix or a NumPy array, ``[num_nodes, num_features]``: both index and multiply alike."""

MOST = 127
"""The largest value of h; two of them multiply to less than 2**14, so that 1,024 products add up exactly."""
STEPS = 24.0
"""Steps of h for one standard deviation of the random layer, about."""
SLOT_BITS = 12
WIDE = 2000
"""Sparse features with more columns than this are projected before they are smoothed."""
SKETCH = 512
"""Random projections from which lengths of smoothed rows are estimated where these are not computed."""
MOSTLY_FULL = 0.2
ROWS_AT_ONCE = 8192
FEW = 16
"""Less than one node in so many is encoded on its own, and not with all others."""
KEPT_LAYERS = 1 << 26
"""Encoded nodes of a view are kept if those of all take at most so many bytes."""
KEPT_BYTES = 1 << 28
"""What is kept of recently seen views."""


class Slots:
    r"""Slots of all nodes of a view, computed when they are first needed and kept.

    Args:
        view: The graph.
        normalization: How :math:`\hat{A}` is scaled: ``row`` (a mean) or ``sym``.

    Example:
        >>> import torch
        >>> view = GraphView(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0, 1], [1, 0]]))
        >>> Slots(view).smoothed(1, np.array([0, 1])).tolist()
        [[0.5, 1.0], [0.5, 1.0]]
    """

    def __init__(self, view: GraphView, normalization: Normalization = "row") -> None:
        x = view.x
        self.x: Features = sp.csr_matrix(to_scipy(x)) if is_sparse(x) else x.float().numpy()
        self.adjacency = normalize_adjacency(view, normalization)
        self.num_features = view.num_features
        self.is_wide = is_csr(self.x) and self.num_features > WIDE
        self._smoothed: list[Features] = [self.x]
        self._units: dict[int, np.ndarray] = {}
        self._sketch: np.ndarray | None = None
        self._lengths: list[np.ndarray] = []
        self._layers: dict[tuple[int, int, int], np.ndarray] = {}
        self._is_encoded: dict[tuple[int, int, int], np.ndarray] = {}

    @property
    def num_bytes(self) -> int:
        """What is kept."""
        kept = [*self._smoothed, *self._units.values(), *self._layers.values(), self.adjacency]
        kept += [] if self._sketch is None else [self._sketch]
        return sum(part.data.nbytes * (2 if is_csr(part) else 1) for part in kept)

    def smoothed(self, hop: int, nodes: np.ndarray) -> Features:
        r"""Rows of :math:`\hat{A}^k X`, an array or a sparse matrix ``[len(nodes), num_features]``."""
        if self.is_wide and hop > 0:
            return _fill(_reach(self.adjacency, nodes, hop) @ self.x)
        while len(self._smoothed) <= hop:
            self._smoothed.append(_fill(self.adjacency @ self._smoothed[-1]))
        return self._smoothed[hop][nodes]

    def unit_rows(self, hop: int, nodes: np.ndarray) -> Features:
        """Directions of :meth:`smoothed` rows, as multiples of ``2**-bits``: whole numbers."""
        scale = 2.0 ** slot_bits(self.num_features)
        if self.is_wide:
            # Always sparse: what else is asked for must not decide how a row is computed.
            rows = _reach(self.adjacency, nodes, hop) @ self.x if hop else self.x[nodes]
            return (scale_rows(rows) * np.float32(scale)).rint()
        if hop not in self._units:
            count = self.adjacency.shape[0]
            is_few = len(nodes) < count // FEW
            rows = self.smoothed(hop, nodes if is_few else np.arange(count))
            units = np.rint(scale_rows(rows.toarray() if is_csr(rows) else rows) * np.float32(scale))
            if is_few:
                return units
            self._units[hop] = units
        return self._units[hop][nodes]

    def products(self, hop: int, vectors: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Inner products of slots with vectors ``[m, num_features]``: ``[len(nodes), m]``."""
        if not self.is_wide:
            weights = (2.0 ** -slot_bits(self.num_features) * vectors.T).astype(np.float32)
            starts = range(0, max(1, len(nodes)), ROWS_AT_ONCE)
            return np.concatenate(
                [self.unit_rows(hop, nodes[at : at + ROWS_AT_ONCE]) @ weights for at in starts]
            )
        found = np.asarray(self.x @ vectors.T.astype(np.float32))
        for _ in range(hop):
            found = self.adjacency @ found
        return np.asarray(found[nodes] / self._length(hop)[nodes, None])

    def layers(self, hops: Sequence[int], nodes: np.ndarray, width: int, seed: int) -> list[np.ndarray]:
        """The random layer for several K: whole numbers up to ``MOST`` in single precision.

        Shapes:
            - each result: ``[len(nodes), width]``
        """
        if self.is_wide:
            if any((hop, width, seed) not in self._layers for hop in hops):
                self._project(hops, width, seed)
            return [self._layers[hop, width, seed][nodes].astype(np.float32) for hop in hops]
        count = self.adjacency.shape[0]
        if 4 * count * width > KEPT_LAYERS:
            found = self._encode(range(max(hops) + 1), nodes, width, seed)
            return [found[hop] for hop in hops]
        # Whole numbers do not depend on which nodes are encoded together, so each is encoded once.
        is_known = self._is_encoded.setdefault((max(hops), width, seed), np.zeros(count, bool))
        new = np.unique(nodes[~is_known[nodes]])
        for hop, rows in enumerate(self._encode(range(max(hops) + 1), new, width, seed)):
            kept = self._layers.setdefault((hop, width, seed), np.zeros((count, width), np.uint8))
            kept[new] = rows
        is_known[new] = True
        return [self._layers[hop, width, seed][nodes].astype(np.float32) for hop in hops]

    def _encode(self, hops: range, nodes: np.ndarray, width: int, seed: int) -> list[np.ndarray]:
        """The random layer of nodes for each K in ``hops``."""
        bits, found = slot_bits(self.num_features), []
        total = torch.zeros(len(nodes), width, device=CPU)
        for hop in hops:
            signs = recent_signs(self.num_features, width, seed, hop)
            total.addmm_(torch.from_numpy(self.unit_rows(hop, nodes)), torch.from_numpy(signs), alpha=2**hop)
            found.append(_round_layer(total, 2.0 ** -(hop + bits)).numpy())
        return found

    def layer_parts(self, hop: int, nodes: np.ndarray, width: int, seed: int) -> np.ndarray:
        """What each slot adds to the random layer where that is not 0 ``[hop + 1, len(nodes), width]``."""
        scale = np.float32(STEPS * 2.0 ** -(hop + slot_bits(self.num_features)))
        parts = [
            scale
            * np.float32(2**at)
            * (self.unit_rows(at, nodes) @ draw_signs(self.num_features, width, seed, at))
            for at in range(hop + 1)
        ]
        (hidden,) = self.layers([hop], nodes, width, seed)
        return np.stack(parts) * (hidden > 0)

    def average(self, hops: int, nodes: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Averages of a score over the neighbourhood, ``hops`` times; ``score`` is asked for nodes nearby.

        Rounded as if the score of all nodes were multiplied with the adjacency matrix.
        """
        if hops == 0:
            return score(nodes)
        rows = self.adjacency[nodes]
        near = np.unique(rows.indices)
        parts = (rows.data, np.searchsorted(near, rows.indices), rows.indptr)
        return np.asarray(
            sp.csr_matrix(parts, shape=(len(nodes), len(near))) @ self.average(hops - 1, near, score)
        )

    def reach(self, nodes: np.ndarray, hops: int) -> sp.csr_matrix:
        r"""Rows of :math:`\hat{A}^k`: what each node of the graph counts in the slots of ``nodes``."""
        return _reach(self.adjacency, nodes, hops)

    def _project(self, hops: Sequence[int], width: int, seed: int) -> None:
        """Encode all nodes: project once, then smooth and scale hop by hop."""
        total = torch.zeros(self.adjacency.shape[0], width, device=CPU)
        part = np.asarray(self.x @ draw_signs(self.num_features, width, seed, 0))
        for hop in range(max(hops) + 1):
            part = self.adjacency @ part if hop else part
            length = _lengths(part) / np.float32(width**0.5)
            factor = torch.from_numpy(np.float32(2**hop) / length)[:, None]
            first, rows = _shift(width, hop), torch.from_numpy(part)
            total[:, first:].addcmul_(rows[:, : width - first], factor)
            total[:, :first].addcmul_(rows[:, width - first :], factor)
            if hop in hops:
                starts = range(0, len(total), ROWS_AT_ONCE)
                blocks = (_round_layer(total[at : at + ROWS_AT_ONCE], 2.0**-hop) for at in starts)
                rounded = [block.to(torch.uint8) for block in blocks]
                self._layers[hop, width, seed] = torch.cat(rounded).numpy()

    def _length(self, hop: int) -> np.ndarray:
        while len(self._lengths) <= hop:
            if self._sketch is None:
                self._sketch = np.asarray(self.x @ draw_signs(self.num_features, SKETCH, 0, 0))
            else:
                self._sketch = self.adjacency @ self._sketch
            self._lengths.append(_lengths(self._sketch) / np.float32(SKETCH**0.5))
        return self._lengths[hop]


_RECENT: OrderedDict[tuple[int, Normalization], tuple[GraphView, Slots]] = OrderedDict()


def see(view: GraphView, normalization: Normalization = "row") -> Slots:
    """The slots of a view; those of recently seen views are kept."""
    key = (id(view), normalization)
    found = _RECENT.pop(key, None)
    slots = found[1] if found is not None and found[0] is view else Slots(view, normalization)
    spare = KEPT_BYTES - sum(other.num_bytes for _, other in _RECENT.values())
    while _RECENT and spare < slots.num_bytes:
        spare += _RECENT.popitem(last=False)[1][1].num_bytes
    _RECENT[key] = view, slots
    return slots


def normalize_adjacency(view: GraphView, normalization: Normalization = "row") -> sp.csr_matrix:
    r"""The matrix :math:`\hat{A}`: with self-loops, :math:`D^{-1} A` or :math:`D^{-1/2} A D^{-1/2}`."""
    ones = np.ones(len(view.indices), dtype=np.float32)
    shape = (view.num_nodes, view.num_nodes)
    matrix = sp.csr_matrix((ones, view.indices.numpy(), view.indptr.numpy()), shape=shape)
    matrix = matrix + sp.eye_array(view.num_nodes, dtype=np.float32, format="csr")
    degree = np.asarray(matrix.sum(axis=1)).ravel()
    if normalization == "row":
        return sp.csr_matrix(sp.diags_array(1 / degree) @ matrix)
    scale = sp.diags_array(degree**-0.5)
    return sp.csr_matrix(scale @ matrix @ scale)


def slot_bits(num_features: int) -> int:
    """Bits of a slot: 12, or as many as let sums over four hops stay exact with very many features."""
    return min(SLOT_BITS, int(24 - np.log2(15 * max(num_features, 1) ** 0.5)))


def draw_signs(num_features: int, width: int, seed: int, hop: int) -> np.ndarray:
    """The matrix of ±1 of a hop ``[num_features, width]``, the same for a seed on every machine.

    Hops share one matrix with its columns shifted. Each random feature still sees every hop in a direction of
    its own, and features that are projected first need only be projected once.
    """
    count = num_features * width
    bits = np.random.PCG64(seed & 0xFFFFFFFF).random_raw(-(-count // 64)).view(np.uint8)
    signs = np.unpackbits(bits, count=count).astype(np.float32)
    signs *= 2
    signs -= 1
    return np.roll(signs.reshape(num_features, width), _shift(width, hop), axis=1)


def _shift(width: int, hop: int) -> int:
    return hop * (width // 8 + 1) % width


recent_signs = lru_cache(maxsize=4)(draw_signs)


def is_csr(rows: Features) -> bool:
    """Whether features are a sparse matrix."""
    return bool(sp.issparse(rows))


def scale_rows(rows: Features) -> Features:
    """Rows of length 1; rows of zeros stay zero. Sparse rows stay sparse."""
    if is_csr(rows):
        return sp.csr_matrix(sp.diags_array(1 / _lengths(rows)) @ rows)
    return rows / _lengths(rows)[:, None]


def _lengths(rows: Features) -> np.ndarray:
    if is_csr(rows):
        squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", rows, rows)
    return np.asarray(np.maximum(np.sqrt(squares), np.float32(1e-12)), dtype=np.float32)


def _round_layer(total: Tensor, scale: float) -> Tensor:
    return total.mul(STEPS * scale).round_().clamp_(0, MOST)


def _reach(adjacency: sp.csr_matrix, nodes: np.ndarray, hops: int) -> sp.csr_matrix:
    """Rows of a power of the adjacency matrix."""
    reach = adjacency[nodes]
    for _ in range(hops - 1):
        reach = reach @ adjacency
    return sp.csr_matrix(reach)


def _fill(rows: Features) -> Features:
    """Sparse rows as an array if they are mostly full."""
    if is_csr(rows) and rows.nnz > MOSTLY_FULL * rows.shape[0] * rows.shape[1]:
        return rows.toarray()
    return rows
