from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.learners.hpn import statistics
from hpn.learners.hpn.statistics import ClassMeans, Sums, add_gram, solve, sum_encoded

WIDTH, NUM_FEATURES = 7, 5
seeds = st.integers(0, 2**32 - 1)
relaxed = settings(deadline=None, max_examples=50)
Drawn = tuple[list[np.ndarray], np.ndarray]


def draw(seed: int, count: int = 60, classes: tuple[int, ...] = (2, 5, 11), width: int = WIDTH) -> Drawn:
    """Encoded nodes of each bank, a third of the numbers 0, and classes, all of which occur."""
    rng = np.random.default_rng(seed)
    layers = rng.integers(0, 128, (3, count, width)) * (rng.random((3, count, width)) < 0.7)
    slots = rng.integers(-4096, 4097, (3, count, NUM_FEATURES))
    y = np.concatenate([classes, rng.choice(classes, count - len(classes))])
    return [*layers.astype(np.int8), *slots.astype(np.float32)], rng.permutation(y).astype(np.int64)


def pick(drawn: Drawn, some: np.ndarray) -> Drawn:
    return [part[some] for part in drawn[0]], drawn[1][some]


def sums_of(drawn: Drawn, is_sparse: bool = False) -> Sums:
    banks, y = drawn
    slots = [sp.csr_matrix(part) if is_sparse else part for part in banks[3:]]
    return sum_encoded(lambda at: [part[at] for part in (*banks[:3], *slots)], y, banks[0].shape[1], NUM_FEATURES)


def assert_exact(sums: Sums, drawn: Drawn) -> None:
    """Equal to sums in whole numbers of Python, bit for bit."""
    banks, y = drawn
    labels = np.unique(y).tolist()
    assert sums.by_label == {label: int((y == label).sum()) for label in labels}
    for total, part in zip(sums.totals, banks, strict=True):
        whole = part.astype(np.int64)
        assert total.tolist() == [[sum(map(int, column)) for column in whole[y == label].T] for label in labels]
    for gram, part in zip(sums.grams, banks, strict=False):
        exact = sum(np.outer(row, row) for row in part.astype(object))
        assert gram.tolist() == [exact[i, j] for i in range(len(exact)) for j in range(i + 1)]


@relaxed
@given(seeds, st.integers(0, 6), st.booleans())
def test_sums_are_exact_in_any_order_and_grouping(seed: int, cuts: int, is_sparse: bool) -> None:
    drawn, rng = draw(seed), np.random.default_rng(seed)
    sums = Sums.empty(WIDTH, NUM_FEATURES)
    for part in np.split(rng.permutation(60), np.sort(rng.integers(0, 60, cuts))):
        sums = sums.merge(sums_of(pick(drawn, part), is_sparse))
    assert_exact(sums, drawn)


@relaxed
@given(seeds)
def test_what_was_added_can_be_subtracted_exactly(seed: int) -> None:
    drawn = draw(seed)
    leaves = (drawn[1] == 5) | (np.random.default_rng(seed).random(60) < 0.3)  # a whole class among them
    whole, gone = sums_of(drawn), sums_of(pick(drawn, leaves))
    assert_exact(whole.merge(gone, sign=-1), pick(drawn, ~leaves))
    assert_exact(whole, drawn)
    nothing = whole.merge(whole, sign=-1)
    assert (nothing.by_label, nothing.grams, nothing.num_stored) == ({}, (), 0)


@pytest.mark.parametrize("exact_bytes", [True, False])
@pytest.mark.parametrize("count", [1101, 150_001])
def test_many_rows_of_the_largest_value(count: int, exact_bytes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than single precision, or 32 bits, add up exactly at once."""
    if exact_bytes and not statistics._has_exact_bytes():
        pytest.skip("no exact products of 8-bit numbers here")
    monkeypatch.setattr(statistics, "_has_exact_bytes", lambda: exact_bytes)
    monkeypatch.setattr(statistics, "LEAST_FOR_BYTES", 1)
    rows = np.full((count, 3), 127, np.int8)
    rows[:, 2] = 1
    gram = np.zeros((3, 3))
    add_gram(gram, rows)
    large, small = 127**2 * count, 127 * count
    assert int(np.float32(large)) != large  # there is no such number in single precision
    assert gram.tolist() == [[large, large, small], [large, large, small], [small, small, count]]
    total = statistics.sum_by_class(np.full((count, 1), 4096, np.float32), np.zeros(count, np.int64), 1)
    assert total.tolist() == [[4096 * count]]


def test_products_of_bytes_are_used_only_if_they_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right instructions they saturate, and then they must not be used."""
    monkeypatch.setattr(statistics, "LEAST_FOR_BYTES", 1)
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: (a.long() @ b.long()).clamp(max=2**15 - 1).int())
    statistics._has_exact_bytes.cache_clear()
    try:
        assert_exact(sums_of(draw(0)), draw(0))
    finally:
        monkeypatch.undo()
        statistics._has_exact_bytes.cache_clear()


@pytest.mark.parametrize("width", [63, 64, 65, 100])
def test_wide_rows(width: int) -> None:
    """From 64 columns on, products of bytes are used where they are exact."""
    drawn = draw(width, width=width)
    assert_exact(sums_of(drawn), drawn)


