"""Graphs in NumPy archives: what is read, and what is said when it cannot be."""

import os
import tempfile
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets.npz import load_npz
from hpn.datasets.sparse import is_sparse
from hpn.errors import DataError

DATA = Path(os.environ.get("HPN_DATA") or Path(__file__).parents[3] / "shared" / "data")


def toy_arrays(**changes):
    """Make five nodes: 0-1 in both directions, 1-2 twice, a self-loop at 3, nothing at 4."""
    rows, columns = np.array([0, 1, 1, 1, 3]), np.array([1, 0, 2, 2, 3])
    arrays = {
        "adj_indptr": np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=5))]),
        "adj_indices": columns,
        "adj_data": np.ones(5),
        "adj_shape": np.array([5, 5]),
        "attr_matrix": np.arange(10, dtype=np.float16).reshape(5, 2),
        "labels": np.array([0, 1, -1, 1, 0], dtype=np.int8),
    }
    arrays.update(changes)
    return {key: np.asarray(value) for key, value in arrays.items() if value is not None}


def sparse_features(matrix):
    csr = sp.csr_matrix(matrix)
    return {
        "attr_matrix": None,
        "attr_indptr": csr.indptr,
        "attr_indices": csr.indices,
        "attr_data": csr.data,
        "attr_shape": csr.shape,
    }


def save(folder, **changes):
    path = Path(folder) / "toy.npz"
    np.savez_compressed(path, **toy_arrays(**changes))
    return path


def test_reads_every_part(tmp_path):
    graph = load_npz(save(tmp_path, class_names=["cat", "dog"]))
    assert graph.name == "toy.npz"
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.num_links == 5
    assert graph.x.dtype == torch.float32
    assert graph.x.tolist() == np.arange(10).reshape(5, 2).tolist()
    assert graph.y.tolist() == [0, 1, -1, 1, 0]
    assert graph.class_names == ("cat", "dog")
    assert graph.masks is None
    assert graph.split_rule == "seeded"


@pytest.mark.parametrize(
    "change",
    [
        {"adj_data": None},
        {"labels": np.array([0.0, 1.0, -1.0, 1.0, 0.0])},
        {"labels": np.array([0.0, 1.0, -1.0, 1.0, 0.0], dtype=np.float16)},
        {"attr_matrix": np.arange(10).reshape(5, 2).astype(">f8")},
        {"attr_matrix": np.asfortranarray(np.arange(10).reshape(5, 2))},
        {"adj_indices": np.array([1, 0, 2, 2, 3], dtype=np.uint16)},
        {"node_names": np.array([{}] * 5)},
    ],
    ids=[
        "no adj_data",
        "float labels",
        "half labels",
        "big-endian",
        "Fortran order",
        "unsigned indices",
        "unused pickled array",
    ],
)
def test_spelling_makes_no_difference(tmp_path, change):
    expected = load_npz(save(tmp_path)).fingerprint()
    assert load_npz(save(tmp_path, **change)).fingerprint() == expected


def test_sparse_features_stay_sparse(tmp_path):
    dense = np.array([[0, 2.0], [0, 0], [1, 0], [0, 0], [3, 4]])
    graph = load_npz(save(tmp_path, **sparse_features(dense)), normalize="row")
    assert is_sparse(graph.x)
    assert graph.x.dtype == torch.float32
    total = np.maximum(dense.sum(1, keepdims=True), 1)
    assert np.allclose(graph.x.to_dense().numpy(), dense / total)


def test_normalize(tmp_path):
    graph = load_npz(save(tmp_path), normalize="row")
    sums = graph.x.abs().sum(dim=1)
    assert torch.allclose(sums[sums > 0], torch.ones(int((sums > 0).sum())))


@pytest.mark.parametrize("kind", [bool, np.uint8, float])
def test_masks(tmp_path, kind):
    train, test = np.array([1, 1, 0, 0, 0], dtype=kind), np.array([0, 0, 0, 1, 1], dtype=kind)
    graph = load_npz(save(tmp_path, train_mask=train, test_mask=test))
    assert graph.split_rule == "given"
    assert graph.masks.train.tolist() == [True, True, False, False, False]
    assert graph.masks.val.tolist() == [False] * 5
    assert graph.masks.test.tolist() == [False, False, False, True, True]


