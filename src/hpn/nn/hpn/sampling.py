r"""Neighbourhood sampling: :math:`N_{sub}(v)`, drawn from the nodes at each distance (Section 3.2).

.. math:: N_{sub}(v) = \bigcup_{l=1}^{h} \{k_l \text{ nodes drawn from } N^l(v)\}

where :math:`N^l(v)` are the nodes exactly :math:`l` hops away, drawn uniformly and with replacement. Where a node has
none at some distance, the node itself is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from hpn.streams.views import hash_ids

NODES_AT_ONCE = 1 << 15
"""Nodes sampled for at once, so that the arrays stay in the processor's cache."""
KEPT_ENTRIES = 1 << 25
"""Rings with at most this many entries are kept between rounds; others are computed again."""

Ring = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Nodes at one distance: where those of each centre start, their number, and the nodes themselves."""


class NeighborSampler:
    r"""Draws neighbours of a list of nodes, again in every round.

    A draw depends only on the seed, the round, the node and the slot.

    Args:
        indptr: Where the neighbours of each node of the graph begin in ``indices`` ``[num_nodes + 1]``.
        indices: Neighbours of node 0, of node 1, …, without the node itself.
        nodes: The nodes whose neighbours are drawn ``[n]``.
        counts: Number of nodes to draw from hop 1, 2, …: :math:`k_1, k_2, \dots`
        seed: Seed of the draws.
    """

    def __init__(self, indptr: Tensor, indices: Tensor, nodes: Tensor, counts: Sequence[int], seed: int = 0) -> None:
        self.indptr, self.indices, self.nodes = indptr.numpy(), indices.numpy(), nodes.numpy()
        self.counts, self.seed = tuple(counts), seed
        self._kept: dict[int, list[Ring]] = {}
        self._room = KEPT_ENTRIES

    def draw(self, turn: int) -> Tensor:
        """The neighbours of every node in a round: ``[len(nodes), sum(counts)]``."""
        drawn = np.empty((len(self.nodes), sum(self.counts)), dtype=np.int64)
        slots = np.arange(drawn.shape[1])
        for start in range(0, len(self.nodes), NODES_AT_ONCE):
            some = slice(start, start + NODES_AT_ONCE)
            centers = self.nodes[some, None]
            chance = _uniform(self.seed, turn, centers, slots)
            first = 0
            for (begin, size, members), count in zip(self._rings(start), self.counts, strict=True):
                of_hop = slice(first, first + count)
                at = begin[:, None] + (chance[:, of_hop] * size[:, None]).astype(np.int64)
                found = members[np.minimum(at, len(members) - 1)] if len(members) else centers
                drawn[some, of_hop] = np.where(size[:, None] > 0, found, centers)
                first += count
        return torch.from_numpy(drawn)

    def _rings(self, start: int) -> list[Ring]:
        """The rings of the nodes from ``start`` on."""
        if start in self._kept:
            return self._kept[start]
        rings = self._find_rings(self.nodes[start : start + NODES_AT_ONCE])
        self._room -= sum(int(size.sum()) for _, size, _ in rings[1:])
        if self._room >= 0:
            self._kept[start] = rings
        return rings

    def _find_rings(self, nodes: np.ndarray) -> list[Ring]:
        """For each hop, the nodes at exactly that distance from each of ``nodes``."""
        begin = self.indptr[nodes]
        rings = [(begin, self.indptr[nodes + 1] - begin, self.indices)]
        if len(self.counts) == 1:
            return rings
        shape = (len(self.indptr) - 1,) * 2
        ones = np.ones(len(self.indices), dtype=np.int32)
        adjacency = sp.csr_matrix((ones, self.indices, self.indptr), shape=shape)
        ring = adjacency[nodes]
        own = (np.ones(len(nodes), dtype=np.int32), nodes, np.arange(len(nodes) + 1))
        seen = sp.csr_matrix(own, shape=ring.shape) + ring
        for _ in self.counts[1:]:
            ring = ring @ adjacency
            ring.data[:] = 1
            ring = ring - ring.multiply(seen)
            ring.eliminate_zeros()
            ring.sort_indices()
            seen = seen + ring
            rings.append((ring.indptr[:-1], np.diff(ring.indptr), ring.indices))
        return rings


def _uniform(*keys: np.ndarray | int) -> np.ndarray:
    """Numbers in [0, 1) that depend only on the keys (the mixing steps of SplitMix64)."""
    state = np.zeros(1, np.uint64)
    for key in keys:
        state = hash_ids((state ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)).view(np.uint64)
    return np.asarray((state >> np.uint64(11)).astype(np.float64) / float(1 << 53))
