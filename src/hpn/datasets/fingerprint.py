"""A hash of everything a learner could notice of a graph, from arrays in memory, mapped, or on disk."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse

if TYPE_CHECKING:
    from hpn.datasets.graph import Graph

_PIECE_BYTES = 1 << 18
_PIECE_ENTRIES = 1 << 18


def hash_graph(graph: Graph) -> str:
    """Hash edges, classes, features and split; wide arrays are only sliced, so that they may be on disk."""
    digest = hashlib.sha256()
    digest.update(str((torch.int64, (2, len(graph.indices)))).encode())
    for part in _sources(graph.indptr, len(graph.indices)):
        digest.update(part.numpy().data)
    for part in pieces(graph.indices):
        digest.update(part.long().numpy().data)
    parts = [graph.y]
    if is_sparse(graph.x):
        parts += [graph.x.crow_indices(), graph.x.col_indices(), graph.x.values()]
    else:
        parts.append(graph.x)
    if graph.masks is not None:
        parts += [graph.masks.train, graph.masks.val, graph.masks.test]
    for part in parts:
        digest.update(str((part.dtype, tuple(part.shape))).encode())
        for piece in pieces(part):
            digest.update(piece.contiguous().numpy().data)
    digest.update(repr((graph.class_names, graph.split_rule, graph.class_order)).encode())
    return digest.hexdigest()


def pieces(array: Tensor) -> Iterator[Tensor]:
    """Some rows at a time, all of them in order.

    Example:
        >>> [tuple(piece.shape) for piece in pieces(torch.zeros(3, 1 << 15))]
        [(2, 32768), (1, 32768)]
    """
    step = max(1, _PIECE_BYTES // max(1, math.prod(array.shape[1:]) * array.dtype.itemsize))
    for start in range(0, len(array), step):
        yield array[start : start + step]


def _sources(indptr: Tensor, num_entries: int) -> Iterator[Tensor]:
    """The node that each entry belongs to, which is the first row of ``edge_index``, in pieces."""
    for start in range(0, num_entries, _PIECE_ENTRIES):
        end = min(start + _PIECE_ENTRIES, num_entries)
        first = int(torch.searchsorted(indptr, start, right=True)) - 1
        last = int(torch.searchsorted(indptr, end))
        bounds = indptr[first : last + 1].clamp(start, end)
        yield torch.repeat_interleave(torch.arange(first, last), bounds.diff())
