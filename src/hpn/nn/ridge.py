r"""Ridge regression in closed form: a start for extractors that no gradient has to find.

Extractors are linear and have no intercept. With :math:`m` the mean of the rows of :math:`X` and
:math:`\bar T` that of the targets,

.. math::
    W = V + r\,(\bar{T} - m^\top V) \qquad
    V = \arg\min_V \lVert (X - m) V - (T - \bar{T}) \rVert^2 + \lambda \lVert V \rVert^2

where the *reference* :math:`r` predicts a constant, :math:`X r \approx 1`, and stands in for the intercept.
Whichever of :math:`X^\top X` and :math:`X X^\top` is smaller is factorised. Features may be sparse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.linalg

from hpn.nn.propagation import Features

LARGEST_SYSTEM = 4096
"""Rows used at most if there are more features than that as well."""
MOST_LEFT_OUT = 4096
"""Rows whose prediction without them is computed at most."""
MOSTLY_FULL = 0.2


def thin_out(x: Features, target: np.ndarray) -> tuple[Features, np.ndarray]:
    """Keep evenly spaced rows of what is too large to be factorised; what is mostly full gets dense.

    Nodes of a task come in a drawn order, so these are a fair sample.
    """
    if min(x.shape) > LARGEST_SYSTEM:
        rows = np.linspace(0, x.shape[0] - 1, LARGEST_SYSTEM).astype(np.int64)
        x, target = x[rows], target[rows]
    is_full = hasattr(x, "nnz") and x.nnz > MOSTLY_FULL * x.shape[0] * x.shape[1]
    return (_dense(x) if is_full else x), target


def fit_reference(x: Features, strength: float) -> np.ndarray:
    """Weights ``[num_features]`` that predict 1 for every row, as far as features allow.

    The stronger the regularisation, the less they predict for rows unlike these.
    """
    x = x.astype(np.float64)
    is_wide = x.shape[0] <= x.shape[1]
    gram = _dense(x @ x.T if is_wide else x.T @ x)
    ones = np.ones(x.shape[0])
    solved = _solve(gram, ones if is_wide else np.asarray(x.T @ ones), strength * _unit(gram, x))
    return np.asarray(x.T @ solved) if is_wide else solved


def ridge_path(
    x: Features, target: np.ndarray, reference: np.ndarray, strengths: Sequence[float]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    r"""Yield, for each strength, the weights and the predictions for training rows that were left out.

    The second need no further fit: :math:`\hat{t}_i - t_i` grows by the factor :math:`1 / (1 - h_i)` where
    :math:`h_i` is the weight of row i in its own prediction.

    Args:
        x: ``[n, num_features]``, a SciPy CSR matrix or an array.
        target: ``[n, num_targets]``.
        reference: What :func:`fit_reference` gave.
        strengths: Values of :math:`\lambda`, as multiples of the mean squared length of a centred row.

    Shapes:
        - weights: ``[num_features, num_targets]``
        - left out: ``[min(n, MOST_LEFT_OUT), num_targets]``, of the first rows
    """
    x = x.astype(np.float64)
    count = x.shape[0]
    mean, level = np.asarray(x.mean(axis=0)).ravel(), target.mean(axis=0)
    is_wide = count <= x.shape[1]
    gram = _center(_dense(x @ x.T)) if is_wide else _dense(x.T @ x) - count * np.outer(mean, mean)
    right = target - level if is_wide else np.asarray(x.T @ (target - level))
    # Rows that are all alike leave nothing but rounding errors when centred.
    unit = max(_unit(gram, x), 1e-9 * float(mean @ mean))
    first = slice(0, MOST_LEFT_OUT)
    for strength in strengths:
        factor = _factorise(gram, strength * unit)
        solved = scipy.linalg.cho_solve((factor, True), right, check_finite=False)
        inner = x.T @ solved - np.outer(mean, solved.sum(axis=0)) if is_wide else solved
        weights = inner + np.outer(reference, level - mean @ inner)
        if is_wide:
            inverse = scipy.linalg.cho_solve((factor, True), np.eye(count), check_finite=False)
            own = 1 - strength * unit * np.diag(inverse)[first]
        else:
            rows = _dense(x[first]) - mean
            own = (scipy.linalg.solve_triangular(factor, rows.T, lower=True, check_finite=False) ** 2).sum(0)
        own = np.minimum(own + 1 / count, 1 - 1e-6)[:, None]
        fitted = np.asarray(x[first] @ inner) - mean @ inner + level
        yield weights, (fitted - own * target[first]) / (1 - own)


def _center(gram: np.ndarray) -> np.ndarray:
    """Inner products of centred rows from those of the rows."""
    rows = gram.mean(axis=1, keepdims=True)
    return np.asarray(gram - rows - rows.T + gram.mean())


def _unit(gram: np.ndarray, x: Features) -> float:
    unit: float = max(float(np.trace(gram)) / x.shape[0], 1e-12)
    return unit


def _factorise(gram: np.ndarray, strength: float) -> np.ndarray:
    system = gram.copy()
    system.flat[:: len(system) + 1] += strength
    factor: np.ndarray = scipy.linalg.cholesky(system, lower=True, overwrite_a=True, check_finite=False)
    return factor


def _solve(gram: np.ndarray, right: np.ndarray, strength: float) -> np.ndarray:
    solved: np.ndarray = scipy.linalg.cho_solve((_factorise(gram, strength), True), right, check_finite=False)
    return solved


def _dense(matrix: Features) -> np.ndarray:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
