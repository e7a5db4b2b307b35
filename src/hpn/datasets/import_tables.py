"""A nodes table and an edges table of any size, streamed into a store a batch of rows at a time.

What is kept in memory is one batch, and of every node its id, class and part of the split. The rules for
columns, ids and labels are those of :mod:`hpn.datasets.tables`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hpn.datasets import table_stream
from hpn.datasets.edge_sort import EdgeSorter
from hpn.datasets.graph import UNLABELLED
from hpn.datasets.store import Advance, FeatureType, StoreWriter, check_shards, to_features
from hpn.datasets.table_features import read_features
from hpn.datasets.table_files import TableFile, open_table
from hpn.datasets.table_ids import IdFinder, Ids, as_whole
from hpn.datasets.table_stream import TablePart, gather, number_rows, read_csv, read_nodes, read_parquet
from hpn.datasets.tables import (
    _EDGE_COLUMNS,
    _NODE_COLUMNS,
    _as_text,
    _classes,
    _find_columns,
    _find_tables,
    _masks,
)

TEXT_ROWS = 1 << 22
"""Edges looked up at once if ids are text, since every look-up hashes all ids anew."""


def tables_size(path: Path) -> int:
    """Bytes of both tables, which is what ``advance`` of :func:`import_tables` adds up to.

    Raises:
        DataError: If a table is missing.
    """
    return sum(table.stat().st_size for table in _find_tables(path))


def import_tables(
    path: Path,
    store: StoreWriter,
    *,
    features: FeatureType = "float32",
    advance: Advance = lambda _: None,
) -> None:
    r"""Stream a graph from a nodes table and an edges table into a store, and finish it.

    Args:
        path: The folder with the tables or the nodes table, as for :func:`hpn.datasets.tables.load_tables`.
        store: Where to write to.
        features: How to keep the features.
        advance: Called with the number of bytes that were gone through since the last call.

    Raises:
        ConfigError: If the store is to have more shards than there are nodes.
        DataError: If a table is missing or damaged, they do not fit each other, or features are too large.

    Example:
        >>> import tempfile
        >>> from hpn.datasets.store import open_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     source, target = Path(folder), Path(folder) / "store"
        ...     _ = (source / "nodes.csv").write_text("id,label,f\na,cat,1\nb,dog,2\n")
        ...     _ = (source / "edges.csv").write_text("source,target\na,b\n")
        ...     with StoreWriter(target) as store:
        ...         import_tables(source, store)
        ...     open_store(target).edge_index.tolist()
        [[0, 1], [1, 0]]
    """
    nodes, edges = map(open_table, _find_tables(path))
    finder, told = _import_nodes(nodes, store, features, advance)
    num_links = _import_edges(edges, finder, store, advance)
    store.finish({"name": path.resolve().name, "num_links": num_links, "class_order": None, **told})


def _import_nodes(
    file: TableFile, store: StoreWriter, features: FeatureType, advance: Advance
) -> tuple[IdFinder, dict[str, Any]]:
    """Write features, classes and split; give back the ids, and what the header tells of all this."""
    roles = _find_columns(file, _NODE_COLUMNS, optional="split")
    names = [name for name in file.columns if name not in roles.values()]
    ids: list[Ids] = []
    labels, split = _Labels(), _Split()
    num_features, head = 0, None
    for part, table in read_nodes(file, roles, names, advance):
        ids.append(as_whole(part, table, roles["id"]))
        labels.add(_as_text(part, table, roles["label"]))
        if "split" in roles:
            split.add(part, table, roles["split"])
        x = _features(part, table, names, head)
        store.append("x", to_features(x, features, file.path))
        num_features, head = x.shape[1], table.select(names).take([0]) if head is None else head
    if head is None:
        raise file.error("the table has no rows; a graph needs nodes")
    finder = IdFinder(file, roles["id"], ids)
    check_shards(store.shards, finder.num_nodes)
    # Classes are numbered by their names, which are all known only now.
    numbers, class_names = _classes(file, labels.distinct(roles["label"]), roles["label"])
    store.append("y", np.append(numbers, UNLABELLED)[np.concatenate(labels.codes)])
    split_rule = "given" if split.is_given else "seeded"
    if split.is_given:
        for name, mask in zip(("train", "val", "test"), np.concatenate(split.masks, axis=1), strict=True):
            store.append(name, mask)
    told = {"num_features": num_features, "class_names": class_names, "split_rule": split_rule}
    return finder, told


def _import_edges(file: TableFile, finder: IdFinder, store: StoreWriter, advance: Advance) -> int:
    roles = _find_columns(file, _EDGE_COLUMNS)
    columns = [roles["source"], roles["target"]]
    sorter = EdgeSorter(finder.num_nodes, store.scratch)
    rows = table_stream.BATCH_ROWS if finder.is_whole else max(TEXT_ROWS, finder.num_nodes)
    if file.is_csv:
        batches = read_csv(file, dict.fromkeys(columns, pa.large_string()), advance, only=columns)
    else:
        batches = read_parquet(file, columns, rows, advance, ids=columns)
    for part, table in number_rows(file, gather(batches, rows)):
        sorter.add(*finder.find(part, table, columns))
    sorter.write(store)
    return sorter.num_links


class _Labels:
    """The labels of the nodes: a code each, and the spelling of each code."""

    def __init__(self) -> None:
        self.codes: list[NDArray[np.int32]] = []
        self._code_of: dict[str, int] = {}

    def add(self, labels: pa.Array) -> None:
        encoded = labels.dictionary_encode()
        known = self._code_of
        codes = [known.setdefault(label, len(known)) for label in encoded.dictionary.to_pylist()]
        # The last entry is where the code of a missing label, -1, points to.
        self.codes.append(np.array([*codes, -1], dtype=np.int32)[encoded.indices.fill_null(-1).to_numpy()])

    def distinct(self, column: str) -> pa.Table:
        return pa.table({column: pa.array(list(self._code_of), pa.large_string())})


class _Split:
    """The parts that nodes are given to, ``[3, n]`` for each batch."""

    def __init__(self) -> None:
        self.masks: list[NDArray[np.uint8]] = []
        self.is_given = False

    def add(self, part: TableFile, table: pa.Table, column: str) -> None:
        masks = _masks(part, table, column)
        if masks is None:
            self.masks.append(np.zeros((3, table.num_rows), dtype=np.uint8))
        else:
            self.is_given = True
            rows = [masks.train.numpy(), masks.val.numpy(), masks.test.numpy()]
            self.masks.append(np.stack(rows).view(np.uint8))


def _features(
    part: TablePart, table: pa.Table, names: list[str], head: pa.Table | None
) -> NDArray[np.float32]:
    """Make the features of a batch; lists must be as long as that of the first node, which is ``head``."""
    if head is None or len(names) > 1:
        return read_features(part, table, names)
    table = pa.concat_tables([head, table.select(names)])
    return read_features(TablePart(part.path, part.columns, part.first - 1), table, names)[1:]
