"""Views cut from a graph: the nodes of some steps, and the edges among them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.datasets.sparse import is_sparse, select_rows
from hpn.datasets.store import FILE
from hpn.streams.views import Edges, FeatureRows, GraphView

COPIED = 1 << 22
"""Dense features of a view are copied up to this many numbers; larger ones are fetched when needed."""
KEPT = 1 << 29
"""Entries of edges in the views that are cached."""
EDGES_AT_ONCE = 1 << 20
"""Edges processed at once while a view is cut, which bounds the memory."""


class ViewCutter:
    """Cuts views from a graph, and caches some of them.

    Args:
        graph: The graph.
        step_of: The step of each node, -1 for none ``[num_nodes]``.
        num_steps: Number of steps.
        edges: ``within`` for edges within a step only, ``seen`` for all among the nodes of a view.
        seed: Draws the order of nodes in views, and their ids.
        copies: Whether views of features in memory are always copies.
    """

    def __init__(
        self, graph: Graph, step_of: Tensor, num_steps: int, edges: Edges, seed: int, *, copies: bool = False
    ) -> None:
        self._graph, self._step_of, self._edges = graph, step_of, edges
        self._most_copied = math.inf if copies and getattr(graph.x, FILE, None) is None else COPIED
        generator = torch.Generator().manual_seed(seed)
        self._rank = torch.randperm(graph.num_nodes, generator=generator)
        by_rank = torch.empty_like(self._rank).scatter_(0, self._rank, torch.arange(len(self._rank)))
        owner = step_of[by_rank]
        sizes = torch.bincount(owner + 1, minlength=num_steps + 1).tolist()  # the first are in no step
        self._nodes = torch.split(by_rank[torch.argsort(owner, stable=True)], sizes)[1:]
        self._ids = torch.randint(2**62, self._rank.shape, generator=generator)
        self._views: dict[tuple[int, ...], tuple[GraphView, Tensor]] = {}

    def view(self, steps: tuple[int, ...]) -> tuple[GraphView, Tensor]:
        """A view of the nodes of some steps, in the order of the stream, and the numbers of the nodes."""
        kept = self._views.pop(steps, None)
        if kept is None:
            kept = self._cut(steps)
            # All views of one step are together as large as the graph; those of several steps would be larger.
            self._views = {key: view for key, view in self._views.items() if len(key) == 1}
        self._views[steps] = kept  # the last is the most recently used
        while len(self._views) > 1 and sum(len(view.indices) for view, _ in self._views.values()) > KEPT:
            self._views.pop(next(iter(self._views)))
        return kept

    def _cut(self, steps: tuple[int, ...]) -> tuple[GraphView, Tensor]:
        """Nodes, the edges among them, and their features: of a large graph by reference, of a small one a copy."""
        nodes = self._nodes[steps[0]]
        if len(steps) > 1:
            nodes = torch.cat([self._nodes[step] for step in steps])
            nodes = nodes[torch.argsort(self._rank[nodes])]
        indptr, indices = self._edges_among(nodes, are_mixed=len(steps) > 1)
        x: Tensor | FeatureRows
        if is_sparse(self._graph.x):
            x = select_rows(self._graph.x, nodes)
        else:
            x = FeatureRows(self._graph.x, nodes)
            x = x.take() if len(nodes) * self._graph.num_features <= self._most_copied else x
        return GraphView.compressed(x, indptr, indices, self._ids[nodes]), nodes

    def _edges_among(self, nodes: Tensor, *, are_mixed: bool) -> tuple[Tensor, Tensor]:
        """The edges among some nodes that the stream allows, compressed; nodes are numbered by position."""
        rows, indptr = nodes.numpy(), self._graph.indptr.numpy()
        local = np.full(self._graph.num_nodes, -1, dtype=np.int32)
        local[rows] = np.arange(len(rows), dtype=local.dtype)
        owner = self._step_of.numpy() if are_mixed and self._edges == "within" else None
        first = indptr[rows]
        count = indptr[rows + 1] - first

        def cut(part: slice) -> tuple[np.ndarray, np.ndarray]:
            """How many edges each node of a part has in view, and their targets."""
            ends = np.cumsum(count[part])
            # Entry e of a node is at its start + (e - the entries of the nodes before it).
            entry = np.repeat(first[part] - ends + count[part], count[part])
            entry += np.arange(len(entry))
            target = self._graph.indices.numpy().take(entry)  # twice as fast as PyTorch
            place = local.take(target)
            keep = place >= 0
            if owner is not None:
                keep &= np.repeat(owner[rows[part]], count[part]) == owner.take(target)
            # The end of an empty first node is -1, where the appended 0 is.
            kept = np.append(np.cumsum(keep, dtype=np.int32), np.int32(0))[ends - 1]
            kept = np.diff(kept, prepend=0)
            return kept, _sort_rows(kept, place[keep])

        found = [cut(part) for part in _cut_evenly(count, EDGES_AT_ONCE)]
        kept = np.concatenate([part for part, _ in found])
        indices = np.concatenate([part for _, part in found])
        ends = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])
        return torch.from_numpy(ends), torch.from_numpy(indices)


def _cut_evenly(count: np.ndarray, most: int) -> list[slice]:
    """Divide a list of nodes so that each part has about ``most`` edges."""
    share = np.maximum(np.cumsum(count) - 1, 0) // most
    cuts = [0, *(np.flatnonzero(np.diff(share)) + 1).tolist(), len(count)]
    return [slice(*pair) for pair in pairwise(cuts)]


def _sort_rows(count: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Sort the neighbours of each node, so that the order of edges in the full graph is not visible."""
    row = np.repeat(np.arange(len(count)), count)
    key = row << 32
    key |= target
    key.sort()
    return key.astype(np.int32)  # the lower half
