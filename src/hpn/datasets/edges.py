"""Edges as graphs keep them: undirected, without duplicates and self-loops, sorted, as compressed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hpn.errors import DataError

Array = NDArray[Any]
Blocks = Callable[[], Iterable[tuple[Array, Array]]]
"""Returns all links, in blocks of sources and targets; called several times."""

SORTED_AT_ONCE = 1 << 25
"""Entries sorted in memory at once, 8 bytes each."""

_MAX_NODES = 1 << 31
_CHUNK = 1 << 20


class LinkSorter:
    """Sorts links and makes them undirected: each in both directions once, without self-loops.

    Counts and the ``degree`` of each node are complete when :meth:`rows` is exhausted; ``num_pairs`` counts distinct
    links.
    """

    def __init__(self, num_nodes: int, num_links: int, blocks: Blocks) -> None:
        if num_nodes >= _MAX_NODES:
            raise DataError(f"{num_nodes:,} nodes are too many; a graph has fewer than {_MAX_NODES:,}")
        self.num_nodes, self.num_links, self.blocks = num_nodes, num_links, blocks
        self.num_loops = self.num_pairs = 0
        self.degree = np.zeros(num_nodes, dtype=np.int64)

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where the neighbours of each node begin."""
        return np.concatenate([[0], np.cumsum(self.degree)])

    def describe(self) -> list[str]:
        """Notes about links that were dropped, merged, or have one direction only."""
        copies = self.num_links - self.num_loops - self.num_pairs
        one_way = int(self.degree.sum()) - self.num_pairs
        notes = [
            (self.num_loops, "self-loop", "dropped"),
            (copies, "duplicate edge", "merged"),
            (one_way, "edge", "with one direction only, used in both"),
        ]
        return [f"{count(number, noun)} {what}" for number, noun, what in notes if number]

    def rows(self) -> Iterator[NDArray[np.int32]]:
        """The neighbours of node 0, of node 1, …, some nodes at a time."""
        yield np.empty(0, dtype=np.int32)
        for low, high, size in self._ranges():
            keys, last = self._sorted_keys(low, high, size), np.int64(-2)
            for start in range(0, len(keys), _CHUNK):
                part = keys[start : start + _CHUNK]
                before, last = np.concatenate([[last], part[:-1]]), part[-1]
                # The last bit is the direction, and the same pair in both directions is one edge.
                self.num_pairs += int(np.count_nonzero((part != before) & (part & 1 == 0)))
                edges = part[part >> 1 != before >> 1] >> 1
                self.degree[low:high] += np.bincount(edges >> 31, minlength=high - low)
                yield (edges & (_MAX_NODES - 1)).astype(np.int32)

    def _ranges(self) -> Iterator[tuple[int, int, int]]:
        """Ranges of nodes with few enough ends of links to be sorted at once, and the number of those ends."""
        ends = np.zeros(self.num_nodes + 1, dtype=np.int64)
        for block in self.blocks():
            for end in block:
                ends[1:] += np.bincount(end, minlength=self.num_nodes)
        total, low = np.cumsum(ends), 0
        while low < self.num_nodes:
            high = max(low + 1, int(np.searchsorted(total, total[low] + SORTED_AT_ONCE, side="right")) - 1)
            yield low, high, int(total[high] - total[low])
            low = high

    def _sorted_keys(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        """Links from nodes of a range, sorted: source - low, target and direction in 31, 31 and 1 bits."""
        keys, filled = np.empty(size, dtype=np.int64), 0
        for ends in self.blocks():
            for direction, (source, target) in enumerate((ends, ends[::-1])):
                inside = source != target
                if direction == 0 and low == 0:
                    self.num_loops += len(inside) - int(np.count_nonzero(inside))
                if high - low < self.num_nodes:
                    inside &= (source >= low) & (source < high)
                at = np.flatnonzero(inside)
                part = keys[filled : filled + len(at)]
                np.subtract(source[at], low, out=part)
                part <<= 31
                part += target[at]
                part <<= 1
                part += direction
                filled += len(at)
        keys = keys[:filled]
        keys.sort()
        return keys


def sort_links(links: Tensor, num_nodes: int) -> tuple[LinkSorter, NDArray[np.int32]]:
    """Sort links ``[2, n]`` and make them undirected; the array has the neighbours of each node."""
    source, target = links.numpy()
    sorter = LinkSorter(num_nodes, len(source), lambda: [(source, target)])
    return sorter, np.concatenate(list(sorter.rows()))


def count(number: int, noun: str) -> str:
    """A number with its noun, such as ``1 edge`` or ``2,000 edges``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
