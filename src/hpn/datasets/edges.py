"""Edges in the form in which graphs keep them: undirected, simple, sorted, as compressed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.errors import DataError

Array = NDArray[Any]
Blocks = Callable[[], Iterable[tuple[Array, Array]]]
"""Gives all links, in blocks of sources and targets; is called several times."""

SORTED_AT_ONCE = 1 << 25
"""Entries sorted in memory at once, 8 bytes each."""

_MAX_NODES = 1 << 31
_CHUNK = 1 << 20


@dataclass
class EdgeCounts:
    """What links were before they became edges.

    Args:
        links: Records in the source.
        loops: Links from a node to itself, which are dropped.
        pairs: Distinct links from one node to another, direction included.
        edges: Distinct pairs of linked nodes.
    """

    links: int
    loops: int = 0
    pairs: int = 0
    edges: int = 0

    def describe(self) -> list[str]:
        """Lines for people about links that were dropped, merged, or have one direction only.

        Example:
            >>> EdgeCounts(links=5, loops=1, pairs=3, edges=2).describe()[:2]
            ['1 self-loop dropped', '1 duplicate edge merged']
        """
        one_way, copies = 2 * self.edges - self.pairs, self.links - self.loops - self.pairs
        notes = [
            (self.loops, f"{count(self.loops, 'self-loop')} dropped"),
            (copies, f"{count(copies, 'duplicate edge')} merged"),
            (one_way, f"{count(one_way, 'edge')} with one direction only, used in both"),
        ]
        return [note for number, note in notes if number]


def count(number: int, noun: str) -> str:
    """Spell a number of things.

    Example:
        >>> count(1, "edge"), count(2000, "edge")
        ('1 edge', '2,000 edges')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class LinkSorter:
    """Makes links undirected, each in both directions once, without self-loops, and sorts them.

    Args:
        num_nodes: Nodes of the graph; links must be between nodes that exist.
        num_links: Links in all blocks.
        blocks: The links.

    Attributes:
        counts: What was found; complete when :meth:`rows` is exhausted.
        degree: Neighbours of each node ``[num_nodes]``, likewise.
    """

    def __init__(self, num_nodes: int, num_links: int, blocks: Blocks) -> None:
        if num_nodes >= _MAX_NODES:
            raise DataError(f"{num_nodes:,} nodes are too many; a graph has fewer than {_MAX_NODES:,}")
        self.num_nodes, self.blocks = num_nodes, blocks
        self.counts = EdgeCounts(num_links)
        self.degree = np.zeros(num_nodes, dtype=np.int64)

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where the neighbours of each node begin."""
        return np.concatenate([[0], np.cumsum(self.degree)])

    def rows(self) -> Iterator[NDArray[np.int32]]:
        """The neighbours of node 0, of node 1, …, some nodes at a time."""
        yield np.empty(0, dtype=np.int32)
        for low, high, size in self._ranges():
            keys, last = self._sorted_keys(low, high, size), np.int64(-2)
            for start in range(0, len(keys), _CHUNK):
                part = keys[start : start + _CHUNK]
                before, last = np.concatenate([[last], part[:-1]]), part[-1]
                # The last bit is the direction, and the same pair in both directions is one edge.
                self.counts.pairs += int(np.count_nonzero((part != before) & (part & 1 == 0)))
                edges = part[part >> 1 != before >> 1] >> 1
                self.degree[low:high] += np.bincount(edges >> 31, minlength=high - low)
                yield (edges & (_MAX_NODES - 1)).astype(np.int32)
        self.counts.edges = int(self.degree.sum()) // 2

    def _ranges(self) -> Iterator[tuple[int, int, int]]:
        """Ranges of nodes, each with so few ends of links that they can be sorted at once, and how many."""
        if 2 * self.counts.links <= SORTED_AT_ONCE:
            yield 0, self.num_nodes, 2 * self.counts.links
            return
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
        """Links from nodes of a range, in order: source - low, target and direction in 31, 31 and 1 bits."""
        keys, filled = np.empty(size, dtype=np.int64), 0
        for ends in self.blocks():
            for direction, (source, target) in enumerate((ends, ends[::-1])):
                inside = source != target
                if direction == 0 and low == 0:
                    self.counts.loops += len(inside) - int(np.count_nonzero(inside))
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


def compress_links(links: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Make links undirected, each in both directions once, without self-loops: ``indptr`` and ``indices``.

    Example:
        >>> indptr, indices = compress_links(torch.tensor([[0, 1, 2, 0], [1, 0, 2, 1]]), num_nodes=3)
        >>> indptr.tolist(), indices.tolist()
        ([0, 1, 2, 2], [1, 0])
    """
    source, target = links.numpy()
    sorter = LinkSorter(num_nodes, len(source), lambda: [(source, target)])
    indices = np.concatenate(list(sorter.rows()))
    return torch.from_numpy(sorter.indptr), torch.from_numpy(indices)
