"""The distance between the nodes of two tasks (a quantity of the paper's Theorem 2)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from torch import Tensor

from hpn.datasets.sparse import is_sparse, to_scipy
from hpn.errors import ConfigError
from hpn.nn.encoder import Features

BLOCK_ROWS = 512  # nodes per task that are compared at once, which bounds the memory
BLOCK_NUMBERS = 1 << 20  # most numbers of a dense block
EPSILON = float(np.finfo(np.float64).eps)


def task_distance(x: Tensor, y: Tensor) -> float:
    r"""The smallest distance between nodes of two tasks.

    .. math:: \mathbf{dist}(V_p, V_q) = \inf_{v \in V_p,\, w \in V_q} \lVert x(v) - x(w) \rVert

    Candidates are found by :math:`\lVert x \rVert^2 + \lVert y \rVert^2 - 2 x^\top y`, which loses digits; the distance
    of every pair that may be the closest is computed from the difference. A row that both tasks have gives exactly 0.

    Args:
        x: Features of the nodes of one task ``[n, num_features]``, dense or sparse CSR.
        y: Features of the nodes of the other ``[m, num_features]``.

    Raises:
        ConfigError: If a task has no nodes, numbers of features differ, or features are not finite.

    Example:
        >>> import torch
        >>> x, y = torch.tensor([[0.0, 0.0], [9.0, 9.0]]), torch.tensor([[3.0, 4.0]])
        >>> task_distance(x, y), task_distance(x.to_sparse_csr(), x.to_sparse_csr())
        (5.0, 0.0)
    """
    if not x.shape[0] or not y.shape[0]:
        raise ConfigError("a task without nodes has no distance to another; give each task at least one node")
    if x.shape[1] != y.shape[1]:
        raise ConfigError(
            f"nodes of one task have {x.shape[1]:,} features and those of the other {y.shape[1]:,}; "
            "only tasks with the same features have a distance"
        )
    smallest = math.inf
    for left in _row_blocks(x):
        for right in _row_blocks(y):
            smallest = _smallest_square(left, right, smallest)
            if smallest == 0:
                return 0.0
    return math.sqrt(smallest)


def _row_blocks(x: Tensor) -> Iterator[Features]:
    """The rows of ``x`` in float64, so many at a time; sparse if ``x`` is."""
    matrix: Features = to_scipy(x) if is_sparse(x) else x.detach().numpy()
    size = BLOCK_ROWS if is_sparse(x) else min(BLOCK_ROWS, _rows_at_once(x.shape[1]))
    for start in range(0, x.shape[0], size):
        yield matrix[start : start + size].astype(np.float64)


def _smallest_square(left: Features, right: Features, smallest: float) -> float:
    """``smallest``, or the smallest squared distance between rows of two blocks if that is smaller."""
    # A sum of d products is wrong by d roundings at most; twice that covers the exact value's own.
    lower = 1 - 2 * (left.shape[1] + 8) * EPSILON
    own, other = _squared_lengths(left), _squared_lengths(right)
    lowest = _dense((left * -2.0) @ right.T)
    lowest += lower * own[:, None]
    lowest += lower * other
    closest = np.unravel_index([lowest.argmin()], lowest.shape)
    if lowest[closest] > smallest:
        return smallest
    smallest = min(smallest, _exact_square(left, right, *closest))
    rows, columns = np.nonzero(lowest <= smallest)
    size = _rows_at_once(left.shape[1])
    for start in range(0, len(rows), size):
        chunk = slice(start, start + size)
        smallest = min(smallest, _exact_square(left, right, rows[chunk], columns[chunk]))
        if smallest == 0:
            break
    return smallest


def _exact_square(left: Features, right: Features, rows: np.ndarray, columns: np.ndarray) -> float:
    difference = _dense(left[rows]) - _dense(right[columns])
    return float((difference**2).sum(axis=1).min())


def _squared_lengths(block: Features) -> np.ndarray:
    squares = block.power(2) if hasattr(block, "power") else block**2
    lengths = np.asarray(squares.sum(axis=1)).ravel()
    if not np.isfinite(lengths).all():
        raise ConfigError("features hold numbers that are not finite; fix the data")
    return lengths


def _rows_at_once(num_features: int) -> int:
    return max(1, BLOCK_NUMBERS // max(1, num_features))


def _dense(block: Features) -> np.ndarray:
    return np.asarray(block.toarray() if hasattr(block, "toarray") else block)
