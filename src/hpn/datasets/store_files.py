"""The files of a store: what they are called, how they are mapped into memory, and how damage is told of."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.errors import DataError

HEADER = "header.json"
KIND = "hpn graph store"
VERSION, SHARDED_VERSION = 1, 2
MASKS = ("train", "val", "test")
SHARDED = ("x", "indices", "x_indices", "x_values")
"""Arrays that a store may have in shards; the others have one entry a node."""

FeatureType = Literal["float32", "float16"]
FEATURE_TYPES: tuple[FeatureType, ...] = ("float32", "float16")
Array = NDArray[Any]
Advance = Callable[[int], None]

BLOCK = 1 << 24
"""Bytes that are gone through at once."""


def no_progress(_done: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class ArrayFile:
    """A file with an array, or with some rows of one, as the header tells of it.

    Args:
        path: Where it is.
        dtype: Type of its numbers.
        shape: Shape of what it holds.
        checksum: CRC-32 of its bytes.
        shard: Which shard it is, from 0, and of how many; ``None`` if it is the whole array.
    """

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    checksum: int
    shard: tuple[int, int] | None = None

    def check_size(self) -> None:
        """Make sure that it is there, and as long as it should be.

        Raises:
            DataError: If it is not.
        """
        expected = math.prod(self.shape) * self.dtype.itemsize
        try:
            found = self.path.stat().st_size
        except OSError:
            raise self._damaged("is missing") from None
        if found != expected:
            raise self._damaged(f"has {found:,} bytes, expected {expected:,}")

    def map(self, *, verify: bool) -> Tensor:
        """Map it into memory.

        Raises:
            DataError: If it is missing or too short, or, with ``verify``, has changed.
        """
        self.check_size()
        empty, size = torch.from_numpy(np.empty(0, self.dtype)), math.prod(self.shape)
        if size == 0:
            return empty.reshape(self.shape)
        # Copy on write, so that nobody can change the file; and unlike those of NumPy, such a map does not
        # keep the file open, of which a process may have only about a thousand.
        array = torch.from_file(str(self.path), shared=False, size=size, dtype=empty.dtype)
        if verify:
            flat, checksum = array.view(torch.uint8).numpy(), 0
            for start in range(0, len(flat), BLOCK):
                checksum = zlib.crc32(flat[start : start + BLOCK].data, checksum)
            if checksum != self.checksum:
                raise self._damaged("has changed since it was written")
        return array.reshape(self.shape)

    def _damaged(self, what: str) -> DataError:
        if self.shard is None:
            return damaged(self.path.parent, f"{self.path.name} {what}")
        told = f"{self.path.name}, shard {self.shard[0]} of {self.shard[1]}, {what}"
        return damaged(self.path.parent, told, "copy the file again, or import the graph again")


def shard_name(name: str, number: int) -> str:
    """Name the file of a shard.

    Example:
        >>> shard_name("x", 3)
        'x-00003.bin'
    """
    return f"{name}-{number:05}.bin"


def damaged(path: Path, what: str, mend: str = "import the graph again") -> DataError:
    """Make the error for a store that is not as it was written."""
    return DataError(f"{path}: the store is damaged or cut short ({what}); {mend}")


def hash_header(header: Mapping[str, Any]) -> str:
    """Hash what the fingerprint in a header rests on, which is everything else in the header.

    Whoever changes the order of the classes by hand changes what a learner sees; the fingerprint is then
    known to be an old one.

    Example:
        >>> hash_header({"name": "a", "fingerprint": "1"}) == hash_header({"fingerprint": "2", "name": "a"})
        True
    """
    rest = {key: value for key, value in header.items() if key not in {"fingerprint", "fingerprint_of"}}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
