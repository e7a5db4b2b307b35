"""A labelled graph as it comes from its source: features, edges, labels; no tasks yet."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.edges import compress_links
from hpn.datasets.ids import IdIndex, Ids, number_ids
from hpn.datasets.sparse import is_sparse
from hpn.errors import DataError

SplitRule = Literal["given", "index", "seeded"]
Labels = Literal["required", "optional"]
UNLABELLED = -1
MASKS = ("train", "val", "test")
_PIECE_BYTES = 1 << 18
_PIECE_ENTRIES = 1 << 18
_ORDER = ("y", "x_indptr", "x_indices", "x_values", "x", "train", "val", "test", "node_time", "y_by_time")
TIMES = ("node_time", "y_by_time")


@dataclass(frozen=True)
class Masks:
    """A split that came with the data: one Boolean a node and part."""

    train: Tensor
    val: Tensor
    test: Tensor


@dataclass(frozen=True, eq=False)
class Graph:
    """A node-labelled graph.

    Args:
        name: What messages and results call it.
        x: Node features ``[num_nodes, num_features]``, dense (float32; from a store maybe float16) or sparse
            CSR (float32).
        indptr: Where the neighbours of each node begin in ``indices`` ``[num_nodes + 1]``, int64.
        indices: Neighbours of node 0, of node 1, … ``[num_entries]``, each node's in order; every edge
            stands in both directions, once, and there are no self-loops. :meth:`build` makes it so.
        y: Class of each node ``[num_nodes]``, −1 where it is unknown.
        class_names: One name a class.
        num_links: Edge records in the source, which is what published tables count: duplicates,
            self-loops and both directions included if the source has them.
        split_rule: ``given`` (``masks``), ``index`` (first 60 % of each class in file order, next
            20 %, rest) or ``seeded`` (60/20/20 of each class, drawn with the run's seed).
        masks: The given split.
        class_order: The order in which the classes arrive unless asked otherwise; classes left out
            of it belong to no task. ``None``: by size, the largest first.
        node_ids: What the source calls the nodes ``[num_nodes]``, int64 or text; ``None``: their positions.
        feature_names: What it calls the features; ``None``: their positions.
        column_kinds: How each feature column of a table was read: ``number``, ``boolean``, ``category`` or
            ``text``, in the order of the features; ``None`` if the source is not a table.
        node_time: When each node arrived ``[num_nodes]``, int64; ``None``: unknown.
        y_by_time: Class of each node at each of the distinct times, in order ``[num_times, num_nodes]``, −1
            before it arrived; ``None``: classes never changed.
        notes: What was done while reading, one line each, for people. Neither ids, names, kinds nor notes are
            part of the fingerprint.
    """

    name: str
    x: Tensor
    indptr: Tensor
    indices: Tensor
    y: Tensor
    class_names: tuple[str, ...]
    num_links: int
    split_rule: SplitRule = "seeded"
    masks: Masks | None = None
    class_order: tuple[int, ...] | None = None
    node_ids: Ids | None = None
    feature_names: tuple[str, ...] | None = None
    column_kinds: dict[str, str] | None = None
    node_time: Tensor | None = None
    y_by_time: Tensor | None = None
    notes: tuple[str, ...] = ()
    # Not an argument, so that `replace` drops it.
    _fingerprint: str | None = field(default=None, init=False, repr=False)

    @classmethod
    def build(
        cls,
        name: str,
        *,
        x: Tensor,
        links: Tensor,
        y: Tensor,
        class_names: Sequence[str] | None = None,
        num_links: int | None = None,
        split_rule: SplitRule = "seeded",
        masks: Masks | None = None,
        class_order: Sequence[int] | None = None,
        node_ids: Ids | None = None,
        feature_names: Sequence[str] | None = None,
        node_time: Tensor | None = None,
        y_by_time: Tensor | None = None,
    ) -> Graph:
        """Check what a source gave and bring its links into the form described above.

        Raises:
            DataError: If a link names a node that does not exist, features are not finite, or the
                parts do not fit each other.
        """
        num_nodes = x.shape[0]
        check_shape(name, (num_nodes, x.shape[1]))
        _check_finite(name, x)
        _check_links(name, links, num_nodes)
        names = check_labels(name, y, num_nodes, class_names)
        if masks is not None:
            check_masks(name, masks, num_nodes)
            split_rule = "given"
        if node_time is not None:
            node_time, y_by_time = check_times(name, node_time, y_by_time, num_nodes, len(names))
        indptr, indices = compress_links(links, num_nodes)
        return cls(
            name=name,
            x=x,
            indptr=indptr,
            indices=indices,
            y=y.long(),
            class_names=names,
            num_links=links.shape[1] if num_links is None else num_links,
            split_rule=split_rule,
            masks=masks,
            class_order=None if class_order is None else tuple(class_order),
            node_ids=node_ids,
            feature_names=None if feature_names is None else tuple(feature_names),
            node_time=node_time,
            y_by_time=y_by_time,
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.x.shape[0]

    @property
    def num_edges(self) -> int:
        """Number of distinct undirected edges without self-loops."""
        return len(self.indices) // 2

    @property
    def edge_index(self) -> Tensor:
        """The edges as pairs ``[2, num_entries]``, sorted by source; made anew whenever asked for."""
        source = torch.repeat_interleave(torch.arange(self.num_nodes), self.indptr.diff())
        return torch.stack([source, self.indices[:].long()])

    @property
    def num_features(self) -> int:
        """Number of features a node has."""
        return self.x.shape[1]

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @cached_property
    def n_id(self) -> Tensor | None:
        """A number by which each node is known in other graphs, made of its id; ``None`` without ids."""
        return None if self.node_ids is None else torch.from_numpy(number_ids(self.node_ids))

    @cached_property
    def _places(self) -> IdIndex:
        ids = np.arange(self.num_nodes) if self.node_ids is None else self.node_ids
        return IdIndex(self.name, ids)

    def index(self, ids: Any) -> np.ndarray:
        """Find nodes by their ids ``[n]``.

        Raises:
            DataError: If there is no node of an id.

        Example:
            >>> x, links = torch.zeros(2, 1), torch.tensor([[0], [1]])
            >>> ids = np.array(["köd-999", "b"], dtype=object)
            >>> Graph.build("pair", x=x, links=links, y=torch.zeros(2), node_ids=ids).index(["b"]).tolist()
            [1]
        """
        return self._places.find(ids)

    def neighbors(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Every edge that leaves ``nodes``: its position among them, and where it leads to ``[n]`` each.

        Example:
            >>> x, links = torch.zeros(3, 1), torch.tensor([[0, 1], [1, 2]])
            >>> graph = Graph.build("path", x=x, links=links, y=torch.zeros(3))
            >>> [part.tolist() for part in graph.neighbors(torch.tensor([2, 1]))]
            [[0, 1, 1], [1, 0, 2]]
        """
        start = self.indptr[nodes]
        count = self.indptr[nodes + 1] - start
        position = torch.repeat_interleave(torch.arange(len(nodes)), count)
        # Entry e of a node sits at its start + (e - the entries of the nodes before it).
        entry = torch.arange(len(position)) + (start - (count.cumsum(0) - count))[position]
        return position, self.indices[entry].long()

    def class_sizes(self) -> list[int]:
        """Count the labelled nodes of each class."""
        labelled = self.y[self.y != UNLABELLED]
        return [int(size) for size in torch.bincount(labelled, minlength=self.num_classes)]

    def fingerprint(self) -> str:
        """Hash everything a learner could notice, so that a run knows whether its data has changed.

        A store knows the hash of what was written to it, and nothing is read again for it.
        """
        rest = (self.class_names, self.split_rule, self.class_order)
        return self._fingerprint or hash_arrays(list_arrays(self), *rest)


def remember_fingerprint(graph: Graph, fingerprint: str) -> None:
    """Let a graph know its fingerprint; graphs made from it with other data do not inherit that."""
    object.__setattr__(graph, "_fingerprint", fingerprint)


def list_arrays(graph: Graph) -> dict[str, Tensor]:
    """The arrays of a graph by the names that they have in a store."""
    arrays = {"indptr": graph.indptr, "indices": graph.indices}
    if is_sparse(graph.x):
        parts = graph.x.crow_indices(), graph.x.col_indices(), graph.x.values()
        arrays |= zip(("x_indptr", "x_indices", "x_values"), parts, strict=True)
    else:
        arrays["x"] = graph.x
    arrays["y"] = graph.y
    if graph.masks is not None:
        arrays |= {part: getattr(graph.masks, part) for part in MASKS}
    times = {name: getattr(graph, name) for name in TIMES}
    return arrays | {name: array for name, array in times.items() if array is not None}


def check_shape(name: str, shape: tuple[int, int]) -> None:
    """Make sure that there are nodes, and that they have features."""
    if 0 in shape:
        raise DataError(f"{name}: expected nodes with features, got x of shape {shape}")


def check_labels(
    name: str, y: Tensor, num_nodes: int, class_names: Sequence[str] | None, *, labels: Labels = "required"
) -> tuple[str, ...]:
    """Make sure that every node has a class or -1, and give the names of the classes."""
    if len(y) != num_nodes:
        raise DataError(f"{name}: {num_nodes} nodes have features but {len(y)} have labels")
    num_classes = int(y.max()) + 1
    if num_classes <= 0 and labels == "required":
        raise DataError(f"{name}: no node has a label; a class from 0 up is needed to learn")
    if int(y.min()) < UNLABELLED:
        raise DataError(f"{name}: label {int(y.min())} is below -1 (-1 means unlabelled)")
    names = tuple(class_names or (str(label) for label in range(num_classes)))
    if len(names) < num_classes:
        raise DataError(f"{name}: {len(names)} class names for {num_classes} classes")
    return names


def _check_finite(name: str, x: Tensor) -> None:
    values = x.values() if is_sparse(x) else x
    finite = torch.isfinite(values)
    if bool(finite.all()):
        return
    first = int((~finite.flatten()).nonzero()[0])
    if is_sparse(x):
        row = int(torch.searchsorted(x.crow_indices(), first, right=True)) - 1
        column = int(x.col_indices()[first])
    else:
        row, column = divmod(first, x.shape[1])
    raise not_finite(name, row, column, float(values.flatten()[first]))


def not_finite(name: str, node: int, feature: int, value: float) -> DataError:
    """Make the error for a feature that is missing or infinite."""
    return DataError(
        f"{name}: feature {feature} of node {node} is {value}; replace or drop missing and infinite values first"
    )


def _check_links(name: str, links: Tensor, num_nodes: int) -> None:
    if links.ndim != 2 or links.shape[0] != 2:
        raise DataError(f"{name}: expected links of shape [2, n], got {tuple(links.shape)}")
    wrong = ((links < 0) | (links >= num_nodes)).any(dim=0)
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        raise DataError(
            f"{name}: edge {at} ({int(links[0, at])} - {int(links[1, at])}) names a node that does "
            f"not exist; there are {num_nodes} nodes, numbered from 0"
        )


def check_masks(name: str, masks: Masks, num_nodes: int) -> None:
    """Make sure that masks are Booleans, one per node, and that no node is in two of them."""
    for part in MASKS:
        mask: Tensor = getattr(masks, part)
        if mask.dtype != torch.bool or mask.shape != (num_nodes,):
            raise DataError(
                f"{name}: the {part} mask must be {num_nodes} Booleans, got {mask.dtype} of shape {tuple(mask.shape)}"
            )
    overlap = (masks.train & masks.val) | (masks.train & masks.test) | (masks.val & masks.test)
    if bool(overlap.any()):
        node = int(overlap.nonzero()[0])
        raise DataError(f"{name}: node {node} is in two of the train, val and test masks")


def check_times(
    name: str, node_time: Tensor, y_by_time: Tensor | None, num_nodes: int, num_classes: int
) -> tuple[Tensor, Tensor | None]:
    """Make sure that times fit the nodes; a node keeps its last class where none is given any more."""
    if node_time.shape != (num_nodes,):
        raise DataError(f"{name}: {num_nodes} nodes, but node_time has shape {tuple(node_time.shape)}")
    times, step_of = torch.unique(node_time, return_inverse=True)
    if y_by_time is None:
        return node_time.long(), None
    if y_by_time.shape != (len(times), num_nodes):
        raise DataError(
            f"{name}: labels by time have shape {tuple(y_by_time.shape)}, expected one row for each of the "
            f"{len(times)} times and one column for each of the {num_nodes} nodes"
        )
    low, high = int(y_by_time.min()), int(y_by_time.max())
    if low < UNLABELLED or high >= num_classes:
        wrong = low if low < UNLABELLED else high
        raise DataError(f"{name}: labels by time contain {wrong}, expected -1 (unlabelled) to {num_classes - 1}")
    rows = y_by_time.long().clone()
    for at, row in enumerate(rows):
        row[step_of > at] = UNLABELLED
        if at > 0:
            row.copy_(torch.where(row == UNLABELLED, rows[at - 1], row))
    return node_time.long(), rows


def hash_arrays(
    arrays: Mapping[str, Any], class_names: Sequence[str], split_rule: str, class_order: Sequence[int] | None
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
