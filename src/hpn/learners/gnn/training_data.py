"""Training data made ready once for all epochs, whole or in mini-batches.

It stays on the CPU. What a step goes over is moved when it is needed: the part of the graph that a
mini-batch needs, or, once for all epochs, the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from hpn.nn import Adjacency, SubgraphCutter
from hpn.nn.device import CPU, move_features
from hpn.streams.views import FeatureRows


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Nodes to learn from, with the graph around them. A mini-batch is a smaller one of the same kind.

    Args:
        features: Features, or where those of a mini-batch are fetched from.
        adjacency: The graph, as the backbone has prepared it.
        nodes: Those to learn from, by number.
        target: The column of the head that stands for each node's class.
        allowed: Columns that the node's class is chosen from.
        num_neighbors: Neighbours drawn for a node of a mini-batch at most; ``None`` for all.
        sums_neighbors: See :class:`hpn.nn.SubgraphCutter`.
        num_complete: Nodes, the first ones, whose neighbours are there; ``None`` for all.
        device: Where the data is that :meth:`batches`, :meth:`singles` and :meth:`in_order` give.

    Shapes:
        - ``features``: ``[num_nodes, num_features]``
        - ``nodes``, ``target``: ``[num_train]``
        - ``allowed``: ``[num_train, num_outputs]``
    """

    features: Tensor | FeatureRows
    adjacency: Adjacency
    nodes: Tensor
    target: Tensor
    allowed: Tensor
    num_neighbors: int | None = None
    sums_neighbors: bool = False
    num_complete: int | None = None
    device: torch.device = CPU

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def x(self) -> Tensor:
        """Features of all nodes."""
        return self.features.take() if isinstance(self.features, FeatureRows) else self.features

    def batches(self, size: int | None) -> Iterator[TrainingData]:
        """All of it if ``size`` is ``None``, else parts of it in a newly drawn order."""
        if size is None:
            return iter([self._moved])
        return map(self.part, torch.split(torch.randperm(len(self), device=CPU), size))

    def singles(self, most: int) -> Iterator[TrainingData]:
        """Data of one node each with all its neighbours, of at most ``most`` nodes that are drawn."""
        drawn = torch.randperm(len(self), device=CPU)[:most]
        return (self.part(chosen, complete=True) for chosen in torch.split(drawn, 1))

    def in_order(self, size: int | None) -> Iterator[TrainingData]:
        """As :meth:`batches`, but in order and with all neighbours: to look at the nodes, not to learn."""
        if size is None:
            return iter([self._moved])
        order = torch.arange(len(self), device=CPU)
        return (self.part(chosen, complete=True) for chosen in torch.split(order, size))

    def part(self, chosen: Tensor, *, complete: bool = False) -> TrainingData:
        """The data about some of the nodes, with no more of the graph than they need.

        Args:
            chosen: Positions in ``nodes``.
            complete: Whether to take all neighbours, even if a step draws some.
        """
        cutter = self._complete_cutter if complete else self._cutter
        cut = cutter.cut(self.nodes[chosen])
        part = TrainingData(
            cut.x, cut.adjacency, cut.rows, self.target[chosen], self.allowed[chosen], num_complete=cut.num_complete
        )
        return part.to(self.device)

    def to(self, device: torch.device) -> TrainingData:
        """The same data, all of it on ``device`` and with features in float32."""
        x = move_features(self.x, device)
        if x is self.features:
            return self
        rest = {name: getattr(self, name).to(device) for name in ("nodes", "target", "allowed")}
        adjacency = tuple(part.to(device) for part in self.adjacency)
        return replace(self, features=x, adjacency=adjacency, device=device, **rest)

    @cached_property
    def _moved(self) -> TrainingData:
        return self.to(self.device)

    @cached_property
    def _cutter(self) -> SubgraphCutter:
        return SubgraphCutter(
            self.features, self.adjacency, num_neighbors=self.num_neighbors, sums_neighbors=self.sums_neighbors
        )

    @cached_property
    def _complete_cutter(self) -> SubgraphCutter:
        return SubgraphCutter(self.features, self.adjacency)
