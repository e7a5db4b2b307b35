from __future__ import annotations

import contextlib
import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.errors import ConfigError
from hpn.theory import max_code_size, upper_bounds
from hpn.theory.spherical_codes import cap_area_bound, rankin_bound

relaxed = settings(deadline=None, max_examples=6)
dims = st.integers(3, 7)
distances = st.floats(0.3, 1.0)

GRID = [0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
"""The paper's thresholds."""

KNOWN = [
    (3, 0.5, 12, 13),  # kissing spheres
    (4, 0.5, 24, 25),
    (5, 0.5, 40, 46),
    (6, 0.5, 72, 82),
    (7, 0.5, 126, 140),
    (8, 0.5, 240, 240),
    (24, 0.5, 196560, 196560),
    (3, 1 - 1 / math.sqrt(5), 12, 12),  # an icosahedron
    (4, (3 - math.sqrt(5)) / 4, 120, 120),  # a 600-cell
    (5, 4 / 5, 16, 16),  # codes with few inner products
    (6, 3 / 4, 27, 27),
    (7, 2 / 3, 56, 56),
    (21, 6 / 7, 162, 162),
    (22, 5 / 6, 275, 275),
]
"""Dimension, distance and size of codes that exist, and what linear programming leaves room for."""


@pytest.mark.parametrize("t", GRID)
def test_on_the_circle_the_bound_is_exact(t: float) -> None:
    bound, angle = max_code_size(2, t), math.acos(1 - t)
    assert bound.size == math.floor(2 * math.pi / angle)
    assert bound.size * angle <= 2 * math.pi < (bound.size + 1) * angle
    assert bound.value == pytest.approx(2 * math.pi / angle)
    assert (bound.name, bound.is_exact) == ("circle", True)
    assert upper_bounds(2, t) == [bound]


@pytest.mark.parametrize("sides", [2, 3, 4, 5, 6, 7, 12, 100, 1000])
def test_regular_polygons_fit_at_their_own_distance(sides: int) -> None:
    assert max_code_size(2, 1 - math.cos(2 * math.pi / sides)).size == sides


@pytest.mark.parametrize("dim", [2, 3, 4, 8, 16, 100])
def test_right_angles_and_beyond_are_exact(dim: int) -> None:
    assert max_code_size(dim, 1.0).size == 2 * dim  # the axes and their opposites
    simplex = 1 + 1 / dim
    for t in (1 + 1e-6 / dim, 1 + 0.5 / dim, simplex):
        assert max_code_size(dim, t).size == dim + 1
    assert max_code_size(dim, simplex + 1e-9).size == dim
    assert max_code_size(dim, 2.0).size == 2


@pytest.mark.parametrize(("dim", "t", "size", "most"), KNOWN)
def test_no_bound_is_below_a_known_code_and_the_best_is_as_published(dim: int, t: float, size: int, most: int) -> None:
    bounds = upper_bounds(dim, t)
    assert [bound.name for bound in bounds] == ["linear programming", "Levenshtein", "Rankin", "cap area"]
    for bound in bounds:
        assert bound.size >= size
        assert bound.size == math.floor(bound.value)
        assert not bound.is_exact
    assert min(bound.size for bound in bounds) == most


@pytest.mark.parametrize(
    ("dim", "t", "name"),
    [
        (4, 0.5, "linear programming"),
        (12, 0.3, "linear programming"),
        (32, 0.05, "Levenshtein"),
        (1024, 0.1, "Levenshtein"),
        (3, 1e-8, "cap area"),
        (64, 1e-8, "cap area"),
        (1024, 1e-6, "balls"),
    ],
)
def test_the_best_bound_wins(dim: int, t: float, name: str) -> None:
    bounds = upper_bounds(dim, t)
    best = max_code_size(dim, t)
    assert best in bounds
    assert best.size == min(bound.size for bound in bounds)
    assert best.name == name


@pytest.mark.parametrize("t", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_on_the_ordinary_sphere_the_area_is_the_share_of_a_cap(t: float) -> None:
    share = (1 - math.cos(math.acos(1 - t) / 2)) / 2
    bound = cap_area_bound(3, 1 - t)
    assert bound.value == pytest.approx(1 / share)
    assert (bound.size, bound.name) == (math.floor(1 / share), "cap area")


@pytest.mark.parametrize(
    ("dim", "t"),
    [*itertools.product((5, 17, 33, 49), (5e-5, 1e-3, 0.1, 0.5)), (89, 9.04e-6), (91, 9.54e-6), (119, 1.72e-5)],
)
def test_rankins_bound_is_not_rounded_to_the_unsafe_side(dim: int, t: float) -> None:
    """With y = 1 − cos φ, its integrals are those of polynomials in odd dimensions."""
    s, half = Fraction(1 - t), (dim - 3) // 2
    rim = Fraction(math.isqrt(math.floor(s * 10**160)), 10**80)
    # sin^(d-3) φ = (2y − y²)^half, and sin φ dφ = dy
    powers = [(half + i + 1, math.comb(half, i) * (-1) ** i * 2 ** (half - i)) for i in range(half + 1)]
    whole = sum(Fraction(factor, n) for n, factor in powers)
    share = sum(factor * (1 - rim) ** (n + 1) * (Fraction(1, n) - Fraction(1, n + 1)) for n, factor in powers)
    exact = (1 - s) / rim * whole / share

    bound = rankin_bound(dim, 1 - t)
    assert bound is None or exact <= Fraction(bound.value) <= exact * (1 + Fraction(1, 10**4))
    assert bound is not None or t < 1e-3


@relaxed
@given(dims, distances, distances)
def test_a_larger_distance_or_a_smaller_dimension_leaves_no_room_for_more(dim: int, one: float, other: float) -> None:
    near, far = max_code_size(dim, min(one, other)), max_code_size(dim, max(one, other))
    assert far.value <= near.value * (1 + 1e-3)
    assert near.value <= max_code_size(dim + 1, min(one, other)).value * (1 + 1e-3)


@pytest.mark.parametrize("t", [1e-6, 1e-3, 0.01, 0.1])
@pytest.mark.parametrize("dim", [64, 1024])
def test_beyond_floating_point_a_bound_is_still_a_whole_number(dim: int, t: float) -> None:
    bound = max_code_size(dim, t)
    assert isinstance(bound.size, int)
    assert bound.size > 2 * dim
    assert bound.value == math.inf or bound.size == math.floor(bound.value) or bound.size > 2**53


@pytest.mark.parametrize("t", [1e-12, 1e-13, 5e-324])
@pytest.mark.parametrize("dim", [2, 3])
def test_distances_that_rounding_swallows_have_a_bound_or_are_an_error(dim: int, t: float) -> None:
    with contextlib.suppress(ConfigError):
        assert max_code_size(dim, t).size >= 4 / math.sqrt(t)


@pytest.mark.parametrize("t", [1 - 1e-13, 1 - 1e-11, 1 - 1e-9, 1 - 1e-6])
@pytest.mark.parametrize("dim", [3, 8, 24])
def test_just_before_right_angles_nothing_happens_at_once(dim: int, t: float) -> None:
    assert max_code_size(dim, t).size == 2 * dim


@pytest.mark.parametrize(
    ("dim", "t"), [(0, 0.3), (-1, 0.3), (3, 0.0), (3, -0.1), (3, 2.001), (3, math.nan), (3, math.inf), (1, 0.0)]
)
def test_no_space_and_no_distance_are_errors(dim: int, t: float) -> None:
    message = "dim must be at least 1" if dim < 1 else "above 0 and at most 2"
    for function in (max_code_size, upper_bounds):
        with pytest.raises(ConfigError, match=message) as caught:
            function(dim, t)
        assert str(dim if dim < 1 else t) in str(caught.value)
        assert "\n" not in str(caught.value)
