r"""Atomic feature extractors: linear maps of a node's features, and of its neighbours' (Eq. 1 to 3).

.. math::
    E_A^{node}(v) = \{x(v)^\top A_i : i = 1..l_a\} \qquad
    E_A^{struct}(v) = \{x(u)^\top R_j : u \in N_{sub}(v),\ j = 1..l_r\} \qquad
    E_A(v) = E_A^{node}(v) \cup E_A^{struct}(v)

where :math:`x(v) \in R^{d_v}` are features, :math:`A_i \in R^{d_v \times d_a}` node extractors, :math:`R_j` structure
extractors, and :math:`N_{sub}(v)` nodes that :mod:`hpn.nn.hpn.sampling` draws, or one mean per hop.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse, select_rows
from hpn.nn.device import CPU, move_features
from hpn.nn.sparse import multiply
from hpn.streams.views import FeatureRows

MANY = 64
"""Sparse rows are selected before they are multiplied if there are this many times as many as are needed."""


class Inputs:
    """The features that extractors see: of some nodes, and of the neighbourhood of each.

    Args:
        source: The features of all nodes.
        index: For each node its own row of the source, then the rows of its neighbourhood ``[n, 1 + m]``.
        device: Where sparse features are multiplied.
    """

    def __init__(self, source: FeatureRows | Tensor, index: Tensor, device: torch.device = CPU) -> None:
        self.is_sparse = isinstance(source, Tensor) and is_sparse(source)
        self.source = move_features(source, device) if isinstance(source, Tensor) and self.is_sparse else source
        self.index, self.device = index, device
        self._slots: Tensor | None = None

    def __len__(self) -> int:
        return len(self.index)

    def redraw(self, around: Tensor) -> Inputs:
        """The same nodes with another neighbourhood ``[n, m]``."""
        return Inputs(self.source, torch.cat([self.index[:, :1], around], dim=1), self.device)

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
        if isinstance(self.source, Tensor) and self.is_sparse and len(self.source) <= MANY * num_rows:
            # The same few nodes are drawn repeatedly: multiplying each of them once costs less.
            product = multiply(self.source, torch.cat([*node, *structure], dim=1)).view(-1, dim)
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
        if isinstance(self.source, FeatureRows):
            return move_features(self.source.take(rows), weight.device) @ weight
        if self.is_sparse:
            return multiply(select_rows(self.source, rows.to(self.source.device)), weight)
        return move_features(self.source[rows], weight.device) @ weight


def _find_slots(index: Tensor, num_node: int, num_structure: int) -> Tensor:
    """The rows of a product with all extractors, which has one row per node and extractor, that are a node's slots."""
    first = index.unsqueeze(2) * (num_node + num_structure)  # [n, 1 + m, 1]
    own = first[:, :1] + torch.arange(num_node, device=index.device)
    around = first[:, 1:] + num_node + torch.arange(num_structure, device=index.device)
    return torch.cat([own.flatten(1), around.flatten(1)], dim=1)
