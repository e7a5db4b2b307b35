"""Arrays in several files, each with a range of rows, of which a machine maps only those it needs.

They stand in for tensors where rows are only taken: :class:`~hpn.datasets.graph.Graph` and
:func:`~hpn.datasets.sparse.select_rows` do not care which they have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.store_files import Array, ArrayFile
from hpn.errors import DataError

_BLOCK = 1 << 22
_MAX_SHORT = 1 << 16


class ShardedRows:
    """An array over several files, which are mapped and checked when a row of theirs is first asked for.

    ``rows[index]`` gathers rows in the order asked for, and ``rows[start:stop]`` takes a range; both give a
    tensor. Files with no row that was asked for may be absent. A copy in another process has the same files,
    and maps them itself.

    Args:
        files: The files in the order of their rows.
        verify: Whether to compare the checksum of a file when it is mapped.

    Raises:
        DataError: If a file that is there has another size than it should. So do indexing and slicing, if a
            file is missing or has changed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = []
        ...     for number, part in enumerate(np.split(np.arange(6.0), [2])):
        ...         path = Path(folder) / f"x-{number}.bin"
        ...         _ = path.write_bytes(part.tobytes())
        ...         files.append(ArrayFile(path, part.dtype, part.shape, 0, shard=(number, 2)))
        ...     rows = ShardedRows(files, verify=False)
        ...     len(rows), rows[torch.tensor([5, 0, 2])].tolist(), rows[1:3].tolist()
        (6, [5.0, 0.0, 2.0], [1.0, 2.0])
    """

    layout = torch.strided

    def __init__(self, files: Sequence[ArrayFile], *, verify: bool = True) -> None:
        self.files = tuple(files)
        self.verify = verify
        self._starts = [0]
        for file in self.files:
            self._starts.append(self._starts[-1] + file.shape[0])
            if file.path.exists():
                file.check_size()
        self._ends = np.array(self._starts[1:])
        self._maps: list[Tensor | None] = [None] * len(self.files)
        like = torch.from_numpy(np.empty(0, self.files[0].dtype))
        self.dtype = like.dtype
        self.shape = torch.Size((self._starts[-1], *self.files[0].shape[1:]))
        self._row_bytes = max(1, math.prod(self.shape[1:]) * like.element_size())

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def mapped(self) -> list[int]:
        """Shards that have been mapped so far."""
        return [number for number, part in enumerate(self._maps) if part is not None]

    def numel(self) -> int:
        """Count the numbers in all files."""
        return self.shape.numel()

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"ShardedRows(shape={tuple(self.shape)}, dtype={self.dtype}, shards={len(self.files)})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maps": [None] * len(self.files)}

    def __getitem__(self, rows: Tensor | slice) -> Tensor:
        if isinstance(rows, slice):
            return self._slice(rows)
        if not isinstance(rows, Tensor) or rows.ndim != 1 or rows.dtype not in {torch.int32, torch.int64}:
            raise TypeError(f"rows in shards are taken by a slice or a vector of row numbers, not {rows!r}")
        index, last = rows.numpy(), len(self) - 1
        if len(index) and (index.min() < 0 or index.max() > last):
            raise IndexError(f"rows are numbered 0 to {last}, asked for {index.min()} to {index.max()}")
        return torch.from_numpy(self._gather(index))

    def _slice(self, rows: slice) -> Tensor:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise TypeError(f"rows in shards are taken one after the other, not in steps of {step}")
        if start >= stop:
            return torch.empty((0, *self.shape[1:]), dtype=self.dtype)
        lowest, highest = np.searchsorted(self._ends, [start, stop - 1], side="right").tolist()
        parts = []
        for number in range(lowest, highest + 1):
            first = self._starts[number]
            if self.files[number].shape[0] > 0:
                parts.append(self._shard(number)[max(start - first, 0) : stop - first])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _gather(self, index: Array) -> Array:
        """Rows that exist, in the order asked for."""
        out = np.empty((len(index), *self.shape[1:]), self.files[0].dtype)
        shard = np.searchsorted(self._ends, index, side="right")
        if not (shard[1:] < shard[:-1]).any():
            self._take(index, shard, out)
            return out
        # Short numbers are sorted by counting, in the time of going through them.
        shard = shard.astype(np.uint16) if len(self.files) <= _MAX_SHORT else shard
        # In blocks, so that rows on the way from their shards to their places stay in the processor's cache.
        step = max(1, _BLOCK // self._row_bytes)
        sorted_ = np.empty_like(out[:step])
        for start in range(0, len(index), step):
            part = slice(start, start + step)
            order = np.argsort(shard[part], kind="stable")
            self._take(index[part][order], shard[part][order], sorted_)
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            np.take(sorted_, place, axis=0, out=out[part], mode="clip")
        return out

    def _take(self, index: Array, shard: Array, out: Array) -> None:
        """Write rows to the first of ``out``; they must be in the order of their shards."""
        starts = np.flatnonzero(np.diff(shard, prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(index)], strict=False):
            number = int(shard[start])
            local = index[start:end] - self._starts[number]
            # The rows are known to exist; in any other mode, NumPy copies them twice.
            np.take(self._shard(number).numpy(), local, axis=0, out=out[start:end], mode="clip")

    def _shard(self, number: int) -> Tensor:
        part = self._maps[number]
        if part is None:
            file = self.files[number]
            if not file.path.exists():
                which = f"shard {number} of {len(self.files)} ({file.path.name})"
                raise DataError(
                    f"{file.path.parent}: {which} is not here; "
                    "copy it to this folder, or choose tasks whose nodes are in other shards"
                )
            part = self._maps[number] = file.map(verify=self.verify)
        return part


@dataclass(frozen=True, eq=False)
class ShardedCsr:
    """Compressed sparse rows whose columns and values are in shards.

    Args:
        indptr: Where each row begins ``[num_rows + 1]``.
        columns: The columns of all rows.
        entries: The values of all rows.
        width: Number of columns.
    """

    indptr: Tensor
    columns: ShardedRows
    entries: ShardedRows
    width: int

    layout = torch.sparse_csr

    @property
    def shape(self) -> torch.Size:
        """Number of rows and columns."""
        return torch.Size((len(self.indptr) - 1, self.width))

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.entries.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return 2

    def __len__(self) -> int:
        return self.shape[0]

    def numel(self) -> int:
        """Count the numbers, zeros that are not stored included, as a tensor does."""
        return self.shape.numel()

    def crow_indices(self) -> Tensor:
        """Tell where each row begins."""
        return self.indptr

    def col_indices(self) -> ShardedRows:
        """Give the columns of all rows."""
        return self.columns

    def values(self) -> ShardedRows:
        """Give the values of all rows."""
        return self.entries
