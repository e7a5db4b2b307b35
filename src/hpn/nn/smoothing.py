r"""Means over neighbourhoods: products with a normalised adjacency matrix that is never stored."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.sparse as sp

from hpn.streams import GraphView

Normalization = Literal["sym", "row"]
EDGES_AT_ONCE = 1 << 20


class Smoothing:
    r"""The matrix :math:`\hat{A}` with self-loops: :math:`D^{-1} A` (``row``) or :math:`D^{-1/2} A D^{-1/2}` (``sym``).

    Args:
        view: The graph.
        normalization: ``row`` or ``sym``.
    """

    def __init__(self, view: GraphView, normalization: Normalization) -> None:
        self.indptr, self.indices = view.indptr.numpy(), view.indices.numpy()
        degree = np.diff(self.indptr).astype(np.float32) + 1
        self.before = degree**-0.5 if normalization == "sym" else None
        self.after = 1 / degree if self.before is None else self.before

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The product with columns ``[num_nodes, n]``; a column of the result depends on the same column only."""
        x = x if self.before is None else x * self.before[:, None]
        result = np.empty_like(x)
        part = np.maximum(self.indptr[1:] - 1, 0) // EDGES_AT_ONCE
        for start, stop in pairwise([0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(x)]):
            first, last = self.indptr[start], self.indptr[stop]
            ends = (self.indptr[start : stop + 1] - first).astype(self.indices.dtype, copy=False)
            entries = (np.ones(last - first, np.float32), self.indices[first:last], ends)
            result[start:stop] = sp.csr_matrix(entries, shape=(stop - start, len(x))) @ x
        result += x
        result *= self.after[:, None]
        return np.asarray(result)

    def rows(self, nodes: np.ndarray) -> sp.csr_matrix:
        """Some rows of the matrix."""
        count = self.indptr[nodes + 1] - self.indptr[nodes]
        entry = np.repeat(self.indptr[nodes] - np.cumsum(count) + count, count) + np.arange(count.sum())
        row = np.concatenate([np.repeat(np.arange(len(nodes)), count), np.arange(len(nodes))])
        column = np.concatenate([self.indices[entry], nodes])
        value = self.after[nodes[row]]
        value = value if self.before is None else value * self.before[column]
        return sp.csr_matrix((value, (row, column)), shape=(len(nodes), len(self.indptr) - 1))

    def reach(self, nodes: np.ndarray, hops: int) -> sp.csr_matrix:
        r"""Rows of :math:`\hat{A}^k`: the weight of each node of the graph in the slots of ``nodes``."""
        result = self.rows(nodes)
        for _ in range(hops - 1):
            near, result = _compress(result)
            result = sp.csr_matrix(result @ self.rows(near))
        return result

    def average(self, hops: int, nodes: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Averages of a score over the neighbourhoods of a few nodes; ``score`` is called with nearby nodes only."""
        if hops == 0:
            return score(nodes)
        near, rows = _compress(self.rows(nodes))
        return np.asarray(rows @ self.average(hops - 1, near, score))


def _compress(rows: sp.csr_matrix) -> tuple[np.ndarray, sp.csr_matrix]:
    """The numbers of the non-empty columns, and these columns."""
    near, place = np.unique(rows.indices, return_inverse=True)
    return near, sp.csr_matrix((rows.data, place, rows.indptr), shape=(rows.shape[0], len(near)))
