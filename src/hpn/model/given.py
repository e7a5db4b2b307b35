"""Graphs, nodes and labels as people have them, checked and brought into the form that learners expect."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.datasets.graph import UNLABELLED
from hpn.datasets.sparse import is_sparse, to_csr, to_scipy
from hpn.errors import ConfigError, DataError
from hpn.streams.views import GraphView

KEPT = 4
_SHOWN = 3
_FEATURES = "real numbers of shape [num_nodes, num_features]"
_LINKS = "node numbers of shape [2, num_edges]"
_ROW = "a list, array or tensor of whole numbers"
_recent: OrderedDict[Hashable, tuple[GraphView, list[Any]]] = OrderedDict()
_arranged: WeakKeyDictionary[Graph, tuple[tuple[str, ...], Graph]] = WeakKeyDictionary()
_lock = Lock()


class Column(Protocol):
    """A series, index or column of a table, as pandas has them."""

    def to_numpy(self) -> np.ndarray:
        """Its values as an array."""


Numbers = Tensor | np.ndarray | Sequence[int] | Column
Labels = Tensor | np.ndarray | Sequence[Any] | Column


class GraphLike(Protocol):
    """Anything with features and edges, such as ``torch_geometric.data.Data`` or :class:`hpn.Graph`.

    Edges are in ``edge_index`` ``[2, num_edges]`` or, if that is missing or ``None``, in ``adj_t``, a sparse
    matrix ``[num_nodes, num_nodes]`` or an object whose ``coo()`` gives rows, columns and values; entries of
    zero are no edges. With neither there are no edges. ``n_id``, if there is one, holds a number for each
    node by which it is found again in other graphs; else nodes are known by their position.
    """

    @property
    def x(self) -> Any:
        """Features ``[num_nodes, num_features]``: a tensor, array, SciPy sparse matrix or data frame."""


class Labelled(NamedTuple):
    """Nodes, and the label of each as :func:`read_labels` gives it."""

    nodes: Tensor
    y: np.ndarray


def read_graph(data: GraphLike, num_features: int | None = None) -> GraphView:
    """Take features and edges as a learner expects them: single precision, undirected, simple.

    The same data gives the same object, as long as it is among the last few that were read. Tensors are the
    same if they are the same objects and PyTorch knows of no change in place (it does not learn of changes
    through ``.data``, or through an array that shares their memory); everything else if its content is.

    Args:
        data: The graph; see :class:`GraphLike`.
        num_features: Features that a node must have.

    Returns:
        A view with ``ids``. Tensors that need no conversion are not copied.

    Raises:
        DataError: If that cannot be done.
    """
    x = _find_features(data)
    if num_features is not None and x.shape[1] != num_features:
        raise DataError(f"data.x has {x.shape[1]} features a node, but {num_features} were learned from")
    edges = (data.indptr, data.indices) if isinstance(data, Graph) else (_find_edges(data, x.shape[0]),)
    parts = [x, _find_ids(data, x.shape[0]), *edges]
    key = tuple(_identify(part) for part in parts)
    with _lock:
        if key in _recent:
            _recent.move_to_end(key)
            return _recent[key][0]
    with torch.inference_mode(mode=False):  # a view that is kept may be learned from later
        view = _make_view(*parts)
    # What is known by its address is held, so that nothing else can be there.
    held = [part for part in parts if not (isinstance(part, np.ndarray) or _is_scipy(part))]
    with _lock:
        view, _ = _recent.setdefault(key, (view, held))
        while len(_recent) > KEPT:
            _recent.popitem(last=False)
    return view


def read_nodes(nodes: Numbers, num_nodes: int, what: str = "nodes") -> Tensor:
    """Take node numbers, or one Boolean a node of the graph, as numbers ``[n]``.

    Raises:
        DataError: If there are none, or one does not exist.
    """
    numbers = _read_row(nodes, what)
    if numbers.dtype == np.bool_:
        if len(numbers) != num_nodes:
            raise DataError(f"{what} has {len(numbers)} Booleans, but the graph has {num_nodes} nodes")
        numbers = np.flatnonzero(numbers)
    if len(numbers) == 0:
        raise DataError(f"{what} is empty; at least one node is needed")
    if numbers.dtype.kind not in "iu":
        types = [type(number).__name__ for number in numbers.tolist() if not isinstance(number, int)]
        came = types[0] if types else "more than 64 bits"
        raise DataError(f"{what} must be whole numbers or one Boolean a node, got {getattr(nodes, 'dtype', came)}")
    wrong = numbers[(numbers < 0) | (numbers >= num_nodes)]
    if len(wrong):
        raise DataError(f"{what} has {int(wrong[0])}, but nodes are numbered from 0 to {num_nodes - 1}")
    return torch.from_numpy(numbers.astype(np.int64))


def read_labels(y: Labels, count: int, what: str = "y") -> np.ndarray:
    """Take the labels of ``count`` nodes: text, whole numbers or Booleans.

    Returns:
        Labels ``[count]``, the same for the same labels in any container: text as Python strings (type
        ``object``), numbers as int64, Booleans as such. It is a copy.

    Raises:
        DataError: If there are more or fewer, one is missing, they are continuous, or text and numbers.
    """
    labels = _read_label_row(y, what)
    if len(labels) != count:
        raise DataError(f"{what} has {len(labels)} labels for {count} nodes; give one for each of the nodes")
    return _read_each(labels, what, range(count))


def read_labelled(nodes: Numbers, y: Labels, num_nodes: int, whose: str = "") -> Labelled:
    """Take nodes and their labels; see :func:`read_nodes` and :func:`read_labels`.

    Raises:
        DataError: If a node comes twice, too.
    """
    rows = read_nodes(nodes, num_nodes, f"{whose}nodes")
    often = torch.bincount(rows) > 1
    if bool(often.any()):
        raise DataError(f"{whose}nodes has {int(often.nonzero()[0])} more than once; once is enough")
    return Labelled(rows, read_labels(y, len(rows), f"{whose}y"))


def read_validation(pair: tuple[Numbers, Labels] | None, num_nodes: int, train: Labelled) -> Labelled:
    """Take held-out nodes and their labels, of whatever classes; ``None`` is none.

    Raises:
        ConfigError: If it is not a pair.
        DataError: If a node is in ``train``, or nodes and labels are not as they should be.
    """
    if pair is None:
        return Labelled(train.nodes[:0], train.y[:0])
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise ConfigError(f"validation must be a pair (nodes, y), got {_describe(pair)}")
    val = read_labelled(*pair, num_nodes, "validation ")
    shared = val.nodes[torch.isin(val.nodes, train.nodes)]
    if len(shared):
        raise DataError(f"validation nodes has {int(shared[0])}, which is in nodes; hold it out of one")
    return val


def default_nodes(data: GraphLike, mask_name: str) -> Tensor | None:
    """Take the nodes of a split that comes with the graph.

    Args:
        data: The graph.
        mask_name: ``train_mask``, ``val_mask`` or ``test_mask``.

    Returns:
        Their numbers ``[n]``, without unlabelled ones of an :class:`hpn.Graph`; ``None`` if there is no such
        mask.

    Raises:
        DataError: If it is not one Boolean a node.
    """
    mask = getattr(data, mask_name, None)
    if isinstance(data, Graph) and data.masks is not None:
        mask = getattr(data.masks, mask_name.removesuffix("_mask")) & (data.y != UNLABELLED)
    if mask is None:
        return None
    what, num_nodes = f"data.{mask_name}", _find_features(data).shape[0]
    chosen = _to_array(mask, what, "one Boolean a node")
    if chosen.ndim == 2:
        raise DataError(f"{what} holds {chosen.shape[1]} splits, expected one; pass nodes, such as {what}[:, 0]")
    if chosen.shape != (num_nodes,) or chosen.dtype != np.bool_:
        raise DataError(f"{what} must be {num_nodes} Booleans, one a node, got {_describe(mask)}")
    return torch.from_numpy(np.flatnonzero(chosen))


def default_labels(data: GraphLike, nodes: Tensor) -> np.ndarray:
    """Take the labels that come with the graph, in the form of :func:`read_labels`.

    Labels of an :class:`hpn.Graph` are the names of its classes: their numbers may change as it grows.

    Args:
        data: The graph.
        nodes: Whose labels, as :func:`read_nodes` gives them ``[n]``.

    Raises:
        DataError: If the graph has no labels, or one of these nodes has none.
    """
    y = getattr(data, "y", None)
    if y is None:
        raise DataError("data.y is missing; pass the labels of the nodes as y")
    labels, num_nodes = _read_label_row(y, "data.y"), _find_features(data).shape[0]
    if len(labels) != num_nodes:
        raise DataError(f"data.y has {len(labels)} labels, but the graph has {num_nodes} nodes; pass y")
    rows = nodes.numpy()
    chosen = _read_each(labels[rows], "data.y", rows.tolist())
    if not isinstance(data, Graph):
        return chosen
    if (chosen == UNLABELLED).any():
        at = rows[np.argmax(chosen == UNLABELLED)]
        raise DataError(f"data.y has {UNLABELLED} at position {at}, which means unlabelled; leave it out")
    return np.asarray(np.array(data.class_names, dtype=np.object_)[chosen])


def arrange_features(data: GraphLike, names: Sequence[str]) -> GraphLike:
    """Bring the features of an :class:`hpn.Graph` into the order of ``names``.

    The same graph gives the same object. Anything without names of features stays as it is.

    Raises:
        DataError: If a feature is missing or not among the names.
    """
    given = data.feature_names if isinstance(data, Graph) else None
    if not isinstance(data, Graph) or given is None or given == tuple(names):
        return data
    kept = _arranged.get(data)
    if kept is not None and kept[0] == tuple(names):
        return kept[1]
    for some, others, wrong in ((names, given, "has no"), (given, names, "has an additional")):
        known_names = set(others)
        odd = list(dict.fromkeys(name.partition("[")[0] for name in some if name not in known_names))
        if odd:
            listed = ", ".join(map(repr, odd[:_SHOWN])) + (", …" if len(odd) > _SHOWN else "")
            advice = "give the columns that the model was fitted with"
            raise DataError(f"{data.name}: the nodes table {wrong} column {listed}; {advice}")
    place = {name: at for at, name in enumerate(given)}
    order = torch.tensor([place[name] for name in names])
    x = data.x if isinstance(data.x, Tensor) else _read_features(data.x)
    x = to_csr(to_scipy(x)[:, order.numpy()]) if is_sparse(x) else x[:, order]
    _arranged[data] = tuple(names), replace(data, x=x, feature_names=tuple(names))
    return _arranged[data][1]


def _find_features(data: Any) -> Any:
    """Features that are known to be a real matrix: a tensor, array or SciPy matrix."""
    x = given = _get(data, "x")
    if isinstance(x, Tensor) or _is_scipy(x):
        pass
    elif hasattr(x, "columns"):  # a data frame
        for name, dtype in zip(x.columns, x.dtypes, strict=True):
            if getattr(dtype, "kind", "O") not in "biuf":
                raise DataError(f"data.x must be {_FEATURES}, got {dtype} in column {name!r}")
        x = x.to_numpy(dtype=np.float32, na_value=np.nan)
    else:
        x = _to_array(x, "data.x", _FEATURES)
    is_real = x.dtype.kind in "biuf" if isinstance(x.dtype, np.dtype) else not x.dtype.is_complex
    if x.ndim != 2 or not is_real:
        raise DataError(f"data.x must be {_FEATURES}, got {_describe(given)}")
    return x


def _find_edges(data: Any, num_nodes: int) -> Any:
    """Edges as a tensor or array of pairs, or as a sparse tensor."""
    links, adjacency = _get(data, "edge_index"), _get(data, "adj_t")
    if links is not None:
        pairs = links if _is_dense(links) else _to_array(links, "data.edge_index", _LINKS)
        if 0 in pairs.shape:
            return _no_pairs()
        if pairs.ndim != 2 or pairs.shape[0] != 2 or not _is_whole(pairs):
            hint = "; transpose it" if tuple(pairs.shape[1:]) == (2,) else ""
            raise DataError(f"data.edge_index must be {_LINKS}, got {_describe(links)}{hint}")
        return pairs
    if adjacency is None:
        return _no_pairs()
    if callable(getattr(adjacency, "coo", None)):
        return _stored_pairs(*adjacency.coo())
    is_matrix = _is_scipy(adjacency) or (isinstance(adjacency, Tensor) and not _is_dense(adjacency))
    if not is_matrix or tuple(adjacency.shape[:2]) != (num_nodes, num_nodes):
        wanted = f"a sparse matrix of shape [{num_nodes}, {num_nodes}]"
        raise DataError(f"data.adj_t must be {wanted}, got {_describe(adjacency)}")
    return adjacency if isinstance(adjacency, Tensor) else _read_pairs(adjacency)


def _find_ids(data: Any, num_nodes: int) -> Any:
    given = _get(data, "n_id")
    if given is None:
        return None
    ids = given if _is_dense(given) else _read_row(given, "data.n_id")
    if ids.shape != (num_nodes,) or not _is_whole(ids):
        raise DataError(f"data.n_id must be {num_nodes} whole numbers, one a node, got {_describe(given)}")
    return ids


def _get(data: Any, name: str) -> Any:
    value = getattr(data, name, None)
    if not isinstance(value, Tensor) or not value.is_inference():
        return value
    # PyTorch does not count changes of these: known by its content, or not known again.
    with torch.inference_mode(mode=False):
        return _to_array(value, f"data.{name}", "numbers") if _is_dense(value) else value.clone()


def _identify(part: Any) -> Hashable:
    """Something that is equal for the same part of a graph only, as long as tensors are not let go."""
    if isinstance(part, Tensor):
        return id(part), part._version, part.data_ptr() if _is_dense(part) else 0
    if part is None:
        return id(part)
    stored = part.tocoo() if _is_scipy(part) else None
    content = hashlib.blake2b(digest_size=32)
    for array in [part] if stored is None else [stored.row, stored.col, stored.data]:
        content.update(array.dtype.str.encode())
        content.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return stored is None, tuple(part.shape), content.digest()


def _make_view(x: Any, n_id: Any, *edges: Any) -> GraphView:
    features = _read_features(x)
    num_nodes = features.shape[0]
    is_compressed = len(edges) == 2  # as they are in an hpn.Graph
    links = torch.from_numpy(_no_pairs() if is_compressed else _read_pairs(edges[0]))
    built = Graph.build("data", x=features, links=links, y=torch.zeros(num_nodes, device="cpu"))
    indptr, indices = (edges[0], edges[1][:]) if is_compressed else (built.indptr, built.indices)
    ids = np.arange(num_nodes) if n_id is None else _to_array(n_id, "data.n_id", _ROW).astype(np.int64)
    ordered = np.sort(ids)
    often = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(often):
        raise DataError(f"data.n_id has {often[0]} more than once; every node needs a number of its own")
    return GraphView.compressed(features, indptr, indices, torch.from_numpy(ids))


def _read_features(x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        # Always a copy: a view is found again by the content that this had when it was made.
        with np.errstate(over="ignore"):  # what is too large becomes infinite, which is refused
            x = x.astype(np.float32)
        return to_csr(x) if _is_scipy(x) else torch.from_numpy(np.ascontiguousarray(x))
    single: Any = x.detach().cpu().float()
    if single.layout == torch.sparse_coo and single.dense_dim() > 0:
        single = single.to_dense()
    elif not _is_dense(single) and not (is_sparse(single) and single.col_indices().dtype == torch.long):
        single = single.to_sparse_coo().to_sparse_csr()
    result: Tensor = single.contiguous() if _is_dense(single) else single
    return result


def _read_pairs(edges: Any) -> np.ndarray:
    if _is_scipy(edges):
        stored = edges.tocoo()
        return _stored_pairs(stored.row, stored.col, stored.data)
    if isinstance(edges, Tensor) and not _is_dense(edges):
        stored = edges.detach().cpu().to_sparse_coo()  # type: ignore[no-untyped-call]
        return _stored_pairs(stored._indices()[0], stored._indices()[1], stored._values())
    return _to_array(edges, "data.edge_index", _LINKS).astype(np.int64)


def _stored_pairs(row: Any, column: Any, value: Any) -> np.ndarray:
    """Rows and columns of entries that are not zero ``[2, n]``; where blocks are stored, so are zeros."""
    pairs = np.stack([_to_array(part, "data.adj_t", _LINKS).astype(np.int64) for part in (row, column)])
    if value is None:
        return pairs
    is_edge = _to_array(value, "data.adj_t", "numbers") != 0
    return pairs[:, is_edge.any(axis=tuple(range(1, is_edge.ndim)))]


def _no_pairs() -> np.ndarray:
    return np.empty((2, 0), dtype=np.int64)


def _read_row(values: Any, what: str) -> np.ndarray:
    row = _to_array(values, what, _ROW)
    row = _to_array(row.tolist(), what, _ROW) if row.dtype == np.object_ else row
    if row.ndim != 1:
        raise DataError(f"{what} must have one dimension, got shape {row.shape}")
    return row


def _read_label_row(y: Any, what: str) -> np.ndarray:
    labels = _to_array(y, what, "a list, array or tensor of labels")
    if labels.dtype.kind in "SU" and not isinstance(y, np.ndarray):
        labels = np.array(y, dtype=np.object_)  # else numbers among text are text as well
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"{what} must have one dimension, got shape {labels.shape}; give one label a node")
    return labels


def _read_each(labels: np.ndarray, what: str, places: Sequence[int]) -> np.ndarray:
    """Labels of any type in the form for their kind; ``places`` are the numbers of their positions."""

    def refuse(wrong: Any, advice: str) -> None:
        if np.any(wrong):
            at = int(np.argmax(wrong))
            value = labels[at] if labels.dtype == np.object_ else labels[at].item()
            raise DataError(f"{what} has {value!r} at position {places[at]}; {advice}")

    if labels.dtype.kind in "OUT":
        labels = labels.astype(np.object_)
        refuse([_is_missing(label) for label in labels], "leave out nodes that have no label")
        is_text = [isinstance(label, str) for label in labels]
        refuse([it != is_text[0] for it in is_text], "labels must be all text or all numbers")
        if all(is_text):
            return np.array([str(label) for label in labels], dtype=np.object_)  # NumPy has its own
        labels = _to_array(labels.tolist(), what, "text, whole numbers or Booleans")
    if labels.ndim != 1 or labels.dtype.kind not in "biuf":
        raise DataError(f"{what} must be text, whole numbers or Booleans, got {_describe(labels)}")
    if labels.dtype.kind == "b":
        return np.array(labels)
    refuse(np.isnan(labels), "leave out nodes that have no label")
    refuse(labels != np.floor(labels), "labels must be classes, not continuous values")
    if labels.dtype.kind != "i":
        refuse(abs(labels) >= 2.0**63, "labels must fit into 64 bits")
    return labels.astype(np.int64)


def _is_missing(label: Any) -> bool:
    is_nan = isinstance(label, float) and math.isnan(label)
    return label is None or is_nan or type(label).__name__ in {"NAType", "NaTType"}


def _to_array(values: Any, what: str, wanted: str) -> np.ndarray:
    try:
        if isinstance(values, Tensor):
            plain = values.detach().cpu()
            array: np.ndarray = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
        else:
            array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{what} must be {wanted}, got {_describe(values)}") from None
    if array.ndim == 0:
        raise DataError(f"{what} must be {wanted}, got {_describe(values)}")
    return array


def _describe(value: Any) -> str:
    name = getattr(value, "dtype", type(value).__name__)
    return f"{name} of shape {tuple(value.shape)}" if hasattr(value, "shape") else str(name)


def _is_dense(value: Any) -> bool:
    """Whether it is a tensor that is not sparse."""
    return isinstance(value, Tensor) and value.layout == torch.strided


def _is_scipy(value: Any) -> bool:
    return bool(sp.issparse(value))


def _is_whole(numbers: Any) -> bool:
    if isinstance(numbers, Tensor):
        return not (numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool)
    return numbers.dtype.kind in "iu"
