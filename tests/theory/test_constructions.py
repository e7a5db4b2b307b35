from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hpn.errors import ConfigError
from hpn.theory import constructions
from hpn.theory.constructions import find_code


def largest_product(code: NDArray[np.float64]) -> float:
    products = code @ code.T
    return float(products[np.triu_indices(len(code), 1)].max(initial=-1.0))


def find_quickly(dim: int, distance: float, *, work: float = 0.0, **options: int) -> NDArray[np.float64]:
    """Like ``find_code``, with less effort to move vectors around."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constructions, "WORK", work)
        return find_code(dim, distance, **options)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 12), st.floats(0, 2, exclude_min=True) | st.floats(0.2, 1), st.sampled_from([1, 7, 300])
)
@example(3, 1e-17, 300)
@example(2, 5e-324, 300)
@example(12, 1.0000000000000002, 300)
@example(12, 0.9999999999999999, 300)
@example(6, 0.5000000000000001, 300)
def test_all_vectors_are_unit_and_far_from_each_other(dim: int, distance: float, max_points: int) -> None:
    code = find_quickly(dim, distance, work=3e7, max_points=max_points)
    assert code.dtype == np.float64
    assert code.shape == (len(code), dim)
    assert 1 <= len(code) <= max_points
    np.testing.assert_allclose(np.linalg.norm(code, axis=1), 1, atol=1e-12)
    assert largest_product(code) <= 1 - distance + 1e-9
    assert len(np.unique(code, axis=0)) == len(code)


@pytest.mark.parametrize(("dim", "number"), {2: 6, 3: 12, 4: 24, 8: 240}.items())
def test_known_kissing_numbers_are_reached(dim: int, number: int) -> None:
    assert len(find_quickly(dim, 0.5)) == number


@pytest.mark.parametrize(("dim", "number"), {5: 40, 6: 72, 7: 126}.items())
def test_the_best_known_kissing_configurations_are_reached(dim: int, number: int) -> None:
    assert len(find_quickly(dim, 0.5)) >= number


@pytest.mark.parametrize(("dim", "number", "cosine"), [(5, 16, 1 / 5), (6, 27, 1 / 4), (7, 56, 1 / 3)])
def test_what_touches_a_vector_of_the_kissing_configuration_is_found(
    dim: int, number: int, cosine: float
) -> None:
    assert len(find_quickly(dim, 1 - cosine)) == number


@pytest.mark.parametrize("sides", [2, 3, 4, 5, 6, 7, 12, 100, 1000])
def test_on_the_circle_it_is_a_regular_polygon(sides: int) -> None:
    code = find_code(2, 1 - math.cos(2 * math.pi / sides))
    assert len(code) == sides
    assert largest_product(code) == pytest.approx(math.cos(2 * math.pi / sides))


@pytest.mark.parametrize(
    ("distance", "sides"), [(0.3, 7), (0.4, 6), (0.5, 6), (0.51, 5), (1, 4), (1.01, 3), (2, 2)]
)
def test_between_two_polygons_it_is_the_one_with_fewer_sides(distance: float, sides: int) -> None:
    assert len(find_code(2, distance)) == sides


@pytest.mark.parametrize("distance", [1e-9, 0.5, 1, 1.5, 2])
def test_on_a_line_there_are_two(distance: float) -> None:
    assert sorted(find_code(1, distance).tolist()) == [[-1.0], [1.0]]


@pytest.mark.parametrize("dim", [3, 8, 40])
def test_at_right_angles_it_is_the_axes_and_their_opposites(dim: int) -> None:
    code = find_code(dim, 1)
    assert len(code) == 2 * dim
    assert (np.sort(code @ code.T, axis=1)[:, [0, 1, -2, -1]] == [-1, 0, 0, 1]).all()


@pytest.mark.parametrize("dim", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("size", [2, 3, 4, 8, 9, 41])
def test_beyond_right_angles_it_is_a_simplex(dim: int, size: int) -> None:
    code = find_code(dim, 1 + 1 / (size - 1))
    assert len(code) == min(size, dim + 1)
    apart = ~np.eye(len(code), dtype=bool)
    np.testing.assert_allclose((code @ code.T)[apart], -1 / (len(code) - 1), atol=1e-12)


@pytest.mark.parametrize("dim", [3, 8])
def test_just_beyond_right_angles_half_of_the_axes_must_go(dim: int) -> None:
    assert len(find_code(dim, 1 + 1e-13)) == dim + 1


@pytest.mark.parametrize("dim", [3, 9, 40])
def test_below_right_angles_the_axes_and_their_opposites_fit(dim: int) -> None:
    assert len(find_quickly(dim, 0.99)) >= 2 * dim


def test_moving_vectors_makes_room_for_more() -> None:
    assert len(find_quickly(3, 0.3)) < 20
    assert len(find_code(3, 0.3)) >= 20


def test_moving_vectors_finds_the_icosahedron() -> None:
    """Its 12 corners are no integer vectors, and 13 do not fit."""
    assert len(find_quickly(3, 0.55)) < len(find_code(3, 0.55)) == 12


@pytest.mark.parametrize(
    ("dim", "distance"), [(2, 1e-5), (3, 0.01), (8, 0.2), (16, 0.5), (90, 1), (200, 1.001)]
)
def test_a_code_is_truncated_where_asked(dim: int, distance: float) -> None:
    assert len(find_code(dim, distance, max_points=150)) == 150


def test_a_shape_with_too_many_vectors_still_gives_some() -> None:
    """Vectors with two entries alone are 1,104 in 24 dimensions."""
    assert len(find_quickly(24, 0.5, max_points=1200)) == 1200


def test_the_same_seed_gives_the_same_code() -> None:
    first, again, other = (find_quickly(3, 0.3, work=1e8, seed=seed) for seed in (3, 3, 4))
    assert (first == again).all()
    assert first.shape != other.shape or (first != other).any()


@pytest.mark.parametrize(("dim", "distance"), [(1, 0.5), (2, 0.3), (5, 1), (5, 1.1)])
def test_an_optimum_that_is_built_needs_no_seed(dim: int, distance: float) -> None:
    assert (find_code(dim, distance, seed=1) == find_code(dim, distance, seed=2)).all()


def test_vectors_that_are_too_close_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = np.eye(3)
    wrong = np.concatenate([axes, axes[:1], -axes, [[0.6, 0.8, 0.0]]])
    monkeypatch.setattr(constructions, "_search", lambda *_: wrong)
    assert (find_code(3, 0.9) == np.concatenate([axes, -axes])).all()


@pytest.mark.parametrize("dim", [0, -3])
def test_a_dimension_below_one_is_an_error(dim: int) -> None:
    with pytest.raises(ConfigError, match="dim must be at least 1"):
        find_code(dim, 0.3)


@pytest.mark.parametrize("distance", [0, -0.1, 2.0000001, math.inf, math.nan])
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_a_distance_that_no_two_vectors_have_is_an_error(dim: int, distance: float) -> None:
    with pytest.raises(ConfigError, match="min_cosine_distance must be above 0 and at most 2"):
        find_code(dim, distance)


@pytest.mark.parametrize(("max_points", "seed"), [(0, 0), (10, -1)])
def test_a_limit_or_seed_out_of_range_is_an_error(max_points: int, seed: int) -> None:
    with pytest.raises(ConfigError, match="max_points must be at least 1 and seed at least 0"):
        find_code(3, 0.3, max_points=max_points, seed=seed)
