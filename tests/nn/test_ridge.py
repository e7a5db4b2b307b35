from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from hpn.nn import ridge
from hpn.nn.ridge import fit_reference, ridge_path, thin_out

STRENGTHS = (0.1, 1.0, 30.0)
SHAPES = {"wide": (9, 25), "tall": (40, 6), "square": (8, 8), "two rows": (2, 5), "one feature": (5, 1)}
FORMS = {"dense": np.asarray, "sparse": sp.csr_matrix, "single": lambda x: x.astype(np.float32)}

every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
every_form = pytest.mark.parametrize("form", FORMS)


def draw(shape: tuple[int, int], num_targets: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = (0.5 + rng.standard_normal(shape)) * (rng.random(shape) < 0.6)
    return x.astype(np.float32).astype(np.float64), rng.standard_normal((shape[0], num_targets))


def normal_equations(x: np.ndarray, target: np.ndarray, penalty: float) -> np.ndarray:
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ target)


def mean_square(x: np.ndarray) -> float:
    return float((x**2).sum(axis=1).mean())


@every_shape
@every_form
@pytest.mark.parametrize("strength", [0.001, 1.0])
def test_the_reference_predicts_a_constant(shape: tuple[int, int], form: str, strength: float) -> None:
    x, _ = draw(shape)
    expected = normal_equations(x, np.ones(shape[0]), strength * mean_square(x))
    np.testing.assert_allclose(fit_reference(FORMS[form](x), strength), expected, atol=1e-8)
    alike = np.full((7, 3), 0.2)
    np.testing.assert_allclose(alike @ fit_reference(alike, strength), np.full(7, 7 / (7 + strength)))


@every_shape
@every_form
def test_weights_solve_the_centred_normal_equations(shape: tuple[int, int], form: str) -> None:
    """And the reference, whatever it is, makes up for the intercept."""
    x, target = draw(shape)
    centred, reference = x - x.mean(axis=0), np.random.default_rng(1).standard_normal(shape[1])
    paths = list(ridge_path(FORMS[form](x), target, reference, STRENGTHS))
    assert len(paths) == len(STRENGTHS)
    for strength, (weights, _) in zip(STRENGTHS, paths, strict=True):
        inner = normal_equations(centred, target - target.mean(axis=0), strength * mean_square(centred))
        intercept = target.mean(axis=0) - x.mean(axis=0) @ inner
        assert isinstance(weights, np.ndarray)
        np.testing.assert_allclose(weights, inner + np.outer(reference, intercept), atol=1e-8)


@every_shape
@every_form
def test_rows_left_out_are_predicted_as_if_they_had_not_been_there(shape: tuple[int, int], form: str) -> None:
    """Against as many fits with an intercept, each of all rows but one."""
    x, target = draw(shape)
    penalties = [strength * mean_square(x - x.mean(axis=0)) for strength in STRENGTHS]
    paths = ridge_path(FORMS[form](x), target, fit_reference(x, 0.001), STRENGTHS)
    for penalty, (_, left_out) in zip(penalties, paths, strict=True):
        expected = np.empty_like(target)
        for row in range(len(x)):
            rest_x, rest = np.delete(x, row, axis=0), np.delete(target, row, axis=0)
            mean = rest_x.mean(axis=0)
            inner = normal_equations(rest_x - mean, rest - rest.mean(axis=0), penalty)
            expected[row] = (x[row] - mean) @ inner + rest.mean(axis=0)
        np.testing.assert_allclose(left_out, expected, atol=1e-7)


@pytest.mark.parametrize("shape", [(40, 6), (9, 25)])
def test_only_the_first_rows_are_left_out_if_there_are_many(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, target = draw(shape)
    every = list(ridge_path(x, target, fit_reference(x, 0.001), STRENGTHS))
    monkeypatch.setattr(ridge, "MOST_LEFT_OUT", 4)
    some = list(ridge_path(x, target, fit_reference(x, 0.001), STRENGTHS))
    for (all_weights, all_rows), (weights, rows) in zip(every, some, strict=True):
        np.testing.assert_allclose(weights, all_weights)
        np.testing.assert_allclose(rows, all_rows[:4])


@every_form
def test_what_it_is_given_stays_as_it_is(form: str) -> None:
    x, target = draw((9, 6))
    features: Any = FORMS[form](x)
    before = features.copy(), target.copy()
    list(ridge_path(features, target, fit_reference(features, 0.001), STRENGTHS))
    assert abs(features - before[0]).max() == 0
    np.testing.assert_array_equal(target, before[1])


@pytest.mark.parametrize("shape", [(20, 6), (6, 20)])
def test_the_scale_of_features_makes_no_difference(shape: tuple[int, int]) -> None:
    x, target = draw(shape)
    for scale in (1e-3, 1e3):
        plain = ridge_path(x, target, fit_reference(x, 0.001), STRENGTHS)
        scaled = ridge_path(scale * x, target, fit_reference(scale * x, 0.001), STRENGTHS)
        for (weights, left_out), (other, other_left_out) in zip(plain, scaled, strict=True):
            np.testing.assert_allclose(scale * other, weights, atol=1e-8)
            np.testing.assert_allclose(other_left_out, left_out, atol=1e-8)


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (1, 4), (1, 1)])
def test_rows_of_zeros_give_weights_of_zero(shape: tuple[int, int]) -> None:
    x, target = np.zeros(shape), np.ones((shape[0], 2))
    reference = fit_reference(x, 0.001)
    assert not reference.any()
    for weights, left_out in ridge_path(x, target, reference, STRENGTHS):
        assert weights.tolist() == np.zeros((shape[1], 2)).tolist()
        np.testing.assert_allclose(left_out, target)


@pytest.mark.parametrize("shape", [(1000, 5), (40, 60)])
def test_rows_that_are_all_alike(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    x, target = 123.456 * np.ones(shape), rng.standard_normal((shape[0], 2))
    for features in (x, (x + 1e-5 * rng.standard_normal(shape)).astype(np.float32)):
        for weights, left_out in ridge_path(features, target, fit_reference(features, 0.001), STRENGTHS):
            assert np.isfinite(weights).all()
            assert np.isfinite(left_out).all()


@every_form
def test_large_systems_are_thinned_out_evenly(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "LARGEST_SYSTEM", 8)
    x, target = draw((40, 12))
    kept, kept_target = thin_out(FORMS[form](x), target)
    rows = [0, 5, 11, 16, 22, 27, 33, 39]
    assert abs(kept - x[rows]).max() == 0
    np.testing.assert_array_equal(kept_target, target[rows])


@pytest.mark.parametrize("shape", [(40, 8), (8, 40)])
def test_a_small_side_is_enough_to_use_every_row(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ridge, "LARGEST_SYSTEM", 8)
    x, target = draw(shape)
    assert thin_out(x, target) == (x, target)


def test_sparse_features_become_dense_if_they_are_mostly_full() -> None:
    x, target = draw((10, 10))
    full, _ = thin_out(sp.csr_matrix(x), target)
    np.testing.assert_array_equal(full, x)
    assert sp.issparse(thin_out(sp.csr_matrix(np.eye(10)), target)[0])