def test_state_is_everything() -> None:
    drawn = draw(1)
    sums = sums_of(drawn)
    state = sums.state()
    assert sum(tensor.numel() for bank in state.values() for tensor in bank.values()) == sums.num_stored
    again = Sums.restore(WIDTH, NUM_FEATURES, state)
    for bank in state.values():
        bank["sums"].zero_()
    for kept in (sums, again):
        assert_exact(kept, drawn)
    for width, num_features in ((WIDTH + 1, NUM_FEATURES), (WIDTH, NUM_FEATURES + 1)):
        with pytest.raises(ValueError, match="sums have the shapes"):
            Sums.restore(width, num_features, sums.state())


def test_a_class_that_is_dropped_stays_in_the_gram_matrix() -> None:
    whole = sums_of(draw(1))
    left = whole.drop(5).drop(77)  # the latter was never learned
    assert left.by_label == {label: count for label, count in whole.by_label.items() if label != 5}
    assert left.grams is whole.grams
    np.testing.assert_array_equal(left.totals[0], whole.totals[0][[0, 2]])


def naive_ridge(rows: np.ndarray, y: np.ndarray, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Ridge regression with an intercept that is not regularised, by normal equations."""
    x = np.hstack([rows.astype(np.float64), np.ones((len(rows), 1))])
    target = (y[:, None] == np.unique(y)).astype(np.float64)
    ridge = strength * np.mean((rows.astype(np.float64) ** 2).sum(axis=1)) * np.eye(x.shape[1])
    ridge[-1, -1] = 0
    solution = np.linalg.solve(x.T @ x + ridge, x.T @ target)
    return solution[:-1], solution[-1]


@pytest.mark.parametrize("strength", [0.01, 0.1, 3.0])
def test_unbalanced_it_is_ridge_regression(strength: float) -> None:
    banks, y = draw(4, count=100)
    for bank, rows in enumerate(banks[:3]):
        found = solve(bank, sums_of((banks, y)), strength=strength, balance=0.0)
        weight, bias = naive_ridge(rows, y, strength)
        np.testing.assert_allclose(found.weight, weight, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found.bias, bias, rtol=1e-8)
        np.testing.assert_allclose(found.evidence(rows), rows @ weight + bias, atol=1e-5)


@pytest.mark.parametrize("balance", [0.25, 0.75, 1.0])
def test_balanced_it_is_the_formula(balance: float) -> None:
    banks, y = draw(5, count=100)
    strength, exact = 0.2, banks[1].astype(np.float64)
    count = [int((y == label).sum()) for label in (2, 5, 11)]
    mean = [exact[y == label].mean(axis=0) for label in (2, 5, 11)]
    weight = [n**-balance for n in count]
    within = exact.T @ exact - sum(n * np.outer(mu, mu) for n, mu in zip(count, mean, strict=True))
    total = sum(w * n for w, n in zip(weight, count, strict=True))
    balanced = total / 100 * within
    center = np.zeros(WIDTH)
    for w, n, mu in zip(weight, count, mean, strict=True):
        balanced += w * n * np.outer(mu, mu)
        center += w * n * mu / total
    system = balanced - total * np.outer(center, center) + strength * np.trace(balanced) / 100 * np.eye(WIDTH)
    found = solve(1, sums_of((banks, y)), strength=strength, balance=balance)
    for at, (w, n, mu) in enumerate(zip(weight, count, mean, strict=True)):
        expected = np.linalg.solve(system, w * n * (mu - center))
        np.testing.assert_allclose(found.weight[:, at], expected, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found.bias[at], w * n / total - center @ expected, rtol=1e-8)


def test_without_features_evidence_is_the_share_of_a_class() -> None:
    nothing = [np.zeros((5, WIDTH), np.int8)] * 3 + [np.zeros((5, NUM_FEATURES), np.float32)] * 3
    found = solve(0, sums_of((nothing, np.array([0, 1, 1, 0, 1]))), strength=0.1, balance=0.0)
    np.testing.assert_allclose(found.evidence(np.zeros((1, WIDTH), np.float32)), [[0.4, 0.6]])


def test_class_means_are_cosines() -> None:
    rng = np.random.default_rng(8)
    slots = rng.normal(size=(80, 6)) + np.repeat(rng.normal(size=(4, 6)), 20, axis=0)
    slots /= np.linalg.norm(slots, axis=1, keepdims=True)
    by_class = slots.reshape(4, 20, 6).mean(axis=1)
    means = ClassMeans.of(by_class)
    found, center = means.evidence(slots @ means.vectors.T), by_class.mean(axis=0)
    for row, slot in enumerate(slots):
        for column, mean in enumerate(by_class):
            a, b = slot - center, mean - center
            assert found[row, column] == pytest.approx(a @ b / np.sqrt((a @ a) * (b @ b)), abs=1e-6)
    assert found.max() <= 1


def test_class_means_of_one_class_and_at_their_centre() -> None:
    """Rounding must not make the length of nothing the square root of a negative number."""
    alone, slots = ClassMeans.of(np.array([[1.0, 0.0]])), np.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(alone.evidence(slots @ alone.vectors.T), [[0.0], [0.0]])
    center = np.array([0.6, 0.8])
    means = ClassMeans(center, np.array([[0.0, 1.0], [0.0, -1.0]]))
    assert np.abs(means.evidence((center * (1 + 1e-7))[None] @ means.vectors.T)).max() < 1e-3
