r"""The encoding of a node that needs no learning: its features, those of its neighbourhood, a frozen random layer.

The *slots* of node v are its own features and the means over its neighbourhood at hop 1, 2, …, as directions:

.. math:: u_{v,k} = \frac{(\hat{A}^k X)_v}{\lVert (\hat{A}^k X)_v \rVert} \qquad
          h_v^{(K)} = \max\Bigl(0, \sum_{k=0}^{K} 2^{k-K} P_k^\top u_{v,k}\Bigr)

where :math:`\hat{A}` is the normalised adjacency matrix with self-loops and the entries of :math:`P_k` are
:math:`\pm 1`, drawn from a seed and never stored. A farther hop weighs more, because it is smoother.

**Whole numbers.** Slots are rounded to multiples of :math:`2^{-12}` and h to 7 bits. Products of whole numbers are
exact in single precision as long as no sum exceeds :math:`2^{24}`. So h does not depend on which nodes are encoded
together, on threads or on the BLAS library, and sums over nodes are the same in any order.

**Columns, then rows.** Columns of :math:`\hat{A}^k X` are independent: blocks of them are smoothed separately. Then
rows are encoded, some at a time. Smoothed columns of large graphs are kept in temporary files.

**Project first, then smooth.** Sparse features with many columns would become dense when smoothed. For them
:math:`\hat{A}^k (X P_k)` is computed, and lengths are measured after the projection, which preserves them.
"""

from __future__ import annotations

import math
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from hpn.datasets.sparse import to_scipy
from hpn.nn.device import CPU
from hpn.nn.fold import cut, run_threads
from hpn.nn.smoothing import Normalization, Smoothing
from hpn.streams import GraphView

Features = Any
"""A SciPy CSR matrix or a NumPy array, ``[num_nodes, num_features]``: both index and multiply alike."""
Base = tuple[int, int] | None
"""What is smoothed: the features, or (``width``, ``seed``) of their projection."""
Block = list[Any]
"""Some columns at hop 0, 1, …: arrays ``[num_nodes, n]``, or files from which rows are read."""

MOST = 127
"""The largest value of h; products of two are below 2**14, so that sums of 1,024 products are exact."""
STEPS = 24.0
"""Steps of h per standard deviation of the random layer, approximately."""
SLOT_BITS = 12
WIDE = 2000
"""Sparse features with more columns than this are projected before they are smoothed."""
SKETCH = 512
"""Random projections from which lengths of smoothed rows are estimated if the rows are not computed."""
COLUMNS, ROWS = 32, 4096
"""Columns that are smoothed at once, and rows that are encoded at once."""
IN_MEMORY = 1 << 26
"""An array over all nodes with more bytes than this is kept in a temporary file."""
KEPT_BYTES = 1 << 27
"""Bytes of smoothed columns that are kept of recently used views."""


