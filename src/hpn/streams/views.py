"""What a learner may see, as types: a step while fitting, a query while predicting.

Nodes are renumbered in every view, in an order drawn once per stream, so that a number carries no information about
the class, split or arrival of a node. A view of a small graph is a copy and refers to nothing else. The features of a
large one stay where they are, in memory or on disk, and :class:`FeatureRows` returns those of the nodes in view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.sparse import csr_parts, is_sparse, select_rows, stack_rows

Scenario = Literal["task", "class"]
Evaluate = Literal["oracle", "global", "grouped"]
Edges = Literal["within", "seen"]
Classes = tuple[int, ...]


class FeatureRows:
    """Dense features that stay where they are; only rows of the nodes in view can be fetched.

    Args:
        source: Features of a whole graph.
        nodes: The nodes in view, as rows of it.
    """

    __slots__ = ("_nodes", "_source")

    def __init__(self, source: Tensor, nodes: Tensor) -> None:
        self._source = source
        self._nodes = nodes

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureRows, (self._source, self._nodes)

    @property
    def shape(self) -> tuple[int, int]:
        """Nodes in view, and features."""
        return len(self._nodes), self._source.shape[1]

    def take(self, rows: Tensor | None = None) -> Tensor:
        """Features of some nodes in view, or of all, in single precision."""
        nodes = self._nodes if rows is None else torch.from_numpy(self._nodes.numpy().take(rows.numpy()))
        return gather_rows(self._source, nodes).float()


@dataclass(frozen=True, slots=True, eq=False, init=False)
class GraphView:
    """Features and edges of the nodes in view; no labels.

    Args:
        x: Features.
        edge_index: Edges, in both directions, without self-loops.
        ids: Numbers that identify nodes across views of the same graph; a stream draws them at random, so that they
            carry no other information. By default their positions.

    Attributes:
        features: The features, or where they are fetched from.
        derived: What was computed from the view and lives as long as it does; never pickled.
        indptr: Where the neighbours of each node begin in ``indices``.
        indices: Neighbours of node 0, of node 1, …, sorted per node.

    Shapes:
        - ``x``: ``[num_nodes, num_features]``, dense or sparse CSR
        - ``edge_index``: ``[2, num_entries]``
        - ``ids``: ``[num_nodes]``
        - ``indptr``, ``indices``: ``[num_nodes + 1]`` and ``[num_entries]``
    """

    features: Tensor | FeatureRows
    indptr: Tensor
    indices: Tensor
    ids: Tensor
    derived: dict[str, Any]

    def __init__(self, x: Tensor, edge_index: Tensor, ids: Tensor | None = None) -> None:
        order = torch.argsort(edge_index[0] * len(x) + edge_index[1])
        count = torch.bincount(edge_index[0], minlength=len(x))
        self._set(x, torch.cat([count.new_zeros(1), count.cumsum(0)]), edge_index[1][order], ids)

    @classmethod
    def compressed(
        cls, features: Tensor | FeatureRows, indptr: Tensor, indices: Tensor, ids: Tensor | None = None
    ) -> GraphView:
        """A view of edges that are compressed already; nothing is copied."""
        view = cls.__new__(cls)
        view._set(features, indptr, indices, ids)
        return view

    def _set(self, features: Any, indptr: Tensor, indices: Tensor, ids: Tensor | None) -> None:
        ids = torch.arange(len(indptr) - 1) if ids is None else ids
        for name, value in zip(self.__slots__, (features, indptr, indices, ids, {}), strict=True):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphView.compressed, (self.features, self.indptr, self.indices, self.ids)

    @property
    def x(self) -> Tensor:
        """All features; those of a large graph are fetched on every access, so :meth:`take` what is needed."""
        return self.take()

    @property
    def edge_index(self) -> Tensor:
        """The edges as pairs, sorted; computed on every access."""
        nodes = torch.arange(self.num_nodes, device=self.indptr.device)
        return torch.stack([torch.repeat_interleave(nodes, self.indptr.diff()), self.indices.long()])

    @property
    def num_nodes(self) -> int:
        """Number of nodes in view."""
        return self.features.shape[0]

    @property
    def num_features(self) -> int:
        """Number of features per node."""
        return self.features.shape[1]

    @property
    def num_edges(self) -> int:
        """Number of undirected edges in view."""
        return len(self.indices) // 2

    @property
    def is_sparse(self) -> bool:
        """Whether features are sparse; fetched ones never are."""
        return isinstance(self.features, Tensor) and is_sparse(self.features)

    @property
    def num_numbers(self) -> int:
        """How many numbers features and edges consist of; sparse features count what they store."""
        stored = (
            sum(part.numel() for part in csr_parts(self.x)) if self.is_sparse else self.num_nodes * self.num_features
        )
        return stored + 2 * len(self.indices)

    def take(self, rows: Tensor | None = None) -> Tensor:
        """Features of some nodes, or of all."""
        if isinstance(self.features, FeatureRows):
            return self.features.take(rows)
        return self.features if rows is None else gather_rows(self.features, rows)


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Some rows of features, dense or sparse."""
    # NumPy is several times as fast as PyTorch's indexing, which copies number by number.
    return select_rows(x, rows) if is_sparse(x) else torch.from_numpy(x.numpy().take(rows.numpy(), axis=0))


