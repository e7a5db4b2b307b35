"""Arrays of a store while it is written: how they grow, and how they are read back to be hashed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.store_files import SHARDED, Array


class GrowingArray:
    """An array that grows on disk, with its checksum so far."""

    def __init__(self, path: Path, like: Array) -> None:
        self.dtype, self.row = like.dtype, like.shape[1:]
        self.count, self._checksum = 0, 0
        self._file: IO[bytes] = path.open("wb")

    def append(self, rows: Array) -> None:
        """Write the next rows."""
        content = np.ascontiguousarray(rows, dtype=self.dtype)
        self._file.write(content.data)
        if content.size:
            self._checksum = zlib.crc32(content.reshape(-1).view(np.uint8).data, self._checksum)
        self.count += len(content)

    def close(self) -> None:
        """Write what is left to the disk."""
        with suppress(ValueError):
            self._file.close()

    def describe(self) -> dict[str, Any]:
        """Make its entry in the header."""
        return {"dtype": self.dtype.str, "shape": [self.count, *self.row], "crc32": self._checksum}


class WrittenArray:
    """An array on disk of which slices are read, not mapped, so that to hash it takes no memory."""

    layout = torch.strided

    def __init__(self, path: Path, entry: Mapping[str, Any]) -> None:
        self.path, self.shape = path, tuple(entry["shape"])
        self._numbers = np.dtype(entry["dtype"])
        self.dtype = torch.from_numpy(np.empty(0, self._numbers)).dtype
        self._row = math.prod(self.shape[1:])

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> Tensor:
        start, stop, _ = rows.indices(len(self))
        offset, count = start * self._row * self._numbers.itemsize, (stop - start) * self._row
        read = np.fromfile(self.path, self._numbers, count, offset=offset)
        return torch.from_numpy(read.reshape(-1, *self.shape[1:]))


def read_back(path: Path, entry: Mapping[str, Any]) -> Tensor | WrittenArray:
    """Give an array back to be hashed: what has one entry a node in memory, the others slice by slice."""
    array = WrittenArray(path, entry)
    return array if path.stem in SHARDED else array[:]
