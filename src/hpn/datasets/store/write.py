"""Writing stores, array by array and piece by piece."""

from __future__ import annotations

import json
import math
import shutil
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.datasets.graph import MASKS, Graph, hash_arrays
from hpn.datasets.sink import Sink, write_graph
from hpn.datasets.store.read import HEADER, KIND, VERSION, hash_header, open_store
from hpn.errors import DataError, describe_disk_full, disk_full

FeatureType = Literal["float32", "float16"]
FEATURE_TYPES: tuple[FeatureType, ...] = ("float32", "float16")
Array = NDArray[Any]
Advance = Callable[[int], None]


class StoreWriter(Sink):
    """Writes a store, which appears at its place only when it is complete.

    Use as a context manager. Leaving it without :meth:`finish` removes what was written.

    Args:
        path: The folder to create; it must not exist.
        features: How to store dense features; ``float16`` takes half the space and keeps three digits.
        progress: Receives the number of bytes to read, and returns a function that receives those read so far.
    """

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
            (self.part / "scratch").mkdir(parents=True)
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
        """Hash the graph, write the header, move the store to its place, and open it."""
        for file in self._files.values():
            file.close()
        shutil.rmtree(self.part / "scratch")
        arrays = {name: file[:].bool() if name in MASKS else file for name, file in self._files.items()}
        entries = {name: file.describe() for name, file in self._files.items()}
        # As it will be read, so that the hash of the header does not depend on types.
        content = json.loads(json.dumps({"kind": KIND, "version": VERSION, **header, "arrays": entries}))
        rest = (content.get(name) for name in ("class_names", "split_rule", "class_order"))
        content["fingerprint"] = hash_arrays(arrays, *rest)
        content["fingerprint_of"] = hash_header(content)
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
    """An array that grows on disk; its slices are read, not mapped, so that hashing it takes no memory."""

    def __init__(self, path: Path, like: Array) -> None:
        self._path, self._numbers, self.shape = path, like.dtype, (0, *like.shape[1:])
        self.dtype = torch.from_numpy(np.empty(0, like.dtype)).dtype
        self._checksum, self._file = 0, path.open("wb")

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> Tensor:
        start, stop, _ = rows.indices(len(self))
        width = math.prod(self.shape[1:])
        offset, count = start * width * self._numbers.itemsize, (stop - start) * width
        read = np.fromfile(self._path, self._numbers, count, offset=offset)
        return torch.from_numpy(read.reshape(-1, *self.shape[1:]))

    def append(self, rows: Array) -> None:
        content = np.ascontiguousarray(rows, dtype=self._numbers)
        self._file.write(content.data)
        if content.size:
            self._checksum = zlib.crc32(content.reshape(-1).view(np.uint8).data, self._checksum)
        self.shape = (len(self) + len(content), *self.shape[1:])

    def close(self) -> None:
        with suppress(ValueError):
            self._file.close()

    def describe(self) -> dict[str, Any]:
        return {"dtype": self._numbers.str, "shape": self.shape, "crc32": self._checksum}
