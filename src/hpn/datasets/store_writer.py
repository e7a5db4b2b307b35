"""Writes stores, array by array and piece by piece."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.graph import Graph, not_finite
from hpn.datasets.sparse import is_sparse
from hpn.datasets.store_arrays import GrowingArray, read_back
from hpn.datasets.store_files import (
    BLOCK,
    HEADER,
    KIND,
    MASKS,
    SHARDED_VERSION,
    VERSION,
    Array,
    FeatureType,
    hash_header,
)
from hpn.datasets.store_reader import make_graph
from hpn.datasets.store_split import split_arrays
from hpn.errors import ConfigError, DataError


class StoreWriter:
    """Writes a store, array by array and piece by piece; nothing is there until all of it is.

    Use as a context manager, call :meth:`append` for every array, then :meth:`finish`. Leaving without
    :meth:`finish` removes what was written.

    Args:
        path: The folder to make; it must not exist.
        shards: Files to spread features and neighbours over, each with a range of nodes.

    Attributes:
        scratch: A folder for files that are needed while writing only.

    Raises:
        ConfigError: If ``shards`` is not positive.
        DataError: If there is something at ``path``, or it cannot be written.
    """

    def __init__(self, path: Path, *, shards: int = 1) -> None:
        check_shards(shards)
        self.path = path
        self.shards = shards
        self.part = path.with_name(f".{path.name}.part")
        self.scratch = self.part / "scratch"
        self._files: dict[str, GrowingArray] = {}

    def __enter__(self) -> StoreWriter:
        if self.path.exists():
            raise DataError(f"{self.path} exists; choose another place for the store, or delete it first")
        try:
            shutil.rmtree(self.part, ignore_errors=True)
            self.scratch.mkdir(parents=True)
        except OSError as error:
            raise DataError(f"cannot write {self.path} ({error.strerror or error})") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()
        shutil.rmtree(self.part, ignore_errors=True)

    def append(self, name: str, rows: Array) -> None:
        """Write the next rows of an array; the first give its type and the shape of a row."""
        if name not in self._files:
            self._files[name] = GrowingArray(self.part / f"{name}.bin", rows)
        self._files[name].append(rows)

    def count(self, name: str) -> int:
        """Rows of an array so far."""
        return self._files[name].count if name in self._files else 0

    def finish(self, header: Mapping[str, Any]) -> None:
        """Hash the graph, cut it into shards, write the header, and move the store to its place."""
        check_shards(self.shards, self.count("indptr") - 1)
        for file in self._files.values():
            file.close()
        shutil.rmtree(self.scratch)
        arrays = {name: file.describe() for name, file in self._files.items()}
        written = {name: read_back(self.part / f"{name}.bin", entry) for name, entry in arrays.items()}
        content = {"kind": KIND, "version": VERSION, **header, "shards": self.shards, "arrays": arrays}
        fingerprint = make_graph(header, written).fingerprint()
        if self.shards > 1:
            content |= {"version": SHARDED_VERSION, "arrays": split_arrays(self.part, arrays, self.shards)}
        content |= {"fingerprint": fingerprint, "fingerprint_of": hash_header(content)}
        (self.part / HEADER).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
        self.part.rename(self.path)


def check_shards(shards: int, num_nodes: int | None = None) -> None:
    """Make sure that there can be as many shards.

    Raises:
        ConfigError: If there are none, or more than nodes.
    """
    if shards < 1:
        raise ConfigError(f"shards must be from 1 to the number of nodes, got {shards}")
    if num_nodes is not None and shards > max(1, num_nodes):
        raise ConfigError(f"{shards} shards are too many for {num_nodes} nodes; ask for at most one a node")


def write_store(graph: Graph, path: Path, *, features: FeatureType = "float32", shards: int = 1) -> None:
    """Write a graph that is in memory, or in another store.

    Args:
        graph: The graph.
        path: The folder to make; it must not exist.
        features: How to keep dense features; ``float16`` takes half the space and keeps three digits.
        shards: Files to spread features and neighbours over, each with a range of nodes.

    Raises:
        ConfigError: If there cannot be as many shards.
        DataError: If there is something at ``path``, it cannot be written, or features are too large.
    """
    check_shards(shards, graph.num_nodes)
    with StoreWriter(path, shards=shards) as store:
        for name, array in _arrays(graph):
            step = max(1, BLOCK // max(1, math.prod(array.shape[1:]) * array.dtype.itemsize))
            for start in range(0, max(1, len(array)), step):
                rows = array[start : start + step].numpy()
                store.append(name, to_features(rows, features, path) if name == "x" else rows)
        store.finish(make_header(graph))


def make_header(graph: Graph) -> dict[str, Any]:
    """What a store tells of a graph beside its arrays."""
    return {
        "name": graph.name,
        "num_features": graph.num_features,
        "num_links": graph.num_links,
        "class_names": list(graph.class_names),
        "split_rule": graph.split_rule,
        "class_order": None if graph.class_order is None else list(graph.class_order),
    }


def to_features(rows: Array, features: FeatureType, path: Path) -> Array:
    """Features as they are stored.

    Raises:
        DataError: If a number is too large for the type.
    """
    with np.errstate(over="ignore"):
        stored: Array = rows.astype(features)
    if not np.isfinite(stored).all():
        raise DataError(f"{path}: features are too large for {features}; keep them as float32, or scale them")
    return stored


def append_features(store: StoreWriter, name: str, rows: Array, features: FeatureType) -> None:
    """Write the next rows of dense features, ``x``, whatever type of numbers they are.

    Args:
        store: Where to.
        name: What errors call the graph.
        rows: Features of the next nodes ``[n, num_features]``.
        features: The type to keep them in.

    Raises:
        DataError: If a feature is not finite, or too large for the type.
    """
    # What float32 cannot hold becomes infinite here, and is reported with its place.
    with np.errstate(over="ignore"):
        rows = rows.astype(np.float32)
    finite = np.isfinite(rows)
    if not finite.all():
        node, feature = np.unravel_index(int(finite.argmin()), rows.shape)
        raise not_finite(name, store.count("x") + int(node), int(feature), float(rows[node, feature]))
    store.append("x", to_features(rows, features, Path(name)))


def _arrays(graph: Graph) -> Iterator[tuple[str, Tensor]]:
    yield "indptr", graph.indptr
    yield "indices", graph.indices
    if is_sparse(graph.x):
        yield "x_indptr", graph.x.crow_indices()
        yield "x_indices", graph.x.col_indices()
        yield "x_values", graph.x.values()
    else:
        yield "x", graph.x
    yield "y", graph.y
    if graph.masks is not None:
        for name in MASKS:
            yield name, getattr(graph.masks, name).view(torch.uint8)