NAN, INF = float("nan"), float("inf")
BAD_ARRAYS = {
    "pickled labels": ({"labels": np.array([0, 1, None, 1, 0])}, "labels holds pickled"),
    "pickled names": ({"class_names": np.array(["a", None])}, "class_names holds pickled"),
    "no labels": ({"labels": None}, "missing labels; found: adj_data, adj_indices"),
    "no features": ({"attr_matrix": None}, "missing attr_matrix (or attr_indptr"),
    "half the sparse features": (
        {**sparse_features(np.eye(5)), "attr_data": None},
        "missing attr_data;",
    ),
    "indptr falls": ({"adj_indptr": [0, 4, 1, 4, 5, 5]}, "adj_indptr falls after row 1"),
    "indptr short": ({"adj_indptr": [0, 1, 5]}, "adj_indptr has 3 entries; 5 rows"),
    "indptr starts late": ({"adj_indptr": [1, 1, 4, 4, 5, 5]}, "runs from 1 to 5"),
    "indptr ends early": ({"adj_indptr": [0, 1, 4, 4, 4, 4]}, "runs from 0 to 4"),
    "unknown node": ({"adj_indices": [1, 0, 2, 5, 3]}, "an edge to a node 5 in row 1"),
    "negative node": ({"adj_indices": [1, 0, 2, -1, 3]}, "an edge to a node -1 in row 1"),
    "not square": ({"adj_shape": [5, 6]}, "adj_shape is (5, 6)"),
    "shape of three": ({"adj_shape": [5, 5, 1]}, "adj_shape is [5, 5, 1]"),
    "shape negative": ({"adj_shape": [-5, 5]}, "adj_shape is [-5, 5]"),
    "adj_data long": ({"adj_data": np.ones(6)}, "adj_data has shape (6,)"),
    "text indices": ({"adj_indices": ["1", "0", "2", "2", "3"]}, "adj_indices holds <U1"),
    "fractional label": ({"labels": [0, 1, 0.5, 1, 0]}, "labels[2] is 0.5"),
    "nan label": ({"labels": [0, 1, NAN, 1, 0]}, "labels[2] is nan"),
    "text labels": ({"labels": list("abcde")}, "labels holds <U1, expected whole numbers"),
    "one-hot labels": ({"labels": np.eye(5, dtype=int)}, "labels has shape (5, 5)"),
    "wrapped label": ({"labels": np.array([0, 1, 2**64 - 1, 1, 0], np.uint64)}, "labels[2]"),
    "huge label": ({"labels": [0, 1, 10**12, 1, 0]}, "labels[2] is 1000000000000"),
    "label below -1": ({"labels": [0, 1, -2, 1, 0]}, "label -2 is below -1"),
    "labels short": ({"labels": [0, 1]}, "5 nodes have features but 2 have labels"),
    "no label at all": ({"labels": [-1] * 5}, "no node has a label"),
    "features short": ({"attr_matrix": np.ones((4, 2))}, "4 nodes have features"),
    "features flat": ({"attr_matrix": np.ones(5)}, "attr_matrix is float64 of shape (5,)"),
    "features text": ({"attr_matrix": np.full((5, 2), "a")}, "attr_matrix is <U1"),
    "features complex": ({"attr_matrix": np.ones((5, 2), complex)}, "attr_matrix is complex128"),
    "nan feature": (
        {"attr_matrix": np.where(np.eye(5), NAN, 0)[::-1]},
        "feature 4 of node 0 is nan",
    ),
    "too large for float32": (
        {"attr_matrix": np.full((5, 1), 1e300)},
        "feature 0 of node 0 is inf",
    ),
    "sparse nan": (
        sparse_features(np.where(np.eye(5, k=1), INF, 0)),
        "feature 1 of node 0 is inf",
    ),
    "sparse column": (
        {**sparse_features(np.eye(5)), "attr_indices": [0, 1, 2, 3, 7]},
        "attr_indices has a column 7 in row 4",
    ),
    "sparse data short": (
        {**sparse_features(np.eye(5)), "attr_data": [1.0]},
        "attr_data has shape (1,)",
    ),
    "no nodes": (
        {
            "adj_indptr": [0],
            "adj_indices": np.zeros(0, int),
            "adj_data": None,
            "adj_shape": [0, 0],
            "attr_matrix": np.zeros((0, 3)),
            "labels": np.zeros(0, int),
        },
        "expected nodes with features",
    ),
    "no feature columns": ({"attr_matrix": np.zeros((5, 0))}, "shape (5, 0)"),
    "mask short": (
        {"train_mask": [True, False], "test_mask": [False] * 5},
        "train mask must be 5 Booleans",
    ),
    "mask of twos": (
        {"train_mask": [0, 2, 0, 0, 0], "test_mask": [0] * 5},
        "train_mask[1] is 2",
    ),
    "mask of text": ({"train_mask": list("01010"), "test_mask": [0] * 5}, "train_mask holds <U1"),
    "mask alone": ({"train_mask": [True] * 5}, "has train_mask; give train_mask and test_mask"),
    "masks overlap": (
        {"train_mask": [True] * 5, "test_mask": [True] * 5},
        "node 0 is in two",
    ),
    "names too few": ({"class_names": ["cat"]}, "1 class names for 2 classes"),
    "names are numbers": ({"class_names": [1, 2]}, "class_names is int64"),
}


