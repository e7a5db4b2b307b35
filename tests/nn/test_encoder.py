from __future__ import annotations

import gc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets.sparse import to_csr
from hpn.nn import encoder, smoothing
from hpn.nn.encoder import MOST, STEPS, WIDE, Features, Slots, draw_signs, scale_rows, see, slot_bits
from hpn.nn.smoothing import Normalization
from hpn.streams import GraphView

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2, and 3 alone
NORMALIZATIONS: tuple[Normalization, ...] = ("row", "sym")
KINDS = ("dense", "sparse")
SHAPES = (("dense", 15), ("sparse", 15), ("sparse", WIDE + 1))
ROUNDING = 2.0**-12
"""Half a step of a slot, and what single precision adds to it."""
WIDTH = 400
"""Of a layer over wide features: sparse ones with many columns, projected before they are smoothed."""


def draw_edges(rng: np.random.Generator, num_nodes: int, num_links: int) -> torch.Tensor:
    """Links in both directions, each once; the last node has none."""
    links = rng.integers(0, num_nodes - 1, (2, num_links))
    links = links[:, links[0] != links[1]]
    return torch.from_numpy(np.unique(np.concatenate([links, links[::-1]], axis=1), axis=1))


def make_view(kind: str, num_nodes: int = 40, num_features: int = 15, seed: int = 0) -> GraphView:
    """A random graph in which node 3 has no features and the last node no neighbours."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_nodes, num_features)) * rng.uniform(0.1, 10, (num_nodes, 1))
    if kind == "sparse":
        x *= rng.random(x.shape) < (0.02 if num_features > WIDE else 0.2)
    x[3] = 0
    rows = torch.from_numpy(x.astype(np.float32))
    edges = draw_edges(rng, num_nodes, 2 * num_nodes)
    return GraphView(to_csr(sp.csr_matrix(rows.numpy())) if kind == "sparse" else rows, edges)


def all_nodes(view: GraphView) -> np.ndarray:
    return np.arange(view.num_nodes)


def dense(rows: Features) -> np.ndarray:
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)


def naive_features(view: GraphView) -> np.ndarray:
    x = view.x
    return np.asarray((x.to_dense() if view.is_sparse else x).numpy(), dtype=np.float64)


def naive_adjacency(view: GraphView, normalization: Normalization) -> np.ndarray:
    matrix = np.eye(view.num_nodes)
    for source, target in view.edge_index.T.tolist():
        matrix[source, target] = 1
    degree = matrix.sum(axis=1)
    return np.asarray(matrix / (degree[:, None] if normalization == "row" else np.sqrt(np.outer(degree, degree))))


def naive_smoothed(view: GraphView, hop: int, normalization: Normalization = "row") -> np.ndarray:
    power = np.linalg.matrix_power(naive_adjacency(view, normalization), hop)
    return np.asarray(power @ naive_features(view))


def naive_slots(view: GraphView, hop: int, normalization: Normalization = "row") -> np.ndarray:
    rows = naive_smoothed(view, hop, normalization)
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return rows / np.where(lengths == 0, 1, lengths)


def naive_total(view: GraphView, hop: int, width: int, seed: int, normalization: Normalization = "row") -> np.ndarray:
    """The sum over slots of the random layer, before it is cut off at 0; in steps."""
    total = np.zeros((view.num_nodes, width))
    for at in range(hop + 1):
        signs = draw_signs(view.num_features, width, seed, at).astype(np.float64)
        total += 2.0 ** (at - hop) * naive_slots(view, at, normalization) @ signs
    return STEPS * total


def round_exactly(slots: Slots, hop: int, width: int, seed: int) -> np.ndarray:
    """The random layer in whole numbers of any size, from slots that are whole numbers."""
    nodes = np.arange(slots.num_nodes)
    total = np.zeros((len(nodes), width), np.int64)
    for at in range(hop + 1):
        signs = draw_signs(slots.num_features, width, seed, at).astype(np.int64)
        total += 2**at * (dense(slots.unit_rows(at, nodes)).astype(np.int64) @ signs)
    scale = np.float32(STEPS * 2.0 ** -(hop + slot_bits(slots.num_features)))
    return np.clip(np.rint(total.astype(np.float32) * scale), 0, MOST)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize(("kind", "num_features"), SHAPES)
def test_smoothed_rows(kind: str, num_features: int, normalization: Normalization) -> None:
    view, nodes = make_view(kind, num_features=num_features), np.array([7, 0, 39, 3, 7])
    slots = Slots(view, normalization)
    for hop in (2, 0, 3, 1):
        found = slots.smoothed(hop, nodes)
        np.testing.assert_allclose(dense(found), naive_smoothed(view, hop, normalization)[nodes], atol=1e-5)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize(("kind", "num_features"), SHAPES)
def test_unit_rows_are_directions_in_whole_numbers(kind: str, num_features: int, normalization: Normalization) -> None:
    view = make_view(kind, num_features=num_features)
    slots, nodes = Slots(view, normalization), all_nodes(view)[::-1]
    assert slots.is_wide == (num_features > WIDE)
    for hop in range(4):
        found = dense(slots.unit_rows(hop, nodes))
        np.testing.assert_array_equal(found, np.rint(found))
        np.testing.assert_allclose(found / 2.0**12, naive_slots(view, hop, normalization)[nodes], atol=ROUNDING)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hops", [(0,), (0, 2, 3), (3, 1), (5,)])
def test_layers_are_the_formula_rounded(kind: str, hops: tuple[int, ...], normalization: Normalization) -> None:
    view, width, seed = make_view(kind), 50, 3
    slots = Slots(view, normalization)
    found = slots.layers(hops, all_nodes(view), width, seed)
    assert len(found) == len(hops)
    for hop, layer in zip(hops, found, strict=True):
        assert layer.shape == (view.num_nodes, width)
        assert layer.dtype == np.int8
        np.testing.assert_array_equal(layer, np.rint(layer))
        assert layer.min() == 0
        assert STEPS < layer.max() <= MOST
        exact = np.clip(naive_total(view, hop, width, seed, normalization), 0, MOST)
        slack = STEPS * 2 * view.num_features * ROUNDING  # of the slots, all errors the same way
        assert np.abs(layer - exact).max() < 0.5 + slack
        np.testing.assert_array_equal(layer, round_exactly(slots, hop, width, seed))


def test_one_feature_by_hand() -> None:
    """Every slot is 1: the signs of the hops, the farthest of which counts 24 steps, the next one half."""
    slots = Slots(GraphView(torch.tensor([[3.0]]), torch.zeros(2, 0).long()))
    found = slots.layers((0, 1, 2), np.array([0]), 40, 9)
    signs = [draw_signs(1, 40, 9, hop)[0] for hop in range(3)]
    expected = [24 * signs[0], 24 * signs[1] + 12 * signs[0], 24 * signs[2] + 12 * signs[1] + 6 * signs[0]]
    for layer, total in zip(found, expected, strict=True):
        assert layer[0].tolist() == np.maximum(total, 0).tolist()


@pytest.mark.parametrize("num_features", [500, 1500])
def test_sums_of_products_are_exact(num_features: int) -> None:
    """In single precision a sum of so many terms depends on their order unless all are whole numbers."""
    rng = np.random.default_rng(5)
    x = torch.from_numpy(rng.normal(size=(50, num_features)).astype(np.float32))
    slots = Slots(GraphView(x, draw_edges(rng, 50, 100)))
    for hop in (0, 3):
        (found,) = slots.layers([hop], np.arange(50), 40, 1)
        np.testing.assert_array_equal(found, round_exactly(slots, hop, 40, 1))


@pytest.fixture(scope="module")
def wide() -> GraphView:
    return make_view("sparse", num_nodes=60, num_features=WIDE + 100, seed=2)


@pytest.fixture(scope="module")
def wide_slots(wide: GraphView) -> Slots:
    return Slots(wide)


def test_only_sparse_features_are_wide(wide: GraphView) -> None:
    assert Slots(wide).is_wide
    assert not Slots(GraphView(wide.x.to_dense(), wide.edge_index)).is_wide
    narrow = GraphView(to_csr(sp.csr_matrix(np.eye(4, WIDE, dtype=np.float32))), PATH)
    assert not Slots(narrow).is_wide


def test_wide_layers_are_their_own_formula(wide: GraphView, wide_slots: Slots) -> None:
    found = wide_slots.layers((0, 2, 3), all_nodes(wide), WIDTH, 4)
    x, matrix = naive_features(wide), naive_adjacency(wide, "row")
    total = np.zeros((60, WIDTH))
    expected = []
    for hop in range(4):
        part = np.linalg.matrix_power(matrix, hop) @ (x @ draw_signs(WIDE + 100, WIDTH, 4, hop))
        length = np.linalg.norm(part, axis=1, keepdims=True) / np.sqrt(WIDTH)
        total += 2**hop * part / np.where(length == 0, 1, length)
        expected.append(np.clip(STEPS * total / 2**hop, 0, MOST))
    for layer, hop in zip(found, (0, 2, 3), strict=True):
        assert layer.dtype == np.int8
        np.testing.assert_array_equal(layer, np.rint(layer))
        assert np.abs(layer - expected[hop]).max() < 0.51


def test_wide_another_width_seed_or_farther_hop_is_another_layer(wide_slots: Slots) -> None:
    nodes = np.arange(20)
    near = wide_slots.layers([2], nodes, 64, 1)[0]
    assert wide_slots.layers([2], nodes, 65, 1)[0].shape == (20, 65)
    assert not np.array_equal(wide_slots.layers([2], nodes, 64, 2)[0], near)
    assert not np.array_equal(wide_slots.layers([3], nodes, 64, 1)[0], near)
    np.testing.assert_array_equal(wide_slots.layers([2], nodes, 64, 1)[0], near)


@pytest.mark.parametrize("hop", [0, 1, 2])
def test_wide_products_are_close(wide: GraphView, hop: int) -> None:
    vectors = np.random.default_rng(1).normal(size=(30, wide.num_features))
    nodes = np.array([30, 2, 3, 17, 59])
    found = Slots(wide).products(hop, vectors, nodes)
    exact = naive_slots(wide, hop)[nodes] @ vectors.T
    sketched = 5 / np.sqrt(2 * encoder.SKETCH)
    assert found.shape == exact.shape
    np.testing.assert_allclose(found, exact, rtol=sketched, atol=1e-4)
    if hop == 0:
        assert (found[2] == 0).all()  # a node without features


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_products(kind: str, normalization: Normalization) -> None:
    view, nodes = make_view(kind), np.array([5, 3, 39, 11])
    vectors = np.random.default_rng(0).normal(size=(6, view.num_features))
    slots = Slots(view, normalization)
    for hop in range(3):
        found = slots.products(hop, vectors, nodes)
        expected = naive_slots(view, hop, normalization)[nodes] @ vectors.T
        np.testing.assert_allclose(found, expected, atol=ROUNDING * np.abs(vectors).sum(axis=1).max())


def test_no_nodes() -> None:
    none = np.zeros(0, np.int64)
    for view in (make_view("dense"), make_view("sparse"), make_view("sparse", num_features=WIDE + 1)):
        slots = Slots(view)
        assert [layer.shape for layer in slots.layers((0, 2), none, 30, 0)] == [(0, 30), (0, 30)]
        assert slots.smoothed(1, none).shape == (0, view.num_features)
        assert slots.products(1, np.ones((2, view.num_features)), none).shape == (0, 2)


def test_signs_are_pinned() -> None:
    """Saved models hold solutions for exactly these signs."""
    first = [[-1, 1, -1, 1, 1, 1, 1, 1], [1, -1, -1, -1, -1, -1, 1, -1]]
    assert draw_signs(2, 8, seed=0, hop=0).tolist() == first
    second = [[-1, 1, 1, 1, -1], [1, 1, 1, 1, -1], [-1, -1, -1, -1, -1]]
    assert draw_signs(3, 5, seed=12345, hop=3).tolist() == second
    assert draw_signs(1, 8, seed=-1, hop=1).tolist() == [[1, 1, 1, -1, -1, 1, 1, 1]]


def test_each_sign_is_as_likely() -> None:
    signs = draw_signs(301, 211, seed=1, hop=2)
    assert signs.dtype == np.float32
    assert signs.shape == (301, 211)
    assert set(np.unique(signs).tolist()) == {-1.0, 1.0}
    for axis, count in ((None, signs.size), (0, 301), (1, 211)):
        assert np.abs(signs.mean(axis=axis)).max() < 5 / np.sqrt(count)
    products = signs.T @ signs / 301
    np.fill_diagonal(products, 0)
    assert np.abs(products).max() < 6 / np.sqrt(301)


@given(st.integers(1, 10**7))
def test_bits_of_a_slot_let_sums_over_four_hops_stay_exact(num_features: int) -> None:
    bits = slot_bits(num_features)
    most = 15 * num_features**0.5  # the sum of 1, 2, 4 and 8 times the largest sum of a row of length 1
    assert most * 2.0**bits <= 2**24
    assert bits == 12 or most * 2.0 ** (bits + 1) > 2**24


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_scaled_rows_have_length_1(seed: int, as_sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 9)) * 10.0 ** rng.uniform(-6, 6, (6, 1)) * (rng.random((6, 9)) < 0.6)
    rows[2] = 0
    given_rows = sp.csr_matrix(rows.astype(np.float32)) if as_sparse else rows.astype(np.float32)
    scaled = scale_rows(given_rows)
    assert sp.issparse(scaled) == as_sparse
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(dense(scaled), rows / np.where(lengths == 0, 1, lengths), atol=1e-6)
    assert (dense(scaled)[2] == 0).all()


def test_a_view_has_one_encoder_per_normalization() -> None:
    view, twin = make_view("dense"), make_view("dense")
    assert see(view) is see(view)
    assert see(view) is see(view, "row")
    assert see(view) is not see(view, "sym")
    assert see(twin) is not see(view)


def test_smoothed_columns_of_recent_views_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "_recent", [])
    monkeypatch.setattr(encoder, "KEPT_BYTES", 2 * 4 * 40 * 15 * 3)  # of two views, features and two hops
    views = [make_view("dense", seed=seed) for seed in range(3)]
    for view in views:
        see(view).smooth(2)
    assert [bool(see(view).blocks) for view in views] == [False, True, True]
    expected = Slots(views[0]).smoothed(2, np.arange(40))
    np.testing.assert_array_equal(see(views[0]).smoothed(2, np.arange(40)), expected)
    del view, views[:]
    gc.collect()
    assert [ref() for ref in encoder._recent] == [None] * len(encoder._recent)


def test_lengths_and_projections() -> None:
    view, nodes = make_view("dense"), np.array([5, 3, 39, 11, 5])
    weight = np.random.default_rng(0).normal(size=(15, 2)).astype(np.float32)
    for normalization in NORMALIZATIONS:
        slots = Slots(view, normalization)
        for hop in range(4):
            rows = naive_smoothed(view, hop, normalization)[nodes]
            np.testing.assert_allclose(slots.project(hop, weight, nodes), rows @ weight, atol=1e-4)
            lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
            np.testing.assert_allclose(slots.lengths(hop, nodes), lengths, rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("columns", [1, 4, 100])
@pytest.mark.parametrize(("kind", "num_features"), SHAPES)
def test_blocks_threads_and_files_change_no_bit(
    kind: str, num_features: int, columns: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it matter which nodes are encoded together."""
    view, nodes = make_view(kind, num_features=num_features), np.array([7, 0, 39, 3, 7])

    def look() -> list[np.ndarray]:
        slots = Slots(view)
        parts = [nodes[:1], nodes[1:]] if columns == 4 else [nodes]
        layers = [slots.layers((0, 2, 3), part, 50, 1) for part in parts]
        found = [*map(np.concatenate, zip(*layers, strict=True)), slots.lengths(2, nodes)]
        return [*found, *(dense(slots.unit_rows(hop, nodes)) for hop in range(3))]

    whole = Slots(view).layers((0, 2, 3), all_nodes(view), 50, 1)
    expected = [*(layer[nodes] for layer in whole), *look()[3:]]
    monkeypatch.setattr(encoder, "COLUMNS", columns)
    monkeypatch.setattr(encoder, "ROWS", 7)
    monkeypatch.setattr(smoothing, "EDGES_AT_ONCE", 9)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for in_memory in (encoder.IN_MEMORY, 0):
            monkeypatch.setattr(encoder, "IN_MEMORY", in_memory)
            for found, wanted in zip(look(), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)
    finally:
        torch.set_num_threads(before)


def test_wide_projections_are_close_to_those_of_few_nodes(wide: GraphView, wide_slots: Slots) -> None:
    """Lengths are measured after the projection if there are many nodes."""
    for hop in range(3):
        few, many = (wide_slots.projections(hop, all_nodes(wide), 4000, 0, are_few=few) for few in (True, False))
        np.testing.assert_allclose(many, few, atol=0.4)
        assert np.corrcoef(many.ravel(), few.ravel())[0, 1] > 0.999
