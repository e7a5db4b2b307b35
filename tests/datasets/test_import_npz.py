"""Graphs from NumPy archives to stores: the same graph as the loader gives, block by block."""

import tempfile
import tracemalloc
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets import npz_stream
from hpn.datasets.graph import Graph
from hpn.datasets.import_npz import import_npz, npz_size
from hpn.datasets.npz import load_npz
from hpn.datasets.sparse import is_sparse
from hpn.datasets.store import StoreWriter, make_header, open_store
from hpn.errors import DataError


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(npz_stream, "BLOCK_BYTES", 16)


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
    parts = {
        "attr_matrix": None,
        "attr_indptr": csr.indptr,
        "attr_indices": csr.indices,
        "attr_data": csr.data,
        "attr_shape": csr.shape,
    }
    return parts | changes


def save(folder, **changes):
    path = Path(folder) / "toy.npz"
    np.savez_compressed(path, **toy_arrays(**changes))
    return path


def imported(path, **options) -> Graph:
    place = path.parent / "store"
    with StoreWriter(place) as store:
        import_npz(path, store, **options)
    return open_store(place)


def import_error(path):
    """Import, and return the message; nothing may be left of it."""
    before = sorted(path.parent.iterdir())
    with pytest.raises(DataError) as error, StoreWriter(path.parent / "store") as store:
        import_npz(path, store)
    assert sorted(path.parent.iterdir()) == before
    assert "\n" not in str(error.value)
    return str(error.value)


TWELVE = np.arange(60.0).reshape(5, 12) % 7
UNSORTED = {
    "attr_indices": [1, 0, 0, 1, 0],
    "attr_indptr": [0, 2, 2, 3, 3, 5],
    "attr_data": [1.5, 2, 3, 4, 5],
}
DUPLICATES = {
    "attr_indices": [1, 0, 1, 1, 1],
    "attr_indptr": [0, 3, 3, 3, 3, 5],
    "attr_data": [1, 2, 3, 4, 0.1],
}
SPELLINGS = {
    "as it is": {},
    "no adj_data": {"adj_data": None},
    "no edges": {"adj_indptr": [0] * 6, "adj_indices": np.zeros(0, int), "adj_data": None},
    "wide": {"attr_matrix": TWELVE},
    "whole features": {"attr_matrix": np.arange(10).reshape(5, 2)},
    "big-endian": {"attr_matrix": np.arange(10).reshape(5, 2).astype(">f8")},
    "Fortran order": {"attr_matrix": np.asfortranarray(TWELVE)},
    "unsigned indices": {"adj_indices": np.array([1, 0, 2, 2, 3], dtype=np.uint16)},
    "float indices": {"adj_indices": np.array([1, 0, 2, 2, 3], dtype=">f4")},
    "float labels": {"labels": np.array([0.0, 1, -1, 1, 0], dtype=np.float16)},
    "unused pickled array": {"node_names": np.array([{}] * 5)},
    "class names": {"class_names": ["cat", "dog", "emu"]},
    "masks": {
        "train_mask": [1, 1, 0, 0, 0],
        "val_mask": [0.0, 0, 0, 0, 1],
        "test_mask": [False] * 3 + [True, False],
    },
    "two masks": {"train_mask": [1, 1, 0, 0, 0], "test_mask": [0, 0, 0, 1, 1]},
    "sparse": sparse_features(np.where(TWELVE > 4, TWELVE, 0)),
    "sparse and empty": sparse_features(np.zeros((5, 3))),
    "sparse, unsorted": sparse_features(np.eye(5, 2), **UNSORTED),
    "sparse, duplicates": sparse_features(np.eye(5, 2), **DUPLICATES),
    "sparse, stored zeros": sparse_features(np.eye(5, 2), **(UNSORTED | {"attr_data": np.zeros(5, bool)})),
}


@pytest.mark.parametrize("change", SPELLINGS.values(), ids=SPELLINGS)
def test_the_graph_is_that_of_the_loader(tmp_path, change):
    path = save(tmp_path, **change)
    graph, expected = imported(path), load_npz(path)
    assert graph.fingerprint() == expected.fingerprint()
    assert make_header(graph) == make_header(expected)
    assert is_sparse(graph.x) == is_sparse(expected.x)


@pytest.mark.parametrize("change", [{}, sparse_features(TWELVE)], ids=["dense", "sparse"])
@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
def test_the_size_of_blocks_makes_no_difference(tmp_path, monkeypatch, change, block):
    monkeypatch.setattr(npz_stream, "BLOCK_BYTES", block)
    path = save(tmp_path, **change)
    assert imported(path).fingerprint() == load_npz(path).fingerprint()


