r"""Atomic feature extractors: linear maps from a node's features to atomic embeddings.

.. math:: E^{node}_A(v) = \{x(v)^\top A_i\} \qquad E^{struct}_A(v) = \{x(u)^\top R_j : u \in N_{sub}(v)\}

where :math:`A_i \in R^{d_v \times d_a}` are the node extractors, :math:`R_j` the structure extractors and
:math:`N_{sub}(v)` the slots of :mod:`hpn.nn.neighborhoods`. Features may be sparse and are used as such.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse
from hpn.nn.device import CPU
from hpn.nn.operands import Operand
from hpn.streams import GraphView

GATHER_FACTOR, GATHER_FACTOR_SPARSE = 4, 64
"""Rows are gathered before they are multiplied if the graph has so many times as many nodes.

Gathering sparse rows costs far more than multiplying them.
"""

MOST_REPEATED = 16
"""How often neighbours may be drawn, on average over the nodes of a graph, if their rows are asked for."""


class Draw(Protocol):
    """Draws neighbours of a list of nodes."""

    def __call__(self, rows: Tensor | None, turn: int) -> Tensor:
        """Those of the nodes at ``rows`` (all if ``None``) in a turn ``[len(rows), num_drawn]``."""

    def look_ahead(self, rows: Tensor, turn: int) -> None:
        """Be told that the nodes at ``rows`` will be asked for, a few at a time."""


class Slots(Protocol):
    """The features that extractors look at, for a list of nodes."""

    def __len__(self) -> int:
        """Number of nodes."""

    def embed(self, rows: Tensor | None, turn: int, node: Tensor, structure: Tensor) -> Tensor:
        """Atomic embeddings, not yet scaled, of the nodes at ``rows`` (all if ``None``).

        Args:
            rows: Positions in the list of nodes.
            turn: Which round of drawn neighbours to use.
            node: Selected node extractors ``[num_selected, num_features, dim]``.
            structure: Selected structure extractors, likewise.

        Shapes:
            - result: ``[len(rows), num_slots, dim]``; node slots first
        """

    def embed_distinct(
        self, rows: Tensor, turn: int, node: Tensor, structure: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The same without repetitions, for training.

        Returns:
            Embeddings ``[num_distinct, dim]``, and which of them is in which slot ``[len(rows), num_slots]``;
            or, where nothing repeats, what :meth:`embed` gives, and ``None``.
        """

    def gather(self, rows: Tensor, turn: int) -> list[Tensor] | None:
        """The features themselves, unless they are sparse or most of them would be taken again and again.

        Returns:
            Those of the nodes ``[len(rows), num_features]``, then of what is around them
            ``[len(rows) * num_drawn, num_features]``, each node's together.
        """

    def look_ahead(self, rows: Tensor, turn: int) -> None:
        """Be told that the nodes at ``rows`` will be asked for, a few at a time."""


