"""Directions that stand for classes, and layers that read them.

Solved extractors write what they know of a node's class as a direction (:mod:`hpn.learners.hpn_start`). Each
column of the classifier has one, the same in every task.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hpn.nn.network import PrototypeNetwork
from hpn.nn.snapping import unit


class Codes:
    """One direction a column of the head, and one to measure them against.

    Args:
        axes: Orthonormal rows ``[dim, dim]``. The first is the reference; the two ends of each other one are
            codes.
        seed: Draws the directions of columns beyond those, which cannot all be orthogonal.
    """

    def __init__(self, axes: Tensor, seed: int) -> None:
        self.axes = axes
        self.seed = seed

    @classmethod
    def draw(cls, dim: int, seed: int) -> Codes:
        """Random axes."""
        return cls(torch.linalg.qr(torch.randn(dim, dim, device="cpu")).Q.t().contiguous(), seed)

    @property
    def reference(self) -> Tensor:
        """The direction ``[dim]`` that no class has."""
        return self.axes[0]

    def of(self, column: int) -> Tensor:
        """The direction ``[dim]`` of a column."""
        dim = len(self.axes)
        if column < 2 * (dim - 1):
            return self.axes[1 + column // 2] * (1 - 2 * (column % 2))
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + column) % 2**63)
        drawn = torch.randn(dim, generator=generator, device="cpu")
        return unit(drawn - (drawn @ self.reference) * self.reference) if dim > 1 else unit(drawn)

    @torch.no_grad()
    def align_layers(self, network: PrototypeNetwork) -> None:
        """Make the layers pass directions on: the mean over slots, then the identity."""
        same = torch.eye(network.dim, device="cpu")
        num_slots = network.to_node.in_features // network.dim
        network.to_node.weight.copy_(same.repeat(1, num_slots) / num_slots)
        network.to_class.weight.copy_(same)
        network.to_node.bias.zero_()
        network.to_class.bias.zero_()

    @torch.no_grad()
    def align_head(self, network: PrototypeNetwork, columns: list[int]) -> None:
        """Make logits read their codes off every level."""
        head = network.head
        for column in columns:
            head.weight[column] = self.of(column).repeat(head.in_features // network.dim)
            head.bias[column] = 0.0
