"""Where readers of formats write what they read: into memory (here), or into a store.

A reader appends rows to named arrays, whose names are those of the files of a store
(:mod:`hpn.datasets.store`), and finishes with a header. The sink makes the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpn.datasets.edges import Blocks, LinkSorter
from hpn.datasets.graph import MASKS, SPARSE_X, TIMES, Graph, Masks, check_finite, list_arrays, name_features
from hpn.datasets.ids import Ids, pack_text, unpack_text
from hpn.datasets.sparse import Normalize, csr_tensor, normalize_rows, to_csr

Array = NDArray[Any]

_TEXT_IDS = ("ids_text", "ids_ends")
_HEADER = ("name", "class_names", "num_links", "split_rule", "class_order", "feature_names", "column_kinds", "notes")


class Sink:
    """Keeps arrays in memory."""

    scratch: Path | None = None  # for files that are needed only while reading; None: the system's folder

    def __init__(self) -> None:
        self._parts: dict[str, list[Array]] = defaultdict(list)

    def begin(self, total: int) -> None:
        """Receive the number of bytes to read."""

    def advance(self, done: int) -> None:
        """Receive the number of bytes read since the last call."""

    def append(self, name: str, rows: Array) -> None:
        """Add the next rows of an array; the first ones define its type and the shape of a row."""
        self._parts[name].append(rows)

    def finish(self, header: Mapping[str, Any]) -> Graph:
        """Make the graph of all arrays."""
        arrays = {}
        while self._parts:
            name, parts = self._parts.popitem()
            # Arrays of other libraries may be read-only, which PyTorch does not support.
            is_one = len(parts) == 1 and parts[0].flags.writeable
            arrays[name] = torch.from_numpy(parts[0] if is_one else np.concatenate(parts))
        return make_graph(header, arrays)


class FeatureWriter:
    """Writes features of nodes, dense or sparse, and checks that they are finite; ``name`` is for messages."""

    def __init__(self, sink: Sink, name: str, normalize: Normalize = "none") -> None:
        self._sink, self._name, self._normalize = sink, name, normalize
        self._num_nodes = self._num_values = 0

    def append(self, rows: Array | sp.csr_matrix) -> None:
        """Write the features of the next nodes ``[n, num_features]``."""
        with np.errstate(over="ignore"):  # numbers that float32 cannot hold become infinite, and are reported below
            given = to_csr(rows) if isinstance(rows, sp.csr_matrix) else np.ascontiguousarray(rows, np.float32)
            x = torch.as_tensor(given)
        check_finite(self._name, x, self._num_nodes)
        arrays = {name: part.numpy() for name, part in name_features(normalize_rows(x, self._normalize)).items()}
        if "x_indptr" in arrays:
            arrays["x_indptr"] = arrays["x_indptr"][int(self._num_nodes > 0) :] + self._num_values
            self._num_values += len(arrays["x_values"])
        for name, part in arrays.items():
            self._sink.append(name, part)
        self._num_nodes += rows.shape[0]


def write_links(sink: Sink, num_nodes: int, num_links: int, blocks: Blocks, num_bytes: int) -> LinkSorter:
    """Sort links and write them as ``indptr`` and ``indices``; this reads ``num_bytes`` of files."""
    sorter, read = LinkSorter(num_nodes, num_links, blocks), 0
    for rows in sorter.rows():
        sink.append("indices", rows)
        part = num_bytes * len(rows) // max(1, 2 * num_links)
        sink.advance(part)
        read += part
    sink.advance(num_bytes - read)
    sink.append("indptr", sorter.indptr)
    return sorter


def write_ids(sink: Sink, ids: Ids) -> None:
    """Write ids of nodes: whole numbers as such, text as UTF-8 and where each id ends."""
    if ids.dtype.kind == "i":
        sink.append("ids", ids)
    else:
        for name, part in zip(_TEXT_IDS, pack_text(ids), strict=True):
            sink.append(name, part)


def write_graph(sink: Sink, graph: Graph) -> Graph:
    """Copy a graph that is in memory or mapped."""
    for name, array in list_arrays(graph).items():
        sink.append(name, array.numpy())
    if graph.node_ids is not None:
        write_ids(sink, graph.node_ids)
    return sink.finish(make_header(graph))


def make_header(graph: Graph) -> dict[str, Any]:
    """The fields of a graph other than its arrays, as plain data."""
    return {name: getattr(graph, name) for name in (*_HEADER, "num_features")}


def make_graph(header: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> Graph:
    """Combine a header and arrays to a graph."""
    fields: dict[str, Any] = {name: header[name] for name in _HEADER if name in header}
    fields |= {name: arrays[name] for name in ("indptr", "indices", "y")}
    fields |= {name: arrays[name] for name in TIMES if name in arrays}
    if "x" in arrays:
        fields["x"] = arrays["x"]
    else:
        indptr, indices, values = (arrays[name] for name in SPARSE_X)
        fields["x"] = csr_tensor(indptr, indices, values, (len(indptr) - 1, int(header["num_features"])))
    if "train" in arrays:
        fields["masks"] = Masks(*(arrays[name].bool() for name in MASKS))
    if "ids" in arrays:
        fields["node_ids"] = arrays["ids"].numpy()
    elif _TEXT_IDS[0] in arrays:
        fields["node_ids"] = unpack_text(*(arrays[name].numpy() for name in _TEXT_IDS))
    return Graph(**fields)
