r"""Delsarte's linear-programming bound on spherical codes, with a certificate.

Let :math:`f = \sum_k f_k P_k` with Gegenbauer polynomials :math:`P_k`, :math:`f_0 = 1` and all
:math:`f_k \ge 0`. If :math:`f(x) \le 0` for :math:`-1 \le x \le s`, a code with inner products of at most
:math:`s` has at most :math:`f(1)` members (P. Delsarte, J. M. Goethals and J. J. Seidel, Geom. Dedicata 6,
1977). The smallest such :math:`f(1)` is a linear program with a constraint for every :math:`x`: it is solved on a grid,
to which the points where the solution is positive are added until there are none to speak of.

The result does not rely on the solver. Whatever :math:`f` comes out, its largest value :math:`\varepsilon` on
:math:`[-1, s]` is bounded from above (:func:`largest_value`), and

.. math:: N \le \frac{f(1) - \varepsilon}{1 - \varepsilon}

holds for :math:`f - \varepsilon`, however accurate the solution is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from hpn.theory.gegenbauer import Floats, gegenbauer, to_cosines
from hpn.theory.levenshtein import levenshtein_bound, levenshtein_degree, levenshtein_polynomial

EXTRA_DEGREES = (20, 12, 6)  # beyond Levenshtein's polynomial; more give a better bound and are harder to solve for
MOST_MEMBERS = 1e11  # beyond this, double precision cannot decide whether a polynomial is positive
MOST_DEGREES = 90  # beyond this, the linear program takes long and gains little over Levenshtein's bound
GRID, MOST_ROUNDS = 4, 10  # initial points per degree, and how often more are added
TOLERANCE = 1e-10  # the smallest that the solver accepts
TAYLOR_TERMS = 24


@dataclass(frozen=True, eq=False)
class BoundCertificate:
    """A polynomial that proves a bound: its Gegenbauer coefficients, the first of them 1 and none below 0.

    ``slack`` is what the polynomial is certain not to exceed between −1 and the largest inner product.
    """

    coefficients: Floats
    slack: float

    @property
    def value(self) -> float:
        """The bound, rounded up."""
        at_one = math.fsum(self.coefficients) * (1 + 1e-14)
        return float((at_one - self.slack) / (1 - self.slack) * (1 + 1e-14))


def linear_programming_bound(dim: int, cosine: float) -> BoundCertificate | None:
    """Find the polynomial that bounds the size of a code best, in 3 dimensions or more, for a cosine of at least 0.

    ``None`` for codes so large that double precision does not suffice (see
    :func:`hpn.theory.levenshtein.levenshtein_bound`).
    """
    start, degree = levenshtein_bound(dim, cosine), levenshtein_degree(dim, cosine)
    if start is None or degree is None or start > MOST_MEMBERS or degree > MOST_DEGREES:
        return None
    polynomials = [levenshtein_polynomial(dim, cosine, degree + 1).clip(0.0)]
    for extra in EXTRA_DEGREES:
        solution = _solve(dim, cosine, levenshtein_polynomial(dim, cosine, degree + extra + 1))
        if solution is not None:
            polynomials.append(solution)
            break
    certificates = [BoundCertificate(one, largest_value(dim, cosine, one)) for one in polynomials]
    known = [certificate for certificate in certificates if certificate.slack < 1]
    return min(known, key=lambda certificate: certificate.value, default=None)


def largest_value(dim: int, cosine: float, coefficients: Floats) -> float:
    r"""An upper bound on a polynomial between −1 and ``cosine``, near the largest value it has there.

    As :math:`F(\theta) = \sum_j c_j \cos(j\theta)` it is expanded around the middle of short pieces. By Bernstein's
    inequality the :math:`m`-th derivative is at most :math:`n^m \sum |c_j|`, which bounds the rest of the expansion.
    Pieces that may hold the largest value are halved until nothing is left to gain. The rounding error of the sums is
    added to the bound.
    """
    degree = len(coefficients) - 1
    cosines = coefficients @ to_cosines(dim, degree)
    size = float(np.abs(cosines).sum())
    rounding = 8 * degree * np.finfo(float).eps * size
    low, high = math.acos(min(1.0, cosine)), math.pi
    num_pieces = max(8, math.ceil((high - low) * degree))  # half a piece is at most 1 / (2 * degree)
    half = (high - low) / num_pieces / 2
    middles: Floats = low + half * (2.0 * np.arange(num_pieces, dtype=np.float64) + 1.0)
    reached, limit = -math.inf, math.inf
    for _ in range(40):
        values, rises = _expand(cosines, middles, half)
        reached = max(reached, float(values.max()))
        limit = float((values + rises).max())
        if limit - reached <= rounding + 1e-12:
            break
        middles = middles[values + rises > reached]
        half /= 2
        middles = np.concatenate([middles - half, middles + half])
    return max(limit, reached) + 2 * float(rounding)


def _expand(cosines: Floats, middles: Floats, half: float) -> tuple[Floats, Floats]:
    """Values in the middle of pieces, and how much higher a piece may reach."""
    degree = len(cosines) - 1
    j = np.arange(degree + 1)
    angles = np.outer(middles, j)
    even, odd = np.cos(angles), np.sin(angles)
    weights = cosines.copy()
    values = even @ weights
    rises = np.zeros_like(middles)
    for m in range(1, TAYLOR_TERMS):
        weights = weights * j * (half / m)
        rises += np.abs((odd if m % 2 else even) @ weights)
    rest = float(np.abs(cosines).sum()) * (degree * half) ** TAYLOR_TERMS / math.factorial(TAYLOR_TERMS)
    return values, rises + rest


def _solve(dim: int, cosine: float, first: Floats) -> Floats | None:
    """Solve the linear program, on a grid that gains the points where the last solution was positive."""
    degree, low = len(first) - 1, math.acos(cosine)
    # In units of a good solution, the numbers of the program differ by thousands, not by billions.
    units = np.maximum(first[1:], 1e-3 * first[1:].max())
    to_sums = to_cosines(dim, degree)
    grid = np.linspace(low, math.pi, GRID * degree)
    best, least = None, float(first.sum())
    for _ in range(MOST_ROUNDS):
        solution = _solve_on(dim, grid, units)
        if solution is None:
            break
        peaks, values = _peaks(solution @ to_sums, low)
        slack = float(values.max())
        bound = (float(solution.sum()) - slack) / (1 - slack) if slack < 1 else math.inf
        if bound < least:
            best, least = solution, bound
        # No refinement would lower the sum; the higher the degree, the more a round costs.
        if bound < (1 + 1e-8 * degree**2) * solution.sum():
            break
        grid = np.concatenate([grid, peaks[values > -1e-3]])
    return best


def _solve_on(dim: int, grid: Floats, units: Floats) -> Floats | None:
    table = gegenbauer(dim, len(units), np.cos(grid))[1:].T * units
    rows = np.maximum(1.0, np.abs(table).max(axis=1))
    result = linprog(
        units / units.max(),
        A_ub=table / rows[:, None],
        b_ub=-1 / rows,
        bounds=(0, None),
        method="highs-ds",
        options={"presolve": False, "primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE},
    )
    if result.x is None or not np.isfinite(result.x).all():
        return None
    return np.array([1.0, *(np.maximum(result.x, 0.0) * units)])


def _peaks(cosines: Floats, low: float) -> tuple[Floats, Floats]:
    """Angles from ``low`` on at which a sum of cosines has its peaks, and its values there."""
    j = np.arange(len(cosines))
    angles = np.linspace(low, math.pi, 20 * len(cosines))
    values = np.cos(np.outer(angles, j)) @ cosines
    around = np.stack([np.append(-np.inf, values[:-1]), values, np.append(values[1:], -np.inf)])
    peaks = angles[(around[1] >= around[0]) & (around[1] >= around[2])]
    start, step = peaks, angles[1] - angles[0]
    for _ in range(6):  # Newton's method, near where the grid is highest
        turns = np.outer(peaks, j)
        slope, bend = -np.sin(turns) @ (cosines * j), -np.cos(turns) @ (cosines * j**2)
        moved = peaks - slope / np.where(bend < 0, bend, -np.inf)
        peaks = moved.clip(start - step, start + step).clip(low, math.pi)
    return peaks, np.cos(np.outer(peaks, j)) @ cosines
