"""Edges that do not fit into memory, as compressed rows on disk.

Links are dealt out to files by the range of nodes they start from, and each file, which does fit, is sorted
by itself: every byte is written and read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpn.datasets.store import StoreWriter

RANGES = 128
"""Files that links are dealt out to."""

_BLOCK = 1 << 20


class EdgeSorter:
    """Makes links undirected, each in both directions once, without self-loops, and sorts them.

    Args:
        num_nodes: Nodes of the graph.
        scratch: A folder for the files.
        memory: Bytes to sort at once; a range that takes more is sorted in parts.

    Attributes:
        num_links: Links added so far.

    Example:
        >>> import tempfile
        >>> from hpn.datasets.store import StoreWriter
        >>> with tempfile.TemporaryDirectory() as folder, StoreWriter(Path(folder) / "store") as store:
        ...     edges = EdgeSorter(3, store.scratch)
        ...     edges.add(np.array([0, 1, 2, 0]), np.array([1, 0, 2, 1]))
        ...     edges.write(store)
        ...     edges.num_links, store.count("indptr"), store.count("indices")
        (4, 4, 2)
    """

    def __init__(self, num_nodes: int, scratch: Path, *, memory: int = 1 << 29) -> None:
        self.num_nodes = num_nodes
        self.num_links = 0
        self.index = np.dtype(np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64)
        self._memory = memory
        self._width = -(-num_nodes // RANGES)
        self._paths = [scratch / f"links-{number}" for number in range(-(-num_nodes // self._width))]

    def add(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Take links between nodes that exist ``[n]``, any number at a time."""
        self.num_links += len(source)
        for start in range(0, len(source), _BLOCK):
            part = slice(start, start + _BLOCK)
            self._deal(source[part].astype(self.index), target[part].astype(self.index))

    def write(self, store: StoreWriter) -> None:
        """Write ``indptr`` and ``indices``, and delete the files."""
        degree = np.zeros(self.num_nodes, dtype=np.int64)
        store.append("indices", np.empty(0, dtype=self.index))
        for number, path in enumerate(self._paths):
            first = number * self._width
            if path.exists():
                last = min(first + self._width, self.num_nodes)
                for keys in self._sorted(path, first, last):
                    row, column = np.divmod(keys, self.num_nodes)
                    degree[first:last] += np.bincount(row - first, minlength=last - first)
                    store.append("indices", column.astype(self.index))
                path.unlink()
        store.append("indptr", np.concatenate([[0], np.cumsum(degree)]))

    def _deal(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Write both directions of links to the files of the nodes they start from."""
        differ = source != target
        pairs = np.stack([source[differ], target[differ]], axis=1)
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
        owner = (pairs[:, 0] // self._width).astype(np.uint8)
        pairs = pairs[np.argsort(owner, kind="stable")]
        ends = np.cumsum(np.bincount(owner, minlength=len(self._paths)))
        for path, start, end in zip(self._paths, np.append(0, ends[:-1]), ends, strict=True):
            if end > start:
                with path.open("ab") as file:
                    file.write(pairs[start:end].data)

    def _sorted(self, path: Path, first: int, last: int) -> Iterator[NDArray[np.int64]]:
        """Distinct links from nodes of a range, as ``source * num_nodes + target``, in order."""
        num_parts = min(last - first, 1 + 4 * path.stat().st_size // self._memory)
        bounds = np.linspace(first, last, num_parts + 1).astype(np.int64)
        for low, high in pairwise(bounds.tolist()):
            found = [
                pairs[:, 0].astype(np.int64) * self.num_nodes + pairs[:, 1]
                for pairs in self._read(path, None if num_parts == 1 else (low, high))
            ]
            keys = np.concatenate([np.empty(0, dtype=np.int64), *found])
            keys.sort()
            yield keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]

    def _read(self, path: Path, rows: tuple[int, int] | None) -> Iterator[NDArray[Any]]:
        with path.open("rb") as file:
            while content := file.read(2 * self.index.itemsize * _BLOCK):
                pairs = np.frombuffer(content, dtype=self.index).reshape(-1, 2)
                if rows is not None:
                    pairs = pairs[(pairs[:, 0] >= rows[0]) & (pairs[:, 0] < rows[1])]
                yield pairs
