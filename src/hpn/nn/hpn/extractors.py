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

import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse, select_rows
from hpn.nn.device import move_features
from hpn.nn.sparse_linear import multiply
from hpn.streams import GraphView

MANY = 16
"""Sparse rows are selected before they are multiplied if there are so many times as many as are needed."""


class Inputs:
    """The features that extractors see: of some nodes, and of what is around each.

    Args:
        own: Where features of the nodes come from: a graph, or a matrix.
        nodes: The nodes, as rows of it ``[n]``.
        around: For each source of what is around the nodes, the source and its rows ``[n, m]``.
    """

    def __init__(
        self, own: GraphView | Tensor, nodes: Tensor, around: Sequence[tuple[GraphView | Tensor, Tensor]]
    ) -> None:
        self.parts = [(own, nodes.unsqueeze(1)), *around]

    def __len__(self) -> int:
        return len(self.parts[0][1])

    def embed(self, rows: Tensor | None, node: Sequence[Tensor], structure: Sequence[Tensor]) -> Tensor:
        """Atomic embeddings, of any length, of the nodes at ``rows`` (``None``: all).

        Args:
            rows: Positions in the list of nodes ``[b]``.
            node: The :math:`A_i` to use, ``[num_features, dim]`` each.
            structure: The :math:`R_j` to use.

        Shapes:
            - result: ``[b, num_slots, dim]``: every :math:`A_i`, then every :math:`R_j` of each neighbour
        """
        found = []
        for number, (source, index) in enumerate(self.parts):
            weight = torch.cat(list(structure if number else node), dim=1)
            chosen = index if rows is None else index.index_select(0, rows)
            found.append(_embed(source, chosen.flatten(), weight).view(len(chosen), -1, node[0].shape[1]))
        return torch.cat(found, dim=1)


def _embed(source: GraphView | Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    """Rows of a feature matrix times extractors ``[len(rows), num_columns]``."""
    features = source.features if isinstance(source, GraphView) else source
    if not isinstance(features, Tensor):
        return features.take(rows).to(weight.device) @ weight
    if not is_sparse(features):
        return move_features(features.index_select(0, rows), weight.device) @ weight
    if len(features) > MANY * len(rows):
        return multiply(move_features(select_rows(features, rows), weight.device), weight)
    # The same few neighbours are drawn again and again: every node once costs less.
    return multiply(move_features(features, weight.device), weight).index_select(0, rows.to(weight.device))
