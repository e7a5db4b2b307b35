from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpn.learners.hpn import evidence as module
from hpn.learners.hpn.evidence import BANKS, PRIOR, SHRINKAGE, STEEPNESS, Extractors, Plane, fit_weights
from hpn.learners.hpn.partitions import Layer
from hpn.learners.hpn.statistics import LAYER_HOPS, MEAN_HOPS, ClassMeans, LeastSquares
from hpn.nn.encoder import see
from hpn.streams import GraphView
from hpn.theory import max_code_size

NUM_NODES, NUM_FEATURES, WIDTH, SEED = 50, 9, 40, 3
CLASSES = [1, 4, 6]
EXACT = 1e-12

thresholds = st.floats(math.log(1e-5), 0.0).map(math.exp) | st.sampled_from([1e-5, 0.003, 0.01, 0.1, 0.5, 1.0])
amounts = st.floats(-50, 50) | st.floats(-1, 1)
relaxed = settings(deadline=None, max_examples=100)


@pytest.mark.parametrize(
    ("threshold", "size"), [(1.0, 4), (0.5, 6), (0.3, 7), (0.1, 13), (0.01, 44), (0.003, 81), (1e-3, 140), (1e-5, 1404)]
)
def test_how_many_prototypes_there_are(threshold: float, size: int) -> None:
    assert Plane(threshold).size == size
    assert size == math.floor(2 * math.pi / math.acos(1 - threshold) + EXACT)
    assert size == max_code_size(2, threshold).size


@relaxed
@given(thresholds)
def test_prototypes_are_a_packing_and_there_is_no_room_for_one_more(threshold: float) -> None:
    plane = Plane(threshold)
    angles = plane.angle(np.arange(plane.size))
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)[: min(plane.size, 200)]
    cosines = points @ points.T - 2 * np.eye(len(points))
    assert cosines.max() <= 1 - threshold + 1e-9
    assert cosines.max() == pytest.approx(plane.closest_cosine(), abs=1e-9)
    assert math.cos(2 * math.pi / (plane.size + 1)) > 1 - threshold - 1e-9


@relaxed
@given(thresholds, st.floats(-math.pi, math.pi))
def test_prototypes_are_a_cover(threshold: float, angle: float) -> None:
    plane = Plane(threshold)
    closest = np.cos(plane.angle(np.arange(plane.size)) - angle).max()
    assert closest >= 1 - threshold - EXACT


@relaxed
@given(thresholds, amounts)
@example(0.7, 5.0)  # only the neutral one is within a right angle
@example(0.003, 1e6)
def test_evidence_is_matched_to_the_nearest_prototype(threshold: float, amount: float) -> None:
    plane = Plane(threshold)
    direction = np.array([1.0, STEEPNESS * amount]) / math.hypot(1, STEEPNESS * amount)
    positions = np.array([at for at in range(-plane.size, plane.size + 1) if abs(at) * 4 < plane.size])
    angles = 2 * math.pi * positions / plane.size
    cosines = np.cos(angles) * direction[0] + np.sin(angles) * direction[1]
    matched = plane.match(np.array([amount])).item()
    assert matched in positions
    assert cosines[positions == matched].item() >= cosines.max() - EXACT
    if plane.size % 4 and plane.size > 4:
        assert cosines[positions == matched].item() >= 1 - threshold - 1e-9


@relaxed
@given(thresholds, st.lists(amounts, min_size=2, max_size=30))
def test_matching_keeps_the_order(threshold: float, amounts: list[float]) -> None:
    plane = Plane(threshold)
    ordered = np.sort(np.array(amounts))
    positions = plane.match(ordered)
    assert positions.dtype == np.int64
    assert (np.diff(positions) >= 0).all()
    assert (np.diff(plane.evidence(positions)) >= 0).all()
    assert (plane.match(-ordered) == -positions).all()
    assert plane.match(np.zeros(1)).item() == 0


