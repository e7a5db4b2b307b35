r"""Atomic feature extractors: linear maps of a node's features, and of its neighbours' (Eq. 1 to 3).

.. math::
    E_A^{node}(v) = \{x(v)^\top A_i : i = 1..l_a\} \qquad
    E_A^{struct}(v) = \{x(u)^\top R_j : u \in N_{sub}(v),\ j = 1..l_r\} \qquad
    E_A(v) = E_A^{node}(v) \cup E_A^{struct}(v)

where :math:`x(v) \in R^{d_v}` are features, :math:`A_i \in R^{d_v \times d_a}` node extractors, :math:`R_j`
structure extractors, and :math:`N_{sub}(v)` what :mod:`hpn.nn.hpn.sampling` draws, or one mean over each hop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse, select_rows, to_csr, to_scipy
from hpn.nn.device import move_features
from hpn.streams import GraphView
from hpn.streams.views import FeatureRows

MANY = 64
"""Sparse rows are selected before they are multiplied if there are so many times as many as are needed."""


class SparseProduct:
    """Multiplies sparse features by one matrix after the other, each with a gradient.

    The transpose, which gradients need, is made once; PyTorch's own backward pass makes it every time.

    Args:
        x: Features, sparse CSR ``[num_nodes, num_features]``.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self._transposed: Tensor | None = None

    def __call__(self, weight: Tensor) -> Tensor:
        """The product with a matrix ``[num_features, num_columns]``."""
        if self.x.device != weight.device:
            self.x, self._transposed = move_features(self.x, weight.device), None
        if not weight.requires_grad or not is_sparse(self.x):
            return self.x @ weight
        if self._transposed is None:
            self._transposed = to_csr(to_scipy(self.x.cpu()).T.tocsr()).to(weight.device)
        product: Tensor = _Product.apply(self.x, self._transposed, weight)  # type: ignore[no-untyped-call]
        return product


class _Product(torch.autograd.Function):
    r""":math:`X W` with the gradient :math:`X^\top G`, both as sparse products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, transposed: Tensor, weight: Tensor) -> Tensor:
        ctx.transposed = transposed  # not saved_tensors, which do not take sparse rows
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed @ gradients[0]


class Inputs:
    """The features that extractors see: of some nodes, and of what is around each.

    Args:
        source: Where the features are: a graph, or a matrix.
        index: For each node its own row of the source, then the rows of what is around it ``[n, 1 + m]``.
    """

    def __init__(self, source: GraphView | FeatureRows | Tensor | SparseProduct, index: Tensor) -> None:
        features = source.features if isinstance(source, GraphView) else source
        if isinstance(features, Tensor) and is_sparse(features):
            features = SparseProduct(features)
        self.source = features
        self.index = index
        self._slots: Tensor | None = None

    def __len__(self) -> int:
        return len(self.index)

    def redraw(self, around: Tensor) -> Inputs:
        """The same nodes with something else around them ``[n, m]``."""
        return Inputs(self.source, torch.cat([self.index[:, :1], around], dim=1))

    def embed(self, rows: Tensor | None, node: Sequence[Tensor], structure: Sequence[Tensor]) -> Tensor:
        """Atomic embeddings, of any length, of the nodes at ``rows`` (``None``: all).

        Args:
            rows: Positions in the list of nodes ``[b]``.
            node: The :math:`A_i` to use, ``[num_features, dim]`` each.
            structure: The :math:`R_j` to use.

        Shapes:
            - result: ``[b, num_slots, dim]``: every :math:`A_i`, then every :math:`R_j` of each neighbour
        """
        dim, num_rows = node[0].shape[1], len(self.index) if rows is None else len(rows)
        if isinstance(self.source, SparseProduct) and len(self.source.x) <= MANY * num_rows:
            # The same few nodes are drawn again and again: every one of them once costs less.
            product = self.source(torch.cat([*node, *structure], dim=1)).view(-1, dim)
            if self._slots is None:
                self._slots = _find_slots(self.index, len(node), len(structure))
            slots = self._slots if rows is None else self._slots.index_select(0, rows)
            return product.index_select(0, slots.flatten().to(product.device)).view(*slots.shape, dim)
        index = self.index if rows is None else self.index.index_select(0, rows)
        parts = []
        for of_kind, extractors in ((index[:, :1], node), (index[:, 1:], structure)):
            embedded = self._gather(of_kind.flatten(), torch.cat(list(extractors), dim=1))
            parts.append(embedded.view(len(index), of_kind.shape[1] * len(extractors), dim))
        return torch.cat(parts, dim=1)

    def _gather(self, rows: Tensor, weight: Tensor) -> Tensor:
        """Rows of the features times extractors ``[len(rows), num_columns]``."""
        if isinstance(self.source, SparseProduct):
            return SparseProduct(select_rows(self.source.x, rows.to(self.source.x.device)))(weight)
        found = self.source[rows] if isinstance(self.source, Tensor) else self.source.take(rows)
        return move_features(found, weight.device) @ weight


def _find_slots(index: Tensor, num_node: int, num_structure: int) -> Tensor:
    """Rows of a product with all extractors, one row per node and extractor, that are a node's slots."""
    first = index.unsqueeze(2) * (num_node + num_structure)  # [n, 1 + m, 1]
    own = first[:, :1] + torch.arange(num_node, device=index.device)
    around = first[:, 1:] + num_node + torch.arange(num_structure, device=index.device)
    return torch.cat([own.flatten(1), around.flatten(1)], dim=1)
