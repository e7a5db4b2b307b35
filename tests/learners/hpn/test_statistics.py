from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.learners.hpn import statistics
from hpn.learners.hpn.statistics import ClassMeans, ClassSums, average, solve

seeds = st.integers(0, 2**32 - 1)
relaxed = settings(deadline=None, max_examples=50)


def draw_rows(seed: int, count: int = 60, dim: int = 7, classes: tuple[int, ...] = (2, 5, 11)) -> tuple:
    """Whole numbers from 0 to 127, a third of them 0, and classes, all of which occur."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 128, (count, dim)) * (rng.random((count, dim)) < 0.7)
    y = np.concatenate([classes, rng.choice(classes, count - len(classes), p=None)])
    return rows.astype(np.float32), rng.permutation(y).astype(np.int64)


def sums_of(rows: np.ndarray, y: np.ndarray, has_gram: bool = True) -> ClassSums:
    sums = ClassSums(rows.shape[1], has_gram)
    sums.add(rows, y)
    return sums


def assert_exact(sums: ClassSums, rows: np.ndarray, y: np.ndarray) -> None:
    """Equal to sums in whole numbers of Python, bit for bit."""
    whole = rows.astype(np.int64)
    assert sorted(sums.sums) == sorted(sums.counts) == np.unique(y).tolist()
    for label in np.unique(y).tolist():
        expected = [sum(int(row[at]) for row in whole[y == label]) for at in range(rows.shape[1])]
        assert sums.sums[label].tolist() == expected
        assert sums.counts[label] == int((y == label).sum())
    if sums.gram is not None:
        expected_gram = np.zeros((rows.shape[1],) * 2, dtype=object)
        for row in whole.astype(object):
            expected_gram += np.outer(row, row)
        assert sums.gram.tolist() == expected_gram.tolist()


@relaxed
@given(seeds, st.booleans(), st.booleans())
def test_sums_are_exact_in_any_order_and_grouping(seed: int, has_gram: bool, at_once: bool) -> None:
    rows, y = draw_rows(seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    cuts = np.sort(rng.integers(0, len(y), 0 if at_once else 6))
    sums = ClassSums(7, has_gram)
    for part in np.split(order, cuts):
        sums.add(rows[part], y[part])
    assert_exact(sums, rows, y)


@relaxed
@given(seeds, st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_sums_are_merged_exactly_in_any_order(seed: int, order: list[int]) -> None:
    parts = [draw_rows(seed + at, count=20, classes=(at, at + 1, 9)) for at in range(4)]
    merged = ClassSums(7, has_gram=True)
    for at in order:  # some more than once, some never
        assert merged.merge(sums_of(*parts[at])) is merged
    assert_exact(merged, *(np.concatenate([parts[at][part] for at in order]) for part in (0, 1)))


@relaxed
@given(seeds, st.booleans(), st.booleans())
def test_what_was_added_can_be_subtracted_exactly(seed: int, has_gram: bool, merges: bool) -> None:
    rows, y = draw_rows(seed)
    leaves = (y == 5) | (np.random.default_rng(seed).random(len(y)) < 0.3)  # a whole class among them
    sums = sums_of(rows, y, has_gram)
    if merges:
        sums.merge(sums_of(rows[leaves], y[leaves], has_gram), sign=-1)
    else:
        sums.add(rows[leaves], y[leaves], sign=-1)
    assert 5 not in sums.sums
    assert_exact(sums, rows[~leaves], y[~leaves])


@pytest.mark.parametrize("exact_bytes", [True, False])
@pytest.mark.parametrize("count", [1101, 150_001])
def test_many_rows_of_the_largest_value(count: int, exact_bytes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than single precision, or 32 bits, add up exactly at once."""
    if exact_bytes and not statistics._has_exact_bytes():
        pytest.skip("no exact products of 8-bit numbers here")
    monkeypatch.setattr(statistics, "_has_exact_bytes", lambda: exact_bytes)
    monkeypatch.setattr(statistics, "LEAST_FOR_BYTES", 1)
    sums = ClassSums(3, has_gram=True)
    rows = np.full((count, 3), 127, np.float32)
    rows[:, 2] = 1
    sums.add(rows, np.zeros(count, np.int64))
    large, small = 127**2 * count, 127 * count
    assert int(np.float32(large)) != large  # there is no such number in single precision
    assert sums.gram.tolist() == [[large, large, small], [large, large, small], [small, small, count]]
    assert sums.sums[0].tolist() == [small, small, count]