class MeanSlots:
    """Slots that are fixed rows of features: the node itself, then the mean over one hop or more.

    Args:
        parts: ``[num_nodes, num_features]`` a slot, the node's own first; dense or sparse.
    """

    def __init__(self, parts: list[Tensor]) -> None:
        self.parts = [Operand(part) for part in parts]

    def __len__(self) -> int:
        return self.parts[0].num_rows

    def embed(self, rows: Tensor | None, turn: int, node: Tensor, structure: Tensor) -> Tensor:
        """See :class:`Slots`."""
        weights = [_side_by_side(node)] + [_side_by_side(structure)] * (len(self.parts) - 1)
        parts = self.parts if rows is None else [part.select(rows) for part in self.parts]
        products = [part.times(weight) for part, weight in zip(parts, weights, strict=True)]
        dim = node.shape[2]
        return torch.cat([p.view(len(p), p.shape[1] // dim, dim) for p in products], dim=1)

    def embed_distinct(
        self, rows: Tensor, turn: int, node: Tensor, structure: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """See :class:`Slots`."""
        return self.embed(rows, turn, node, structure), None

    def gather(self, rows: Tensor, turn: int) -> list[Tensor] | None:
        """See :class:`Slots`."""
        if any(is_sparse(part.x) for part in self.parts):
            return None
        return [part.select(rows).x for part in self.parts]

    def look_ahead(self, rows: Tensor, turn: int) -> None:
        """See :class:`Slots`."""


class DrawnSlots:
    """Slots that are nodes: the node itself, then drawn neighbours.

    Args:
        graph: The graph, of which rows of features are taken.
        nodes: The nodes ``[n]``.
        draw: Draws their neighbours, as nodes of the graph.
    """

    def __init__(self, graph: GraphView, nodes: Tensor, draw: Draw) -> None:
        self.graph = graph
        self.nodes = nodes
        self.draw = draw
        self._whole: Operand | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def embed(self, rows: Tensor | None, turn: int, node: Tensor, structure: Tensor) -> Tensor:
        """See :class:`Slots`."""
        centers = self.nodes if rows is None else self.nodes.index_select(0, rows)
        return self._embed(centers, self.draw(rows, turn), node, structure)

    def embed_distinct(
        self, rows: Tensor, turn: int, node: Tensor, structure: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """See :class:`Slots`. On a small graph few neighbours are drawn often: most draws repeat one."""
        centers, around = self.nodes.index_select(0, rows), self.draw(rows, turn)
        if not self.graph.is_sparse and self._is_worth_gathering(around.numel()):
            return self._embed(centers, around, node, structure), None
        met, place = np.unique(around.numpy(), return_inverse=True)
        own, others = self._multiply(centers, torch.from_numpy(met), node, structure)
        dim, num = node.shape[2], len(structure)
        raw = torch.cat([own.reshape(-1, dim), others.reshape(-1, dim)])
        first = torch.arange(len(rows) * len(node), device=CPU).view(len(rows), -1)
        second = torch.from_numpy(place).view(len(rows), -1, 1) * num + torch.arange(num, device=CPU)
        return raw, torch.cat([first, first.numel() + second.flatten(1)], dim=1).to(raw.device)

    def gather(self, rows: Tensor, turn: int) -> list[Tensor] | None:
        """See :class:`Slots`."""
        if self.graph.is_sparse:
            return None
        around = self.draw(rows, turn).flatten()
        if len(around) > MOST_REPEATED * self.graph.num_nodes:
            return None
        return [self.graph.take(self.nodes.index_select(0, rows)), self.graph.take(around)]

    def look_ahead(self, rows: Tensor, turn: int) -> None:
        """See :class:`Slots`."""
        self.draw.look_ahead(rows, turn)

    def _embed(self, centers: Tensor, around: Tensor, node: Tensor, structure: Tensor) -> Tensor:
        own, others = self._multiply(centers, around.flatten(), node, structure)
        dim, num = node.shape[2], around.shape[1] * len(structure)
        return torch.cat([own.view(-1, len(node), dim), others.view(len(centers), num, dim)], dim=1)

    def _is_worth_gathering(self, num_drawn: int) -> bool:
        factor = GATHER_FACTOR_SPARSE if self.graph.is_sparse else GATHER_FACTOR
        return self.graph.num_nodes > factor * num_drawn

    def _multiply(
        self, centers: Tensor, around: Tensor, node: Tensor, structure: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self._is_worth_gathering(len(around)):
            own, others = Operand(self.graph.take(centers)), Operand(self.graph.take(around))
            return own.times(_side_by_side(node)), others.times(_side_by_side(structure))
        # Every node once costs less than gathering.
        if self._whole is None:
            self._whole = Operand(self.graph.x)
        return self._whole.times_then_select(_side_by_side(node), _side_by_side(structure), centers, around)


def _side_by_side(extractors: Tensor) -> Tensor:
    """``[num, num_features, dim]`` as one matrix ``[num_features, num * dim]``."""
    if len(extractors) == 1:
        return extractors[0]
    return extractors.transpose(0, 1).flatten(1)
