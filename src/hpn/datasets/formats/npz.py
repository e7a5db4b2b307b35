"""A user's own graph in one NumPy archive (``.npz``), the adjacency as compressed sparse rows.

====================================================  =======================================================
array                                                 meaning
====================================================  =======================================================
``adj_indptr``, ``adj_indices``, ``adj_shape``        every stored entry is an edge
``attr_matrix``                                       features, dense; or, instead of it,
``attr_indptr``, ``_indices``, ``_data``, ``_shape``  features, stored sparse
``labels``                                            class of each node, −1 if unknown; or its name, an empty
                                                      text if unknown
``adj_data``, ``class_names``                         optional; the values of edges are not used
``node_ids``, ``feature_names``                       optional; whole numbers or text, and text
``train_mask``, ``val_mask``, ``test_mask``           optional; ``val_mask`` may be left out
``node_time``                                         optional; when each node arrived, whole numbers
``labels_by_time``                                    optional; class of each node at each of the distinct
                                                      times, one row per time in order, −1 if unknown
``node_last``                                         allowed and not used: when each node was last present
====================================================  =======================================================

Arrays are read one after the other, so that not all of them are in memory at once.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.datasets import graph as graphs
from hpn.datasets.graph import TIMES, UNLABELLED, Graph, Labels, Masks
from hpn.datasets.ids import read_ids
from hpn.datasets.sink import FeatureWriter, Sink, write_ids, write_links, write_masks
from hpn.datasets.sparse import Normalize
from hpn.errors import DataError

Array = NDArray[Any]

_REQUIRED = ("adj_indptr", "adj_indices", "adj_shape", "labels")
_SPARSE_FEATURES = ("attr_indptr", "attr_indices", "attr_data", "attr_shape")
_MASKS = ("train_mask", "val_mask", "test_mask")
_OPTIONAL = ("adj_data", "class_names", "node_ids", "feature_names", *_MASKS, "node_time", "labels_by_time")
_MAX_CLASSES = 1 << 16
# Above it, a float cannot represent every whole number.
_MAX_WHOLE = 2**53
_BLOCK_VALUES = 1 << 22
_DIMENSIONS = {1: "one dimension", 2: "two dimensions"}
# What zipfile and NumPy's parser of array headers raise on bytes that they cannot read.
_BAD_MEMBER = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError)
_BAD_ARRAY = (TokenError, SyntaxError, ValueError, MemoryError, OverflowError)


def load_npz(
    path: Path, sink: Sink | None = None, *, normalize: Normalize = "none", labels: Labels = "required"
) -> Graph:
    """Load a graph from an ``.npz`` archive in the format above.

    Args:
        path: The archive. Pickled arrays in it are never loaded.
        sink: Where to write the graph; by default into memory.
        normalize: How to scale the features.
        labels: Whether at least one node must have a label.

    Raises:
        DataError: If the archive is damaged, or its arrays are missing or do not fit each other.
    """
    sink = sink or Sink()
    with _open_archive(path) as archive:
        sink.begin(archive.num_bytes)
        num_nodes, blocks = _read_links(archive)
        links = write_links(sink, num_nodes, len(blocks[0][0]), lambda: blocks, archive.num_bytes)
        blocks.clear()
        y, given = _read_labels(archive)
        masks = _read_masks(archive)
        num_features = _write_features(archive, FeatureWriter(sink, path.name, normalize), num_nodes)
        class_names = graphs.check_labels(path.name, y, num_nodes, given, labels=labels)
        sink.append("y", y.numpy())
        if masks is not None:
            graphs.check_masks(path.name, masks, num_nodes)
            write_masks(sink, masks)
        _write_times(archive, sink, num_nodes, len(class_names))
        if "node_ids" in archive.members:
            write_ids(sink, _read_ids(archive, num_nodes))
        features = archive.read_text("feature_names") if "feature_names" in archive.members else None
        if features is not None and len(features) != num_features:
            raise archive.error(f"feature_names has {len(features)} names for {num_features} features")
    header = {"name": path.name, "num_features": num_features, "num_links": links.num_links}
    header |= {"class_names": list(class_names), "split_rule": "seeded" if masks is None else "given"}
    return sink.finish({**header, "feature_names": features, "notes": links.describe()})


@dataclass(frozen=True)
class _Archive:
    """The arrays of the format in an archive; ``members`` has the name of each in the archive."""

    path: Path
    file: zipfile.ZipFile
    members: dict[str, str]

    @property
    def num_bytes(self) -> int:
        return sum(self.file.getinfo(member).compress_size for member in self.members.values())

    def error(self, message: str) -> DataError:
        return DataError(f"{self.path}: {message}")

    def read(self, key: str) -> Array:
        try:
            # Read completely first, because a checksum is only compared at the end of a member.
            content = io.BytesIO(self.file.read(self.members[key]))
            array: Array = np.lib.format.read_array(content, allow_pickle=False)
        except (*_BAD_MEMBER, *_BAD_ARRAY) as error:
            what = f"is damaged ({' '.join(str(error).split())[:100]}); copy or write the file again"
            if "allow_pickle" in str(error):
                what = "holds pickled Python objects, which are never loaded; save numbers or text (dtype=str)"
            raise self.error(f"{key} {what}") from None
        return array

    def read_whole(self, key: str, ndim: int = 1) -> NDArray[np.int64]:
        """Read whole numbers."""
        array = self.read(key)
        if array.dtype.kind not in "iufb":
            raise self.error(f"{key} holds {array.dtype}, expected whole numbers")
        if array.ndim != ndim:
            raise self.error(f"{key} has shape {array.shape}, expected {_DIMENSIONS[ndim]}")
        if array.dtype.kind in "fu":
            value = array.astype(np.float64)
            wrong = ~((np.floor(value) == value) & (np.abs(value) < _MAX_WHOLE))
            if wrong.any():
                at = int(wrong.argmax())
                raise self.error(f"{key}[{at}] is {array.flat[at]}, expected a whole number")
        return array.astype(np.int64)

    def read_text(self, key: str) -> list[str]:
        """Read a row of text."""
        array = self.read(key)
        if array.dtype.kind != "U" or array.ndim != 1:
            raise self.error(f"{key} is {array.dtype} of shape {array.shape}, expected a row of text")
        try:
            words = [str(word) for word in array]
            "".join(words).encode()
        except (SystemError, ValueError):
            raise self.error(f"{key} holds characters that do not exist") from None
        return words


@contextmanager
def _open_archive(path: Path) -> Iterator[_Archive]:
    magic = b""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; give the path of an .npz archive") from None
    except (zipfile.BadZipFile, UnicodeDecodeError):
        state = "is cut short or damaged" if magic == b"PK\x03\x04" else "is not an .npz archive"
        raise DataError(f"{path}: {state}; write it again with numpy.savez_compressed") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    with archive:
        found = {name.removesuffix(".npy"): name for name in archive.namelist()}
        yield _Archive(path, archive, {key: found[key] for key in _choose_arrays(path, found)})


def _choose_arrays(path: Path, found: Collection[str]) -> list[str]:
    features = ("attr_matrix",) if "attr_matrix" in found else _SPARSE_FEATURES
    missing = [key for key in (*_REQUIRED, *features) if key not in found]
    if missing:
        sparse = ", ".join(_SPARSE_FEATURES)
        words = ", ".join(missing).replace(sparse, f"attr_matrix (or {sparse})")
        raise DataError(f"{path}: missing {words}; found: {', '.join(sorted(found)) or 'nothing'}")
    return [*_REQUIRED, *features, *(key for key in _OPTIONAL if key in found)]


def _read_links(archive: _Archive) -> tuple[int, list[tuple[Array, Array]]]:
    """The number of nodes, and the links between them."""
    indptr, indices, shape = _read_csr(archive, "adj")
    if shape[0] != shape[1]:
        raise archive.error(f"adj_shape is {shape}; the adjacency matrix must be square")
    if "adj_data" in archive.members:
        _check_data(archive, archive.read("adj_data"), "adj", len(indices))
    return shape[0], [(np.repeat(np.arange(shape[0]), np.diff(indptr)), indices)]


def _read_csr(archive: _Archive, prefix: str) -> tuple[Array, Array, tuple[int, int]]:
    """``indptr``, ``indices`` and shape of a matrix, checked against each other."""
    indptr, indices, size = (archive.read_whole(f"{prefix}_{part}") for part in ("indptr", "indices", "shape"))
    if len(size) != 2 or size.min() < 0:
        raise archive.error(f"{prefix}_shape is {size.tolist()}; expected two counts")
    rows, columns = int(size[0]), int(size[1])
    if len(indptr) != rows + 1:
        raise archive.error(f"{prefix}_indptr has {len(indptr)} entries; {rows} rows ({prefix}_shape) need {rows + 1}")
    if indptr[0] != 0 or indptr[-1] != len(indices):
        needed = f"with {len(indices)} {prefix}_indices it must run from 0 to {len(indices)}"
        raise archive.error(f"{prefix}_indptr runs from {indptr[0]} to {indptr[-1]}; {needed}")
    falls = np.diff(indptr) < 0
    if falls.any():
        raise archive.error(f"{prefix}_indptr falls after row {falls.argmax()}; it must never fall")
    outside = (indices < 0) | (indices >= columns)
    if outside.any():
        at = int(outside.argmax())
        row = int(np.searchsorted(indptr, at, side="right")) - 1
        what = "an edge to a node" if prefix == "adj" else "a column"
        allowed = f"{prefix}_shape allows 0 to {columns - 1}"
        raise archive.error(f"{prefix}_indices has {what} {indices[at]} in row {row}; {allowed}")
    return indptr, indices, (rows, columns)


def _check_data(archive: _Archive, data: Array, prefix: str, expected: int) -> None:
    if data.shape != (expected,):
        raise archive.error(f"{prefix}_data has shape {data.shape}, expected ({expected},)")


def _read_labels(archive: _Archive) -> tuple[Tensor, list[str] | None]:
    """The class of each node, and the names of the classes if they have any."""
    is_named = "class_names" in archive.members
    if not is_named and archive.read("labels").dtype.kind == "U":
        words = archive.read_text("labels")
        names = sorted(set(words) - {""})
        number = {name: index for index, name in enumerate(names)}
        return torch.tensor([number.get(word, UNLABELLED) for word in words], dtype=torch.int64), names
    labels = archive.read_whole("labels")
    if not is_named and labels.max(initial=0) >= _MAX_CLASSES:
        at = int(labels.argmax())
        raise archive.error(f"labels[{at}] is {labels[at]}; number the classes from 0 up")
    return torch.from_numpy(labels), archive.read_text("class_names") if is_named else None


def _write_features(archive: _Archive, writer: FeatureWriter, num_nodes: int) -> int:
    is_dense = "attr_matrix" in archive.members
    key, ndim = ("attr_matrix", 2) if is_dense else ("attr_data", 1)
    values = archive.read(key)
    if values.dtype.kind not in "iufb" or values.ndim != ndim:
        expected = f"expected numbers in {_DIMENSIONS[ndim]}"
        raise archive.error(f"{key} is {values.dtype} of shape {values.shape}, {expected}")
    matrix: Array | sp.csr_matrix = values
    if not is_dense:
        indptr, indices, shape = _read_csr(archive, "attr")
        _check_data(archive, values, "attr", len(indices))
        with np.errstate(over="ignore"):
            matrix = sp.csr_matrix((values.astype(np.float32), indices, indptr), shape=shape)
    if matrix.shape[0] != num_nodes:
        raise archive.error(f"adj_shape is {(num_nodes,) * 2}, but {matrix.shape[0]} nodes have features")
    graphs.check_shape(archive.path.name, matrix.shape)
    step = max(1, _BLOCK_VALUES // matrix.shape[1]) if is_dense else num_nodes
    for start in range(0, num_nodes, step):
        writer.append(matrix[start : start + step])
    return int(matrix.shape[1])


def _read_ids(archive: _Archive, num_nodes: int) -> Array:
    array = archive.read("node_ids")
    if array.dtype.kind not in "iuU" or array.shape != (num_nodes,):
        expected = f"expected {num_nodes} whole numbers or texts"
        raise archive.error(f"node_ids is {array.dtype} of shape {array.shape}, {expected}")
    ids = read_ids(archive.read_text("node_ids") if array.dtype.kind == "U" else array)
    [(value, times)] = Counter(ids.tolist()).most_common(1)
    if times > 1:
        raise archive.error(f"node_ids has {value!r} more than once; every node needs its own id")
    return ids


def _write_times(archive: _Archive, sink: Sink, num_nodes: int, num_classes: int) -> None:
    has_labels = "labels_by_time" in archive.members
    if "node_time" not in archive.members:
        if has_labels:
            raise archive.error("has labels_by_time but no node_time; add when each node arrived")
        return
    labels = torch.from_numpy(archive.read_whole("labels_by_time", 2)) if has_labels else None
    node_time = torch.from_numpy(archive.read_whole("node_time"))
    times = graphs.check_times(archive.path.name, node_time, labels, num_nodes, num_classes)
    for name, array in zip(TIMES, times, strict=True):
        if array is not None:
            sink.append(name, array.numpy())


def _read_masks(archive: _Archive) -> Masks | None:
    given: dict[str, Tensor] = {}
    for key in (key for key in _MASKS if key in archive.members):
        mask = archive.read_whole(key)
        wrong = (mask != 0) & (mask != 1)
        if wrong.any():
            raise archive.error(f"{key}[{wrong.argmax()}] is {mask[wrong.argmax()]}, expected Booleans or 0 and 1")
        given[key] = torch.from_numpy(mask.astype(np.bool_))
    if not given:
        return None
    if "train_mask" not in given or "test_mask" not in given:
        raise archive.error(f"has {', '.join(given)}; give train_mask and test_mask, or no mask")
    return Masks(given["train_mask"], given.get("val_mask", torch.zeros_like(given["train_mask"])), given["test_mask"])
