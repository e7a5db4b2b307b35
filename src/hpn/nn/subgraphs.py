"""Mini-batches of a graph: what the logits of some nodes depend on, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A part of a graph.

    Args:
        x: Features ``[num_nodes, num_features]``.
        adjacency: Entries and weights.
        rows: Rows of ``x`` that were asked for, in the order asked.
        num_complete: So many rows, the first, have all neighbours they are to have; those after have none.
    """

    x: Tensor
    adjacency: Adjacency
    rows: Tensor
    num_complete: int


class SubgraphCutter:
    """Cuts out the two hops around some nodes, so that the rest of the graph need not be looked at.

    With complete neighbourhoods the logits of the nodes asked for are those of the whole graph. With at most
    ``num_neighbors`` drawn for each node they are estimates; weights of what was drawn are scaled up where a
    backbone sums, so that sums keep their expected value. A self-loop is always kept.

    Args:
        x: Features, dense or sparse, or where they are fetched from; on the CPU as all else here.
        adjacency: The graph as the backbone has prepared it.
        num_neighbors: Neighbours drawn for a node at most, anew in each cut; ``None`` for all.
        sums_neighbors: Whether the backbone sums over neighbours rather than averages.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])
        >>> cut = SubgraphCutter(torch.arange(5.0).view(5, 1), (path,)).cut(torch.tensor([0]))
        >>> cut.x.flatten().tolist(), cut.rows.tolist()
        ([0.0, 1.0, 2.0], [0])
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
        self.x = x
        self.num_neighbors = num_neighbors
        self.sums_neighbors = sums_neighbors
        self._source = source[order]
        self._weights = tuple(weight[order] for weight in adjacency[1:])
        self._start = torch.zeros(x.shape[0] + 1, dtype=torch.int64, device=CPU)
        torch.cumsum(torch.bincount(target, minlength=x.shape[0]), 0, out=self._start[1:])
        self._local = torch.full((x.shape[0],), -1, device=CPU)

    def cut(self, nodes: Tensor) -> Subgraph:
        """Cut out ``nodes``, which are all different, with what their logits depend on."""
        found, entries, targets, scales = [nodes], [], [], []
        self._local[nodes] = torch.arange(len(nodes), device=CPU)
        count, frontier = len(nodes), nodes
        for _ in range(HOPS):
            entry, target, scale = self._entries(frontier)
            entries.append(entry)
            targets.append(target)
            scales.append(scale)
            source = self._source[entry]
            frontier = torch.unique(source[self._local[source] < 0])
            self._local[frontier] = torch.arange(count, count + len(frontier), device=CPU)
            count += len(frontier)
            found.append(frontier)
        inside, entry = torch.cat(found), torch.cat(entries)
        edge_index = torch.stack([self._local[self._source[entry]], self._local[torch.cat(targets)]])
        self._local[inside] = -1
        weights = tuple(weight[entry] for weight in self._weights)
        if self.num_neighbors is not None and self.sums_neighbors:
            scale = torch.cat(scales)
            weights = tuple(weight * scale for weight in weights) or (scale,)
        x = take_rows(self.x, inside)
        rows = torch.arange(len(nodes), device=CPU)
        return Subgraph(x, (edge_index, *weights), rows, count - len(frontier))

    def _entries(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Entries that lead to ``nodes``, where each leads, and by how much its weight grows."""
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
        drawn = torch.argsort(position + chance)  # a node's entries stay together, its self-loop first
        rank = number - first[position]
        allowed = loops + self.num_neighbors
        drawn = drawn[rank < allowed[position]]
        grown = ((counts - loops) / self.num_neighbors).clamp(min=1)[position[drawn]]
        return entry[drawn], nodes[position[drawn]], torch.where(is_loop[drawn], 1.0, grown)
