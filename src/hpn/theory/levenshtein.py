r"""Levenshtein's bound on spherical codes: the linear-programming bound in closed form.

Among all polynomials of a degree that depends on the cosine :math:`s`, one gives the best
linear-programming bound, and it can be written down (V. I. Levenshtein, Soviet Math. Dokl. 20, 1979):

.. math::
    L_{2k-1} = \binom{k+d-3}{k-1} \left[\frac{2k+d-3}{d-1} - \frac{P_{k-1}(s) - P_k(s)}{(1-s) P_k(s)}\right]
    \qquad
    L_{2k} = \binom{k+d-2}{k} \left[\frac{2k+d-1}{d-1}
             - \frac{(1+s)(P_k(s) - P_{k+1}(s))}{(1-s)(P_k(s) + P_{k+1}(s))}\right]

with Gegenbauer polynomials :math:`P_k`. :math:`L_{2k-1}` holds where :math:`s` lies between the largest zeros
of the Jacobi polynomials :math:`P_{k-1}^{(1,1)}` and :math:`P_k^{(1,0)}` (both parameters raised by
:math:`(d-3)/2`), :math:`L_{2k}` from there up to the largest zero of :math:`P_k^{(1,1)}`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction

import numpy as np
import scipy  # whose parts are imported when they are first used

from hpn.theory.gegenbauer import Floats, gegenbauer, harmonic_dimensions

MOST_ZEROS = 4096  # smaller angles than these zeros reach are left to other bounds
ROUNDING = 1e-9  # relative enlargement of the bound: more than the recurrence loses over so many steps


def levenshtein_degree(dim: int, cosine: float) -> int | None:
    """Degree of the polynomial that belongs to a cosine; ``None`` if it needs more than ``MOST_ZEROS``."""
    k = 1 + bisect_left(range(1, MOST_ZEROS + 1), cosine, key=lambda k: _largest_zero(dim, k, 1))  # they grow with k
    if k > MOST_ZEROS:
        return None
    return 2 * k - 1 if cosine <= _largest_zero(dim, k, 0) else 2 * k


def levenshtein_bound(dim: int, cosine: float) -> Fraction | None:
    """Bound the size of a code with inner products of at most ``cosine`` (at least 0), in 3 dimensions or more.

    The result is rounded up, and a fraction because it may exceed the range of floating-point numbers. ``None`` if
    its degree is out of reach.
    """
    degree = levenshtein_degree(dim, cosine)
    if degree is None:
        return None
    k, s = (degree + 1) // 2, cosine
    if degree % 2:
        last, this = _two_values(dim, k, s)
        count = math.comb(k + dim - 3, k - 1)
        share = (2 * k + dim - 3) / (dim - 1) - (last - this) / ((1 - s) * this)
    else:
        this, following = _two_values(dim, k + 1, s)
        count = math.comb(k + dim - 2, k)
        share = (2 * k + dim - 1) / (dim - 1) - (1 + s) * (this - following) / ((1 - s) * (this + following))
    return count * Fraction(share * (1 + ROUNDING))


def levenshtein_polynomial(dim: int, cosine: float, num_terms: int) -> Floats:
    r"""The first Gegenbauer coefficients of the polynomial behind the bound, with constant term 1; their sum is it.

    The polynomial is :math:`(x - s)\, K(x, s)^2`, times :math:`x + 1` for even degrees, where :math:`K` is the
    Christoffel-Darboux kernel of the Jacobi polynomials. ``num_terms`` must exceed the degree.
    """
    degree = levenshtein_degree(dim, cosine)
    assert degree is not None and num_terms > degree  # noqa: S101, PT018
    base, is_odd = (dim - 3) / 2, degree % 2
    alpha, beta = base + 1, base + 1 - is_odd
    nodes, weights = scipy.special.roots_jacobi(num_terms + degree, base, base)
    kernel = np.zeros_like(nodes)
    for i in range((degree + 1) // 2):
        at_nodes, at_cosine = (scipy.special.eval_jacobi(i, alpha, beta, x) for x in (nodes, cosine))
        kernel += at_nodes * at_cosine * math.exp(_log_norm(0, alpha, beta) - _log_norm(i, alpha, beta))
    values = (nodes - cosine) * (1 if is_odd else nodes + 1) * kernel**2
    projected = gegenbauer(dim, num_terms - 1, nodes) @ (weights * values)
    coefficients = projected * harmonic_dimensions(dim, num_terms - 1)
    scaled: Floats = coefficients / coefficients[0]
    return scaled


def _log_norm(k: int, alpha: float, beta: float) -> float:
    """Logarithm of the squared norm of a Jacobi polynomial, up to a constant."""
    rising = math.lgamma(k + alpha + 1) + math.lgamma(k + beta + 1)
    falling = math.lgamma(k + alpha + beta + 1) + math.lgamma(k + 1) + math.log(2 * k + alpha + beta + 1)
    return rising - falling


def _two_values(dim: int, k: int, x: float) -> tuple[float, float]:
    """The Gegenbauer polynomials of degrees ``k - 1`` and ``k``, up to a factor that both share."""
    last, this = 1.0, x
    for i in range(1, k):
        last, this = this, ((2 * i + dim - 2) * x * this - i * last) / (i + dim - 2)
        scale = max(abs(last), abs(this))
        last, this = last / scale, this / scale
    return last, this


def _largest_zero(dim: int, k: int, raised: int) -> float:
    """The largest zero of a Jacobi polynomial: the largest eigenvalue of its recurrence."""
    alpha, beta = (dim - 1) / 2, (dim - 3) / 2 + raised
    n = np.arange(k)
    total = 2 * n + alpha + beta
    diagonal = (beta**2 - alpha**2) / np.maximum(total * (total + 2), 1e-300)
    n, total = n[1:], total[1:]
    squares = 4 * n * (n + alpha) * (n + beta) * (n + alpha + beta) / (total**2 * (total**2 - 1))
    largest = scipy.linalg.eigh_tridiagonal(
        diagonal, np.sqrt(squares), eigvals_only=True, select="i", select_range=(k - 1, k - 1)
    )
    return float(largest[0])
