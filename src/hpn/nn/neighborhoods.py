"""Where structure slots come from: nodes drawn from each hop, or the mean over a hop.

A *slot* is one vector of features that a structure extractor looks at. Drawing follows the paper: so many
nodes, uniformly and with replacement, from the nodes exactly l hops away. The mean over a hop has no
sampling noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

WALKS_AT_ONCE = 5_000_000
"""Walks followed at once when a hop beyond the first is enumerated, which bounds the memory."""


class NeighborSampler:
    """Draws neighbours, each hop's uniformly from the nodes at exactly that distance.

    A draw depends on the seed, the round, the node and the slot only. Rounds can be drawn in any order, and
    what else is asked makes no difference.

    Args:
        edge_index: Edges in both directions, without self-loops ``[2, num_entries]``.
        num_nodes: Nodes of the graph.
        counts: How many nodes to draw from hop 1, 2, …
        seed: Of the draws.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> sampler = NeighborSampler(path, 3, counts=(1, 2))
        >>> sampler.draw(torch.tensor([0]), rounds=1).tolist()
        [[[1, 2, 2]]]
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, counts: Sequence[int], seed: int = 0) -> None:
        source, target = edge_index.numpy()
        ones = np.ones(len(source), dtype=np.int32)
        self.adjacency = sp.csr_matrix((ones, (source, target)), shape=(num_nodes, num_nodes))
        self.counts = tuple(counts)
        self.seed = seed

    def draw(self, nodes: Tensor, rounds: int, first_round: int = 0) -> Tensor:
        """Draw neighbours of ``nodes``, anew in every round.

        A node with nobody at some distance stands in for its own.

        Shapes:
            - result: ``[rounds, len(nodes), sum(counts)]``
        """
        drawn = np.empty((rounds, len(nodes), sum(self.counts)), dtype=np.int64)
        drawn[:] = nodes.numpy()[None, :, None]
        for start, stop in self._chunks(nodes.numpy()):
            part = nodes.numpy()[start:stop]
            slot = 0
            for ring, count in zip(self._rings(part), self.counts, strict=False):
                slots = np.arange(slot, slot + count)
                turns = np.arange(first_round, first_round + rounds)
                chance = _uniform(self.seed, turns[:, None, None], part[None, :, None], slots[None, None, :])
                size = np.diff(ring.indptr)[None, :, None]
                at = ring.indptr[:-1][None, :, None] + (chance * size).astype(np.int64)
                filled = size[0, :, 0] > 0
                drawn[:, start:stop, slot : slot + count][:, filled] = ring.indices[at[:, filled]]
                slot += count
        return torch.from_numpy(drawn)

    def _chunks(self, nodes: np.ndarray) -> Iterator[tuple[int, int]]:
        """Cut ``nodes`` so that a chunk's rings stay small."""
        degree = np.diff(self.adjacency.indptr)
        reach = degree[nodes].astype(np.int64)
        if len(self.counts) > 1:
            reach = self.adjacency[nodes] @ degree.astype(np.int64)
        share = np.cumsum(reach) // WALKS_AT_ONCE
        cuts = [0, *(np.flatnonzero(np.diff(share)) + 1).tolist(), len(nodes)]
        yield from pairwise(cuts)

    def _rings(self, nodes: np.ndarray) -> Iterator[sp.csr_matrix]:
        """For each hop in turn, the nodes at exactly that distance from each of ``nodes``."""
        own = sp.csr_matrix(
            (np.ones(len(nodes), dtype=np.int32), nodes, np.arange(len(nodes) + 1)),
            shape=(len(nodes), self.adjacency.shape[0]),
        )
        seen, ring = own, own
        for hop in range(len(self.counts)):
            ring = self.adjacency[nodes] if hop == 0 else ring @ self.adjacency
            ring.data[:] = 1
            ring = ring - ring.multiply(seen)
            ring.eliminate_zeros()
            ring.sort_indices()
            yield ring
            seen = seen + ring


def _uniform(*keys: np.ndarray | int) -> np.ndarray:
    """Numbers in [0, 1) that depend on the keys only (SplitMix64's mixing steps)."""
    state = np.uint64(0)
    with np.errstate(over="ignore"):
        for key in keys:
            state = (state ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return np.asarray(state >> np.uint64(11)).astype(np.float64) / float(1 << 53)