class Slots:
    r"""Slots of all nodes of a view, computed when they are first needed.

    Args:
        view: The graph.
        normalization: How :math:`\hat{A}` is scaled: ``row`` (a mean) or ``sym``.

    Attributes:
        is_wide: Whether features are projected before they are smoothed.
        smoothing: Multiplies with :math:`\hat{A}`.
        blocks: Smoothed columns.
        row_lengths: Lengths of smoothed rows by hop, estimated if they are wide.
    """

    def __init__(self, view: GraphView, normalization: Normalization = "row") -> None:
        self.num_nodes, self.num_features = view.num_nodes, view.num_features
        self.is_wide = view.is_sparse and self.num_features > WIDE
        self.smoothing = Smoothing(view, normalization)
        self.blocks: dict[Base, list[Block]] = {}
        self.row_lengths: dict[int, np.ndarray] = {}
        self._features: Any = sp.csr_matrix(to_scipy(view.x)) if view.is_sparse else view.features
        self._sketch: np.ndarray | None = None
        self._layers: dict[tuple[int, int, int], Any] = {}

    def features(self, nodes: np.ndarray) -> Features:
        """Features of nodes; sparse ones stay sparse."""
        if isinstance(self._features, Tensor):
            return self._features.numpy()[nodes].astype(np.float32, copy=False)
        if is_csr(self._features):
            return self._features[nodes]
        return np.asarray(self._features.take(torch.from_numpy(nodes)))

    def smoothed(self, hop: int, nodes: np.ndarray) -> Features:
        r"""Rows of :math:`\hat{A}^k X` ``[len(nodes), num_features]``; sparse if they are wide."""
        if self.is_wide:
            return self.smoothing.reach(nodes, hop) @ self._features if hop else self._features[nodes]
        if hop == 0:
            return to_dense(self.features(nodes))
        return np.hstack([block[hop][nodes] for block in self.smooth(hop)])

    def smooth(self, hop: int, base: Base = None) -> list[Block]:
        """Smooth all columns up to a hop, blocks of them in parallel, and keep them."""
        if base not in self.blocks:
            parts = self.column_parts(base)
            first = [self._allocate(part.stop - part.start, base) for part in parts]

            def fill(rows: slice) -> None:
                values = self._unsmoothed(rows, base)
                for part, columns in zip(parts, first, strict=True):
                    columns[rows] = values[:, part]

            run_threads(fill, cut(self.num_nodes, ROWS))
            self.blocks[base] = [[columns] for columns in first]
        if len(self.blocks[base][0]) <= hop:
            self.blocks[base] = run_threads(self._extend, self.blocks[base], hop, base)
            _keep_recent(self)
        return self.blocks[base]

    def _extend(self, block: Block, hop: int, base: Base) -> Block:
        """Smooth a block further, up to a hop."""
        block = [*block]
        for columns in self._powers(block[-1][:], hop + 1 - len(block)):
            block.append(self._allocate(columns.shape[1], base))
            block[-1][:] = columns
        return block

    def _powers(self, columns: np.ndarray, count: int) -> Iterator[np.ndarray]:
        for _ in range(count):
            columns = self.smoothing(columns)
            yield columns

    def smooth_block(self, number: int, hop: int, base: Base = None) -> Block:
        """One block of columns up to a hop; it is not kept."""
        part = self.column_parts(base)[number]
        first = np.concatenate([self._unsmoothed(rows, base, part) for rows in cut(self.num_nodes, ROWS)])
        return [first, *self._powers(first, hop)]

    def column_parts(self, base: Base) -> list[slice]:
        """The columns of each block."""
        return cut(self.num_features if base is None else base[0], COLUMNS)

    def _unsmoothed(self, rows: slice, base: Base, part: slice = slice(None)) -> np.ndarray:
        features = self.features(np.arange(rows.start, rows.stop))
        if base is not None:
            return np.asarray(features @ np.ascontiguousarray(recent_signs(self.num_features, *base, 0)[:, part]))
        return to_dense(features[:, part])

    def _allocate(self, num_columns: int, base: Base) -> Any:
        num_bytes = 4 * self.num_nodes * (self.num_features if base is None else base[0])
        return allocate((self.num_nodes, num_columns), np.float32, num_bytes)

    def lengths(self, hop: int, nodes: np.ndarray) -> np.ndarray:
        """Lengths of :meth:`smoothed` rows; those of rows that are not wide are kept."""
        if self.is_wide:
            return _lengths(self.smoothed(hop, nodes))
        if hop not in self.row_lengths:
            self.smooth(hop)
            self.row_lengths[hop] = np.concatenate(run_threads(self.measure, cut(self.num_nodes, ROWS), hop))
        return np.asarray(self.row_lengths[hop][nodes])

    def measure(self, part: slice, hop: int) -> np.ndarray:
        """Lengths of a part of the smoothed rows."""
        nodes = np.arange(part.start, part.stop)
        return np.concatenate([_lengths(self.smoothed(hop, nodes[rows])) for rows in cut(len(nodes), ROWS)])

    def project(self, hop: int, weight: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        r"""Rows of :math:`\hat{A}^k X W` for a few columns W ``[num_features, n]``; projected first."""
        if hop == 0:
            return np.asarray(self.features(nodes) @ weight)
        products = run_threads(lambda part: self.features(part) @ weight, self._node_parts())
        return np.asarray(self.smooth_array(np.concatenate(products), hop)[nodes])

    def _node_parts(self) -> list[np.ndarray]:
        return [np.arange(part.start, part.stop) for part in cut(self.num_nodes, ROWS)]

    def smooth_array(self, x: np.ndarray, hops: int) -> np.ndarray:
        """Smooth an array ``[num_nodes, n]``, blocks of columns in parallel."""

        def smooth(part: slice) -> np.ndarray:
            columns = np.ascontiguousarray(x[:, part])
            for _ in range(hops):
                columns = self.smoothing(columns)
            return columns

        return np.hstack(run_threads(smooth, cut(x.shape[1], max(1, min(COLUMNS, x.shape[1] // 2)))))

    def unit_rows(self, hop: int, nodes: np.ndarray) -> Features:
        """Directions of :meth:`smoothed` rows, as multiples of ``2**-bits``: whole numbers."""
        rows = scale_rows(self.smoothed(hop, nodes)) * np.float32(2.0 ** slot_bits(self.num_features))
        return rows.rint() if is_csr(rows) else np.rint(rows, out=rows)

    def products(self, hop: int, vectors: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Inner products of slots with vectors ``[m, num_features]``: ``[len(nodes), m]``."""
        if not self.is_wide:
            weights = (2.0 ** -slot_bits(self.num_features) * vectors.T).astype(np.float32)
            return np.asarray(self.unit_rows(hop, nodes) @ weights)
        products = self.project(hop, vectors.T.astype(np.float32), nodes)
        return np.asarray(products / self._sketched_lengths(hop)[nodes, None])

    def _sketched_lengths(self, hop: int) -> np.ndarray:
        if hop not in self.row_lengths:
            if self._sketch is None:
                self._sketch = np.asarray(self._features @ draw_signs(self.num_features, SKETCH, 0, 0))
            self.row_lengths[hop] = _lengths(self.smooth_array(self._sketch, hop)) / np.float32(SKETCH**0.5)
        return self.row_lengths[hop]

    def layers(self, hops: Sequence[int], nodes: np.ndarray, width: int, seed: int) -> list[np.ndarray]:
        """The random layer for several K: whole numbers up to ``MOST`` in 8 bits, ``[len(nodes), width]`` each."""
        if self.is_wide:
            self.prepare(hops, width, seed)
            return [self._layers[hop, width, seed][nodes] for hop in hops]
        bits, layers = slot_bits(self.num_features), {}
        total = torch.zeros(len(nodes), width, device=CPU)
        for hop in range(max(hops) + 1):
            signs = recent_signs(self.num_features, width, seed, hop)
            total.addmm_(torch.from_numpy(self.unit_rows(hop, nodes)), torch.from_numpy(signs), alpha=2**hop)
            if hop in hops:
                layers[hop] = _round_layer(total, 2.0 ** -(hop + bits))
        return [layers[hop] for hop in hops]

    def prepare(self, hops: Sequence[int], width: int, seed: int) -> None:
        """Compute in parallel what :meth:`layers` needs of all nodes."""
        if not self.is_wide:
            self.smooth(max(hops))
        elif any((hop, width, seed) not in self._layers for hop in hops):
            blocks = self.smooth(max(hops), (width, seed))
            layers = [allocate((self.num_nodes, width), np.int8, self.num_nodes * width) for _ in hops]

            def encode(nodes: np.ndarray) -> None:
                for layer, rows in zip(layers, encode_projected(nodes, hops, blocks), strict=True):
                    layer[nodes] = rows

            run_threads(encode, self._node_parts())
            self._layers |= {(hop, width, seed): layer for hop, layer in zip(hops, layers, strict=True)}
            del self.blocks[width, seed]

    def projections(self, hop: int, nodes: np.ndarray, width: int, seed: int, *, are_few: bool) -> np.ndarray:
        """What one slot of length 1 adds to the random layer before rounding ``[len(nodes), width]``.

        Wide features of all nodes are projected and then smoothed, unless there are few nodes.
        """
        if self.is_wide and not are_few:
            part = np.hstack([block[hop][nodes] for block in self.smooth(hop, (width, seed))])
            part /= (_lengths(part) / np.float32(width**0.5))[:, None]
            return np.roll(part, _shift(width, hop), axis=1)
        rows = self.unit_rows(hop, nodes) * np.float32(2.0 ** -slot_bits(self.num_features))
        return np.asarray(rows @ recent_signs(self.num_features, width, seed, hop))


def encode_projected(nodes: np.ndarray, hops: Sequence[int], blocks: Sequence[Block]) -> list[np.ndarray]:
    """The random layer for several K, from smoothed projections."""
    width = sum(block[0].shape[1] for block in blocks)
    total, layers = torch.zeros(len(nodes), width, device=CPU), {}
    for hop in range(max(hops) + 1):
        part = np.hstack([block[hop][nodes] for block in blocks])
        factor = torch.from_numpy(np.float32(2**hop) / (_lengths(part) / np.float32(width**0.5)))[:, None]
        first, rows = _shift(width, hop), torch.from_numpy(part)
        total[:, first:].addcmul_(rows[:, : width - first], factor)
        total[:, :first].addcmul_(rows[:, width - first :], factor)
        if hop in hops:
            layers[hop] = _round_layer(total, 2.0**-hop)
    return [layers[hop] for hop in hops]


class ArrayFile:
    """An array in a temporary file, which is deleted together with it."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._file = tempfile.TemporaryFile(prefix="hpn-")  # noqa: SIM115  (open as long as this lives)
        weakref.finalize(self, self._file.close)
        self._file.truncate(math.prod(shape) * self.dtype.itemsize)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.array(self._map()[rows])

    def __setitem__(self, rows: Any, values: np.ndarray) -> None:
        self._map()[rows] = values

    def _map(self) -> np.ndarray:
        # For one call only: pages that stay mapped count as memory of this process.
        return np.memmap(self._file, self.dtype, "r+", shape=self.shape)


def allocate(shape: tuple[int, ...], dtype: Any, num_bytes: int) -> Any:
    """An array, or a file if this array and related ones have many bytes together."""
    return ArrayFile(shape, dtype) if num_bytes > IN_MEMORY else np.empty(shape, dtype)


_recent: list[weakref.ref[Slots]] = []


def see(view: GraphView, normalization: Normalization = "row") -> Slots:
    """The slots of a view, which live as long as the view; smoothed columns are kept for recent views only."""
    slots = view.derived.get(normalization)
    if not isinstance(slots, Slots):
        slots = view.derived[normalization] = Slots(view, normalization)
    return slots


def _keep_recent(slots: Slots) -> None:
    """Drop the smoothed columns of less recent views if there are many."""
    others = [other for ref in _recent if (other := ref()) not in (None, slots)]
    spare = KEPT_BYTES - _count_bytes(slots)
    for other in reversed(others):
        spare -= _count_bytes(other)
        if spare < 0:
            other.blocks = {}
    _recent[:] = [weakref.ref(other) for other in (*others, slots) if other.blocks]


def _count_bytes(slots: Slots) -> int:
    columns = (columns for blocks in slots.blocks.values() for block in blocks for columns in block)
    return sum(4 * math.prod(part.shape) for part in columns)


def slot_bits(num_features: int) -> int:
    """Bits of a slot: 12, or fewer with very many features, so that sums over four hops stay exact."""
    return min(SLOT_BITS, int(24 - np.log2(15 * max(num_features, 1) ** 0.5)))


def draw_signs(num_features: int, width: int, seed: int, hop: int) -> np.ndarray:
    """The matrix of ±1 of a hop ``[num_features, width]``, the same for a seed on every machine.

    Hops share one matrix with its columns shifted. Each random feature still sees every hop in another direction,
    and features that are projected first are projected only once.
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


def to_dense(rows: Features) -> np.ndarray:
    """Features as an array."""
    return np.asarray(rows.toarray() if is_csr(rows) else rows)


def scale_rows(rows: Features) -> Features:
    """Rows of length 1; zero rows stay zero, and sparse rows sparse."""
    if is_csr(rows):
        return sp.csr_matrix(sp.diags_array(1 / _lengths(rows)) @ rows)
    return rows / _lengths(rows)[:, None]


def _lengths(rows: Features) -> np.ndarray:
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel() if is_csr(rows) else np.einsum("ij,ij->i", rows, rows)
    return np.asarray(np.maximum(np.sqrt(squares), np.float32(1e-12)), dtype=np.float32)


def _round_layer(total: Tensor, scale: float) -> np.ndarray:
    return total.mul(STEPS * scale).round_().clamp_(0, MOST).to(torch.int8).numpy()
