"""Where readers of formats put what they read: into memory (here), or into a store.

A reader describes its format once. It appends rows to named arrays, whose names are those of the files of a
store (:mod:`hpn.datasets.store`), and finishes with a header; the sink makes the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.datasets.edges import Blocks, EdgeCounts, LinkSorter
from hpn.datasets.graph import MASKS, TIMES, Graph, Masks, list_arrays, not_finite
from hpn.datasets.ids import Ids, pack_text, unpack_text
from hpn.datasets.sparse import Normalize, apply_normalize, csr_tensor, to_csr

Array = NDArray[Any]

_TEXT_IDS = ("ids_text", "ids_ends")
_HEADER = (
    *("name", "class_names", "num_links", "split_rule", "class_order"),
    *("feature_names", "column_kinds", "notes"),
)


class Sink(Protocol):
    """Takes what a reader reads.

    Attributes:
        scratch: A folder for files that are needed while reading only; ``None``: that of the system.
    """

    scratch: Path | None

    def begin(self, total: int) -> None:
        """Learn how many bytes there are to read."""

    def advance(self, done: int) -> None:
        """Learn that so many more bytes were read."""

    def append(self, name: str, rows: Array) -> None:
        """Take the next rows of an array; the first give its type and the shape of a row."""

    def finish(self, header: Mapping[str, Any]) -> Graph:
        """Make the graph of all arrays."""


class MemorySink:
    """Keeps arrays in memory."""

    scratch: Path | None = None

    def __init__(self) -> None:
        self._parts: dict[str, list[Array]] = defaultdict(list)

    def begin(self, total: int) -> None:
        """Nobody is waiting."""

    def advance(self, done: int) -> None:
        """Nobody is waiting."""

    def append(self, name: str, rows: Array) -> None:
        """Keep rows."""
        self._parts[name].append(rows)

    def finish(self, header: Mapping[str, Any]) -> Graph:
        """Put the rows of every array below each other."""
        arrays = {}
        while self._parts:
            name, parts = self._parts.popitem()
            # Arrays of other libraries may not be written to, which PyTorch does not allow for.
            is_one = len(parts) == 1 and parts[0].flags.writeable
            arrays[name] = torch.from_numpy(parts[0] if is_one else np.concatenate(parts))
        return make_graph(header, arrays)


class FeatureWriter:
    """Writes the features of nodes, dense or sparse, and makes sure that they are finite.

    Args:
        sink: Where to.
        name: What messages call the graph.
        normalize: How to scale them.
    """

    def __init__(self, sink: Sink, name: str, normalize: Normalize = "none") -> None:
        self._sink, self._name, self._normalize = sink, name, normalize
        self._num_nodes = self._num_values = 0

    def append(self, rows: Array | sp.csr_matrix) -> None:
        """Write the features of the next nodes ``[n, num_features]``."""
        if isinstance(rows, np.ndarray):
            # What float32 cannot hold becomes infinite here, and is reported with its place.
            with np.errstate(over="ignore"):
                rows = np.ascontiguousarray(rows, dtype=np.float32)
            finite = np.isfinite(rows)
            if not finite.all():
                node, feature = divmod(int(finite.argmin()), rows.shape[1])
                raise not_finite(self._name, self._num_nodes + node, feature, float(rows[node, feature]))
            self._sink.append("x", apply_normalize(torch.from_numpy(rows), self._normalize).numpy())
        else:
            self._append_sparse(to_csr(rows))
        self._num_nodes += rows.shape[0]

    def _append_sparse(self, x: Tensor) -> None:
        indptr, columns, values = (part.numpy() for part in (x.crow_indices(), x.col_indices(), x.values()))
        finite = np.isfinite(values)
        if not finite.all():
            at = int(finite.argmin())
            node = self._num_nodes + int(np.searchsorted(indptr, at, side="right")) - 1
            raise not_finite(self._name, node, int(columns[at]), float(values[at]))
        self._sink.append("x_indptr", indptr[int(self._num_nodes > 0) :] + self._num_values)
        self._sink.append("x_indices", columns)
        self._sink.append("x_values", apply_normalize(x, self._normalize).values().numpy())
        self._num_values += len(values)


def write_links(sink: Sink, num_nodes: int, num_links: int, blocks: Blocks, num_bytes: int) -> EdgeCounts:
    """Sort links and write them as ``indptr`` and ``indices``; this reads ``num_bytes`` of files."""
    sorter, read = LinkSorter(num_nodes, num_links, blocks), 0
    for rows in sorter.rows():
        sink.append("indices", rows)
        part = num_bytes * len(rows) // max(1, 2 * sorter.counts.links)
        sink.advance(part)
        read += part
    sink.advance(num_bytes - read)
    sink.append("indptr", sorter.indptr)
    return sorter.counts


def write_ids(sink: Sink, ids: Ids) -> None:
    """Write ids of nodes: whole numbers as such, text as UTF-8 and where each ends."""
    arrays: dict[str, Array] = (
        {"ids": ids} if ids.dtype.kind == "i" else dict(zip(_TEXT_IDS, pack_text(ids), strict=True))
    )
    for name, array in arrays.items():
        sink.append(name, array)


def write_graph(sink: Sink, graph: Graph) -> Graph:
    """Copy a graph that is in memory or mapped."""
    for name, array in list_arrays(graph).items():
        sink.append(name, array.view(torch.uint8).numpy() if name in MASKS else array.numpy())
    if graph.node_ids is not None:
        write_ids(sink, graph.node_ids)
    return sink.finish(make_header(graph))


def make_header(graph: Graph) -> dict[str, Any]:
    """What a sink is told of a graph beside its arrays, as plain data."""
    return {name: getattr(graph, name) for name in (*_HEADER, "num_features")}


def make_graph(header: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Graph:
    """Put a graph together from its header and arrays."""
    told: dict[str, Any] = {name: header[name] for name in _HEADER if name in header}
    ids = arrays["ids"].numpy() if "ids" in arrays else None
    if _TEXT_IDS[0] in arrays:
        ids = unpack_text(*(arrays[name].numpy() for name in _TEXT_IDS))
    if "x" in arrays:
        x = arrays["x"]
    else:
        indptr, columns, values = (arrays[f"x_{part}"] for part in ("indptr", "indices", "values"))
        x = csr_tensor(indptr, columns, values, (len(indptr) - 1, int(header["num_features"])))
    told |= {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    told |= {name: arrays[name] for name in ("indptr", "indices", "y")}
    masks = Masks(*(arrays[name].bool() for name in MASKS)) if "train" in arrays else None
    told |= {name: arrays[name] for name in TIMES if name in arrays}
    return Graph(x=x, masks=masks, node_ids=ids, **told)