def make_view(num_nodes: int = NUM_NODES, seed: int = 0) -> GraphView:
    rng = np.random.default_rng(seed)
    links = rng.integers(0, num_nodes, (2, 2 * num_nodes))
    links = links[:, links[0] != links[1]]
    links = np.unique(np.concatenate([links, links[::-1]], axis=1), axis=1)
    x = torch.from_numpy(rng.normal(size=(num_nodes, NUM_FEATURES)).astype(np.float32))
    return GraphView(x, torch.from_numpy(links))


def make_extractors(seed: int = 1) -> Extractors:
    """Extractors that were drawn and not solved."""
    rng = np.random.default_rng(seed)
    layers = [LeastSquares(rng.normal(size=(WIDTH, 3)) / 100, rng.normal(size=3)) for _ in LAYER_HOPS]
    means = []
    for _ in MEAN_HOPS:
        directions = rng.normal(size=(3, NUM_FEATURES))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        means.append(ClassMeans(rng.normal(size=NUM_FEATURES) / 9, directions))
    scales, weights = rng.uniform(0.5, 2, (2, len(BANKS)))
    return Extractors(list(CLASSES), layers, means, Layer(WIDTH, SEED), scales, weights)


def naive_evidence(extractors: Extractors, view: GraphView) -> np.ndarray:
    """Of all nodes, from the formulas, in double precision; only the random layer is not made again."""
    count = view.num_nodes
    matrix = np.eye(count)
    for source, target in view.edge_index.T.tolist():
        matrix[source, target] = 1
    matrix /= matrix.sum(axis=1, keepdims=True)
    hidden = see(view).layers(LAYER_HOPS, np.arange(count), WIDTH, SEED)
    found = [h @ part.weight + part.bias for h, part in zip(hidden, extractors.layers, strict=True)]
    nearby = matrix @ matrix @ found[-1]
    for hop, means in zip(MEAN_HOPS, extractors.means, strict=True):
        rows = np.linalg.matrix_power(matrix, hop) @ view.x.numpy().astype(float)
        slots = rows / np.linalg.norm(rows, axis=1, keepdims=True) - means.center
        found.append(slots @ means.directions.T / np.linalg.norm(slots, axis=1, keepdims=True))
    found.append(nearby)
    centred = np.stack([part - part.mean(axis=1, keepdims=True) for part in found])
    return centred / extractors.scales[:, None, None]


def test_evidence_of_all_banks() -> None:
    view, extractors, nodes = make_view(), make_extractors(), np.array([7, 49, 0, 7])
    found = extractors.evidence(view, nodes)
    assert found.shape == (len(BANKS), 4, 3)
    np.testing.assert_allclose(found, naive_evidence(extractors, view)[:, nodes], atol=1e-3)
    np.testing.assert_allclose(found.sum(axis=2), 0, atol=1e-6)


