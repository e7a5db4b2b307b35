"""Training data made ready once for all epochs, whole or in mini-batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from hpn.nn import Adjacency, SubgraphCutter


@dataclass(frozen=True, eq=False)
class Lesson:
    """Nodes to learn from, with the graph around them. A mini-batch of a lesson is a smaller lesson.

    Args:
        x: Features.
        adjacency: The graph, as the backbone has prepared it.
        nodes: Rows of ``x`` to learn from.
        target: The column of the head that stands for each node's class.
        allowed: Columns that the node may be told from.
        num_neighbors: Neighbours drawn for a node of a mini-batch at most; ``None`` for all.
        sums_neighbors: See :class:`hpn.nn.SubgraphCutter`.
        num_complete: Rows of ``x``, the first ones, whose neighbours are there; ``None`` for all.

    Shapes:
        - ``x``: ``[num_nodes, num_features]``
        - ``nodes``, ``target``: ``[num_train]``
        - ``allowed``: ``[num_train, num_outputs]``
    """

    x: Tensor
    adjacency: Adjacency
    nodes: Tensor
    target: Tensor
    allowed: Tensor
    num_neighbors: int | None = None
    sums_neighbors: bool = False
    num_complete: int | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def batches(self, size: int | None) -> Iterator[Lesson]:
        """The whole lesson if ``size`` is ``None``, else parts of it in a newly drawn order."""
        if size is None:
            yield self
        else:
            for chosen in torch.split(torch.randperm(len(self)), size):
                yield self.part(chosen)

    def singles(self, most: int) -> Iterator[Lesson]:
        """Lessons of one node each with all its neighbours, of at most ``most`` nodes that are drawn."""
        for chosen in torch.split(torch.randperm(len(self))[:most], 1):
            yield self.part(chosen, complete=True)

    def in_order(self, size: int | None) -> Iterator[Lesson]:
        """As :meth:`batches`, but in order and with all neighbours: to look at the nodes, not to learn."""
        if size is None:
            yield self
        else:
            for chosen in torch.split(torch.arange(len(self)), size):
                yield self.part(chosen, complete=True)

    def part(self, chosen: Tensor, *, complete: bool = False) -> Lesson:
        """The lesson about some of the nodes, with no more of the graph than they need.

        Args:
            chosen: Positions in ``nodes``.
            complete: Whether to take all neighbours, even if a step draws some.
        """
        cutter = self._complete_cutter if complete else self._cutter
        cut = cutter.cut(self.nodes[chosen])
        return Lesson(
            cut.x,
            cut.adjacency,
            cut.rows,
            self.target[chosen],
            self.allowed[chosen],
            num_complete=cut.num_complete,
        )

    @cached_property
    def _cutter(self) -> SubgraphCutter:
        return SubgraphCutter(
            self.x, self.adjacency, num_neighbors=self.num_neighbors, sums_neighbors=self.sums_neighbors
        )

    @cached_property
    def _complete_cutter(self) -> SubgraphCutter:
        return SubgraphCutter(self.x, self.adjacency)
