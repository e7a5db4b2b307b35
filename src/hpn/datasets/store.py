"""A graph as a folder of flat arrays that are mapped into memory instead of being read.

::

    header.json      name, classes and features of the graph; type, shape and SHA-256 of every array
    indptr.bin       where the neighbours of each node begin, int64
    indices.bin      the neighbours, int32
    x.bin            dense features, float32 or float16; or x_indptr, x_indices and x_values, sparse ones
    y.bin            the class of each node, int64, −1 if unknown
    train.bin, …     a given split, one byte per node
    node_time.bin    when each node arrived, int64; y_by_time: its class at each time, one row per time, int64
    ids.bin          ids of the nodes, int64; or ids_text and ids_ends: UTF-8, and where each id ends

A store is written to a temporary folder and moved to its place when it is complete. Opening it compares sizes with
the header, and checksums if requested.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.datasets.graph import Graph, describe_array, hash_graph, remember_fingerprint
from hpn.datasets.sink import Sink, make_graph, write_graph
from hpn.errors import DataError, describe_disk_full, disk_full

Array = NDArray[Any]
Advance = Callable[[int], None]
FeatureType = Literal["float32", "float16"]
FEATURE_TYPES: tuple[FeatureType, ...] = ("float32", "float16")
HEADER = "header.json"
KIND = "hpn graph store"
VERSION = 4

FILE = "mapped_from"
"""The attribute of an array with the path of its file, so that other processes can map it too."""


def is_store(path: Path) -> bool:
    """Whether a folder is a store, complete or not."""
    return (path / HEADER).is_file()


def open_store(path: Path, *, verify: bool = True) -> Graph:
    """Map a store into memory.

    Args:
        path: Its folder.
        verify: Whether to compare checksums, which reads every byte once.

    Raises:
        DataError: If it is damaged, truncated, or of another version.
    """
    header = _read_header(path)
    try:
        arrays = {name: _map_array(path, name, entry, verify) for name, entry in header["arrays"].items()}
        graph = make_graph(header, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"{HEADER} does not fit the arrays: {error!r}") from None
    remember_fingerprint(graph, hash_graph(header))
    return graph


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads((path / HEADER).read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {HEADER} cannot be read: {error.strerror}") from None
    except ValueError:
        raise _damaged(path, f"{HEADER} is not JSON") from None
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise DataError(f"{path}: {HEADER} is not the header of a graph store")
    if header.get("version") != VERSION:
        found = f"the store has version {header.get('version')}, but this hpn reads {VERSION}"
        raise DataError(f"{path}: {found}; import the graph again, or install the hpn that wrote it")
    return header


def _map_array(path: Path, name: str, entry: Mapping[str, Any], verify: bool) -> Tensor:
    """Map a file, whose size must be that in the header, and its checksum as well if ``verify``."""
    file, dtype, shape = path / f"{name}.bin", np.dtype(entry["dtype"]), tuple(entry["shape"])
    try:
        found = file.stat().st_size
    except OSError:
        raise _damaged(path, f"{file.name} is missing") from None
    empty, size = torch.from_numpy(np.empty(0, dtype)), math.prod(shape)
    if found != size * dtype.itemsize:
        raise _damaged(path, f"{file.name} has {found:,} bytes, expected {size * dtype.itemsize:,}")
    if size == 0:
        return empty.reshape(shape)
    # Copy on write, so that the file cannot be changed. Unlike a map of NumPy, it does not keep the file open;
    # a process may have only about a thousand open files.
    array = torch.from_file(str(file), shared=False, size=size, dtype=empty.dtype)
    if verify and hashlib.sha256(array.numpy().data).hexdigest() != entry["sha256"]:
        raise _damaged(path, f"{file.name} has changed since it was written")
    mapped = array.reshape(shape)
    setattr(mapped, FILE, str(file.resolve()))
    return mapped


def map_again(file: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Map an array of a store that another process has opened and checked."""
    return torch.from_file(file, shared=False, size=math.prod(shape), dtype=dtype).reshape(shape)


def _damaged(path: Path, what: str) -> DataError:
    return DataError(f"{path}: the store is damaged or cut short ({what}); import the graph again")


class StoreWriter(Sink):
    """Writes a store, which appears at its place only when it is complete.

    Use as a context manager. Leaving it without :meth:`finish` removes what was written.

    Args:
        path: The folder to create; it must not exist.
        features: How to store dense features; ``float16`` takes half the space and keeps three digits.
        progress: Receives the number of bytes to read, and returns a function that receives those read so far.
    """

    scratch: Path

    def __init__(
        self, path: Path, *, features: FeatureType = "float32", progress: Callable[[int], Advance] | None = None
    ) -> None:
        self.path, self.features = path, features
        self.part = path.parent / f".{path.name}.part"
        self.scratch = self.part / "scratch"
        self.is_finished = False
        self._progress = progress or (lambda _: lambda _: None)
        self._advance: Advance = lambda _: None
        self._files: dict[str, _ArrayFile] = {}

    def __enter__(self) -> StoreWriter:
        if self.path.exists():
            raise DataError(f"{self.path} exists; choose another path for the store, or delete it first")
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
            with suppress(OSError):  # the buffered rest may not fit either
                file.close()
        shutil.rmtree(self.part, ignore_errors=True)
        if disk_full(error):
            raise DataError(describe_disk_full(self.path, "nothing of the store is kept")) from error

    def begin(self, total: int) -> None:
        """Report the number of bytes to read."""
        self._advance = self._progress(total)

    def advance(self, done: int) -> None:
        """Report the number of bytes read since the last call."""
        if done:
            self._advance(done)

    def append(self, name: str, rows: Array) -> None:
        """Write the next rows of an array."""
        if name == "x" and rows.dtype != self.features:
            with np.errstate(over="ignore"):
                rows = rows.astype(self.features)
            if not np.isfinite(rows).all():
                what = f"features are too large for {self.features}; store them as float32, or scale them"
                raise DataError(f"{self.path}: {what}")
        if name not in self._files:
            self._files[name] = _ArrayFile(self.part / f"{name}.bin", rows)
        self._files[name].append(rows)

    def finish(self, header: Mapping[str, Any]) -> Graph:
        """Write the header, move the store to its place, and open it."""
        for file in self._files.values():
            file.close()
        shutil.rmtree(self.scratch)
        entries = {name: file.describe() for name, file in self._files.items()}
        content = {"kind": KIND, "version": VERSION, **header, "arrays": entries}
        (self.part / HEADER).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
        self.part.rename(self.path)
        self.is_finished = True
        return open_store(self.path, verify=False)


def write_store(graph: Graph, path: Path, *, features: FeatureType = "float32") -> Graph:
    """Write a graph that is in memory or in another store, and open what was written.

    Raises:
        DataError: If ``path`` exists or cannot be written, or features are too large for their type.
    """
    with StoreWriter(path, features=features) as store:
        return write_graph(store, graph)


class _ArrayFile:
    """An array that grows on disk."""

    def __init__(self, path: Path, like: Array) -> None:
        self._file, self._digest = path.open("wb"), hashlib.sha256()
        self._dtype, self._shape = like.dtype, (0, *like.shape[1:])

    def append(self, rows: Array) -> None:
        content = np.ascontiguousarray(rows, dtype=self._dtype)
        self._file.write(content.data)
        self._digest.update(content.data)
        self._shape = (self._shape[0] + len(content), *self._shape[1:])

    def close(self) -> None:
        self._file.close()

    def describe(self) -> dict[str, Any]:
        return describe_array(self._dtype, self._shape, self._digest)