def test_products_of_bytes_are_used_only_if_they_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right instructions they saturate, and then they must not be used."""
    monkeypatch.setattr(statistics, "LEAST_FOR_BYTES", 1)
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: (a.long() @ b.long()).clamp(max=2**15 - 1).int())
    statistics._has_exact_bytes.cache_clear()
    try:
        rows, y = draw_rows(0, count=50)
        assert_exact(sums_of(rows, y), rows, y)
    finally:
        monkeypatch.undo()
        statistics._has_exact_bytes.cache_clear()


@pytest.mark.parametrize("dim", [63, 64, 65, 100])
def test_wide_rows(dim: int) -> None:
    """From 64 columns on, products of bytes are used where they are exact."""
    rows, y = draw_rows(dim, dim=dim)
    sums = sums_of(rows, y)
    assert_exact(sums, rows, y)
    sums.add(rows[:20], y[:20], sign=-1)
    assert_exact(sums, rows[20:], y[20:])


def test_sparse_rows() -> None:
    rows, y = draw_rows(3)
    sums = ClassSums(7, has_gram=False)
    sums.add(sp.csr_matrix(rows), y)
    assert_exact(sums, rows, y)


@pytest.mark.parametrize("has_gram", [True, False])
def test_state_is_everything(has_gram: bool) -> None:
    rows, y = draw_rows(1)
    sums = sums_of(rows, y, has_gram)
    state = sums.state()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    assert ("gram" in state) == has_gram
    assert not has_gram or state["gram"].shape == (7 * 8 // 2,)
    again = ClassSums.restore(7, state)
    assert_exact(again, rows, y)
    again.add(rows, y)  # the restored sums share nothing
    copied = sums.copy()
    copied.add(rows, y)
    copied.drop(2)
    assert_exact(ClassSums.restore(7, state), rows, y)
    assert_exact(sums, rows, y)
    nothing = ClassSums.restore(7, ClassSums(7, has_gram).state())
    assert (nothing.sums, nothing.counts) == ({}, {})


def test_a_class_that_is_dropped_stays_in_the_gram_matrix() -> None:
    rows, y = draw_rows(1)
    sums, whole = sums_of(rows, y), sums_of(rows, y)
    sums.drop(5)
    sums.drop(77)  # never learned
    assert sorted(sums.sums) == sorted(sums.counts) == [2, 11]
    np.testing.assert_array_equal(sums.gram, whole.gram)


def naive_ridge(
    rows: np.ndarray, y: np.ndarray, classes: list[int], weight: np.ndarray, strength: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted ridge regression with an intercept that is not regularised, by normal equations."""
    x = np.hstack([rows.astype(np.float64), np.ones((len(rows), 1))])
    target = (y[:, None] == np.array(classes)).astype(np.float64)
    ridge = np.eye(x.shape[1])
    ridge[-1, -1] = 0
    ridge *= strength * np.mean(weight * (rows.astype(np.float64) ** 2).sum(axis=1))
    solution = np.linalg.solve(x.T @ (weight[:, None] * x) + ridge, x.T @ (weight[:, None] * target))
    return solution[:-1], solution[-1]


@pytest.mark.parametrize("classes", [[2, 5, 11], [11, 2, 5]])
@pytest.mark.parametrize("strength", [0.01, 0.1, 3.0])
def test_unbalanced_it_is_ridge_regression(strength: float, classes: list[int]) -> None:
    rows, y = draw_rows(4, count=100)
    found = solve(sums_of(rows, y), classes, strength=strength, balance=0.0)
    weight, bias = naive_ridge(rows, y, classes, np.ones(100), strength)
    np.testing.assert_allclose(found.weight, weight, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.bias, bias, rtol=1e-8)
    np.testing.assert_allclose(found(rows), rows @ weight + bias, atol=1e-5)


