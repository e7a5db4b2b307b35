"""A graph as a folder of flat arrays that is mapped into memory, not read.

::

    header.json      what the graph is called, its classes, and of every array type, shape and checksum
    indptr.bin       where the neighbours of each node begin, int64
    indices.bin      the neighbours, int32 (int64 beyond 2³¹ nodes)
    x.bin            dense features, float32 or float16; or x_indptr, x_indices and x_values, sparse ones
    y.bin            the class of each node, int64, −1 where it is unknown
    train.bin, …     a given split, one byte a node

A store is written beside its place and moved there as a whole. When it is opened, sizes are checked against
the header at once, and checksums as the bytes are first read through.
"""

from __future__ import annotations

import json
import math
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.datasets.graph import Graph, Masks, not_finite
from hpn.datasets.sparse import is_sparse
from hpn.errors import DataError

HEADER = "header.json"
KIND, VERSION = "hpn graph store", 1
FeatureType = Literal["float32", "float16"]
FEATURE_TYPES: tuple[FeatureType, ...] = ("float32", "float16")
Array = NDArray[Any]
Advance = Callable[[int], None]

_BLOCK = 1 << 24
_MASKS = ("train", "val", "test")


def no_progress(_done: int) -> None:
    """Tell nobody."""


class StoreWriter:
    """Writes a store, array by array and piece by piece; nothing is there until all of it is.

    Use as a context manager, call :meth:`append` for every array, then :meth:`finish`. Leaving without
    :meth:`finish` removes what was written.

    Args:
        path: The folder to make; it must not exist.

    Attributes:
        scratch: A folder for files that are needed while writing only.

    Raises:
        DataError: If there is something at ``path``, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(f".{path.name}.part")
        self.scratch = self.part / "scratch"
        self._files: dict[str, _ArrayFile] = {}

    def __enter__(self) -> StoreWriter:
        if self.path.exists():
            raise DataError(f"{self.path} exists; choose another place for the store, or delete it first")
        try:
            shutil.rmtree(self.part, ignore_errors=True)
            self.scratch.mkdir(parents=True)
        except OSError as error:
            raise DataError(f"cannot write {self.path} ({error.strerror or error})") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()
        shutil.rmtree(self.part, ignore_errors=True)

    def append(self, name: str, rows: Array) -> None:
        """Write the next rows of an array; the first give its type and the shape of a row."""
        if name not in self._files:
            self._files[name] = _ArrayFile(self.part / f"{name}.bin", rows)
        self._files[name].append(rows)

    def count(self, name: str) -> int:
        """Rows of an array so far."""
        return self._files[name].count if name in self._files else 0

    def finish(self, header: Mapping[str, Any]) -> None:
        """Write the header and move the store to its place."""
        for file in self._files.values():
            file.close()
        arrays = {name: file.describe() for name, file in self._files.items()}
        shutil.rmtree(self.scratch)
        content = {"kind": KIND, "version": VERSION, **header, "arrays": arrays}
        (self.part / HEADER).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
        self.part.rename(self.path)


def is_store(path: Path) -> bool:
    """Whether a folder is a store, whole or not."""
    return (path / HEADER).is_file()


def write_store(graph: Graph, path: Path, *, features: FeatureType = "float32") -> None:
    """Write a graph that is in memory.

    Args:
        graph: The graph.
        path: The folder to make; it must not exist.
        features: How to keep dense features; ``float16`` takes half the space and keeps three digits.

    Raises:
        DataError: If there is something at ``path``, it cannot be written, or features are too large.
    """
    with StoreWriter(path) as store:
        for name, array in _arrays(graph):
            for start in range(0, max(1, len(array)), _rows_at_once(array)):
                rows = array[start : start + _rows_at_once(array)]
                store.append(name, to_features(rows, features, path) if name == "x" else rows)
        store.finish(make_header(graph))


def make_header(graph: Graph) -> dict[str, Any]:
    """What a store tells of a graph beside its arrays."""
    return {
        "name": graph.name,
        "num_features": graph.num_features,
        "num_links": graph.num_links,
        "class_names": list(graph.class_names),
        "split_rule": graph.split_rule,
        "class_order": None if graph.class_order is None else list(graph.class_order),
    }


def to_features(rows: Array, features: FeatureType, path: Path) -> Array:
    """Features as they are stored.

    Raises:
        DataError: If a number is too large for the type.
    """
    with np.errstate(over="ignore"):
        stored: Array = rows.astype(features)
    if not np.isfinite(stored).all():
        raise DataError(f"{path}: features are too large for {features}; keep them as float32, or scale them")
    return stored


def append_features(store: StoreWriter, name: str, rows: Array, features: FeatureType) -> None:
    """Write the next rows of dense features, ``x``, whatever type of numbers they are.

    Args:
        store: Where to.
        name: What errors call the graph.
        rows: Features of the next nodes ``[n, num_features]``.
        features: The type to keep them in.

    Raises:
        DataError: If a feature is not finite, or too large for the type.
    """
    # What float32 cannot hold becomes infinite here, and is reported with its place.
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float32)
    finite = np.isfinite(rows)
    if not finite.all():
        node, feature = np.unravel_index(int(finite.argmin()), rows.shape)
        raise not_finite(name, store.count("x") + int(node), int(feature), float(rows[node, feature]))
    store.append("x", to_features(rows, features, Path(name)))


def open_store(path: Path, *, verify: bool = True) -> Graph:
    """Map a store into memory.

    Args:
        path: Its folder.
        verify: Whether to compare checksums, which reads every byte once.

    Raises:
        DataError: If it is damaged, cut short, or of a newer version.
    """
    header = _read_header(path)
    try:
        arrays = {name: _map(path, name, entry) for name, entry in header["arrays"].items()}
        if verify:
            for name, array in arrays.items():
                _verify(path, name, array, int(header["arrays"][name]["crc32"]))
        graph = _make_graph(header, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"{HEADER} does not fit the arrays: {error!r}") from None
    if len(graph.indptr) != graph.num_nodes + 1 or len(graph.y) != graph.num_nodes:
        raise _damaged(path, "its arrays are of different graphs")
    return graph


def _make_graph(header: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Graph:
    if "x" in arrays:
        x = arrays["x"]
    else:
        size = (len(arrays["x_indptr"]) - 1, int(header["num_features"]))
        parts = (arrays["x_indptr"], arrays["x_indices"], arrays["x_values"])
        x = torch.sparse_csr_tensor(*parts, size, check_invariants=False)
    masks = Masks(*(arrays[name].bool() for name in _MASKS)) if "train" in arrays else None
    return Graph(
        name=str(header["name"]),
        x=x,
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        y=arrays["y"],
        class_names=tuple(str(name) for name in header["class_names"]),
        num_links=int(header["num_links"]),
        split_rule=header["split_rule"],
        masks=masks,
        class_order=None if header["class_order"] is None else tuple(header["class_order"]),
    )


def _arrays(graph: Graph) -> Iterator[tuple[str, Array]]:
    yield "indptr", graph.indptr.numpy()
    yield "indices", graph.indices.numpy()
    if is_sparse(graph.x):
        yield "x_indptr", graph.x.crow_indices().numpy()
        yield "x_indices", graph.x.col_indices().numpy()
        yield "x_values", graph.x.values().numpy()
    else:
        yield "x", graph.x.numpy()
    yield "y", graph.y.numpy()
    if graph.masks is not None:
        for name in _MASKS:
            yield name, getattr(graph.masks, name).numpy().view(np.uint8)


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads((path / HEADER).read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {HEADER} cannot be read: {error.strerror}") from None
    except ValueError:
        raise _damaged(path, f"{HEADER} is not JSON") from None
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise DataError(f"{path}: {HEADER} is not that of a graph store")
    if header.get("version") != VERSION:
        raise DataError(
            f"{path}: the store is of version {header.get('version')}, this hpn knows {VERSION}; "
            "upgrade hpn, or import the graph again"
        )
    return header


def _map(path: Path, name: str, entry: Mapping[str, Any]) -> Tensor:
    """Map one array, whose file must be as long as the header says."""
    file, dtype, shape = path / f"{name}.bin", np.dtype(entry["dtype"]), tuple(entry["shape"])
    expected = math.prod(shape) * dtype.itemsize
    try:
        found = file.stat().st_size
    except OSError:
        raise _damaged(path, f"{file.name} is missing") from None
    if found != expected:
        raise _damaged(path, f"{file.name} has {found:,} bytes, expected {expected:,}")
    if expected == 0:
        return torch.from_numpy(np.empty(shape, dtype))
    # Copy on write: nobody can change the file, and PyTorch gets the writable memory it asks for.
    return torch.from_numpy(np.memmap(file, dtype, "c", shape=shape))


def _verify(path: Path, name: str, array: Tensor, expected: int) -> None:
    flat = array.reshape(-1).view(torch.uint8).numpy() if array.numel() else np.empty(0, np.uint8)
    checksum = 0
    for start in range(0, len(flat), _BLOCK):
        checksum = zlib.crc32(flat[start : start + _BLOCK].data, checksum)
    if checksum != expected:
        raise _damaged(path, f"{name}.bin has changed since it was written")


def _damaged(path: Path, what: str) -> DataError:
    return DataError(f"{path}: the store is damaged or cut short ({what}); import the graph again")


def _rows_at_once(array: Array) -> int:
    width = max(1, math.prod(array.shape[1:]) * array.dtype.itemsize)
    return max(1, _BLOCK // width)


class _ArrayFile:
    """An array that grows on disk, with its checksum so far."""

    def __init__(self, path: Path, like: Array) -> None:
        self.dtype, self.row = like.dtype, like.shape[1:]
        self.count, self._checksum = 0, 0
        self._file: IO[bytes] = path.open("wb")

    def append(self, rows: Array) -> None:
        content = np.ascontiguousarray(rows, dtype=self.dtype)
        self._file.write(content.data)
        if content.size:
            self._checksum = zlib.crc32(content.reshape(-1).view(np.uint8).data, self._checksum)
        self.count += len(content)

    def close(self) -> None:
        with suppress(ValueError):
            self._file.close()

    def describe(self) -> dict[str, Any]:
        return {"dtype": self.dtype.str, "shape": [self.count, *self.row], "crc32": self._checksum}