@pytest.mark.parametrize("patched", [{"ROWS": 8}, {"FEW": 1}, {"FEW": 100}])
def test_evidence_is_found_for_few_nodes_at_a_time(patched: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    view, nodes = make_view(), np.array([7, 49])
    everything = make_extractors().evidence(view, np.arange(NUM_NODES))
    for name, value in patched.items():
        monkeypatch.setattr(module, name, value)
    np.testing.assert_allclose(make_extractors().evidence(view, np.arange(NUM_NODES)), everything, rtol=0, atol=1e-5)
    np.testing.assert_allclose(make_extractors().evidence(view, nodes), everything[:, nodes], rtol=0, atol=1e-5)


def test_evidence_in_another_graph_is_evidence_in_that_graph() -> None:
    """What was kept of one graph is not used in the next."""
    views, extractors, nodes = [make_view(seed=seed) for seed in range(2)], make_extractors(), np.arange(20)
    for view in (*views, *views):
        fresh = make_extractors().evidence(view, nodes)
        np.testing.assert_array_equal(extractors.evidence(view, nodes), fresh)


def test_restricted_extractors_give_the_same_evidence() -> None:
    view, extractors, nodes = make_view(), make_extractors(), np.arange(12)
    some = extractors.restrict([6, 1])
    assert some.classes == [6, 1]
    expected = extractors.evidence(view, nodes)[:, :, [2, 0]]
    expected -= expected.mean(axis=2, keepdims=True)
    np.testing.assert_allclose(some.evidence(view, nodes), expected, atol=1e-5)
    np.testing.assert_array_equal(some.weights, extractors.weights)
    assert extractors.classes == CLASSES


def test_weighing_scales_evidence_to_1() -> None:
    view, extractors, nodes = make_view(), make_extractors(), np.arange(40)
    y = np.random.default_rng(0).integers(0, 3, 40)
    raw = make_extractors()
    raw.scales = np.ones(len(BANKS))
    expected = np.sqrt((raw.evidence(view, nodes) ** 2).mean(axis=(1, 2)))
    scales, weights = extractors.weigh(view, nodes, y)
    np.testing.assert_allclose(scales, expected)
    np.testing.assert_array_equal(extractors.scales, make_extractors().scales)  # nothing is changed
    scaled = raw.evidence(view, nodes) / scales[:, None, None]
    np.testing.assert_allclose(weights, fit_weights(scaled, y), atol=1e-6)


def draw_evidence(rng: np.random.Generator, skill: list[float], y: np.ndarray, num_classes: int) -> np.ndarray:
    """Banks that are as informative as their skill; centred."""
    truth = np.eye(num_classes)[y]
    noise = rng.normal(size=(len(skill), len(y), num_classes))
    evidence = np.array(skill)[:, None, None] * truth + noise
    return np.asarray(evidence - evidence.mean(axis=2, keepdims=True))


def naive_loss(weights: np.ndarray, evidence: np.ndarray, y: np.ndarray) -> float:
    """Class-balanced logistic regression: classes weigh the same, nodes 1 on average."""
    num_banks, count, num_classes = evidence.shape
    present = sorted(set(y.tolist()))
    total = 0.0
    for node in range(count):
        logits = [sum(weights[b] * evidence[b, node, label] for b in range(num_banks)) for label in range(num_classes)]
        top = max(logits)
        log_sum = top + math.log(sum(math.exp(value - top) for value in logits))
        share = count / len(present) / int((y == y[node]).sum())
        total += share * (log_sum - logits[y[node]])
    mean = sum(weights) / num_banks
    return total + SHRINKAGE * sum((w - mean) ** 2 for w in weights)


@pytest.mark.parametrize("shares", [[0.4, 0.4, 0.1, 0.1], [0.5, 0.5, 0, 0], [0.1, 0.2, 0.3, 0.4]])
def test_weights_are_the_best_that_are_not_negative(shares: list[float]) -> None:
    """Also if none of the nodes has some class."""
    rng = np.random.default_rng(0)
    y = rng.choice(4, 60, p=shares)
    evidence = draw_evidence(rng, [1.5, 0.5, 0.0, -1.0], y, 4)
    weights = fit_weights(evidence, y)
    assert (weights >= 0).all()
    assert weights[3] == 0  # it is always wrong
    for bank, step in enumerate(1e-4 * np.eye(4)):
        slope = (naive_loss(weights + step, evidence, y) - naive_loss(weights - step, evidence, y)) / 2e-4
        if weights[bank] > 0:
            assert abs(slope) < 0.02
        else:
            assert slope > -0.02


def test_banks_that_are_wrong_about_all_nodes_get_equal_weights() -> None:
    evidence = np.array([[[1.0, -1.0]], [[2.0, -2.0]]])
    np.testing.assert_array_equal(fit_weights(evidence, np.array([1])), [PRIOR / 2, PRIOR / 2])