@pytest.mark.parametrize("balance", [0.25, 0.75, 1.0])
def test_balanced_it_is_the_formula(balance: float) -> None:
    rows, y = draw_rows(5, count=100)
    classes, strength, exact = [2, 5, 11], 0.2, rows.astype(np.float64)
    count = [int((y == label).sum()) for label in classes]
    mean = [exact[y == label].mean(axis=0) for label in classes]
    weight = [n**-balance for n in count]
    gram = sum(np.outer(row, row) for row in exact)
    within = gram - sum(n * np.outer(mu, mu) for n, mu in zip(count, mean, strict=True))
    total = sum(w * n for w, n in zip(weight, count, strict=True))
    balanced = total / 100 * within
    center = np.zeros(7)
    for w, n, mu in zip(weight, count, mean, strict=True):
        balanced += w * n * np.outer(mu, mu)
        center += w * n * mu / total
    system = balanced - total * np.outer(center, center) + strength * np.trace(balanced) / 100 * np.eye(7)
    found = solve(sums_of(rows, y), classes, strength=strength, balance=balance)
    for at, (w, n, mu) in enumerate(zip(weight, count, mean, strict=True)):
        expected = np.linalg.solve(system, w * n * (mu - center))
        np.testing.assert_allclose(found.weight[:, at], expected, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found.bias[at], w * n / total - center @ expected, rtol=1e-8)


def test_without_features_evidence_is_the_share_of_a_class() -> None:
    sums = sums_of(np.zeros((5, 4), np.float32), np.array([0, 1, 1, 0, 1]))
    found = solve(sums, [0, 1], strength=0.1, balance=0.0)
    np.testing.assert_allclose(found(np.zeros((1, 4), np.float32)), [[0.4, 0.6]])


@pytest.mark.parametrize("scale", [1.0, 2.0**-12])
def test_class_means_are_cosines(scale: float) -> None:
    rng = np.random.default_rng(8)
    slots = rng.normal(size=(80, 6)) + np.repeat(rng.normal(size=(4, 6)), 20, axis=0)
    slots /= np.linalg.norm(slots, axis=1, keepdims=True)
    y = np.repeat([3, 1, 8, 0], 20)
    sums = ClassSums(6, has_gram=False)
    whole = np.rint(slots / 2.0**-12)
    sums.add(whole.astype(np.float32) if scale != 1.0 else slots, y)
    classes = [8, 0, 1, 3]
    means = average(sums, classes, scale)
    found = means(slots @ means.vectors.T)
    by_class = [(whole * scale if scale != 1.0 else slots)[y == label].mean(axis=0) for label in classes]
    center = sum(by_class) / 4
    for row, slot in enumerate(slots):
        for column, mean in enumerate(by_class):
            a, b = slot - center, mean - center
            cosine = a @ b / np.sqrt((a @ a) * (b @ b))
            assert found[row, column] == pytest.approx(cosine, abs=1e-9 if scale != 1.0 else 1e-6)
    assert found.max() <= 1


def test_class_means_of_one_class_give_no_evidence() -> None:
    sums = ClassSums(2, has_gram=False)
    sums.add(np.array([[1.0, 0.0]]), np.array([3]))
    means = average(sums, [3], 1.0)
    slots = np.array([[0.0, 1.0], [1.0, 0.0]])  # the second is the mean itself
    np.testing.assert_array_equal(means(slots @ means.vectors.T), [[0.0], [0.0]])


def test_class_means_at_their_centre() -> None:
    """Rounding must not make the length of nothing the square root of a negative number."""
    center = np.array([0.6, 0.8])
    means = ClassMeans(center, np.array([[0.0, 1.0], [0.0, -1.0]]))
    found = means((center * (1 + 1e-7))[None] @ means.vectors.T)
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 1e-3
