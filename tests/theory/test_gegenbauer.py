from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import eval_gegenbauer, roots_jacobi

from hpn.theory.gegenbauer import gegenbauer, harmonic_dimensions, to_cosines

DIMS = [3, 4, 5, 8, 24, 100]
DEGREE = 12


def pochhammer_table(dim: int, degree: int) -> list[list[Fraction]]:
    """The sums of cosines in exact arithmetic."""
    a = [Fraction(1)]
    for i in range(degree):
        a.append(a[-1] * (Fraction(dim - 2, 2) + i) / (i + 1))
    table = [[Fraction(0)] * (degree + 1) for _ in range(degree + 1)]
    for k, row in enumerate(table):
        for i in range(k + 1):
            row[abs(k - 2 * i)] += a[i] * a[k - i]
    return [[entry / sum(row) for entry in row] for row in table]


@pytest.mark.parametrize("dim", DIMS)
def test_they_are_gegenbauer_polynomials_scaled_to_one(dim: int) -> None:
    x, lam = np.linspace(-1, 1, 41), (dim - 2) / 2
    expected = [eval_gegenbauer(k, lam, x) / eval_gegenbauer(k, lam, 1.0) for k in range(DEGREE + 1)]
    assert_allclose(gegenbauer(dim, DEGREE, x), expected, atol=1e-13)


@pytest.mark.parametrize("dim", DIMS)
def test_different_degrees_are_orthogonal_and_the_mean_square_is_one_over_the_harmonics(dim: int) -> None:
    nodes, weights = roots_jacobi(DEGREE + 1, (dim - 3) / 2, (dim - 3) / 2)
    values = gegenbauer(dim, DEGREE, nodes)
    means = (values * weights / weights.sum()) @ values.T
    # In units of the mean squares, which fall to 1e-15 and below.
    scale = np.sqrt(harmonic_dimensions(dim, DEGREE))
    assert_allclose(means * np.outer(scale, scale), np.eye(DEGREE + 1), atol=1e-9)


@pytest.mark.parametrize("dim", DIMS)
def test_sums_of_cosines_are_the_same_polynomials(dim: int) -> None:
    angles, j = np.linspace(0, math.pi, 41), np.arange(DEGREE + 1)
    table = to_cosines(dim, DEGREE)
    assert_allclose(table @ np.cos(np.outer(j, angles)), gegenbauer(dim, DEGREE, np.cos(angles)), atol=1e-13)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("degree", [0, 1, 80])
def test_sums_of_cosines_have_no_negative_weights_and_sum_to_one(dim: int, degree: int) -> None:
    table = to_cosines(dim, degree)
    assert table.shape == (degree + 1, degree + 1)
    assert table.min() >= 0
    assert_allclose(table.sum(axis=1), 1, rtol=1e-13)


@pytest.mark.parametrize(("dim", "degree"), [(3, 40), (8, 30), (24, 30), (64, 24), (1024, 24), (10**5, 24)])
def test_rounding_leaves_sums_of_cosines_as_exact_as_their_use_expects(dim: int, degree: int) -> None:
    """Certificates of linear programming leave room for 16 units of rounding per degree, cosines included."""
    rounded = [[Fraction(entry) for entry in row] for row in to_cosines(dim, degree).tolist()]
    exact = pochhammer_table(dim, degree)
    errors = [
        sum(abs(is_ - should) for is_, should in zip(*rows, strict=True)) for rows in zip(rounded, exact, strict=True)
    ]
    assert float(max(errors)) < 8 * degree * np.finfo(float).eps
