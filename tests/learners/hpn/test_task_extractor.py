from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hpn.datasets.sparse import to_csr
from hpn.learners.hpn import task_extractor as module
from hpn.learners.hpn.task_extractor import STRENGTHS, TaskExtractor, choose_extractor, solve_path
from hpn.streams import GraphView

Labelled = tuple[np.ndarray, np.ndarray]
NO_NODES: Labelled = (np.zeros(0, np.int64), np.zeros(0, np.int64))
KINDS = ("dense", "sparse")


def naive_ridge(x: np.ndarray, target: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights and an intercept that is not regularised, by normal equations."""
    columns = np.hstack([x, np.ones((len(x), 1))])
    penalty = ridge * np.eye(columns.shape[1])
    penalty[-1, -1] = 0
    solution = np.linalg.solve(columns.T @ columns + penalty, columns.T @ target)
    return solution[:-1], solution[-1]


def naive_left_out(x: np.ndarray, target: np.ndarray, ridge: float) -> np.ndarray:
    """Each row predicted from the others."""
    found = []
    for node in range(len(x)):
        others = np.arange(len(x)) != node
        weight, level = naive_ridge(x[others], target[others], ridge)
        found.append(x[node] @ weight + level)
    return np.array(found)


def mean_square(x: np.ndarray) -> float:
    """The mean squared length of a centred row."""
    return float(((x - x.mean(axis=0)) ** 2).sum() / len(x))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "num_features"), [(40, 6), (12, 30), (15, 15), (16, 15)])
def test_the_path_is_ridge_regression(count: int, num_features: int, kind: str) -> None:
    rng = np.random.default_rng(count)
    x = rng.normal(size=(count, num_features)) + 2
    x = (x * (rng.random(x.shape) < (0.4 if kind == "sparse" else 1))).astype(np.float32)
    target, exact = np.eye(3)[rng.integers(0, 3, count)], x.astype(np.float64)
    found = list(solve_path(sp.csr_matrix(x) if kind == "sparse" else x, target))
    assert len(found) == len(STRENGTHS) == len(set(STRENGTHS))
    for strength, (weight, bias, left_out) in zip(STRENGTHS, found, strict=True):
        ridge = strength * mean_square(exact)
        expected, intercept = naive_ridge(exact, target, ridge)
        np.testing.assert_allclose(weight, expected, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(bias, intercept, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(left_out, naive_left_out(exact, target, ridge), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shape", [(10, 4), (4, 10)])
@pytest.mark.parametrize("value", [0.0, 0.3])
def test_constant_rows_give_the_share_of_a_class(shape: tuple[int, int], value: float) -> None:
    target = np.eye(2)[[0, 1, 1, 1] if shape[0] == 4 else [0, 1] * 5]
    x = np.full(shape, value, np.float32)
    for weight, bias, left_out in solve_path(x, target):
        np.testing.assert_allclose(x @ weight + bias, np.tile(target.mean(axis=0), (shape[0], 1)), atol=1e-4)
        others = (target.sum(axis=0) - target) / (shape[0] - 1)
        np.testing.assert_allclose(left_out, others, atol=1e-3)


def make_task(*, noise: float, helps: bool, kind: str = "dense", seed: int = 0) -> tuple[GraphView, np.ndarray]:
    """Two classes; with much noise only the mean over neighbours of the same class distinguishes them."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(160) % 2)
    x = rng.normal(size=(160, 10)) * noise
    x[:, 0] += y
    x[:, 1] += 1 - y
    x = (np.maximum(x, 0) if kind == "sparse" else x).astype(np.float32)
    links = rng.integers(0, 160, (2, 40 * 160))
    links = links[:, (links[0] != links[1]) & ((y[links[0]] == y[links[1]]) | (not helps))][:, : 4 * 160]
    edges = torch.from_numpy(np.unique(np.concatenate([links, links[::-1]], axis=1), axis=1))
    return GraphView(to_csr(sp.csr_matrix(x)) if kind == "sparse" else torch.from_numpy(x), edges), y


def split(y: np.ndarray, num_train: int, num_val: int) -> tuple[Labelled, Labelled, Labelled]:
    cuts = np.split(np.arange(len(y)), [num_train, num_train + num_val])
    train, val, test = ((nodes, y[nodes]) for nodes in cuts)
    return train, val, test


def accuracy(extractor: TaskExtractor, view: GraphView, nodes: Labelled) -> float:
    return float((extractor.evidence(view, nodes[0]).argmax(axis=1) == nodes[1]).mean())


@pytest.mark.parametrize(("num_train", "num_val"), [(60, 0), (40, 20), (20, 40)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("helps", [True, False])
def test_neighbours_are_used_where_they_help(helps: bool, kind: str, num_train: int, num_val: int) -> None:
    view, y = make_task(noise=1.5 if helps else 0.2, helps=helps, kind=kind)
    train, val, test = split(y, num_train, num_val)
    found = choose_extractor(view, train, val, 2)
    assert (found.hop > 0) == helps
    assert (found.describe() == "its own features") == (not helps)
    assert accuracy(found, view, test) > (0.85 if helps else 0.95)


def naive_slot(view: GraphView, normalization: str, hop: int, is_unit: bool) -> np.ndarray:
    matrix = np.eye(view.num_nodes)
    matrix[tuple(view.edge_index.numpy())] = 1
    degree = matrix.sum(axis=1)
    matrix = matrix / (degree[:, None] if normalization == "row" else np.sqrt(np.outer(degree, degree)))
    rows = np.linalg.matrix_power(matrix, hop) @ view.x.numpy().astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) if is_unit else rows


def naive_choice(view: GraphView, train: Labelled, val: Labelled, num_classes: int) -> list[tuple]:
    """Score of every candidate, the best first: accuracy and likelihood of held-out nodes."""
    scored, target = [], np.eye(num_classes)[train[1]]
    for normalization, hop, is_unit in product(("row", "sym"), range(4), (True, False)):
        if hop == 0 and normalization == "sym":
            continue
        slots = naive_slot(view, normalization, hop, is_unit)
        x = slots[train[0]]
        for strength in STRENGTHS:
            ridge = strength * mean_square(x)
            weight, bias = naive_ridge(x, target, ridge)
            held, y = slots[val[0]] @ weight + bias, val[1].tolist()
            if len(train[0]) >= len(val[0]):
                held = np.concatenate([held, naive_left_out(x, target, ridge)])
                y = y + train[1].tolist()
            evidence = held - held.mean(axis=1, keepdims=True)
            scale = math.sqrt((evidence**2).mean())
            likelihood, right = 0.0, 0
            for row, label in zip(2 * evidence / scale, y, strict=True):
                likelihood += row[label] - math.log(sum(math.exp(value) for value in row))
                right += int(row.argmax()) == label
            scored.append((right / len(y), likelihood / len(y), normalization, hop, is_unit, weight, scale))
    return sorted(scored, key=lambda entry: entry[:2], reverse=True)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("num_train", "num_val"), [(24, 0), (16, 12), (12, 16)])
def test_the_best_of_all_candidates_is_chosen(seed: int, num_train: int, num_val: int) -> None:
    view, y = make_task(noise=0.8, helps=True, seed=seed)
    y = (y + (np.arange(160) % 5 == 0)) % 3
    train, val, _ = split(y, num_train, num_val)
    found = choose_extractor(view, train, val, 3)
    best, second = naive_choice(view, train, val, 3)[:2]
    assert best[:2] > second[:2]
    assert (found.normalization, found.hop, found.is_unit) == best[2:5]
    np.testing.assert_allclose(found.weight, best[5], atol=1e-4)
    assert found.scale == pytest.approx(best[6], rel=1e-4)


def test_of_very_many_nodes_some_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evenly spaced ones, with their own labels."""
    view, y = make_task(noise=0.2, helps=False)
    more = 0.1 * np.random.default_rng(1).normal(size=(160, 30)).astype(np.float32)
    wide = GraphView(torch.cat([view.x, torch.from_numpy(more)], dim=1), view.edge_index)
    train, _, test = split(y, 120, 0)
    some = np.linspace(0, 119, 39).astype(int)
    expected = choose_extractor(wide, (train[0][some], train[1][some]), NO_NODES, 2)
    plain = choose_extractor(view, train, NO_NODES, 2)
    monkeypatch.setattr(module, "LARGEST_SYSTEM", 39)
    found = choose_extractor(wide, train, NO_NODES, 2)
    np.testing.assert_array_equal(found.weight, expected.weight)
    assert accuracy(found, wide, test) > 0.9
    narrow = choose_extractor(view, train, NO_NODES, 2)  # 10 features: no system is larger than that
    np.testing.assert_array_equal(narrow.weight, plain.weight)


def test_evidence_is_centred_and_scaled() -> None:
    """Also of an extractor that is made again of its state."""
    view, _ = make_task(noise=0.5, helps=True)
    rng, nodes = np.random.default_rng(0), np.array([5, 159, 0])
    weight, bias = rng.normal(size=(10, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    for normalization, hop, is_unit in product(("row", "sym"), (0, 1, 3), (True, False)):
        extractor = TaskExtractor(hop, normalization, is_unit, weight, bias, 2.5, np.array([-4, 0, 7]))
        slots = naive_slot(view, normalization if hop else "row", hop, is_unit)
        expected = slots[nodes] @ weight.astype(float) + bias
        expected = (expected - expected.mean(axis=1, keepdims=True)) / 2.5
        state = extractor.state()
        again = TaskExtractor.restore(state)
        state["weight"].zero_()  # neither of them is changed by that
        for each in (extractor, again):
            np.testing.assert_allclose(each.evidence(view, nodes), expected, atol=1e-5)
        assert again.positions.tolist() == [-4, 0, 7]


@pytest.mark.parametrize(("hop", "distance"), [(1, "1 hop"), (3, "3 hops")])
def test_descriptions(hop: int, distance: str) -> None:
    extractor = TaskExtractor(hop, "row", True, np.zeros((2, 2)), np.zeros(2), 1.0)
    assert extractor.describe() == f"the mean over its neighbourhood, {distance} away"


def test_a_class_with_one_node() -> None:
    view, _ = make_task(noise=0.2, helps=False)
    train = np.arange(30), np.array([0] * 29 + [1])
    found = choose_extractor(view, train, NO_NODES, 2)
    assert np.isfinite(found.evidence(view, np.arange(160))).all()
