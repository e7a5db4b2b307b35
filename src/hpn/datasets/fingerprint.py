"""A hash of everything a learner could notice of a graph, from arrays in memory, mapped, or on disk."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_PIECE_BYTES = 1 << 18
_PIECE_ENTRIES = 1 << 18
_ORDER = ("y", "x_indptr", "x_indices", "x_values", "x", "train", "val", "test", "node_time", "y_by_time")


def hash_arrays(
    arrays: Mapping[str, Any],
    class_names: Sequence[str],
    split_rule: str,
    class_order: Sequence[int] | None,
) -> str:
    """Hash edges, classes, features, split and times; arrays are only sliced, so that they may be on disk.

    Args:
        arrays: By their names in a store; tensors, or objects with their type, shape and slices.
        class_names: Names of the classes.
        split_rule: How nodes are split.
        class_order: Order in which the classes arrive.
    """
    digest = hashlib.sha256()
    num_entries = len(arrays["indices"])
    digest.update(str((torch.int64, (2, num_entries))).encode())
    for part in _sources(arrays["indptr"][:], num_entries):
        digest.update(part.numpy().data)
    for part in pieces(arrays["indices"]):
        digest.update(part.long().numpy().data)
    for name in _ORDER:
        if name in arrays:
            array = arrays[name]
            digest.update(str((array.dtype, tuple(array.shape))).encode())
            for piece in pieces(array):
                digest.update(piece.contiguous().numpy().data)
    order = None if class_order is None else tuple(class_order)
    digest.update(repr((tuple(class_names), split_rule, order)).encode())
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
