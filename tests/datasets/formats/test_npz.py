"""Graphs in NumPy archives: what is read, and the message if it cannot be read."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hpn.datasets import edges as edges_module
from hpn.datasets import load_graph
from hpn.datasets.formats.npz import load_npz
from hpn.datasets.sparse import is_sparse
from hpn.datasets.store import StoreWriter
from hpn.errors import DataError

DATA = Path(os.environ.get("HPN_DATA") or Path(__file__).parents[4] / "shared" / "data")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(edges_module, "SORTED_AT_ONCE", 3)


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


def sparse_features(matrix, **changes):
    csr = sp.csr_matrix(matrix)
    parts = {"attr_indptr": csr.indptr, "attr_indices": csr.indices, "attr_data": csr.data}
    return {"attr_matrix": None, **parts, "attr_shape": csr.shape, **changes}


def save(folder, **changes):
    path = Path(folder) / "toy.npz"
    np.savez_compressed(path, **toy_arrays(**changes))
    return path


def test_reads_every_part(tmp_path, read):
    graph = read(load_npz, save(tmp_path, class_names=["cat", "dog"]))
    assert graph.name == "toy.npz"
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.num_links == 5
    assert graph.x.dtype == torch.float32
    assert graph.x.tolist() == np.arange(10).reshape(5, 2).tolist()
    assert graph.y.tolist() == [0, 1, -1, 1, 0]
    assert graph.class_names == ("cat", "dog")
    assert graph.masks is None
    assert graph.split_rule == "seeded"
    notes = ("1 self-loop dropped", "1 duplicate edge merged", "1 edge with one direction only, used in both")
    assert graph.notes == notes


SPELLINGS = {
    "no adj_data": {"adj_data": None},
    "float labels": {"labels": np.array([0.0, 1.0, -1.0, 1.0, 0.0])},
    "unsigned indices": {"adj_indices": np.array([1, 0, 2, 2, 3], dtype=np.uint16)},
    "unused pickled array": {"node_names": np.array([{}] * 5)},
    "text labels": {"labels": ["0", "1", "", "1", "0"]},
}


@pytest.mark.parametrize("change", SPELLINGS.values(), ids=SPELLINGS)
def test_spelling_makes_no_difference(tmp_path, read, change):
    expected = load_npz(save(tmp_path)).fingerprint()
    assert read(load_npz, save(tmp_path, **change)).fingerprint() == expected


def test_text_labels_are_classes_in_order(tmp_path, read):
    graph = read(load_npz, save(tmp_path, labels=["Zürich", "Aachen", "", "Köln", "Aachen"]))
    assert graph.class_names == ("Aachen", "Köln", "Zürich")
    assert graph.y.tolist() == [2, 0, -1, 1, 0]


@pytest.mark.parametrize("ids", [[7, -1, 3, 9, 2**62], ["köd-999", "b", "7", "", "e"]], ids=["numbers", "text"])
def test_ids_and_names_of_features(tmp_path, read, ids):
    graph = read(load_npz, save(tmp_path, node_ids=ids, feature_names=["ä", "b"]))
    assert graph.node_ids.tolist() == ids
    assert graph.index(ids[::-1]).tolist() == [4, 3, 2, 1, 0]
    assert graph.feature_names == ("ä", "b")
    assert graph.fingerprint() == load_npz(save(tmp_path)).fingerprint()


def test_times_and_labels_at_each_of_them(tmp_path, read):
    """Nothing before a node arrived; its last label where none is given any more."""
    labels = [[0, 1, 1, -1, 0], [-1, 0, 1, -1, -1], [1, -1, -1, 0, -1]]
    times = np.array([2010, 2010, 2015, 2010, 2020], dtype=np.int16)
    graph = read(load_npz, save(tmp_path, node_time=times, labels_by_time=labels, node_last=times + 1))
    assert graph.node_time.tolist() == times.tolist()
    assert graph.node_time.dtype == graph.y_by_time.dtype == torch.int64
    assert graph.y_by_time.tolist() == [[0, 1, -1, -1, -1], [0, 0, 1, -1, -1], [1, 0, 1, 0, -1]]
    plain = read(load_npz, save(tmp_path, node_time=times))
    assert plain.y_by_time is None
    prints = {part.fingerprint() for part in (graph, plain, load_npz(save(tmp_path)))}
    assert len(prints) == 3, "a learner could notice"


def test_labels_may_be_optional(tmp_path):
    graph = load_graph(save(tmp_path, labels=[-1] * 5), labels="optional", normalize="none")
    assert (graph.y.tolist(), graph.class_names) == ([-1] * 5, ())


def test_sparse_features_stay_sparse(tmp_path, read):
    dense = np.array([[0, 2.0], [0, 0], [1, 0], [0, 0], [3, 4]])
    graph = read(load_npz, save(tmp_path, **sparse_features(dense)), normalize="row")
    assert is_sparse(graph.x)
    assert graph.x.dtype == torch.float32
    total = np.maximum(dense.sum(1, keepdims=True), 1)
    assert np.allclose(graph.x.to_dense().numpy(), dense / total)


@pytest.mark.parametrize("columns", [[1, 1, 0, 1, 0], [0, 0, 0, 1, 1]], ids=["unsorted", "duplicates"])
def test_sparse_features_need_no_order(tmp_path, read, columns):
    parts = {"attr_indptr": [0, 0, 3, 3, 3, 5], "attr_indices": columns, "attr_data": [1, 2, 3, 4, 5]}
    expected = np.zeros((5, 2))
    np.add.at(expected, ([1, 1, 1, 4, 4], columns), [1, 2, 3, 4, 5])
    graph = read(load_npz, save(tmp_path, **sparse_features(np.eye(5, 2), **parts)))
    assert graph.x.to_dense().tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [bool, np.uint8, float])
def test_masks(tmp_path, read, kind):
    train, test = np.array([1, 1, 0, 0, 0], dtype=kind), np.array([0, 0, 0, 1, 1], dtype=kind)
    graph = read(load_npz, save(tmp_path, train_mask=train, test_mask=test))
    assert graph.split_rule == "given"
    assert graph.masks.train.tolist() == [True, True, False, False, False]
    assert graph.masks.val.tolist() == [False] * 5
    assert graph.masks.test.tolist() == [False, False, False, True, True]


NAN, INF = float("nan"), float("inf")
BAD_ARRAYS = {
    "pickled labels": ({"labels": np.array([0, 1, None, 1, 0])}, "labels holds pickled"),
    "no labels": ({"labels": None}, "missing labels; found: adj_data, adj_indices"),
    "no features": ({"attr_matrix": None}, "missing attr_matrix (or attr_indptr"),
    "half the sparse features": (sparse_features(np.eye(5), attr_data=None), "missing attr_data;"),
    "indptr falls": ({"adj_indptr": [0, 4, 1, 4, 5, 5]}, "adj_indptr falls after row 1"),
    "indptr short": ({"adj_indptr": [0, 1, 5]}, "adj_indptr has 3 entries; 5 rows"),
    "indptr starts late": ({"adj_indptr": [1, 1, 4, 4, 5, 5]}, "adj_indptr runs from 1 to 5"),
    "indptr ends early": ({"adj_indptr": [0, 1, 4, 4, 4, 4]}, "adj_indptr runs from 0 to 4; with 5"),
    "unknown node": ({"adj_indices": [1, 0, 2, 5, 3]}, "adj_indices[3], in row 1, is 5; adj_shape allows 0 to 4"),
    "adj_data long": ({"adj_data": np.ones(6)}, "adj_data has shape (6,), expected (5,)"),
    "not square": ({"adj_shape": [5, 6]}, "adj_shape is (5, 6)"),
    "text indices": (
        {"adj_indices": ["1", "0", "2", "2", "3"]},
        "adj_indices is <U1 of shape (5,), expected numbers in one dimension",
    ),
    "fractional index": ({"adj_indices": [1, 0, 2, 2.5, 3]}, "adj_indices[3] is 2.5"),
    "wrapped index": (
        {"adj_indices": np.array([1, 0, 2, 2, 2**64 - 1], np.uint64)},
        "adj_indices[4] is 18446744073709551615",
    ),
    "huge label": ({"labels": [0, 1, 10**12, 1, 0]}, "labels[2] is 1000000000000"),
    "times of fewer nodes": ({"node_time": [0, 1]}, "5 nodes, but node_time has shape (2,)"),
    "times with fractions": ({"node_time": [0, 1, 2, 0.5, 1]}, "node_time[3] is 0.5, expected a whole"),
    "labels without times": ({"labels_by_time": [[0] * 5]}, "has labels_by_time but no node_time"),
    "a class that does not exist": (
        {"node_time": [3] * 5, "labels_by_time": [[0, 1, 2, 1, 0]]},
        "labels by time contain 2, expected -1 (unlabelled) to 1",
    ),
    "a row of labels": (
        {"node_time": [3] * 5, "labels_by_time": [0] * 5},
        "labels_by_time is int64 of shape (5,), expected numbers in two dimensions",
    ),
    "features short": ({"attr_matrix": np.ones((4, 2))}, "4 nodes have features"),
    "features text": ({"attr_matrix": np.full((5, 2), "a")}, "attr_matrix is <U1"),
    "too large for float32": ({"attr_matrix": np.full((5, 1), 1e300)}, "feature 0 of node 0 is inf"),
    "sparse sum too large": (
        sparse_features(
            np.eye(5, 2), attr_indptr=[0, 1, 2, 3, 3, 5], attr_indices=[0, 1, 0, 1, 1], attr_data=[1, 2, 3, 3e38, 3e38]
        ),
        "feature 1 of node 4 is inf",
    ),
    "sparse column": (
        sparse_features(np.eye(5), attr_indices=[0, 1, 2, 3, 7]),
        "attr_indices[4], in row 4, is 7; attr_shape allows 0 to 4",
    ),
    "sparse data short": (sparse_features(np.eye(5), attr_data=[1.0]), "attr_data has shape (1,), expected (5,)"),
    "sparse data text": (sparse_features(np.eye(5), attr_data=list("abcde")), "attr_data is <U1 of shape (5,)"),
    "mask of twos": ({"train_mask": [0, 2, 0, 0, 0], "test_mask": [0] * 5}, "train_mask[1] is 2"),
    "mask alone": ({"train_mask": [True] * 5}, "has train_mask; give train_mask and test_mask"),
    "no text label": ({"labels": [""] * 5}, "no node has a label"),
    "text labels and names": (
        {"labels": list("abcde"), "class_names": ["a"]},
        "labels is <U1 of shape (5,), expected numbers",
    ),
    "ids short": ({"node_ids": [1, 2]}, "node_ids is int64 of shape (2,), expected 5"),
    "ids of fractions": ({"node_ids": np.ones(5)}, "node_ids is float64"),
    "ids twice": ({"node_ids": [1, 2, 3, 2, 5]}, "node_ids has 2 more than once"),
    "feature names short": ({"feature_names": ["a"]}, "feature_names has 1 names for 2 features"),
}


def assert_one_line(error, path, expected):
    message = str(error.value)
    assert Path(path).name in message
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(("change", "expected"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_bad_arrays_are_named(tmp_path, read, change, expected):
    path = save(tmp_path, **change)
    with pytest.raises(DataError) as error:
        read(load_npz, path)
    assert_one_line(error, path, expected)


def damage_member(path):
    """Change the last byte of an array that is not compressed, which only its checksum shows."""
    np.savez(path, **toy_arrays())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("attr_matrix.npy")
        data = archive.read(info)
    content = bytearray(path.read_bytes())
    content[content.index(data, info.header_offset) + len(data) - 1] ^= 0x55
    path.write_bytes(content)


BAD_FILES = {
    "text": (lambda path: path.write_text("hello"), "is not an .npz archive"),
    "empty": (lambda path: path.write_bytes(b""), "is not an .npz archive"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-60]), "is cut short"),
    "absent": (lambda path: path.unlink(), "no such file"),
    "damaged member": (damage_member, "attr_matrix is damaged (Bad CRC-32"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
}


@pytest.mark.parametrize(("damage", "expected"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_are_named(tmp_path, read, damage, expected):
    path = save(tmp_path)
    damage(path)
    with pytest.raises(DataError) as error:
        read(load_npz, path)
    assert_one_line(error, path, expected)


@pytest.mark.parametrize("content", [b"not an array", b"\x93NUMPY\x09\x00", b""], ids=["text", "version", "nothing"])
def test_member_that_is_no_array_is_named(tmp_path, read, content):
    path = save(tmp_path, labels=None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.npy", content)
    with pytest.raises(DataError) as error:
        read(load_npz, path)
    assert_one_line(error, path, "labels is damaged")


@pytest.mark.parametrize("shape", [(10**30, 2), (5, 10**30), (5, 2**61)])
def test_a_shape_no_memory_can_hold_is_damage(tmp_path, shape):
    path = save(tmp_path, attr_matrix=None)
    with zipfile.ZipFile(path, "a") as archive, archive.open("attr_matrix.npy", "w") as member:
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, header)
    with pytest.raises(DataError, match="attr_matrix is damaged"):
        load_npz(path)


def test_a_full_disk_is_not_taken_for_damage(tmp_path, monkeypatch):
    def fail(store, name, rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StoreWriter, "append", fail)
    with pytest.raises(DataError, match="no space left to write"), StoreWriter(tmp_path / "s") as store:
        load_npz(save(tmp_path), store)


@pytest.mark.skipif(not (DATA / "debian-releases.npz").exists(), reason="no debian-releases.npz")
def test_debian_releases(monkeypatch):
    monkeypatch.undo()
    graph = load_npz(DATA / "debian-releases.npz")
    assert graph.node_time.bincount().tolist() == [58_653, 10_876, 13_604, 10_516]
    first = graph.y_by_time[graph.node_time, torch.arange(graph.num_nodes)]
    assert int((first == -1).sum()) == 305
    assert torch.equal(graph.y_by_time[-1], graph.y)
