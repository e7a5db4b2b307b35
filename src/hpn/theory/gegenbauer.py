r"""Gegenbauer polynomials, the functions that are positive definite on a sphere.

:math:`P_k` of dimension :math:`d` is scaled to :math:`P_k(1) = 1`. For any unit vectors :math:`x_1, \dots, x_N` the sum
of :math:`P_k(x_i \cdot x_j)` over all pairs is at least 0, the only geometric fact that linear-programming bounds use.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def gegenbauer(dim: int, degree: int, x: Floats) -> Floats:
    r"""Values of :math:`P_0, \dots, P_n` at the points ``x``, as ``[degree + 1, len(x)]``.

    .. math:: (k + d - 2) P_{k+1} = (2k + d - 2)\, x P_k - k P_{k-1}
    """
    values = np.ones((degree + 1, len(x)))
    if degree:
        values[1] = x
    for k in range(1, degree):
        values[k + 1] = ((2 * k + dim - 2) * x * values[k] - k * values[k - 1]) / (k + dim - 2)
    return values


def to_cosines(dim: int, degree: int) -> Floats:
    r"""Coefficients :math:`C_{kj} \ge 0` of :math:`P_k(\cos\theta) = \sum_j C_{kj} \cos(j\theta)`; rows sum to 1."""
    # a_i = (λ)_i / i! with λ = (d - 2) / 2; P_k is proportional to the sum of a_i a_(k-i) cos((k - 2i) θ).
    lam = (dim - 2) / 2
    i = np.arange(1, degree + 1)
    a = np.cumprod(np.append(1.0, (lam + i - 1) / i))
    table = np.zeros((degree + 1, degree + 1))
    for k in range(degree + 1):
        np.add.at(table[k], np.abs(k - 2 * np.arange(k + 1)), a[: k + 1] * a[k::-1])
    shares: Floats = table / table.sum(axis=1, keepdims=True)
    return shares


def harmonic_dimensions(dim: int, degree: int) -> Floats:
    r"""Number of independent harmonics of degrees :math:`0, \dots, n`; the mean square of :math:`P_k` is 1 over it."""
    counts = [
        math.comb(k + dim - 1, dim - 1) - math.comb(k + dim - 3, dim - 1) if k > 1 else dim**k
        for k in range(degree + 1)
    ]
    return np.array(counts, dtype=np.float64)
