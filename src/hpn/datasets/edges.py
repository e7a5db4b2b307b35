"""Edges in the form in which graphs keep them: undirected, simple, sorted, as compressed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
Blocks = Callable[[], Iterable[tuple[Array, Array]]]
"""Gives all links, in blocks of sources and targets; is called several times."""

SORTED_AT_ONCE = 1 << 23
"""Entries sorted in memory at once; each takes about 40 bytes."""


@dataclass
class EdgeCounts:
    """What links were before they became edges.

    Args:
        links: Records in the source.
        loops: Links from a node to itself, which are dropped.
        pairs: Distinct links from one node to another, direction included.
        edges: Distinct pairs of linked nodes.
    """

    links: int = 0
    loops: int = 0
    pairs: int = 0
    edges: int = 0

    def describe(self) -> list[str]:
        """Lines for people about links that were dropped, merged, or have one direction only.

        Example:
            >>> EdgeCounts(links=5, loops=1, pairs=3, edges=2).describe()  # doctest: +NORMALIZE_WHITESPACE
            ['1 self-loop dropped', '1 duplicate edge merged',
             '1 edge with one direction only, used in both']
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
        blocks: The links.

    Attributes:
        counts: What was found; complete when :meth:`rows` is exhausted.
        degree: Neighbours of each node ``[num_nodes]``, likewise.
    """

    def __init__(self, num_nodes: int, blocks: Blocks) -> None:
        self.num_nodes, self.blocks = num_nodes, blocks
        self.counts = EdgeCounts()
        self.degree = np.zeros(num_nodes, dtype=np.int64)
        # Half the memory of int64, which at tens of millions of links decides whether they fit.
        self.index = np.dtype(np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64)

    @property
    def indptr(self) -> NDArray[np.int64]:
        """Where the neighbours of each node begin."""
        return np.concatenate([[0], np.cumsum(self.degree)])

    def rows(self) -> Iterator[Array]:
        """The neighbours of node 0, of node 1, …, some nodes at a time."""
        yield np.empty(0, dtype=self.index)
        for low, high in self._ranges():
            keys = self._sorted_keys(low, high)
            # The last bit is the direction, and the same pair in both directions is one edge.
            self.counts.pairs += int(np.count_nonzero(~keys[_is_new(keys)] & 1))
            keys >>= 1
            row, column = np.divmod(keys[_is_new(keys)], self.num_nodes)
            self.degree[low:high] = np.bincount(row - low, minlength=high - low)
            yield column.astype(self.index)
        self.counts.edges = int(self.degree.sum()) // 2

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Ranges of nodes with so many ends of links that they can be sorted at once."""
        ends = np.zeros(self.num_nodes, dtype=np.int64)
        for source, target in self.blocks():
            self.counts.links += len(source)
            self.counts.loops += int(np.count_nonzero(source == target))
            for end in (source, target):
                ends += np.bincount(end, minlength=self.num_nodes)
        total = np.cumsum(ends)
        low = 0
        while low < self.num_nodes and self.counts.links:
            before = int(total[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(total, before + SORTED_AT_ONCE, side="right")))
            yield low, high
            low = high

    def _sorted_keys(self, low: int, high: int) -> NDArray[np.int64]:
        """Links from nodes of a range as ``2 * (source * num_nodes + target) + direction``, in order."""
        found = []
        for ends in self.blocks():
            for direction, (source, target) in enumerate((ends, ends[::-1])):
                inside = source != target
                if high - low < self.num_nodes:
                    inside &= (source >= low) & (source < high)
                key = source[inside].astype(np.int64)
                key *= self.num_nodes
                key += target[inside]
                key *= 2
                key += direction
                found.append(key)
        keys = np.concatenate(found)
        found.clear()
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
    sorter = LinkSorter(num_nodes, lambda: [(source, target)])
    indices = np.concatenate(list(sorter.rows()))
    return torch.from_numpy(sorter.indptr), torch.from_numpy(indices)


def _is_new(keys: Array) -> NDArray[np.bool_]:
    """Which of sorted keys differ from the one before."""
    is_new = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
    return is_new
