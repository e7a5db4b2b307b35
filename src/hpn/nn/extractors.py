r"""Atomic feature extractors: linear maps from a node's features to atomic embeddings.

.. math:: E^{node}_A(v) = \{x(v)^\top A_i\} \qquad E^{struct}_A(v) = \{x(u)^\top R_j : u \in N_{sub}(v)\}

where :math:`A_i \in R^{d_v \times d_a}` are the node extractors, :math:`R_j` the structure extractors and
:math:`N_{sub}(v)` the slots of :mod:`hpn.nn.neighborhoods`. Features may be sparse and are used as such.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hpn.datasets.sparse import is_sparse, select_rows, to_csr, to_scipy
from hpn.nn.device import CPU, move_features
from hpn.streams import GraphView

GATHER_FACTOR, GATHER_FACTOR_SPARSE = 4, 64
"""Rows are gathered before they are multiplied if the graph has so many times as many nodes.

Gathering sparse rows costs far more than multiplying them.
"""

NARROW = 8
"""Columns up to which the usual layouts of a product are several times slower than others, on a CPU."""

Draw = Callable[[Tensor | None, int], Tensor]


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


class DrawnSlots:
    """Slots that are nodes: the node itself, then drawn neighbours.

    Args:
        graph: The graph, of which rows of features are taken.
        nodes: The nodes ``[n]``.
        draw: Gives the drawn neighbours of the nodes at some rows (all if ``None``) in a turn, as nodes of
            the graph ``[len(rows), num_drawn]``.
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


class Operand:
    """A feature matrix that is multiplied by weights again and again.

    It goes where the weights are. The transpose of sparse features, which the gradient needs, is made once.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self.num_rows = x.shape[0]
        self._transposed: Tensor | None = None

    def times(self, weight: Tensor) -> Tensor:
        """The product, with a gradient for ``weight``."""
        self._follow(weight)
        if not is_sparse(self.x):
            if not _is_narrow(weight):
                return self.x @ weight
            narrow: Tensor = _NarrowProduct.apply(self.x, weight)  # type: ignore[no-untyped-call]
            return narrow
        if not weight.requires_grad:
            return self.x @ weight
        product: Tensor = _Product.apply(self.x, self._transpose(), weight)  # type: ignore[no-untyped-call]
        return product

    def times_then_select(
        self, first: Tensor, second: Tensor, first_rows: Tensor, second_rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Multiply once by two weights side by side; some rows of the one product and some of the other."""
        self._follow(first)
        weight = torch.cat([first, second], dim=1)
        first_rows, second_rows = first_rows.to(weight.device), second_rows.to(weight.device)
        parts: tuple[Tensor, Tensor] = _ProductRows.apply(  # type: ignore[no-untyped-call]
            self.x, self._transpose(), weight, first.shape[1], first_rows, second_rows
        )
        return parts

    def select(self, rows: Tensor) -> Operand:
        """Some rows of it."""
        return Operand(select_rows(self.x, rows.to(self.x.device)))

    def _follow(self, weight: Tensor) -> None:
        if self.x.device != weight.device:
            self.x, self._transposed = move_features(self.x, weight.device), None

    def _transpose(self) -> Tensor:
        if self._transposed is None:
            if is_sparse(self.x):
                transposed = to_csr(to_scipy(self.x.cpu()).T.tocsr())
                self._transposed = transposed.to(self.x.device)
            else:
                self._transposed = self.x.t()
        return self._transposed


class _Product(torch.autograd.Function):
    r""":math:`X W` with the gradient :math:`X^\top G`, both as sparse products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, transposed: Tensor, weight: Tensor) -> Tensor:
        ctx.transposed = transposed  # not saved_tensors, which do not take sparse rows
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed @ gradients[0]


class _NarrowProduct(torch.autograd.Function):
    """The product of dense features and few columns, in the layouts that libraries multiply fast."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _times_narrow(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        (x,) = ctx.saved_tensors
        return None, (gradients[0].t() @ x).t()


class _ProductRows(torch.autograd.Function):
    """Rows of :math:`X W`: some of its first columns, some of the others."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, transposed: Tensor, weight: Tensor, split: int, first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.transposed, ctx.split, ctx.shape = transposed, split, (x.shape[0], weight.shape[1])
        ctx.save_for_backward(first, second)
        is_narrow = not is_sparse(x) and _is_narrow(weight)
        product = _times_narrow(x, weight) if is_narrow else x @ weight
        return product[:, :split].index_select(0, first), product[:, split:].index_select(0, second)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor, None, None, None]:
        first, second = ctx.saved_tensors
        total = gradients[0].new_zeros(ctx.shape)
        total[:, : ctx.split].index_add_(0, first, gradients[0])
        total[:, ctx.split :].index_add_(0, second, gradients[1])
        if not is_sparse(ctx.transposed) and _is_narrow(total):
            return None, None, (total.t() @ ctx.transposed.t()).t(), None, None, None
        return None, None, ctx.transposed @ total, None, None, None


def _is_narrow(weight: Tensor) -> bool:
    return weight.shape[1] <= NARROW and weight.device.type == "cpu"


def _times_narrow(x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight.t().contiguous())


def _side_by_side(extractors: Tensor) -> Tensor:
    """``[num, num_features, dim]`` as one matrix ``[num_features, num * dim]``."""
    if len(extractors) == 1:
        return extractors[0]
    return extractors.transpose(0, 1).flatten(1)