def test_duplicates_are_summed_in_the_order_of_the_loader(tmp_path):
    """SciPy's sort is not stable, so that with three of a kind the last digit hangs on it."""
    random = np.random.default_rng(0)
    rows = [np.sort(random.integers(0, 4, 40)) for _ in range(4)] + [random.integers(0, 4, 40)]
    parts = {
        "attr_indptr": np.arange(6) * 40,
        "attr_indices": np.concatenate(rows),
        "attr_data": random.lognormal(0, 5, 200).astype(np.float32),
    }
    path = save(tmp_path, **sparse_features(np.eye(5, 4), **parts))
    assert imported(path).fingerprint() == load_npz(path).fingerprint()


@st.composite
def archives(draw):
    num_nodes, num_features = draw(st.integers(1, 9)), draw(st.integers(1, 5))

    def entries(columns):
        counts = draw(st.lists(st.integers(0, 5), min_size=num_nodes, max_size=num_nodes))
        column = st.integers(0, columns - 1)
        found = draw(st.lists(column, min_size=sum(counts), max_size=sum(counts)))
        return np.concatenate([[0], np.cumsum(counts)]), np.array(found, dtype=int)

    indptr, indices = entries(num_nodes)
    labels = draw(st.lists(st.integers(-1, 3), min_size=num_nodes, max_size=num_nodes))
    arrays = {
        "adj_indptr": indptr,
        "adj_indices": indices,
        "adj_data": None,
        "adj_shape": [num_nodes] * 2,
        "labels": [max(labels[0], 0), *labels[1:]],
        "attr_matrix": np.arange(num_nodes * num_features).reshape(num_nodes, num_features) / 3,
    }
    if draw(st.booleans()):
        indptr, indices = entries(num_features)
        arrays |= {"attr_matrix": None, "attr_indptr": indptr, "attr_indices": indices}
        arrays |= {"attr_data": np.arange(len(indices)) / 3, "attr_shape": [num_nodes, num_features]}
    return arrays


@settings(max_examples=40, deadline=None)
@given(arrays=archives())
def test_any_graph_is_that_of_the_loader(arrays):
    with tempfile.TemporaryDirectory() as folder:
        path = save(folder, **arrays)
        assert imported(path).fingerprint() == load_npz(path).fingerprint()


def test_features_can_be_kept_as_float16(tmp_path):
    path = save(tmp_path, attr_matrix=np.arange(10).reshape(5, 2) / 3)
    graph = imported(path, features="float16")
    assert graph.x.tolist() == load_npz(path).x.half().tolist()
    assert str(graph.x.dtype) == "torch.float16"


def test_what_float16_cannot_hold_is_refused(tmp_path):
    path = save(tmp_path, attr_matrix=np.full((5, 2), 1e5))
    with pytest.raises(DataError, match=r"toy.npz: features are too large for float16"):
        imported(path, features="float16")


@pytest.mark.parametrize("change", [{}, sparse_features(TWELVE), SPELLINGS["Fortran order"]])
def test_progress_adds_up_to_the_size(tmp_path, change):
    path, steps = save(tmp_path, **change), []
    imported(path, advance=steps.append)
    assert sum(steps) == npz_size(path)
    assert min(steps) >= 0
    assert len([step for step in steps if step]) > len(toy_arrays())


