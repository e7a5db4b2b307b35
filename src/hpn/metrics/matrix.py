"""AM, FM and ARS, each defined once, from the accuracy matrix alone.

The matrix is lower triangular: row ``i`` holds the accuracies on tasks ``0 … i`` after task ``i`` was
learned, so ``matrix[i][j]`` is the paper's ``a[i][j]``. The functions take any scale; a scale of
per cent gives AM and FM in per cent. The retaining ratio is a ratio whatever the scale.
"""

from __future__ import annotations

from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def accuracy_mean(matrix: Matrix) -> float:
    r"""Accuracy mean, :math:`AM = \frac{1}{p} \sum_{j=1}^{p} a_{p,j}`.

    Example:
        >>> accuracy_mean([[95.02], [95.93, 92.66], [94.57, 92.22, 96.83]])
        94.54
    """
    last = _checked(matrix)[-1]
    return sum(last) / len(last)


def forgetting_mean(matrix: Matrix) -> float | None:
    r"""Forgetting mean, :math:`FM = \frac{1}{p-1} \sum_{j=1}^{p-1} (a_{p,j} - a_{j,j})`.

    Negative means forgetting, positive that later tasks helped earlier ones. ``None`` for a single
    task, where nothing can be forgotten.

    Example:
        >>> round(forgetting_mean([[94.12], [47.96, 93.30], [71.49, 49.68, 94.44]]), 1)
        -33.1
    """
    matrix = _checked(matrix)
    past = len(matrix) - 1
    if past == 0:
        return None
    return sum(matrix[-1][j] - matrix[j][j] for j in range(past)) / past


def retaining_ratios(matrix: Matrix, after: int) -> list[float]:
    r"""Retaining ratio of each earlier task after task ``after``, :math:`a_{i,j} / a_{j,j}, j < i`.

    A task that was never answered right (``a[j][j] = 0``) has nothing to retain: its ratio is 1.

    Example:
        >>> retaining_ratios([[80.0], [60.0, 90.0]], after=1)
        [0.75]
    """
    matrix = _checked(matrix)
    return [matrix[after][j] / matrix[j][j] if matrix[j][j] else 1.0 for j in range(after)]


def average_retaining(matrix: Matrix, after: int | None = None) -> float | None:
    """Average retaining score (ARS) after task ``after`` (default: the last), the mean of the ratios.

    ``None`` after the first task, which has no earlier one.

    Example:
        >>> average_retaining([[80.0], [60.0, 90.0], [40.0, 90.0, 70.0]])
        0.75
    """
    ratios = retaining_ratios(matrix, len(matrix) - 1 if after is None else after)
    return sum(ratios) / len(ratios) if ratios else None


def accuracy_means(matrix: Matrix) -> list[float]:
    """AM after each task: the mean of each row.

    Example:
        >>> accuracy_means([[80.0], [60.0, 90.0]])
        [80.0, 75.0]
    """
    return [sum(row) / len(row) for row in _checked(matrix)]


def average_retainings(matrix: Matrix) -> list[float | None]:
    """ARS after each task, ``None`` after the first.

    Example:
        >>> average_retainings([[80.0], [60.0, 90.0]])
        [None, 0.75]
    """
    return [average_retaining(matrix, after) for after in range(len(matrix))]


def _checked(matrix: Matrix) -> Matrix:
    if not matrix or any(len(row) != i + 1 for i, row in enumerate(matrix)):
        lengths = [len(row) for row in matrix]
        raise ValueError(
            f"matrix must be lower triangular with rows of 1, 2, … p accuracies, got rows of {lengths}"
        )
    return matrix
