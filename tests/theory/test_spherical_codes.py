from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpn.theory import max_code_size

relaxed = settings(deadline=None)
dims = st.integers(1, 64)
distances = st.floats(0.01, 1.0)

KISSING = {2: 6, 3: 12, 4: 24, 8: 240}
"""How many balls touch one of their size: unit vectors at 60 degrees or more from each other."""


@pytest.mark.parametrize("t", [0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4])
def test_on_the_circle_the_bound_is_exact(t: float) -> None:
    size, angle = max_code_size(2, t), math.acos(1 - t)
    assert size == math.floor(2 * math.pi / angle)
    assert size * angle <= 2 * math.pi < (size + 1) * angle


@pytest.mark.parametrize("dim", KISSING)
def test_the_bound_is_not_below_the_kissing_number(dim: int) -> None:
    assert KISSING[dim] <= max_code_size(dim, 0.5) < 5 * KISSING[dim]


@pytest.mark.parametrize("dim", range(1, 9))
def test_the_bound_is_not_below_the_axes_and_their_opposites(dim: int) -> None:
    assert max_code_size(dim, 1.0) >= 2 * dim


@pytest.mark.parametrize("sides", [4, 5, 6, 7, 12, 100, 1000])
def test_the_bound_is_not_below_regular_polygons(sides: int) -> None:
    assert max_code_size(2, 1 - math.cos(2 * math.pi / sides)) == sides


@pytest.mark.parametrize("t", [0.01, 0.1, 0.3, 0.5, 1.0])
def test_on_the_ordinary_sphere_it_is_the_share_of_a_cap(t: float) -> None:
    share = (1 - math.cos(math.acos(1 - t) / 2)) / 2
    assert max_code_size(3, t) == math.floor(1 / share)


@relaxed
@given(dims, distances, distances)
def test_a_larger_distance_leaves_no_room_for_more(dim: int, one: float, other: float) -> None:
    assert max_code_size(dim, min(one, other)) >= max_code_size(dim, max(one, other))


@relaxed
@given(dims, dims, distances)
def test_a_larger_dimension_has_no_less_room(one: int, other: int, t: float) -> None:
    assume(one != other)
    assert max_code_size(min(one, other), t) <= max_code_size(max(one, other), t)


@pytest.mark.parametrize("t", [0.01, 0.4, 1.0])
def test_on_a_line_there_are_two(t: float) -> None:
    assert max_code_size(1, t) == 2


@pytest.mark.parametrize("dim", [1, 2, 3, 8])
def test_both_ways_the_change_is_real(dim: int) -> None:
    """The two tests above would hold for a constant."""
    assert max_code_size(dim + 1, 0.1) > max_code_size(dim, 0.1)
    assert dim == 1 or max_code_size(dim, 0.1) > max_code_size(dim, 0.4)
