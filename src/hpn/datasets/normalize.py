"""Feature scaling that looks at one node at a time, so that nothing of a later task can leak."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from hpn.datasets.sparse import normalize_rows

Normalize = Literal["none", "row"]


def apply_normalize(x: Tensor, how: Normalize) -> Tensor:
    """Scale features ``[num_nodes, num_features]``, dense or sparse.

    Args:
        x: The features.
        how: ``none``, or ``row``: every node's features sum to 1 in absolute value.

    Example:
        >>> import torch
        >>> apply_normalize(torch.tensor([[1.0, 3.0]]), "row").tolist()
        [[0.25, 0.75]]
    """
    return normalize_rows(x) if how == "row" else x
