"""A graph from a NumPy archive (:mod:`hpn.datasets.npz`) into a store, never all of it in memory.

Edges and features are read block by block. What has one entry a node (labels, masks, where the rows of a
sparse matrix begin) is read as a whole.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.datasets.edge_sort import EdgeSorter
from hpn.datasets.graph import Graph, not_finite
from hpn.datasets.npz import (
    _BAD_ARRAY,
    _BAD_MEMBER,
    _MAX_WHOLE,
    _check_data,
    _choose_arrays,
    _class_names,
    _features,
    _labels,
    _masks,
    _read_archive,
    _read_array,
    _whole_numbers,
)
from hpn.datasets.sparse import to_csr
from hpn.datasets.store import Advance, FeatureType, StoreWriter, append_features, make_header, no_progress
from hpn.errors import DataError

Array = NDArray[Any]
Whole = NDArray[np.int64]

_BLOCK_BYTES = 1 << 24
_STREAMED = ("adj_indices", "adj_data", "attr_matrix", "attr_indices", "attr_data")
_NUMBERS = "iufb"


def import_npz(
    path: Path, store: StoreWriter, *, features: FeatureType = "float32", advance: Advance = no_progress
) -> None:
    """Write a graph from an ``.npz`` archive to a store, and finish it.

    Args:
        path: The archive. Pickled arrays in it are never loaded.
        store: Where to; opens to the graph that :func:`~hpn.datasets.npz.load_npz` gives.
        features: How to keep dense features; sparse ones are always float32.
        advance: Told every now and then of bytes that were gone through, :func:`npz_size` in all.

    Raises:
        DataError: If the archive is damaged or its arrays are missing or do not fit each other.
    """
    with _open_archive(path, advance) as archive, ExitStack() as opened:
        arrays = {key: archive.load(key) for key in archive.members if key not in _STREAMED}
        streams = {
            key: opened.enter_context(archive.open(key)) for key in _STREAMED if key in archive.members
        }
        links = _Pattern.check(path, "adj", arrays, streams["adj_indices"])
        num_nodes = links.shape[0]
        if num_nodes != links.shape[1]:
            raise DataError(f"{path}: adj_shape is {links.shape}; the adjacency matrix must be square")
        if "adj_data" in streams:
            _check_data(path, streams["adj_data"].stand_in, "adj", links.num_entries)
        words = _check_features(path, arrays, streams)
        shape = streams["attr_matrix"].shape if words is None else words.shape
        if shape[0] != num_nodes:
            raise DataError(f"{path}: adj_shape is {links.shape}, but {shape[0]} nodes have features")
        graph = Graph.build(
            path.name,
            x=torch.zeros(num_nodes, min(shape[1], 1)),
            links=torch.zeros(2, 0, dtype=torch.int64),
            y=_labels(path, arrays["labels"], "class_names" in arrays),
            class_names=_class_names(path, arrays),
            num_links=links.num_entries,
            masks=_masks(path, arrays),
        )
        del arrays
        _write_labels(store, graph)
        _write_links(store, links, streams["adj_indices"])
        if words is None:
            for rows in streams["attr_matrix"].blocks():
                append_features(store, path.name, rows, features)
        else:
            _write_sparse(store, words, archive, streams)
    store.finish({**make_header(graph), "num_features": shape[1]})


def npz_size(path: Path) -> int:
    """Bytes :func:`import_npz` goes through: of the arrays it uses, as they are compressed.

    Raises:
        DataError: If the archive is damaged, or arrays are missing.
    """
    with _open_archive(path, no_progress) as archive:
        sizes = {key: archive.info(key).compress_size for key in archive.members}
    # Columns of sparse features are read twice: first to know whether they are in order.
    return sum(sizes.values()) + sizes.get("attr_indices", 0)


@dataclass(frozen=True)
class _Archive:
    """The arrays of the format in an archive, by name; ``members`` tells what each is called there."""

    path: Path
    file: zipfile.ZipFile
    members: Mapping[str, str]
    advance: Advance

    def info(self, key: str) -> zipfile.ZipInfo:
        return self.file.getinfo(self.members[key])

    def load(self, key: str) -> Array:
        array = _read_array(self.path, self.file, key, self.members[key])
        self.advance(self.info(key).compress_size)
        return array

    def open(self, key: str) -> _ArrayStream:
        return _ArrayStream(self, key)


@contextmanager
def _open_archive(path: Path, advance: Advance) -> Iterator[_Archive]:
    try:
        file = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, UnicodeDecodeError, OSError):
        _read_archive(path)  # fails at the same place, and says how
        raise
    with file:
        found = {name.removesuffix(".npy"): name for name in file.namelist()}
        yield _Archive(path, file, {key: found[key] for key in _choose_arrays(path, found)}, advance)


class _ArrayStream:
    """An array of the archive that is read row after row, and to its end, where its checksum is.

    Use as a context manager; leaving it without an error reads what is left.

    Attributes:
        dtype: Type of its numbers.
        shape: Its shape.
        stand_in: An array of the same type and shape that takes no memory.
    """

    def __init__(self, archive: _Archive, key: str) -> None:
        self._archive, self._key = archive, key
        self._info = archive.info(key)
        self._row, self._bytes, self._told = 0, 0, 0
        self._whole: Array | None = None
        with self._naming_damage():
            self._stream: IO[bytes] = archive.file.open(self._info)
        try:
            self._read_header()
        except BaseException:
            self._stream.close()
            raise

    def __enter__(self) -> _ArrayStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while kind is None and self._read_bytes(_BLOCK_BYTES):
                pass
        finally:
            self._stream.close()
        if kind is None:
            self._archive.advance(self._info.compress_size - self._told)

    def read(self, count: int) -> Array:
        """Read the next rows; there must be so many."""
        self._row += count
        if self._whole is not None:
            return self._whole[self._row - count : self._row]
        expected = count * self._row_bytes
        content = self._read_bytes(expected)
        with self._naming_damage():
            if len(content) < expected:
                raise ValueError(f"its numbers end {expected - len(content)} bytes early or more")
            return np.frombuffer(content, self.dtype).reshape(count, *self.shape[1:])

    def blocks(self) -> Iterator[Array]:
        """Read all rows, so many at a time as fit into a block."""
        step = max(1, _BLOCK_BYTES // max(1, self._row_bytes))
        while self._row < self.shape[0]:
            yield self.read(min(step, self.shape[0] - self._row))

    def _read_header(self) -> None:
        with self._naming_damage():
            version = np.lib.format.read_magic(self._stream)
            readers = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }
            if version in readers:
                self.shape, is_fortran, self.dtype = readers[version](self._stream)
        if version not in readers or is_fortran or self.dtype.hasobject:
            # Columns that lie one after another cannot be had row by row; objects are refused.
            path, file = self._archive.path, self._archive.file
            self._whole = _read_array(path, file, self._key, self._info.filename)
            self.shape, self.dtype = self._whole.shape, self._whole.dtype
        self._row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        with self._naming_damage():
            self.stand_in = np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def _read_bytes(self, count: int) -> bytes:
        with self._naming_damage():
            content = self._stream.read(count)
        self._bytes += len(content)
        size, packed = max(1, self._info.file_size), self._info.compress_size
        done = min(packed, packed * self._bytes // size)
        self._archive.advance(done - self._told)
        self._told = done
        return content

    @contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            yield
        except (*_BAD_MEMBER, *_BAD_ARRAY, OverflowError) as error:
            reason = " ".join(str(error).split())[:100]
            raise DataError(
                f"{self._archive.path}: {self._key} is damaged ({reason}); copy or write the file anew"
            ) from None


@dataclass(frozen=True)
class _Pattern:
    """Where a sparse matrix has entries; the columns themselves are not in memory."""

    path: Path
    prefix: str
    indptr: Whole
    shape: tuple[int, int]

    @classmethod
    def check(cls, path: Path, prefix: str, arrays: Mapping[str, Array], indices: _ArrayStream) -> _Pattern:
        """Make sure that the rows fit the shape and the number of columns."""
        indptr, size = (
            _whole_numbers(path, f"{prefix}_{part}", arrays[f"{prefix}_{part}"])
            for part in ("indptr", "shape")
        )
        if indices.dtype.kind not in _NUMBERS or len(indices.shape) != 1:
            _whole_numbers(path, f"{prefix}_indices", indices.stand_in)
        if len(size) != 2 or size.min() < 0:
            raise DataError(f"{path}: {prefix}_shape is {size.tolist()}; expected two counts")
        rows, columns = int(size[0]), int(size[1])
        if len(indptr) != rows + 1:
            raise DataError(
                f"{path}: {prefix}_indptr has {len(indptr)} entries; "
                f"{rows} rows ({prefix}_shape) need {rows + 1}"
            )
        count = indices.shape[0]
        if indptr[0] != 0 or indptr[-1] != count:
            raise DataError(
                f"{path}: {prefix}_indptr runs from {indptr[0]} to {indptr[-1]}; "
                f"with {count} {prefix}_indices it must run from 0 to {count}"
            )
        falls = np.diff(indptr) < 0
        if falls.any():
            raise DataError(f"{path}: {prefix}_indptr falls after row {falls.argmax()}; it must never fall")
        return cls(path, prefix, indptr, (rows, columns))

    @property
    def num_entries(self) -> int:
        return int(self.indptr[-1])

    def rows(self, first: int, count: int) -> Whole:
        """Find the row of each of some entries, of which ``first`` is the first."""
        low = int(np.searchsorted(self.indptr, first, side="right")) - 1
        high = int(np.searchsorted(self.indptr, first + count))
        bounds: Whole = np.clip(self.indptr[low : high + 1], first, first + count)
        return np.repeat(np.arange(low, high), np.diff(bounds))

    def columns(self, first: int, block: Array) -> Whole:
        """Turn columns, as they were read, into numbers that are known to be columns."""
        if block.dtype.kind in "fu":
            value = block.astype(np.float64)
            wrong = ~((np.floor(value) == value) & (np.abs(value) < _MAX_WHOLE))
            if wrong.any():
                at = int(wrong.argmax())
                raise DataError(
                    f"{self.path}: {self.prefix}_indices[{first + at}] is {block[at]}, "
                    "expected a whole number"
                )
        columns = block.astype(np.int64)
        outside = (columns < 0) | (columns >= self.shape[1])
        if outside.any():
            at = int(outside.argmax())
            what = "an edge to a node" if self.prefix == "adj" else "a column"
            raise DataError(
                f"{self.path}: {self.prefix}_indices has {what} {columns[at]} "
                f"in row {self.rows(first + at, 1)[0]}; {self.prefix}_shape allows 0 to {self.shape[1] - 1}"
            )
        return columns

    def has_order(self, indices: _ArrayStream) -> bool:
        """Whether the columns of every row never fall; all of them are checked."""
        has_order, first, last = True, 0, -1
        for block in indices.blocks():
            columns = self.columns(first, block)
            falls = first + np.flatnonzero(np.diff(columns, prepend=last) < 0)
            has_order &= bool((self.indptr[np.searchsorted(self.indptr, falls)] == falls).all())
            first, last = first + len(columns), int(columns[-1])
        return has_order

    def row_blocks(self, size: int) -> Iterator[tuple[int, int]]:
        """Split the rows so that each part has at most ``size`` entries, or is a single row."""
        start = 0
        while start < self.shape[0]:
            end = int(np.searchsorted(self.indptr, self.indptr[start] + size, side="right")) - 1
            end = min(max(end, start + 1), start + max(1, size))
            yield start, end
            start = end


def _check_features(
    path: Path, arrays: Mapping[str, Array], streams: Mapping[str, _ArrayStream]
) -> _Pattern | None:
    """Check the features as far as that can be done without reading them; ``None`` if they are dense."""
    key, ndim = ("attr_matrix", 2) if "attr_matrix" in streams else ("attr_data", 1)
    values = streams[key]
    if values.dtype.kind not in _NUMBERS or len(values.shape) != ndim:
        _features(path, {key: values.stand_in})
    if key == "attr_matrix":
        return None
    words = _Pattern.check(path, "attr", arrays, streams["attr_indices"])
    _check_data(path, values.stand_in, "attr", words.num_entries)
    return words


def _write_labels(store: StoreWriter, graph: Graph) -> None:
    store.append("y", graph.y.numpy())
    if graph.masks is not None:
        for name in ("train", "val", "test"):
            store.append(name, getattr(graph.masks, name).numpy().view(np.uint8))


def _write_links(store: StoreWriter, links: _Pattern, indices: _ArrayStream) -> None:
    edges = EdgeSorter(links.shape[0], store.scratch)
    for block in indices.blocks():
        target = links.columns(edges.num_links, block)
        edges.add(links.rows(edges.num_links, len(target)), target)
    edges.write(store)


def _write_sparse(
    store: StoreWriter, words: _Pattern, archive: _Archive, streams: Mapping[str, _ArrayStream]
) -> None:
    with archive.open("attr_indices") as indices:
        has_order = words.has_order(indices)
    store.append("x_indptr", np.zeros(1, dtype=np.int64))
    for start, end in words.row_blocks(max(1, _BLOCK_BYTES // 8)):
        first, last = int(words.indptr[start]), int(words.indptr[end])
        columns = words.columns(first, streams["attr_indices"].read(last - first))
        with np.errstate(over="ignore"):
            values = streams["attr_data"].read(last - first).astype(np.float32)
        parts = (values, columns, words.indptr[start : end + 1] - first)
        matrix = sp.csr_matrix(parts, shape=(end - start, words.shape[1]))
        # The order in which SciPy sums duplicates, and so the last digit, depends on all rows.
        matrix.has_sorted_indices = has_order
        _append_sparse(store, archive.path.name, start, to_csr(matrix))


def _append_sparse(store: StoreWriter, name: str, start: int, x: Tensor) -> None:
    indptr, columns, values = x.crow_indices().numpy(), x.col_indices().numpy(), x.values().numpy()
    finite = np.isfinite(values)
    if not finite.all():
        at = int(finite.argmin())
        node = start + int(np.searchsorted(indptr, at, side="right")) - 1
        raise not_finite(name, node, int(columns[at]), float(values[at]))
    store.append("x_indptr", indptr[1:] + store.count("x_values"))
    store.append("x_indices", columns)
    store.append("x_values", values)
