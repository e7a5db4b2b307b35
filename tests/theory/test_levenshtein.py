from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import roots_jacobi

from hpn.theory.gegenbauer import gegenbauer
from hpn.theory.levenshtein import levenshtein_bound, levenshtein_degree, levenshtein_polynomial

KNOWN = [(3, 1 / 2, 13.2857142857), (4, 1 / 2, 26), (22, 1 / 4, 891), (23, 1 / 5, 552), (23, 1 / 3, 4600)]
"""Dimension, cosine and bound."""

PLACES = [(3, 0.5), (3, 0.99), (4, 0.3), (4, 0.809), (8, 0.5), (8, 0.75), (24, 0.25), (24, 0.5), (32, 0.5)]


def exact_bound(dim: int, s: Fraction, degree: int) -> Fraction:
    """Levenshtein's formula as it is printed."""
    p = [Fraction(1), s]
    for i in range(1, degree + 1):
        p.append(((2 * i + dim - 2) * s * p[i] - i * p[i - 1]) / (i + dim - 2))
    if degree % 2:
        k = (degree + 1) // 2
        inner = Fraction(2 * k + dim - 3, dim - 1) - (p[k - 1] - p[k]) / ((1 - s) * p[k])
        return math.comb(k + dim - 3, k - 1) * inner
    k = degree // 2
    inner = Fraction(2 * k + dim - 1, dim - 1) - (1 + s) * (p[k] - p[k + 1]) / ((1 - s) * (p[k] + p[k + 1]))
    return math.comb(k + dim - 2, k) * inner


def last_cosine(dim: int, degree: int) -> float:
    """The largest cosine that a degree is for: a zero of a Jacobi polynomial."""
    base, k = (dim - 3) / 2, (degree + 1) // 2
    return float(roots_jacobi(k, base + 1, base + (degree + 1) % 2)[0].max())


def bound_at(dim: int, cosine: float) -> Fraction:
    bound = levenshtein_bound(dim, cosine)
    assert bound is not None
    return bound


@pytest.mark.parametrize(("dim", "cosine", "expected"), KNOWN)
def test_published_values(dim: int, cosine: float, expected: float) -> None:
    assert expected <= bound_at(dim, cosine) <= expected * (1 + 1e-6)


@pytest.mark.parametrize("dim", [3, 4, 7, 16, 100])
def test_each_degree_has_its_cosines(dim: int) -> None:
    ends = [last_cosine(dim, degree) for degree in range(2, 25)]
    assert_allclose(ends[0], 0, atol=1e-12)
    assert ends == sorted(ends)
    for degree, (start, end) in enumerate(itertools.pairwise(ends), start=3):
        for cosine in (start + 1e-9, (start + end) / 2, end - 1e-9):
            assert levenshtein_degree(dim, cosine) == degree


@pytest.mark.parametrize("cosine", [0.03, 1 / 3, 0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("dim", [3, 4, 8, 24])
def test_the_bound_is_the_formula_in_exact_arithmetic_with_a_margin(dim: int, cosine: float) -> None:
    degree = levenshtein_degree(dim, cosine)
    assert degree is not None
    ratio = bound_at(dim, cosine) / exact_bound(dim, Fraction(cosine), degree)
    assert 1 < ratio < 1 + Fraction(2, 10**9)


@pytest.mark.parametrize(("dim", "cosine"), PLACES)
def test_the_coefficients_prove_the_bound(dim: int, cosine: float) -> None:
    degree = levenshtein_degree(dim, cosine)
    assert degree is not None
    coefficients = levenshtein_polynomial(dim, cosine, degree + 1)
    assert coefficients[0] == 1
    assert coefficients.min() > 0
    assert_allclose(coefficients.sum(), float(bound_at(dim, cosine)), rtol=1e-8)

    values = coefficients @ gegenbauer(dim, degree, np.linspace(-1, cosine, 2001))
    assert values.max() < 1e-12 * coefficients.sum()
    assert values[-1] == pytest.approx(0, abs=1e-12 * coefficients.sum())
    beyond = coefficients @ gegenbauer(dim, degree, np.linspace(cosine, 1, 101)[1:])
    assert beyond.min() > 0


@pytest.mark.parametrize("cosine", [0.01, 0.1, 0.5, 0.9, 0.99])
def test_huge_dimensions_are_beyond_floating_point_but_not_beyond_the_bound(cosine: float) -> None:
    bound = levenshtein_bound(1024, cosine)
    assert isinstance(bound, Fraction)
    assert bound >= 2 * 1024
    # Numbers beyond 10^308 have no float.
    assert (bound > Fraction(10) ** 308) == (cosine > 0.7)


@pytest.mark.parametrize(("dim", "cosine"), [(3, 1 - 1e-9), (64, 1 - 1e-7), (1024, 1 - 1e-6)])
def test_some_angles_are_beyond_reach(dim: int, cosine: float) -> None:
    assert levenshtein_degree(dim, cosine) is None
    assert levenshtein_bound(dim, cosine) is None