def stack_graphs(graphs: Sequence[GraphView]) -> tuple[GraphView, list[int]]:
    """One graph whose unconnected parts are the given ones, and the first node of each part."""
    if len(graphs) == 1:
        return graphs[0], [0]
    sizes = [graph.num_nodes for graph in graphs]
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    indices = [graph.indices + start for graph, start in zip(graphs, starts, strict=True)]
    degrees = torch.cat([graph.indptr.diff() for graph in graphs])
    indptr = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
    return GraphView.compressed(stack_rows([graph.x for graph in graphs]), indptr, torch.cat(indices)), starts


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a learner sees at one step of a stream: a graph, and nodes to learn from.

    Labels of test nodes, and anything of a later step, are not included.

    Args:
        index: Position in the stream.
        classes: Classes of the nodes to learn from.
        scenario: ``task`` (queries name the task; all tasks share one head) or ``class`` (the head grows with the
            classes).
        graph: Nodes and edges in view.
        train: Training nodes, as rows of ``graph``.
        train_y: Their class numbers.
        val: Validation nodes.
        val_y: Their class numbers.
        past: Earlier steps, for learners that declare ``sees_past``; empty for all others.
        edges: ``within`` (only nodes of this step are in view) or ``seen`` (those of earlier steps as well).
        is_task: Whether the step is a task: it has classes that no other step has.
    """

    index: int
    classes: Classes
    scenario: Scenario
    graph: GraphView
    train: Tensor
    train_y: Tensor
    val: Tensor
    val_y: Tensor
    past: tuple[Step, ...] = ()
    edges: Edges = "within"
    is_task: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What a learner sees while it predicts: no label, and no task unless the evaluation is oracle.

    Args:
        graph: Nodes and edges in view.
        nodes: Nodes to predict, as rows of ``graph``, in random order.
        classes: Possible classes: those of the task if it is given, else all seen.
        task: Index of the task in ``oracle`` evaluation, ``None`` otherwise.
        grouped: Whether the nodes are known to belong to one, unnamed, task.
    """

    graph: GraphView
    nodes: Tensor
    classes: Classes
    task: int | None = None
    grouped: bool = False


def hash_ids(ids: np.ndarray) -> np.ndarray:
    """A fixed, well mixed number per id, distinct for distinct ids (the finaliser of SplitMix64)."""
    mixed = ids.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((mixed ^ (mixed >> np.uint64(31))).view(np.int64))


def hash_nodes(view: GraphView, nodes: np.ndarray) -> np.ndarray:
    """Hashes of the ids of some nodes of a view."""
    return hash_ids(view.ids.numpy()[nodes])


def find_hashes(view: GraphView, hashes: np.ndarray) -> np.ndarray:
    """The nodes of a view whose ids have these hashes, -1 where there is none ``[n]``."""
    here = hash_ids(view.ids.numpy())
    order = np.argsort(here)
    place = order[np.searchsorted(here[order], hashes).clip(max=len(here) - 1)]
    return np.where(here[place] == hashes, place, -1)


@lru_cache(maxsize=4)
def fingerprint(view: GraphView) -> str:
    """Hash of everything that the nodes of a view are encoded from: ids, features and edges."""
    x, digest = view.x, hashlib.sha256()
    for part in (view.ids, view.indptr, view.indices.long(), *(csr_parts(x) if is_sparse(x) else (x,))):
        digest.update(str((part.dtype, tuple(part.shape))).encode())
        digest.update(np.ascontiguousarray(part.numpy()).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
