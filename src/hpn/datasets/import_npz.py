"""A graph from a NumPy archive (:mod:`hpn.datasets.npz`) into a store, never all of it in memory.

Edges and features are read block by block. What has one entry a node (labels, masks, where the rows of a
sparse matrix begin) is read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.datasets import npz_stream
from hpn.datasets.edge_sort import EdgeSorter
from hpn.datasets.graph import Graph, not_finite
from hpn.datasets.npz import (
    _MAX_WHOLE,
    _check_data,
    _class_names,
    _features,
    _labels,
    _masks,
    _whole_numbers,
    check_rows,
)
from hpn.datasets.npz_stream import ArrayArchive, ArrayStream, open_archive
from hpn.datasets.sparse import to_csr
from hpn.datasets.store import (
    Advance,
    FeatureType,
    StoreWriter,
    append_features,
    check_shards,
    make_header,
    no_progress,
)
from hpn.errors import DataError

Array = NDArray[Any]
Whole = NDArray[np.int64]

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
        ConfigError: If the store is to have more shards than there are nodes.
        DataError: If the archive is damaged or its arrays are missing or do not fit each other.
    """
    with open_archive(path, advance) as archive, ExitStack() as opened:
        arrays = {key: archive.load(key) for key in archive.members if key not in _STREAMED}
        streams = {
            key: opened.enter_context(archive.open(key)) for key in _STREAMED if key in archive.members
        }
        links = _Pattern.check(path, "adj", arrays, streams["adj_indices"])
        num_nodes = links.shape[0]
        if num_nodes != links.shape[1]:
            raise DataError(f"{path}: adj_shape is {links.shape}; the adjacency matrix must be square")
        check_shards(store.shards, num_nodes)
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
    with open_archive(path, no_progress) as archive:
        sizes = {key: archive.info(key).compress_size for key in archive.members}
    # Columns of sparse features are read twice: first to know whether they are in order.
    return sum(sizes.values()) + sizes.get("attr_indices", 0)


@dataclass(frozen=True)
class _Pattern:
    """Where a sparse matrix has entries; the columns themselves are not in memory."""

    path: Path
    prefix: str
    indptr: Whole
    shape: tuple[int, int]

    @classmethod
    def check(cls, path: Path, prefix: str, arrays: Mapping[str, Array], indices: ArrayStream) -> _Pattern:
        """Make sure that the rows fit the shape and the number of columns."""
        indptr, size = (
            _whole_numbers(path, f"{prefix}_{part}", arrays[f"{prefix}_{part}"])
            for part in ("indptr", "shape")
        )
        if indices.dtype.kind not in _NUMBERS or len(indices.shape) != 1:
            _whole_numbers(path, f"{prefix}_indices", indices.stand_in)
        return cls(path, prefix, indptr, check_rows(path, prefix, indptr, size, indices.shape[0]))

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

    def has_order(self, indices: ArrayStream) -> bool:
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
    path: Path, arrays: Mapping[str, Array], streams: Mapping[str, ArrayStream]
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


def _write_links(store: StoreWriter, links: _Pattern, indices: ArrayStream) -> None:
    edges = EdgeSorter(links.shape[0], store.scratch)
    for block in indices.blocks():
        target = links.columns(edges.num_links, block)
        edges.add(links.rows(edges.num_links, len(target)), target)
    edges.write(store)


def _write_sparse(
    store: StoreWriter, words: _Pattern, archive: ArrayArchive, streams: Mapping[str, ArrayStream]
) -> None:
    with archive.open("attr_indices") as indices:
        has_order = words.has_order(indices)
    store.append("x_indptr", np.zeros(1, dtype=np.int64))
    for start, end in words.row_blocks(max(1, npz_stream.BLOCK_BYTES // 8)):
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
