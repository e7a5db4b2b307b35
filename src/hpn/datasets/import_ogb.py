"""A graph of the Open Graph Benchmark (:mod:`hpn.datasets.ogb`) into a store, its files block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv
import torch
from numpy.typing import NDArray

from hpn.datasets.edge_sort import EdgeSorter
from hpn.datasets.graph import Graph
from hpn.datasets.ogb import (
    _FILES,
    CLASS_ORDERS,
    _class_names,
    _read_labels,
    _read_rows,
    find_raw,
)
from hpn.datasets.store import (
    Advance,
    FeatureType,
    StoreWriter,
    append_features,
    check_shards,
    make_header,
    no_progress,
)
from hpn.errors import DataError

# Arrow reads up to 32 blocks ahead of what it is asked for.
_BLOCK_BYTES = 1 << 21


def import_ogb(
    name: str,
    root: Path,
    store: StoreWriter,
    *,
    features: FeatureType = "float32",
    advance: Advance = no_progress,
) -> None:
    """Write ``ogbn-arxiv`` or ``ogbn-products`` to a store, and finish it.

    Args:
        name: Which of the two.
        root: Folder with ``ogbn_arxiv/raw`` or ``ogbn_products/raw``, as OGB lays them out; what is
            missing is downloaded to it.
        store: Where to; opens to the graph that :func:`~hpn.datasets.ogb.load_ogb` gives.
        features: How to keep the features.
        advance: Told every now and then of bytes that were gone through, :func:`ogb_size` in all.

    Raises:
        ConfigError: If the name is unknown, the ``ogb`` package is not installed, or the store is to have
            more shards than there are nodes.
        DataError: If raw files are missing or damaged, or do not fit each other.
    """
    raw = find_raw(name, root)
    num_nodes, num_links = (_read_count(raw / f"num-{part}-list.csv.gz") for part in ("node", "edge"))
    check_shards(store.shards, num_nodes)
    y = _read_labels(raw / "node-label.csv.gz")
    advance(sum((raw / file).stat().st_size for file in _FILES if file.startswith(("num-", "node-label"))))
    _check_count(raw / "node-label.csv.gz", len(y), num_nodes, "nodes have labels")
    num_features = len(_column_names(raw / "node-feat.csv.gz"))
    present = set(np.unique(y).tolist())
    graph = Graph.build(
        name,
        x=torch.zeros(num_nodes, 1),
        links=torch.zeros(2, 0, dtype=torch.int64),
        y=torch.from_numpy(y),
        class_names=_class_names(raw.parent / "mapping", int(y.max()) + 1),
        num_links=num_links,
        split_rule="index",
        class_order=[label for label in CLASS_ORDERS[name] if label in present],
    )
    store.append("y", graph.y.numpy())
    _write_features(store, raw / "node-feat.csv.gz", name, num_nodes, features, advance)
    _write_links(store, raw / "edge.csv.gz", graph, advance)
    store.finish({**make_header(graph), "num_features": num_features})


def ogb_size(name: str, root: Path) -> int:
    """Bytes :func:`import_ogb` goes through: of the raw files, which are downloaded if they are missing.

    Raises:
        ConfigError: If the name is unknown, or the ``ogb`` package is not installed.
        DataError: If raw files are missing.
    """
    raw = find_raw(name, root)
    return sum((raw / file).stat().st_size for file in _FILES)


def _read_count(path: Path) -> int:
    """Read how many nodes or edges the first graph, which is the only one, has."""
    try:
        count = _read_rows(path, has_header=False).column(0)[0].cast(pa.int64()).as_py()
    except pa.ArrowException as error:
        raise _unreadable(path, error) from None
    if count is None or count < 0:
        raise DataError(f"{path}: expected a count, found {count}; unpack the archive again")
    return int(count)


def _check_count(path: Path, found: int, expected: int, what: str) -> None:
    if found != expected:
        listed = "num-edge-list.csv.gz" if path.name == "edge.csv.gz" else "num-node-list.csv.gz"
        raise DataError(f"{path}: {found} {what}, but {listed} tells of {expected}; unpack the archive again")


def _write_features(
    store: StoreWriter, path: Path, name: str, num_nodes: int, features: FeatureType, advance: Advance
) -> None:
    # As float64 first, like OGB's own reader, since rounding twice and once is not the same.
    for rows in _read_blocks(path, pa.float64(), advance):
        append_features(store, name, rows, features)
    _check_count(path, store.count("x"), num_nodes, "nodes have features")


def _write_links(store: StoreWriter, path: Path, graph: Graph, advance: Advance) -> None:
    width = len(_column_names(path))
    if width != 2:
        raise DataError(f"{path}: expected two nodes a line, found {width} columns; unpack the archive again")
    edges = EdgeSorter(graph.num_nodes, store.scratch)
    for links in _read_blocks(path, pa.int64(), advance):
        wrong = ((links < 0) | (links >= graph.num_nodes)).any(axis=1)
        if wrong.any():
            at = int(wrong.argmax())
            raise DataError(
                f"{graph.name}: edge {edges.num_links + at} ({links[at, 0]} - {links[at, 1]}) names a node "
                f"that does not exist; there are {graph.num_nodes} nodes, numbered from 0"
            )
        edges.add(links[:, 0], links[:, 1])
    _check_count(path, edges.num_links, graph.num_links, "edges")
    edges.write(store)


def _column_names(path: Path) -> list[str]:
    try:
        with pc_csv.open_csv(path, _read_options()) as reader:
            return list(reader.schema.names)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def _read_blocks(path: Path, kind: pa.DataType, advance: Advance) -> Iterator[NDArray[Any]]:
    """Read a table of numbers without a header ``[n, num_columns]``, some rows at a time."""
    options = pc_csv.ConvertOptions(column_types=dict.fromkeys(_column_names(path), kind))
    first, told = 0, 0
    with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, "gzip") as stream:
        for batch in _read_batches(path, stream, options):
            _check_complete(path, batch, kind, first)
            first += batch.num_rows
            yield np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], axis=1)
            advance(file.tell() - told)
            told = file.tell()
    advance(path.stat().st_size - told)


def _read_batches(path: Path, stream: Any, options: pc_csv.ConvertOptions) -> Iterator[pa.RecordBatch]:
    reader = None
    try:
        reader = pc_csv.open_csv(stream, _read_options(), None, options)
        while (batch := next(reader, None)) is not None:
            yield batch
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None
    finally:
        # Its thread, which reads ahead, ends with it, and must do so before the stream is closed.
        del reader


def _read_options() -> pc_csv.ReadOptions:
    # Only a single thread knows the number of a row that is wrong.
    return pc_csv.ReadOptions(autogenerate_column_names=True, block_size=_BLOCK_BYTES, use_threads=False)


def _check_complete(path: Path, batch: pa.RecordBatch, kind: pa.DataType, first: int) -> None:
    """Refuse missing whole numbers; missing features become NaN, and are reported as such."""
    if not pa.types.is_integer(kind):
        return
    missing = [int(np.argmax(column.is_null())) for column in batch.columns if column.null_count]
    if missing:
        raise DataError(f"{path}: edge {first + min(missing)} lacks a node; unpack the archive again")


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:120]
    # Arrow's word for a gzip stream that is cut short or not one; errors of the system have a number.
    is_damaged = isinstance(error, OSError) and error.errno is None
    state = "is cut short or damaged" if is_damaged else "cannot be read"
    return DataError(f"{path}: {state} ({reason}); unpack the archive again")
