"""Graphs, nodes, labels and task names as users have them, checked and converted for the learners."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.datasets.graph import UNLABELLED
from hpn.datasets.sparse import is_sparse, to_csr, to_scipy
from hpn.errors import ConfigError, DataError
from hpn.learners.hpn.solved import Name
from hpn.streams.views import GraphView

KEPT = 4
"""Graphs that are kept, so that reading one of them again costs nothing."""
_SHOWN = 3
_FEATURES = "real numbers of shape [num_nodes, num_features]"
_LINKS = "node numbers of shape [2, num_edges]"
_ROW = "a list, array or tensor of whole numbers"
_NO_PAIRS = np.empty((2, 0), dtype=np.int64)

Array = Any
"""A list, NumPy array, PyTorch tensor or pandas column."""


class GraphLike(Protocol):
    """Anything with features and edges, such as ``torch_geometric.data.Data`` or :class:`hpn.Graph`.

    Edges are in ``edge_index`` ``[2, num_edges]`` or, if that is missing or ``None``, in ``adj_t``: a sparse
    matrix ``[num_nodes, num_nodes]`` or an object whose ``coo()`` gives rows, columns and values. Entries of
    zero are not edges. With neither there are no edges. ``n_id`` is optional and holds a number for each node
    by which it is found again in other graphs; the default is its position.
    """

    @property
    def x(self) -> Any:
        """Features ``[num_nodes, num_features]``: a tensor, array, SciPy sparse matrix or data frame."""


class LabelledNodes(NamedTuple):
    """Node numbers, and the label of each as :func:`read_labels` returns it."""

    nodes: np.ndarray
    y: np.ndarray


@torch.inference_mode(mode=False)  # a view that is kept may be learned from later
def read_graph(data: GraphLike, num_features: int | None = None) -> GraphView:
    """Convert features and edges to the form that learners expect: single precision, undirected, simple.

    The same data gives the same object, as long as it is among the last few that were read. Tensors are the
    same if they are the same objects and PyTorch has recorded no change in place; it does not record changes
    through ``.data`` or through an array that shares their memory. Everything else is compared by content.
    """
    x = _find_features(data)
    num_nodes, found = x.shape
    if num_features not in {None, found}:
        raise DataError(f"data.x has shape [{num_nodes}, {found}], expected {num_features} columns as in the first fit")
    edges = (data.indptr, data.indices) if isinstance(data, Graph) else (_find_edges(data, num_nodes),)
    parts = [x, _find_ids(data, num_nodes), *edges]
    return _make_view(_Parts(tuple(map(_identify, parts)), parts))


def read_nodes(nodes: Array, num_nodes: int, what: str = "nodes") -> np.ndarray:
    """Node numbers, or a mask with one Boolean per node of the graph, as numbers ``[n]``."""
    numbers = _read_row(nodes, what)
    if numbers.dtype == np.bool_:
        if len(numbers) != num_nodes:
            raise DataError(f"{what} is a mask of length {len(numbers)}, expected {num_nodes} (one Boolean per node)")
        numbers = np.flatnonzero(numbers)
    if len(numbers) == 0:
        raise DataError(f"{what} is empty; at least one node is needed")
    if numbers.dtype.kind not in "iu":
        types = [type(number).__name__ for number in numbers.tolist() if not isinstance(number, int)]
        found = getattr(nodes, "dtype", types[0] if types else "more than 64 bits")
        raise DataError(f"{what} must be whole numbers or one Boolean per node, got {found}")
    wrong = numbers[(numbers < 0) | (numbers >= num_nodes)]
    if len(wrong):
        raise DataError(f"{what} has {int(wrong[0])}, but nodes are numbered from 0 to {num_nodes - 1}")
    return numbers.astype(np.int64)


def read_labels(y: Array, count: int, what: str = "y") -> np.ndarray:
    """A copy of the labels of ``count`` nodes: text (as Python strings, type ``object``), int64 or Booleans."""
    labels = _read_label_row(y, what)
    if len(labels) != count:
        raise DataError(f"{what} has length {len(labels)}, expected {count} (one label for each of the nodes)")
    return _read_each(labels, what, range(count))


def read_labelled(data: GraphLike, nodes: Array, y: Array | None, num_nodes: int, whose: str = "") -> LabelledNodes:
    """Nodes, each of which may occur once, and their labels, by default those of the graph."""
    rows = read_nodes(nodes, num_nodes, f"{whose}nodes")
    is_repeated = np.bincount(rows) > 1
    if is_repeated.any():
        raise DataError(f"{whose}nodes has {is_repeated.argmax()} more than once; once is enough")
    return LabelledNodes(rows, default_labels(data, rows) if y is None else read_labels(y, len(rows), f"{whose}y"))


def read_validation(
    data: GraphLike, pair: tuple[Array, Array] | None, num_nodes: int, train: LabelledNodes
) -> LabelledNodes:
    """Validation nodes and their labels, of any classes; empty for ``None``."""
    if pair is None:
        return LabelledNodes(train.nodes[:0], train.y[:0])
    if not isinstance(pair, Sequence) or len(pair) != 2:
        raise ConfigError(f"validation must be a pair (nodes, y), got {_describe(pair)}")
    val = read_labelled(data, *pair, num_nodes, "validation ")
    shared = np.intersect1d(val.nodes, train.nodes)
    if len(shared):
        raise DataError(f"validation nodes has {shared[0]}, which is in nodes; remove it from one of them")
    return val


def read_name(name: Name) -> Name:
    """The name of a task: text or a whole number."""
    if isinstance(name, (str, int, np.integer)) and not isinstance(name, bool):
        return name if isinstance(name, str) else int(name)
    raise ConfigError(f"task = {name!r}: expected a string or a whole number")


def default_nodes(data: GraphLike, mask_name: str) -> np.ndarray | None:
    """The nodes ``[n]`` of a split that comes with the graph, or ``None`` if it has no such mask.

    Unlabelled nodes of an :class:`hpn.Graph` are left out.
    """
    mask = getattr(data, mask_name, None)
    if isinstance(data, Graph) and data.masks is not None:
        mask = getattr(data.masks, mask_name.removesuffix("_mask")) & (data.y != UNLABELLED)
    if mask is None:
        return None
    what, num_nodes = f"data.{mask_name}", _find_features(data).shape[0]
    chosen = _to_array(mask, what, "one Boolean per node")
    if chosen.ndim == 2:
        raise DataError(f"{what} has shape {chosen.shape}, expected one split; pass nodes, such as {what}[:, 0]")
    if chosen.shape != (num_nodes,) or chosen.dtype != np.bool_:
        raise DataError(f"{what} must be {num_nodes} Booleans, one per node, got {_describe(mask)}")
    return np.flatnonzero(chosen)


def default_train_nodes(data: GraphLike, y: Array | None) -> np.ndarray:
    """The nodes of ``train_mask``, or all that have a label."""
    found = default_nodes(data, "train_mask")
    if found is None and y is not None:
        raise DataError("y was given without nodes; pass the nodes that it belongs to")
    return find_labelled(data) if found is None else found


def find_labelled(data: GraphLike) -> np.ndarray:
    """All nodes of a graph that have a label, whatever masks it has."""
    labels = getattr(data, "y", None)
    if labels is None:
        raise DataError("data.y is missing; pass nodes and y, or a graph with y (and train_mask)")
    values = np.asarray(labels)
    return np.flatnonzero(values >= 0) if values.dtype.kind in "if" else np.arange(len(values))


def default_labels(data: GraphLike, rows: np.ndarray) -> np.ndarray:
    """The labels of some nodes ``[n]`` that come with the graph, in the form of :func:`read_labels`.

    Labels of an :class:`hpn.Graph` are the names of its classes: their numbers may change as it grows.
    """
    y = getattr(data, "y", None)
    if y is None:
        raise DataError("data.y is missing; pass the labels of the nodes as y")
    labels, num_nodes = _read_label_row(y, "data.y"), _find_features(data).shape[0]
    if len(labels) != num_nodes:
        raise DataError(f"data.y has length {len(labels)}, expected {num_nodes} (one label per node); pass y")
    chosen = _read_each(labels[rows], "data.y", rows.tolist())
    if not isinstance(data, Graph):
        return chosen
    if (chosen == UNLABELLED).any():
        at = rows[np.argmax(chosen == UNLABELLED)]
        raise DataError(f"data.y has {UNLABELLED} at position {at}, which means unlabelled; leave it out")
    return np.asarray(np.array(data.class_names, dtype=np.object_)[chosen])


def code_of(label: Any) -> int:
    """A number for a label that is the same on every machine and in every order of arrival."""
    kind = "b" if isinstance(label, bool) else "i" if isinstance(label, int) else "s"
    digest = hashlib.blake2b(f"{kind}{label}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2


def codes_of(labels: np.ndarray) -> np.ndarray:
    """The numbers of many labels."""
    known, place = np.unique(labels, return_inverse=True)
    return np.array([code_of(label) for label in known.tolist()], dtype=np.int64)[place]


def check_kind(labels: list[Any]) -> None:
    """Refuse labels of several kinds: text, whole numbers, Booleans."""
    names = {str: "text", bool: "Booleans"}
    kinds = {names.get(type(label), "numbers") for label in labels}
    if len(kinds) > 1:
        raise DataError(f"labels are a mix of {' and '.join(sorted(kinds))}; use one kind")


def arrange_features(data: GraphLike, names: Sequence[str]) -> GraphLike:
    """Bring the features of an :class:`hpn.Graph` into the order of ``names``; the same graph gives the same object.

    Anything without feature names stays as it is.
    """
    if not isinstance(data, Graph) or data.feature_names in {None, tuple(names)}:
        return data
    return _arrange(data, tuple(names))


@lru_cache(maxsize=KEPT)
def _arrange(graph: Graph, names: tuple[str, ...]) -> Graph:
    found = graph.feature_names or ()
    for some, others, wrong in ((names, found, "has no"), (found, names, "has an additional")):
        known = set(others)
        odd = list(dict.fromkeys(name.partition("[")[0] for name in some if name not in known))
        if odd:
            listed = ", ".join(map(repr, odd[:_SHOWN])) + (", …" if len(odd) > _SHOWN else "")
            advice = "give the columns that the model was fitted with"
            raise DataError(f"{graph.name}: the nodes table {wrong} column {listed}; {advice}")
    place = {name: at for at, name in enumerate(found)}
    order = [place[name] for name in names]
    x = to_csr(to_scipy(graph.x)[:, order]) if is_sparse(graph.x) else graph.x[:, order]
    return replace(graph, x=x, feature_names=names)


def _get(data: Any, name: str) -> Any:
    value = getattr(data, name, None)
    if isinstance(value, Tensor) and value.is_inference():  # PyTorch does not record changes of these
        return _to_array(value, f"data.{name}", "numbers") if _is_dense(value) else value.clone()
    return value


def _find_features(data: Any) -> Any:
    """Features that are known to be a real matrix: a tensor, array or SciPy matrix."""
    x = given = _get(data, "x")
    if hasattr(x, "columns"):  # a data frame
        for name, dtype in zip(x.columns, x.dtypes, strict=True):
            if getattr(dtype, "kind", "O") not in "biuf":
                raise DataError(f"data.x must be {_FEATURES}, got {dtype} in column {name!r}")
        x = x.to_numpy(dtype=np.float32, na_value=np.nan)
    elif not isinstance(x, Tensor) and not _is_scipy(x):
        x = _to_array(x, "data.x", _FEATURES)
    is_real = x.dtype.kind in "biuf" if isinstance(x.dtype, np.dtype) else not x.dtype.is_complex
    if x.ndim != 2 or not is_real:
        raise DataError(f"data.x must be {_FEATURES}, got {_describe(given)}")
    return x


def _find_edges(data: Any, num_nodes: int) -> Any:
    """Pairs of nodes ``[2, num_edges]``, a tensor or an array."""
    links, adjacency = _get(data, "edge_index"), _get(data, "adj_t")
    if links is not None:
        pairs = links if _is_dense(links) else _to_array(links, "data.edge_index", _LINKS)
        if 0 in pairs.shape:
            return _NO_PAIRS
        if pairs.ndim != 2 or pairs.shape[0] != 2 or not _is_whole(pairs):
            hint = "; transpose it" if tuple(pairs.shape[1:]) == (2,) else ""
            raise DataError(f"data.edge_index must be {_LINKS}, got {_describe(links)}{hint}")
        return pairs
    if adjacency is None:
        return _NO_PAIRS
    is_matrix = _is_scipy(adjacency) or (isinstance(adjacency, Tensor) and not _is_dense(adjacency))
    if callable(getattr(adjacency, "coo", None)):
        row, column, value = adjacency.coo()
    elif not is_matrix or tuple(adjacency.shape[:2]) != (num_nodes, num_nodes):
        wanted = f"a sparse matrix of shape [{num_nodes}, {num_nodes}]"
        raise DataError(f"data.adj_t must be {wanted}, got {_describe(adjacency)}")
    elif isinstance(adjacency, Tensor):
        stored = adjacency.detach().cpu().to_sparse_coo()  # type: ignore[no-untyped-call]
        (row, column), value = stored._indices(), stored._values()
    else:
        stored = adjacency.tocoo()
        row, column, value = stored.row, stored.col, stored.data
    pairs = np.stack([_to_array(part, "data.adj_t", _LINKS).astype(np.int64) for part in (row, column)])
    if value is None:
        return pairs
    is_edge = _to_array(value, "data.adj_t", "numbers") != 0  # where blocks are stored, so are zeros
    return pairs[:, is_edge.any(axis=tuple(range(1, is_edge.ndim)))]


def _find_ids(data: Any, num_nodes: int) -> Any:
    given = _get(data, "n_id")
    if given is None:
        return None
    ids = given if _is_dense(given) else _read_row(given, "data.n_id")
    if ids.shape != (num_nodes,) or not _is_whole(ids):
        raise DataError(f"data.n_id must be {num_nodes} whole numbers, one per node, got {_describe(given)}")
    return ids


@dataclass(frozen=True)
class _Parts:
    """What a view is made of, compared by a key; kept with it, so that no other tensor takes their address."""

    key: Hashable
    parts: list[Any] = field(compare=False)


def _identify(part: Any) -> Hashable:
    """Something that is equal for the same part of a graph only, as long as tensors are kept."""
    if part is None:
        return None
    if isinstance(part, Tensor):
        return id(part), part._version, part.data_ptr() if _is_dense(part) else 0
    stored = part.tocoo() if _is_scipy(part) else None
    content = hashlib.blake2b(digest_size=32)
    for array in [part] if stored is None else [stored.row, stored.col, stored.data]:
        content.update(array.dtype.str.encode())
        content.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return stored is None, tuple(part.shape), content.digest()


@lru_cache(maxsize=KEPT)
def _make_view(of: _Parts) -> GraphView:
    x, n_id, *edges = of.parts
    features = _read_features(x)
    num_nodes = features.shape[0]
    is_compressed = len(edges) == 2  # as they are in an hpn.Graph
    links = _NO_PAIRS if is_compressed else _to_array(edges[0], "data.edge_index", _LINKS).astype(np.int64)
    built = Graph.build("data", x=features, links=torch.from_numpy(links), y=torch.zeros(num_nodes, device="cpu"))
    indptr, indices = (edges[0], edges[1][:]) if is_compressed else (built.indptr, built.indices)
    ids = np.arange(num_nodes) if n_id is None else _to_array(n_id, "data.n_id", _ROW).astype(np.int64)
    ordered = np.sort(ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        raise DataError(f"data.n_id has {repeated[0]} more than once; every node needs a number of its own")
    of.parts[:] = [part for part in of.parts if isinstance(part, Tensor)]  # arrays are compared by content
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
    if _is_dense(single):
        return single.contiguous()  # type: ignore[no-any-return]
    is_ready = is_sparse(single) and single.col_indices().dtype == torch.long
    return single if is_ready else single.to_sparse_coo().to_sparse_csr()  # type: ignore[no-any-return]


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
        raise DataError(f"{what} must have one dimension, got shape {labels.shape}; give one label per node")
    return labels


def _read_each(labels: np.ndarray, what: str, places: Sequence[int]) -> np.ndarray:
    """Labels of any type in the form for their kind; ``places`` are their positions, for messages."""

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
        array = np.empty(())
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
