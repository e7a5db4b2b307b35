r"""Means over neighbourhoods: products with a normalised adjacency matrix that is never made."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import numpy as np
import scipy.sparse as sp

from hpn.streams import GraphView

Normalization = Literal["sym", "row"]
ENTRIES = 1 << 20
"""Edges looked at at once."""


class Smoothing:
    r"""The matrix :math:`\hat{A}` with self-loops: :math:`D^{-1} A`, or :math:`D^{-1/2} A D^{-1/2}`.

    Args:
        view: The graph.
        normalization: ``row`` or ``sym``.

    Example:
        >>> import torch
        >>> path = GraphView(torch.eye(3), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> Smoothing(path, "row")(np.array([[6.0], [0.0], [3.0]], np.float32)).ravel().tolist()
        [3.0, 3.0, 1.5]
    """

    def __init__(self, view: GraphView, normalization: Normalization) -> None:
        self.indptr, self.indices = view.indptr.numpy(), view.indices.numpy()
        degree = np.diff(self.indptr).astype(np.float32) + 1
        self.before = degree**-0.5 if normalization == "sym" else None
        self.after = 1 / degree if self.before is None else self.before

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The product with columns ``[num_nodes, n]``; each column of the result depends on its own only."""
        x = x if self.before is None else x * self.before[:, None]
        found = np.empty_like(x)
        share = np.maximum(self.indptr[1:] - 1, 0) // ENTRIES
        cuts = [0, *(np.flatnonzero(np.diff(share)) + 1).tolist(), len(x)]
        for start, stop in pairwise(cuts):
            first, last = self.indptr[start], self.indptr[stop]
            parts = (np.ones(last - first, np.float32), self.indices[first:last], self._ends(start, stop))
            found[start:stop] = sp.csr_matrix(parts, shape=(stop - start, len(x))) @ x
        found += x
        found *= self.after[:, None]
        return np.asarray(found)

    def _ends(self, start: int, stop: int) -> np.ndarray:
        return np.asarray(self.indptr[start : stop + 1] - self.indptr[start], dtype=self.indices.dtype)

    def rows(self, nodes: np.ndarray) -> sp.csr_matrix:
        """Some rows of the matrix."""
        count = self.indptr[nodes + 1] - self.indptr[nodes]
        ends = np.cumsum(count)
        entry = np.repeat(self.indptr[nodes] - ends + count, count) + np.arange(count.sum())
        row = np.concatenate([np.repeat(np.arange(len(nodes)), count), np.arange(len(nodes))])
        column = np.concatenate([self.indices[entry], nodes])
        value = self.after[nodes[row]]
        value = value if self.before is None else value * self.before[column]
        return sp.csr_matrix((value, (row, column)), shape=(len(nodes), len(self.indptr) - 1))

    def reach(self, nodes: np.ndarray, hops: int) -> sp.csr_matrix:
        r"""Rows of :math:`\hat{A}^k`: what each node of the graph counts in the slots of ``nodes``."""
        found = self.rows(nodes)
        for _ in range(hops - 1):
            near, found = _compress(found)
            found = sp.csr_matrix(found @ self.rows(near))
        return found

    def average(self, hops: int, nodes: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Averages of a score over the neighbourhoods of few nodes; ``score`` is called with nodes nearby."""
        if hops == 0:
            return score(nodes)
        near, rows = _compress(self.rows(nodes))
        return np.asarray(rows @ self.average(hops - 1, near, score))


def _compress(rows: sp.csr_matrix) -> tuple[np.ndarray, sp.csr_matrix]:
    """The columns that are not empty, and these columns."""
    near, place = np.unique(rows.indices, return_inverse=True)
    return near, sp.csr_matrix((rows.data, place, rows.indptr), shape=(rows.shape[0], len(near)))
