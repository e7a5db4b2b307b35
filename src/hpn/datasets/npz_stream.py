"""Arrays of a NumPy archive, read row after row instead of as a whole."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np

from hpn.datasets.npz import _BAD_ARRAY, _BAD_MEMBER, Array, _choose_arrays, _read_archive, _read_array
from hpn.datasets.store import Advance
from hpn.errors import DataError

BLOCK_BYTES = 1 << 24
"""Read at once."""


@dataclass(frozen=True)
class ArrayArchive:
    """The arrays of the format in an archive, by name; ``members`` tells what each is called there."""

    path: Path
    file: zipfile.ZipFile
    members: Mapping[str, str]
    advance: Advance

    def info(self, key: str) -> zipfile.ZipInfo:
        """What the archive tells of an array."""
        return self.file.getinfo(self.members[key])

    def load(self, key: str) -> Array:
        """Read an array as a whole."""
        array = _read_array(self.path, self.file, key, self.members[key])
        self.advance(self.info(key).compress_size)
        return array

    def open(self, key: str) -> ArrayStream:
        """Begin to read an array row after row."""
        return ArrayStream(self, key)


@contextmanager
def open_archive(path: Path, advance: Advance) -> Iterator[ArrayArchive]:
    """Open an archive that has the arrays of the format.

    Raises:
        DataError: If it is damaged, or arrays are missing.
    """
    try:
        file = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, UnicodeDecodeError, OSError):
        _read_archive(path)  # fails at the same place, and says how
        raise
    with file:
        found = {name.removesuffix(".npy"): name for name in file.namelist()}
        yield ArrayArchive(path, file, {key: found[key] for key in _choose_arrays(path, found)}, advance)


class ArrayStream:
    """An array of the archive that is read row after row, and to its end, where its checksum is.

    Use as a context manager; leaving it without an error reads what is left.

    Attributes:
        dtype: Type of its numbers.
        shape: Its shape.
        stand_in: An array of the same type and shape that takes no memory.
    """

    def __init__(self, archive: ArrayArchive, key: str) -> None:
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

    def __enter__(self) -> ArrayStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while kind is None and self._read_bytes(BLOCK_BYTES):
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
        step = max(1, BLOCK_BYTES // max(1, self._row_bytes))
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