def assert_one_line(error, path, expected):
    message = str(error.value)
    assert Path(path).name in message
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(("change", "expected"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_bad_arrays_are_named(tmp_path, change, expected):
    path = save(tmp_path, **change)
    with pytest.raises(DataError) as error:
        load_npz(path)
    assert_one_line(error, path, expected)


def damage_member(path):
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("attr_matrix.npy")
    content = bytearray(path.read_bytes())
    content[info.header_offset + 80] ^= 0xFF
    path.write_bytes(content)


BAD_FILES = {
    "text": (lambda path: path.write_text("hello"), "is not an .npz archive"),
    "empty": (lambda path: path.write_bytes(b""), "is not an .npz archive"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-60]), "is cut short"),
    "absent": (lambda path: path.unlink(), "no such file"),
    "damaged member": (damage_member, "attr_matrix is damaged"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
}


@pytest.mark.parametrize(("damage", "expected"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_are_named(tmp_path, damage, expected):
    path = save(tmp_path)
    damage(path)
    with pytest.raises(DataError) as error:
        load_npz(path)
    assert_one_line(error, path, expected)


def test_member_that_is_no_array_is_named(tmp_path):
    path = save(tmp_path, labels=None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.npy", b"not an array")
    with pytest.raises(DataError) as error:
        load_npz(path)
    assert_one_line(error, path, "labels is damaged")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_damage_gets_past_as_another_exception(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "toy.npz"
        np.savez(path, **toy_arrays(train_mask=np.eye(5)[0], test_mask=np.eye(5)[1]))
        content = bytearray(path.read_bytes())
        places = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
        for place, value in data.draw(st.lists(places, min_size=1, max_size=4)):
            content[place] = value
        path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
        with warnings.catch_warnings(), suppress(DataError):
            warnings.simplefilter("ignore")
            load_npz(path)


@st.composite
def graphs(draw):
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    links = draw(st.lists(st.tuples(node, node), max_size=30))
    labels = draw(st.lists(st.integers(-1, 3), min_size=num_nodes, max_size=num_nodes))
    labels[0] = max(labels[0], 0)
    number = st.floats(-100, 100, width=16)
    row = st.lists(number, min_size=3, max_size=3)
    x = draw(st.lists(row, min_size=num_nodes, max_size=num_nodes))
    return np.array(links, dtype=int).reshape(-1, 2), np.array(labels), np.array(x)


@settings(max_examples=50, deadline=None)
@given(graph=graphs(), is_stored_sparse=st.booleans())
def test_round_trip(graph, is_stored_sparse):
    links, labels, x = graph
    num_nodes = len(labels)
    order = np.argsort(links[:, 0], kind="stable")
    counts = np.bincount(links[:, 0], minlength=num_nodes)
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_npz(
            save(
                folder,
                adj_indptr=np.concatenate([[0], np.cumsum(counts)]),
                adj_indices=links[order, 1],
                adj_data=None,
                adj_shape=[num_nodes, num_nodes],
                labels=labels,
                **(sparse_features(x) if is_stored_sparse else {"attr_matrix": x}),
            )
        )
    undirected = {(a, b) for a, b in links.tolist() if a != b}
    undirected |= {(b, a) for a, b in undirected}
    assert loaded.edge_index.T.tolist() == [list(edge) for edge in sorted(undirected)]
    assert loaded.num_links == len(links)
    assert loaded.y.tolist() == labels.tolist()
    assert loaded.x.to_dense().tolist() == x.tolist()


def test_debian_sections():
    path = DATA / "debian-sections.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there; point HPN_DATA at the folder that has it")
    graph = load_npz(path)
    assert (graph.num_nodes, graph.num_links) == (63_620, 322_803)
    assert (graph.num_features, graph.num_classes) == (128, 51)
    assert "python" in graph.class_names
