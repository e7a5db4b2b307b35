"""Where structure slots come from: nodes drawn from each hop, or the mean over a hop.

A *slot* is one vector of features that a structure extractor looks at. Drawing follows the paper: so many
nodes, uniformly and with replacement, from the nodes exactly l hops away. The mean over a hop has no
sampling noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
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
        indptr: Where the neighbours of each node begin in ``indices`` ``[num_nodes + 1]``.
        indices: Neighbours of node 0, of node 1, …, each node's in order, itself not among them.
        counts: How many nodes to draw from hop 1, 2, …
        seed: Of the draws.

    Example:
        >>> path = torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1])
        >>> sampler = NeighborSampler(*path, counts=(1, 2))
        >>> sampler.draw(torch.tensor([0]), rounds=1).tolist()
        [[[1, 2, 2]]]
    """

    def __init__(self, indptr: Tensor, indices: Tensor, counts: Sequence[int], seed: int = 0) -> None:
        self.indptr = indptr.numpy()
        self.indices = indices.numpy()
        self.counts = tuple(counts)
        self.seed = seed

    @cached_property
    def adjacency(self) -> sp.csr_matrix:
        """The edges as a matrix; only draws from beyond the first hop need it."""
        ones, size = np.ones(len(self.indices), dtype=np.int32), len(self.indptr) - 1
        return sp.csr_matrix((ones, self.indices, self.indptr), shape=(size, size))

    def draw(self, nodes: Tensor, rounds: int, first_round: int = 0) -> Tensor:
        """Draw neighbours of ``nodes``, anew in every round.

        A node with nobody at some distance stands in for its own.

        Shapes:
            - result: ``[rounds, len(nodes), sum(counts)]``
        """
        if len(self.counts) == 1:
            return torch.from_numpy(self._draw_adjacent(nodes.numpy(), rounds, first_round))
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

    def _draw_adjacent(self, nodes: np.ndarray, rounds: int, first_round: int) -> np.ndarray:
        """Draw from the first hop only, which needs no enumeration."""
        start, turns = self.indptr[nodes], np.arange(first_round, first_round + rounds)
        size = self.indptr[nodes + 1] - start
        chance = _uniform(self.seed, turns[:, None, None], nodes[None, :, None], np.arange(self.counts[0]))
        if len(self.indices) == 0:
            return np.array(np.broadcast_to(nodes[None, :, None], chance.shape))
        at = start[None, :, None] + (chance * size[None, :, None]).astype(np.int64)
        # Where there is nobody, any entry will do: the node stands in.
        drawn: np.ndarray = self.indices[np.minimum(at, len(self.indices) - 1)].astype(np.int64)
        alone = size == 0
        drawn[:, alone] = nodes[None, alone, None]
        return drawn

    def _chunks(self, nodes: np.ndarray) -> Iterator[tuple[int, int]]:
        """Cut ``nodes`` so that a chunk's rings stay small."""
        degree = np.diff(self.indptr)
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
