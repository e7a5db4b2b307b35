"""A labelled graph as it comes from its source: features, edges, labels; no tasks yet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.edges import sort_links
from hpn.datasets.ids import Ids, find_ids, number_ids
from hpn.datasets.sparse import csr_parts, is_sparse
from hpn.errors import DataError

SplitRule = Literal["given", "index", "seeded"]
Labels = Literal["required", "optional"]
UNLABELLED = -1
MASKS = ("train", "val", "test")
TIMES = ("node_time", "y_by_time")
SPARSE_X = ("x_indptr", "x_indices", "x_values")


class Masks(NamedTuple):
    """Which nodes train, validate and test: one Boolean per node and part; a node is in one part at most."""

    train: Tensor
    val: Tensor
    test: Tensor


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph with features, edges and labels of nodes.

    Args:
        name: What messages and results call it.
        x: Node features ``[num_nodes, num_features]``, dense (float32; from a store possibly float16) or sparse
            CSR (float32).
        indptr: Where the neighbours of each node begin in ``indices`` ``[num_nodes + 1]``, int64.
        indices: Neighbours of node 0, of node 1, … ``[num_entries]``, sorted per node. Every edge is present once
            in each direction, and there are no self-loops; :meth:`build` ensures that.
        y: Class of each node ``[num_nodes]``, −1 if unknown.
        class_names: One name per class.
        num_links: Edge records in the source, as published tables count them: with duplicates, self-loops and
            both directions if the source has them.
        split_rule: ``given`` (``masks``), ``index`` (first 60 % of each class in file order, next 20 %, rest) or
            ``seeded`` (60/20/20 of each class, drawn with the seed of the run).
        masks: The given split.
        class_order: The default order in which classes arrive; classes that are not listed belong to no task.
            ``None``: by size, the largest first.
        node_ids: Ids of the nodes in the source ``[num_nodes]``, int64 or text; ``None``: their positions.
        feature_names: Names of the features in the source; ``None``: their positions.
        column_kinds: How each feature column of a table was read: ``number``, ``boolean``, ``category`` or
            ``text``, in the order of the features; ``None`` if the source is not a table.
        node_time: When each node arrived ``[num_nodes]``, int64; ``None``: unknown.
        y_by_time: Class of each node at each of the distinct times, in order ``[num_times, num_nodes]``, −1
            before it arrived; ``None``: classes never changed.
        notes: What was done while reading, one line each. Ids, names, kinds and notes are not part of the
            fingerprint.
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

    def __post_init__(self) -> None:
        for name in ("class_names", "class_order", "feature_names", "notes"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))

    @classmethod
    def build(
        cls,
        name: str,
        *,
        x: Tensor,
        links: Tensor,
        y: Tensor,
        class_names: Sequence[str] | None = None,
        masks: Masks | None = None,
        node_time: Tensor | None = None,
        y_by_time: Tensor | None = None,
        labels: Labels = "required",
        describe_links: bool = False,
        **fields: Any,
    ) -> Graph:
        """Make a graph of links ``[2, n]``, which may have any order, direction, duplicates and self-loops.

        ``fields`` are further arguments of the class, such as ``split_rule`` or ``class_order``; with
        ``describe_links``, ``notes`` report what was done to the links.

        Raises:
            DataError: If a link names a node that does not exist, features are not finite, or the parts do
                not fit each other.
        """
        num_nodes = x.shape[0]
        _check_shape(name, x.shape)
        check_finite(name, x)
        _check_links(name, links, num_nodes)
        names = check_labels(name, y, num_nodes, class_names, labels=labels)
        if masks is not None:
            _check_masks(name, masks, num_nodes)
            fields["split_rule"] = "given"
        if node_time is not None:
            node_time, y_by_time = _check_times(name, node_time, y_by_time, num_nodes, len(names))
        sorter, indices = sort_links(links, num_nodes)
        given = {"num_links": links.shape[1], "notes": sorter.describe() if describe_links else (), **fields}
        given |= {"indptr": torch.from_numpy(sorter.indptr), "indices": torch.from_numpy(indices)}
        given |= {"masks": masks, "node_time": node_time, "y_by_time": y_by_time}
        return cls(name=name, x=x, y=y.long(), class_names=names, **given)

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
        """The edges as pairs ``[2, num_entries]``, sorted by source; computed on every access."""
        source = torch.repeat_interleave(torch.arange(self.num_nodes), self.indptr.diff())
        return torch.stack([source, self.indices[:].long()])

    @property
    def num_features(self) -> int:
        """Number of features per node."""
        return self.x.shape[1]

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @cached_property
    def n_id(self) -> Tensor | None:
        """A number that identifies each node in other graphs, derived from its id; ``None`` without ids."""
        return None if self.node_ids is None else torch.from_numpy(number_ids(self.node_ids))

    @cached_property
    def _places(self) -> dict[Any, int]:
        ids = range(self.num_nodes) if self.node_ids is None else self.node_ids.tolist()
        return dict(zip(ids, range(self.num_nodes), strict=True))

    def index(self, ids: Any) -> np.ndarray:
        """Find nodes by their ids ``[n]``.

        Raises:
            DataError: If no node has one of the ids.
        """
        return find_ids(self.name, self._places, ids)

    def class_sizes(self) -> list[int]:
        """Count the labelled nodes of each class."""
        labelled = self.y[self.y != UNLABELLED]
        return [int(size) for size in torch.bincount(labelled, minlength=self.num_classes)]

    def fingerprint(self) -> str:
        """Hash everything that a learner can observe, so that a run can detect changes of its data.

        A store contains the hashes of its arrays, so that nothing is read again.
        """
        if self._fingerprint is not None:
            return self._fingerprint
        entries = {}
        for name, array in list_arrays(self).items():
            content = np.ascontiguousarray(array.numpy())
            entries[name] = describe_array(content.dtype, content.shape, hashlib.sha256(content.data))
        return hash_graph({**vars(self), "arrays": entries})


def remember_fingerprint(graph: Graph, fingerprint: str) -> None:
    """Set the fingerprint of a graph; copies of it with other data do not inherit it."""
    object.__setattr__(graph, "_fingerprint", fingerprint)


def list_arrays(graph: Graph) -> dict[str, Tensor]:
    """The arrays of a graph by their names in a store."""
    arrays = {"indptr": graph.indptr, "indices": graph.indices, **name_features(graph.x), "y": graph.y}
    if graph.masks is not None:
        arrays |= {name: mask.view(torch.uint8) for name, mask in graph.masks._asdict().items()}
    return arrays | {name: array for name in TIMES if (array := getattr(graph, name)) is not None}


def name_features(x: Tensor) -> dict[str, Tensor]:
    """Features by the names of their arrays in a store."""
    return dict(zip(SPARSE_X, csr_parts(x), strict=True)) if is_sparse(x) else {"x": x}


def _check_shape(name: str, shape: Sequence[int]) -> None:
    """Check that there are nodes with features."""
    if 0 in shape:
        raise DataError(f"{name}: expected nodes with features, got x of shape {tuple(shape)}")


def check_finite(name: str, x: Tensor, first_node: int = 0) -> None:
    """Check that features are finite; those of ``first_node`` come first."""
    values = x.values() if is_sparse(x) else x
    finite = np.isfinite(values.numpy())  # needs less memory than PyTorch's
    if finite.all():
        return
    at = int(finite.argmin())
    node, feature = divmod(at, x.shape[1])
    if is_sparse(x):
        node, feature = int(torch.searchsorted(x.crow_indices(), at, right=True)) - 1, int(x.col_indices()[at])
    raise DataError(
        f"{name}: feature {feature} of node {first_node + node} is {float(values.flatten()[at])}; "
        "replace or drop missing and infinite values first"
    )


def check_labels(
    name: str, y: Tensor, num_nodes: int, class_names: Sequence[str] | None, *, labels: Labels = "required"
) -> tuple[str, ...]:
    """Check that every node has a class or -1, and return the names of the classes."""
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


def _check_links(name: str, links: Tensor, num_nodes: int) -> None:
    if links.ndim != 2 or links.shape[0] != 2:
        raise DataError(f"{name}: expected links of shape [2, n], got {tuple(links.shape)}")
    wrong = ((links < 0) | (links >= num_nodes)).any(dim=0)
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        source, target = links[:, at].tolist()
        raise DataError(
            f"{name}: edge {at} ({source} - {target}) names a node that does not exist; "
            f"there are {num_nodes} nodes, numbered from 0"
        )


def _check_masks(name: str, masks: Masks, num_nodes: int) -> None:
    """Check that masks are Booleans, one per node, and that no node is in two of them."""
    for part, mask in zip(MASKS, masks, strict=True):
        if mask.dtype != torch.bool or mask.shape != (num_nodes,):
            found = f"{mask.dtype} of shape {tuple(mask.shape)}"
            raise DataError(f"{name}: the {part} mask must be {num_nodes} Booleans, got {found}")
    overlap = torch.stack(masks).sum(dim=0) > 1
    if bool(overlap.any()):
        raise DataError(f"{name}: node {int(overlap.nonzero()[0])} is in two of the train, val and test masks")


def _check_times(
    name: str, node_time: Tensor, y_by_time: Tensor | None, num_nodes: int, num_classes: int
) -> tuple[Tensor, Tensor | None]:
    """Check that times fit the nodes; a node keeps its last class when no later one is given."""
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


def describe_array(dtype: np.dtype[Any], shape: Sequence[int], digest: Any) -> dict[str, Any]:
    """An array as the header of a store describes it; ``digest`` is the SHA-256 of its bytes."""
    return {"dtype": dtype.str, "shape": list(shape), "sha256": digest.hexdigest()}


def hash_graph(header: Mapping[str, Any]) -> str:
    """Hash what a learner can observe of a graph: its arrays, as they are described, and three other fields."""
    arrays = {name: entry for name, entry in header["arrays"].items() if not name.startswith("ids")}
    rest = [header.get(name) for name in ("class_names", "split_rule", "class_order")]
    return hashlib.sha256(json.dumps([arrays, rest], sort_keys=True).encode()).hexdigest()
