"""Mini-batches of a graph: exactly what the logits of some nodes depend on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hpn.datasets.sparse import select_rows
from hpn.nn.device import CPU
from hpn.streams.views import FeatureRows

Adjacency = tuple[Tensor, ...]
"""Entries ``[2, num_entries]`` from source to target, and their weights if there are any."""

HOPS = 2
"""Layers of a backbone."""


def take_rows(x: Tensor | FeatureRows, rows: Tensor) -> Tensor:
    """Features of some nodes, gathered or fetched."""
    return x.take(rows) if isinstance(x, FeatureRows) else select_rows(x, rows)


class Subgraph(NamedTuple):
    """A part of a graph.

    Args:
        x: Features ``[num_nodes, num_features]``.
        adjacency: Entries and weights.
        rows: Rows of ``x`` of the requested nodes, in the order of the request.
        num_complete: The first so many rows have all their neighbours; the others have none.
    """

    x: Tensor
    adjacency: Adjacency
    rows: Tensor
    num_complete: int


class SubgraphCutter:
    """Cuts out the two hops around some nodes, so that the rest of the graph is not needed.

    With complete neighbourhoods the logits of the requested nodes are those of the whole graph. With at most
    ``num_neighbors`` drawn per node they are estimates; where a backbone sums, weights of drawn neighbours are scaled
    up so that sums keep their expected value. A self-loop is always kept.

    Args:
        x: Features, dense or sparse, or where they are fetched from; on the CPU, as everything here.
        adjacency: The graph as the backbone has prepared it.
        num_neighbors: Maximum number of neighbours drawn per node, anew in each cut; ``None`` for all.
        sums_neighbors: Whether the backbone sums over neighbours rather than averages.
    """

    def __init__(
        self,
        x: Tensor | FeatureRows,
        adjacency: Adjacency,
        *,
        num_neighbors: int | None = None,
        sums_neighbors: bool = False,
    ) -> None:
        source, target = adjacency[0]
        order = torch.argsort(target, stable=True)
        self.x, self.num_neighbors, self.sums_neighbors = x, num_neighbors, sums_neighbors
        self._source = source[order]
        self._weights = tuple(weight[order] for weight in adjacency[1:])
        self._start = torch.zeros(x.shape[0] + 1, dtype=torch.int64, device=CPU)
        torch.cumsum(torch.bincount(target, minlength=x.shape[0]), 0, out=self._start[1:])
        self._local = torch.full((x.shape[0],), -1, device=CPU)

    def cut(self, nodes: Tensor) -> Subgraph:
        """Cut out ``nodes``, which are all different, with everything their logits depend on."""
        inside, drawn, frontier = nodes, [], nodes
        self._local[nodes] = rows = torch.arange(len(nodes), device=CPU)
        for _ in range(HOPS):
            drawn.append(self._entries(frontier))
            source = self._source[drawn[-1][0]]
            frontier = torch.unique(source[self._local[source] < 0])
            self._local[frontier] = torch.arange(len(inside), len(inside) + len(frontier), device=CPU)
            inside = torch.cat([inside, frontier])
        entry, target, scale = (torch.cat(parts) for parts in zip(*drawn, strict=True))
        edge_index = torch.stack([self._local[self._source[entry]], self._local[target]])
        self._local[inside] = -1
        weights = tuple(weight[entry] for weight in self._weights)
        if self.num_neighbors is not None and self.sums_neighbors:
            weights = tuple(weight * scale for weight in weights) or (scale,)
        return Subgraph(take_rows(self.x, inside), (edge_index, *weights), rows, len(inside) - len(frontier))

    def _entries(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Entries that lead to ``nodes``, the target of each, and the factor of its weight."""
        starts = self._start[nodes]
        counts = self._start[nodes + 1] - starts
        first = torch.cumsum(counts, 0) - counts
        position = torch.repeat_interleave(torch.arange(len(nodes), device=CPU), counts)
        number = torch.arange(len(position), device=CPU)
        entry = number + (starts - first)[position]
        if self.num_neighbors is None or len(entry) == 0:
            return entry, nodes[position], torch.ones(len(entry), device=CPU)
        is_loop = self._source[entry] == nodes[position]
        loops = torch.zeros(len(nodes), dtype=torch.int64, device=CPU).index_add_(0, position, is_loop.long())
        chance = torch.rand(len(entry), dtype=torch.float64, device=CPU).masked_fill(is_loop, 0)
        drawn = torch.argsort(position + chance)  # the entries of a node stay together, its self-loop first
        drawn = drawn[number - first[position] < (loops + self.num_neighbors)[position]]
        growth = ((counts - loops) / self.num_neighbors).clamp(min=1)[position[drawn]]
        return entry[drawn], nodes[position[drawn]], torch.where(is_loop[drawn], 1.0, growth)