def test_neither_edges_nor_features_are_in_memory_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(npz_stream, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr("hpn.datasets.edge_sort._BLOCK", 1 << 12)
    nodes, degree = 2_000, 100
    path = save(
        tmp_path,
        adj_indptr=np.arange(nodes + 1) * degree,
        adj_indices=np.random.default_rng(0).integers(0, nodes, nodes * degree),
        adj_data=np.ones(nodes * degree),
        adj_shape=[nodes, nodes],
        attr_matrix=np.ones((nodes, 500)),
        labels=np.zeros(nodes, int),
    )
    tracemalloc.start()
    try:
        imported(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < nodes * degree * 8 // 2


NAN, INF = float("nan"), float("inf")
BAD_ARRAYS = {
    "pickled labels": ({"labels": np.array([0, 1, None, 1, 0])}, "labels holds pickled"),
    "pickled names": ({"class_names": np.array(["a", None])}, "class_names holds pickled"),
    "pickled edges": ({"adj_indices": np.array([1, 0, 2, 2, None])}, "adj_indices holds pickled"),
    "pickled edge values": ({"adj_data": np.array([None] * 5)}, "adj_data holds pickled"),
    "pickled features": ({"attr_matrix": np.full((5, 2), None)}, "attr_matrix holds pickled"),
    "no labels": ({"labels": None}, "missing labels; found: adj_data, adj_indices"),
    "no features": ({"attr_matrix": None}, "missing attr_matrix (or attr_indptr"),
    "half the sparse features": (sparse_features(np.eye(5), attr_data=None), "missing attr_data;"),
    "indptr falls": ({"adj_indptr": [0, 4, 1, 4, 5, 5]}, "adj_indptr falls after row 1"),
    "indptr short": ({"adj_indptr": [0, 1, 5]}, "adj_indptr has 3 entries; 5 rows"),
    "indptr starts late": ({"adj_indptr": [1, 1, 4, 4, 5, 5]}, "runs from 1 to 5"),
    "indptr ends early": ({"adj_indptr": [0, 1, 4, 4, 4, 4]}, "runs from 0 to 4"),
    "unknown node": ({"adj_indices": [1, 0, 2, 5, 3]}, "an edge to a node 5 in row 1"),
    "unknown node at the end": ({"adj_indices": [1, 0, 2, 2, 5]}, "an edge to a node 5 in row 3"),
    "negative node": ({"adj_indices": [1, 0, 2, -1, 3]}, "an edge to a node -1 in row 1"),
    "not square": ({"adj_shape": [5, 6]}, "adj_shape is (5, 6)"),
    "shape of three": ({"adj_shape": [5, 5, 1]}, "adj_shape is [5, 5, 1]"),
    "shape negative": ({"adj_shape": [-5, 5]}, "adj_shape is [-5, 5]"),
    "adj_data long": ({"adj_data": np.ones(6)}, "adj_data has shape (6,)"),
    "text indices": ({"adj_indices": ["1", "0", "2", "2", "3"]}, "adj_indices holds <U1"),
    "square indices": ({"adj_indices": np.eye(5)}, "adj_indices has shape (5, 5)"),
    "fractional index": ({"adj_indices": [1, 0, 2, 2.5, 3]}, "adj_indices[3] is 2.5"),
    "wrapped index": (
        {"adj_indices": np.array([1, 0, 2, 2, 2**64 - 1], np.uint64)},
        "adj_indices[4] is 18446744073709551615",
    ),
    "fractional label": ({"labels": [0, 1, 0.5, 1, 0]}, "labels[2] is 0.5"),
    "huge label": ({"labels": [0, 1, 10**12, 1, 0]}, "labels[2] is 1000000000000"),
    "label below -1": ({"labels": [0, 1, -2, 1, 0]}, "label -2 is below -1"),
    "labels short": ({"labels": [0, 1]}, "5 nodes have features but 2 have labels"),
    "no label at all": ({"labels": [-1] * 5}, "no node has a label"),
    "features short": ({"attr_matrix": np.ones((4, 2))}, "4 nodes have features"),
    "features flat": ({"attr_matrix": np.ones(5)}, "attr_matrix is float64 of shape (5,)"),
    "features text": ({"attr_matrix": np.full((5, 2), "a")}, "attr_matrix is <U1"),
    "features complex": ({"attr_matrix": np.ones((5, 2), complex)}, "attr_matrix is complex128"),
    "no feature columns": ({"attr_matrix": np.zeros((5, 0))}, "shape (5, 0)"),
    "nan feature": ({"attr_matrix": np.where(np.eye(5, 6, k=1), NAN, 0)[::-1]}, "feature 5 of node 0 is nan"),
    "infinite at the end": (
        {"attr_matrix": np.where(np.eye(5) * np.arange(5) > 3, -INF, 0)},
        "4 of node 4 is -inf",
    ),
    "too large for float32": ({"attr_matrix": np.full((5, 1), 1e300)}, "feature 0 of node 0 is inf"),
    "sparse inf": (
        sparse_features(np.where(np.eye(5) * np.arange(5) > 3, INF, 1)),
        "feature 4 of node 4 is inf",
    ),
    "sparse sum too large": (
        sparse_features(np.eye(5, 2), **(DUPLICATES | {"attr_data": [1, 2, 3, 3e38, 3e38]})),
        "feature 1 of node 4 is inf",
    ),
    "sparse column": (sparse_features(np.eye(5), attr_indices=[0, 1, 2, 3, 7]), "a column 7 in row 4"),
    "sparse fractional": (
        sparse_features(np.eye(5), attr_indices=[0, 1, 2, 3, NAN]),
        "attr_indices[4] is nan",
    ),
    "sparse data short": (sparse_features(np.eye(5), attr_data=[1.0]), "attr_data has shape (1,)"),
    "sparse data text": (
        sparse_features(np.eye(5), attr_data=list("abcde")),
        "attr_data is <U1 of shape (5,)",
    ),
    "mask short": ({"train_mask": [True, False], "test_mask": [False] * 5}, "train mask must be 5 Booleans"),
    "mask of twos": ({"train_mask": [0, 2, 0, 0, 0], "test_mask": [0] * 5}, "train_mask[1] is 2"),
    "mask alone": ({"train_mask": [True] * 5}, "has train_mask; give train_mask and test_mask"),
    "masks overlap": ({"train_mask": [True] * 5, "test_mask": [True] * 5}, "node 0 is in two"),
    "names too few": ({"class_names": ["cat"]}, "1 class names for 2 classes"),
    "names are numbers": ({"class_names": [1, 2]}, "class_names is int64"),
}


@pytest.mark.parametrize(("change", "expected"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_bad_arrays_are_told_of_in_the_words_of_the_loader(tmp_path, change, expected):
    path = save(tmp_path, **change)
    message = import_error(path)
    assert expected in message
    with pytest.raises(DataError) as error:
        load_npz(path)
    assert message == str(error.value)


def test_a_graph_without_nodes_is_refused(tmp_path):
    empty = np.zeros(0, int)
    parts = {"adj_indptr": [0], "adj_indices": empty, "adj_data": None, "adj_shape": [0, 0], "labels": empty}
    assert "expected nodes with features" in import_error(
        save(tmp_path, **parts, attr_matrix=np.zeros((0, 3)))
    )


BAD_FILES = {
    "text": (lambda path: path.write_text("hello"), "is not an .npz archive"),
    "empty": (lambda path: path.write_bytes(b""), "is not an .npz archive"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-60]), "is cut short"),
    "absent": (lambda path: path.unlink(), "no such file"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read"),
}


@pytest.mark.parametrize(("spoil", "expected"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_are_told_of_in_the_words_of_the_loader(tmp_path, spoil, expected):
    path = save(tmp_path)
    spoil(path)
    message = import_error(path)
    assert expected in message
    for function in (load_npz, npz_size):
        with pytest.raises(DataError) as error:
            function(path)
        assert message == str(error.value)


@pytest.mark.parametrize("member", ["adj_indices", "adj_data", "attr_matrix", "labels", "adj_indptr"])
def test_the_checksum_of_every_member_is_compared(tmp_path, member):
    """Change the last byte; a member is long, so that its end is not read together with its start."""
    path, many = tmp_path / "toy.npz", {"adj_indptr": np.arange(6) * 1000, "adj_indices": np.zeros(5000, int)}
    np.savez(path, **toy_arrays(**many, adj_data=np.ones(5000), attr_matrix=np.ones((5, 1000))))
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{member}.npy")
        data = archive.read(info)
    content = path.read_bytes()
    start = content.index(data, info.header_offset)
    path.write_bytes(content[: start + len(data) - 1] + b"\x55" + content[start + len(data) :])
    assert f"{member} is damaged (Bad CRC-32" in import_error(path)


def test_a_damaged_stream_is_named(tmp_path):
    path = save(tmp_path)
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("attr_matrix.npy")
    content = bytearray(path.read_bytes())
    content[info.header_offset + 80] ^= 0xFF
    path.write_bytes(content)
    assert "attr_matrix is damaged" in import_error(path)


@pytest.mark.parametrize(
    "content", [b"not an array", b"\x93NUMPY\x09\x00", b""], ids=["text", "version", "nothing"]
)
@pytest.mark.parametrize("key", ["labels", "adj_indices"])
def test_a_member_that_is_no_array_is_named(tmp_path, key, content):
    path = save(tmp_path, **{key: None})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{key}.npy", content)
    assert f"{key} is damaged" in import_error(path)


def test_a_member_with_too_few_numbers_is_named(tmp_path):
    path = save(tmp_path)
    with zipfile.ZipFile(path) as archive:
        content = archive.read("attr_matrix.npy")
    save(tmp_path, attr_matrix=None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("attr_matrix.npy", content[:-3])
    assert "attr_matrix is damaged (its numbers end 3 bytes early" in import_error(path)


@pytest.mark.parametrize("shape", [(10**30, 2), (5, 10**30), (5, 2**61)])
def test_a_shape_no_memory_can_hold_is_damage(tmp_path, shape):
    path = save(tmp_path, attr_matrix=None)
    with zipfile.ZipFile(path, "a") as archive, archive.open("attr_matrix.npy", "w") as member:
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, header)
    assert "attr_matrix is damaged" in import_error(path)


def test_newer_headers_are_read(tmp_path):
    path = save(tmp_path, adj_indices=None, attr_matrix=None)
    with zipfile.ZipFile(path, "a") as archive:
        for key, version in (("adj_indices", (2, 0)), ("attr_matrix", (3, 0))):
            with archive.open(f"{key}.npy", "w") as member:
                np.lib.format.write_array(member, toy_arrays()[key], version)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert imported(path).fingerprint() == load_npz(path).fingerprint()


def test_a_full_disk_is_not_taken_for_damage(tmp_path, monkeypatch):
    def fail(store, name, rows):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StoreWriter, "append", fail)
    with pytest.raises(OSError, match="No space left"):
        imported(save(tmp_path))


@settings(max_examples=60, deadline=None)
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
            imported(path)
