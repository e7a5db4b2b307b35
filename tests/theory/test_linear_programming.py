from __future__ import annotations

import functools
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from hpn.theory import linear_programming
from hpn.theory.gegenbauer import Floats, gegenbauer, harmonic_dimensions
from hpn.theory.levenshtein import levenshtein_bound, levenshtein_degree
from hpn.theory.linear_programming import (
    MOST_DEGREES,
    MOST_MEMBERS,
    BoundCertificate,
    largest_value,
    linear_programming_bound,
)

KISSING = {3: 12, 4: 24, 5: 40, 6: 72, 7: 126, 8: 240, 24: 196560}
"""How many balls touch one of their size: codes with cosine 1/2."""

SHARP = [(3, 1 / math.sqrt(5)), (4, (1 + math.sqrt(5)) / 4), (5, 1 / 5), (6, 1 / 4), (7, 1 / 3), (22, 1 / 6)]
ELSEWHERE = [(3, 0.9), (4, 0.8), (6, 0.7), (12, 0.5), (16, 0.5), (32, 0.3), (128, 0.1)]
PLACES = sorted({*((dim, 0.5) for dim in KISSING), *SHARP, *ELSEWHERE})
HIGH = [(512, 0.01), (1024, 0.05), (10**4, 0.001)]


@functools.cache
def certificate_at(dim: int, cosine: float) -> BoundCertificate:
    certificate = linear_programming_bound(dim, cosine)
    assert certificate is not None
    return certificate


def exact_value(dim: int, coefficients: Floats, x: float) -> Fraction:
    """The polynomial at a point, without rounding."""
    point = Fraction(x)
    last, this, total = Fraction(0), Fraction(1), Fraction(0)
    for k, coefficient in enumerate(coefficients.tolist()):
        total += Fraction(coefficient) * this
        following = ((2 * k + dim - 2) * point * this - k * last) / (k + dim - 2)
        last, this = this, following
    return total


def on_a_grid(dim: int, cosine: float, coefficients: Floats, num: int) -> tuple[Floats, Floats]:
    """Points between −1 and the cosine, dense at the ends, and the values there."""
    x = np.cos(np.linspace(math.acos(cosine), math.pi, num)).clip(-1.0, cosine)
    return x, coefficients @ gegenbauer(dim, len(coefficients) - 1, x)


@pytest.mark.parametrize(("dim", "cosine"), [(3, 0.9), (4, 0.5), (4, 0.8), (6, 0.7), (12, 0.5)])
def test_where_the_closed_form_is_not_the_best_the_solver_finds_better(dim: int, cosine: float) -> None:
    closed_form = levenshtein_bound(dim, cosine)
    assert closed_form is not None
    assert certificate_at(dim, cosine).value < 0.995 * float(closed_form)


@pytest.mark.parametrize(("dim", "cosine"), [*PLACES, *HIGH])
def test_a_certificate_proves_its_bound(dim: int, cosine: float) -> None:
    certificate = certificate_at(dim, cosine)
    coefficients, slack = certificate.coefficients, Fraction(certificate.slack)
    assert coefficients[0] == 1
    assert coefficients.min() >= 0
    assert slack < 1

    assert certificate.value <= float(levenshtein_bound(dim, cosine) or math.inf) * (1 + 1e-5)

    # Where floating-point numbers see it highest, and elsewhere, in exact arithmetic.
    x, values = on_a_grid(dim, cosine, coefficients, 4000)
    inside = values[1:-1]
    peaks = x[1:-1][(inside >= values[:-2]) & (inside >= values[2:])]
    highest = peaks[np.argsort(coefficients @ gegenbauer(dim, len(coefficients) - 1, peaks))[-6:]]
    for point in [-1.0, cosine, *highest.tolist(), *x[::1000].tolist()]:
        assert exact_value(dim, coefficients, point) <= slack

    at_one = sum(Fraction(coefficient) for coefficient in coefficients.tolist())
    assert (at_one - slack) / (1 - slack) <= Fraction(certificate.value)
    assert_allclose(certificate.value, float((at_one - slack) / (1 - slack)), rtol=1e-12)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([3, 4, 5, 8, 24]),
    st.floats(0, 0.99),
    st.lists(st.floats(0, 100), min_size=0, max_size=25),
    st.booleans(),
)
def test_the_largest_value_is_never_too_low_and_hardly_too_high(
    dim: int, cosine: float, weights: list[float], grow: bool
) -> None:
    coefficients = np.array([1.0, *weights])
    if grow:  # as those of good polynomials do
        coefficients *= harmonic_dimensions(dim, len(weights))
    found, size = largest_value(dim, cosine, coefficients), coefficients.sum()
    x, values = on_a_grid(dim, cosine, coefficients, 3000)
    assert exact_value(dim, coefficients, float(x[values.argmax()])) <= Fraction(found)
    assert found <= values.max() + 1e-4 * size


def test_a_bad_polynomial_with_slack_is_honest() -> None:
    """By its sum alone it would allow 4 vectors at right angles where there are 6."""
    coefficients = np.array([1.0, 2.0, 1.0])
    slack = largest_value(3, 0.0, coefficients)
    assert slack == pytest.approx(0.5)
    assert coefficients.sum() < 6 <= BoundCertificate(coefficients, slack).value < 8


def solver_that_returns(x: Any) -> Any:
    """A stand-in for the solver; ``x`` is a solution or makes one from the costs."""

    def solve(costs: Floats, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(x=x(costs) if callable(x) else x)

    return solve


def draw(scale: float) -> Any:
    generator = np.random.default_rng(0)
    return lambda costs: scale * generator.normal(size=len(costs))


@pytest.mark.parametrize(
    "x",
    [None, np.zeros_like, np.ones_like, draw(1e-3), draw(1.0), draw(1e6), lambda costs: np.full_like(costs, np.nan)],
    ids=["nothing", "zeros", "ones", "small", "random", "large", "nan"],
)
@pytest.mark.parametrize(("dim", "most"), [(4, 26), (8, 240)])
def test_a_broken_solver_does_not_break_the_bound(monkeypatch: pytest.MonkeyPatch, x: Any, dim: int, most: int) -> None:
    monkeypatch.setattr(linear_programming, "linprog", solver_that_returns(x))
    certificate = linear_programming_bound(dim, 0.5)
    assert certificate is not None
    assert KISSING[dim] <= certificate.value <= most * (1 + 1e-5)


def test_without_any_valid_polynomial_there_is_no_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_programming, "levenshtein_polynomial", lambda *_: np.ones(3))
    monkeypatch.setattr(linear_programming, "linprog", solver_that_returns(None))
    assert largest_value(8, 0.5, np.ones(3)) > 1
    assert linear_programming_bound(8, 0.5) is None


@pytest.mark.parametrize(("dim", "cosine"), [(32, 0.99), (64, 0.52), (3, 0.9999), (1024, 0.99)])
def test_where_double_precision_does_not_suffice_there_is_none(dim: int, cosine: float) -> None:
    size, degree = levenshtein_bound(dim, cosine), levenshtein_degree(dim, cosine)
    assert size is not None
    assert degree is not None
    assert size > MOST_MEMBERS or degree > MOST_DEGREES
    assert linear_programming_bound(dim, cosine) is None
