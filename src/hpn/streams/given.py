"""Graphs, nodes and labels as people have them, checked and brought into the form that learners expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.datasets.sparse import is_sparse
from hpn.errors import ConfigError, DataError
from hpn.streams.views import GraphView

Numbers = Tensor | np.ndarray | Sequence[int]


class GraphLike(Protocol):
    """Anything with features and edges, such as ``torch_geometric.data.Data`` or :class:`hpn.Graph`."""

    @property
    def x(self) -> Any:
        """Features ``[num_nodes, num_features]``, dense or sparse."""

    @property
    def edge_index(self) -> Any:
        """Edges ``[2, num_edges]``, or ``None``."""


class Labelled(NamedTuple):
    """Nodes and their classes."""

    nodes: Tensor
    y: Tensor


def read_graph(data: GraphLike, num_features: int | None = None) -> GraphView:
    """Take features and edges as a learner expects them: single precision, undirected, simple.

    Args:
        data: The graph; see :class:`GraphLike`.
        num_features: Features that a node must have.

    Raises:
        DataError: If that cannot be done.
    """
    x, links = getattr(data, "x", None), getattr(data, "edge_index", None)
    if not isinstance(x, Tensor) or x.ndim != 2 or x.is_complex():
        came = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise DataError(f"data.x must be a real tensor of shape [num_nodes, num_features], got {came}")
    if num_features is not None and x.shape[1] != num_features:
        raise DataError(f"data.x has {x.shape[1]} features a node, but {num_features} were learned from")
    if links is None and getattr(data, "adj_t", None) is not None:
        raise DataError("data has its edges in adj_t; give them as data.edge_index")
    links = torch.empty(2, 0) if links is None else links
    if not isinstance(links, Tensor) or (links.numel() and not _is_whole(links)):
        raise DataError("data.edge_index must be a tensor of node numbers, of shape [2, num_edges]")
    x = x.detach().cpu().float()
    if x.layout != torch.strided and not (is_sparse(x) and x.col_indices().dtype == torch.long):
        x = x.to_sparse_coo().to_sparse_csr()  # type: ignore[no-untyped-call]
    built = Graph.build("data", x=x, links=links.detach().cpu().long(), y=torch.zeros(x.shape[0]))
    return GraphView.compressed(built.x, built.indptr, built.indices)


def read_nodes(nodes: Numbers, num_nodes: int, what: str = "nodes") -> Tensor:
    """Take node numbers, or one Boolean a node of the graph, as numbers ``[n]``.

    Raises:
        DataError: If there are none, or one does not exist.
    """
    numbers = _read_row(nodes, what)
    if numbers.dtype == torch.bool:
        if len(numbers) != num_nodes:
            raise DataError(f"{what} has {len(numbers)} Booleans, but the graph has {num_nodes} nodes")
        numbers = numbers.nonzero().flatten()
    if len(numbers) == 0:
        raise DataError(f"{what} is empty; at least one node is needed")
    if not _is_whole(numbers):
        raise DataError(f"{what} must be whole numbers or one Boolean a node, got {numbers.dtype}")
    wrong = numbers[(numbers < 0) | (numbers >= num_nodes)]
    if len(wrong):
        raise DataError(f"{what} has {int(wrong[0])}, but nodes are numbered from 0 to {num_nodes - 1}")
    return numbers


def read_labels(y: Numbers, count: int, what: str = "y") -> Tensor:
    """Take the classes of ``count`` nodes ``[count]``.

    Raises:
        DataError: If there are more or fewer, or they are not whole numbers from 0 up.
    """
    labels = _read_row(y, what)
    if len(labels) != count:
        raise DataError(f"{what} has {len(labels)} labels for {count} nodes; give one for each of the nodes")
    if not _is_whole(labels):
        raise DataError(f"{what} must be whole numbers, got {labels.dtype}; number the classes from 0")
    if int(labels.min()) < 0:
        raise DataError(f"{what} has {int(labels.min())}; number the classes from 0 (-1 means unlabelled)")
    return labels


def read_labelled(nodes: Numbers, y: Numbers, num_nodes: int, whose: str = "") -> Labelled:
    """Take nodes and their classes; see :func:`read_nodes` and :func:`read_labels`.

    Raises:
        DataError: If a node comes twice, too.
    """
    rows = read_nodes(nodes, num_nodes, f"{whose}nodes")
    often = torch.bincount(rows) > 1
    if bool(often.any()):
        raise DataError(f"{whose}nodes has {int(often.nonzero()[0])} more than once; once is enough")
    return Labelled(rows, read_labels(y, len(rows), f"{whose}y"))


def read_validation(pair: tuple[Numbers, Numbers] | None, num_nodes: int, train: Labelled) -> Labelled:
    """Take held-out nodes of the classes of ``train`` and their classes; ``None`` is none.

    Raises:
        ConfigError: If it is not a pair.
        DataError: If a class is not in ``train``, or a node is.
    """
    if pair is None:
        return Labelled(train.nodes[:0], train.y[:0])
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise ConfigError("validation must be a pair (nodes, y)")
    val = read_labelled(*pair, num_nodes, "validation ")
    unknown = val.y[~torch.isin(val.y, train.y)]
    if len(unknown):
        raise DataError(f"validation y has class {int(unknown[0])}, which y has not; leave its nodes out")
    shared = val.nodes[torch.isin(val.nodes, train.nodes)]
    if len(shared):
        raise DataError(f"validation nodes has {int(shared[0])}, which is in nodes; hold it out of one")
    return val


def _read_row(values: Numbers, what: str) -> Tensor:
    try:
        row = values if isinstance(values, Tensor) else torch.tensor(np.asarray(values))
    except (TypeError, ValueError):
        raise DataError(f"{what} must be a list, array or tensor of whole numbers") from None
    if row.ndim != 1:
        raise DataError(f"{what} must have one dimension, got shape {tuple(row.shape)}")
    row = row.detach().cpu()
    return row.long() if _is_whole(row) else row


def _is_whole(numbers: Tensor) -> bool:
    return not (numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool)
