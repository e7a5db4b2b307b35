"""A nodes table and an edges table of any size, streamed into a store a batch of rows at a time.

What is kept in memory is one batch, and of every node its id, class and part of the split. The rules for
columns, ids and labels are those of :mod:`hpn.datasets.tables`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hpn.datasets.edge_sort import EdgeSorter
from hpn.datasets.graph import UNLABELLED
from hpn.datasets.store import Advance, FeatureType, StoreWriter, to_features
from hpn.datasets.table_features import list_columns, read_features
from hpn.datasets.table_files import _RAGGED, TableFile, _damaged, _one_line, open_table
from hpn.datasets.tables import (
    _EDGE_COLUMNS,
    _NODE_COLUMNS,
    _as_text,
    _classes,
    _find_columns,
    _find_tables,
    _masks,
    _node_ids,
)
from hpn.errors import DataError

BATCH_ROWS = 1 << 18
"""Rows read at once, fewer if they are wide."""
BATCH_BYTES = 1 << 26
"""Features read at once, in bytes of float64."""
CSV_BYTES = 1 << 20
"""Text read at once."""
CSV_LINES = 1 << 11
"""Lines read at once if they are long, unless that is too much text."""
TEXT_ROWS = 1 << 22
"""Edges looked up at once if ids are text, since every look-up hashes all ids anew."""

# Whole numbers if all are, else text.
Ids: TypeAlias = NDArray[np.int64] | pa.Array

_CSV_BYTES_LIMIT = 1 << 24
_PARQUET_BUFFER = 1 << 16
_TABLE_FACTOR = 4
# Every whole number that has one spelling only, so that it is the same as text and as a number.
_WHOLE = "^(0|-?[1-9][0-9]{0,18})$"
_NO_NUMBER = re.compile(
    r"In CSV column #(\d+): Row #(\d+): CSV conversion error .*?: invalid value '(.*)'", re.S
)


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
) -> tuple[_Finder, dict[str, Any]]:
    """Write features, classes and split; give back the ids, and what the header tells of all this."""
    roles = _find_columns(file, _NODE_COLUMNS, optional="split")
    names = [name for name in file.columns if name not in roles.values()]
    ids: list[Ids] = []
    labels, split = _Labels(), _Split()
    num_features, head = 0, None
    for part, table in _read_nodes(file, roles, names, advance):
        ids.append(_as_whole(part, table, roles["id"]))
        labels.add(_as_text(part, table, roles["label"]))
        if "split" in roles:
            split.add(part, table, roles["split"])
        x = _features(part, table, names, head)
        store.append("x", to_features(x, features, file.path))
        num_features, head = x.shape[1], table.select(names).take([0]) if head is None else head
    if head is None:
        raise file.error("the table has no rows; a graph needs nodes")
    finder = _Finder(file, roles["id"], ids)
    # Classes are numbered by their names, which are all known only now.
    numbers, class_names = _classes(file, labels.distinct(roles["label"]), roles["label"])
    store.append("y", np.append(numbers, UNLABELLED)[np.concatenate(labels.codes)])
    split_rule = "given" if split.is_given else "seeded"
    if split.is_given:
        for name, mask in zip(("train", "val", "test"), np.concatenate(split.masks, axis=1), strict=True):
            store.append(name, mask)
    told = {"num_features": num_features, "class_names": class_names, "split_rule": split_rule}
    return finder, told


def _import_edges(file: TableFile, finder: _Finder, store: StoreWriter, advance: Advance) -> int:
    roles = _find_columns(file, _EDGE_COLUMNS)
    columns = [roles["source"], roles["target"]]
    sorter = EdgeSorter(finder.num_nodes, store.scratch)
    rows = BATCH_ROWS if finder.is_whole else max(TEXT_ROWS, finder.num_nodes)
    if file.is_csv:
        batches = _read_csv(file, dict.fromkeys(columns, pa.large_string()), advance, only=columns)
    else:
        batches = _read_parquet(file, columns, rows, advance, ids=columns)
    for part, table in _number_rows(file, _gather(batches, rows)):
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


class _Finder:
    """Finds the numbers of nodes by their ids.

    Args:
        file: The nodes table.
        column: Its ids.
        ids: The ids, batch by batch, each as :func:`_as_whole` gives it.

    Raises:
        DataError: If an id is missing or given twice.
    """

    def __init__(self, file: TableFile, column: str, ids: list[Ids]) -> None:
        self.num_nodes = sum(map(len, ids))
        self._whole: _IdTable | _SortedIds | None = None
        if all(isinstance(batch, np.ndarray) for batch in ids):
            self._ids: Ids = np.concatenate(ids)
            is_dense = int(self._ids.max()) - int(self._ids.min()) < _TABLE_FACTOR * self.num_nodes
            self._whole = _IdTable(self._ids) if is_dense else _SortedIds(self._ids)
        else:
            self._ids = pa.concat_arrays(map(_spell, ids))
        if self._whole is None or not self._whole.is_unique():
            _node_ids(file, pa.table({column: self._ids}), column)

    @property
    def is_whole(self) -> bool:
        """Whether all ids are whole numbers, which are found much faster than text."""
        return self._whole is not None

    def find(self, part: TableFile, table: pa.Table, columns: Sequence[str]) -> list[NDArray[Any]]:
        """Look up columns of ids.

        Raises:
            DataError: If one is missing or of no node.
        """
        found: list[NDArray[Any]] = []
        if self._whole is not None:
            values = [_as_whole(part, table, column) for column in columns]
            found = [self._whole.find(ids) for ids in values if isinstance(ids, np.ndarray)]
        if len(found) < len(columns):
            found = self._find_text([_as_text(part, table, column) for column in columns])
        for column, position in zip(columns, found, strict=True):
            if position.min() < 0:
                row = int((position < 0).argmax())
                name = _as_text(part, table.slice(row, 1), column)[0].as_py()
                what = "is empty" if name is None else f"{name!r} is the id of no node"
                raise part.error(f"{what}; add the node or drop the edge", row=row, column=column)
        return found

    def _find_text(self, ids: list[pa.Array]) -> list[NDArray[Any]]:
        position = pc.index_in(pa.chunked_array(ids), value_set=_spell(self._ids)).fill_null(-1).to_numpy()
        return np.split(position, np.cumsum([len(batch) for batch in ids[:-1]]))


class _IdTable:
    """The node of every number between the lowest and the highest id, -1 where there is none."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self._ids, self._low = ids, int(ids.min())
        # The last entry is where all ids beyond the table point to.
        size = int(ids.max()) - self._low + 2
        self._table = np.full(size, -1, dtype=np.int32 if len(ids) <= np.iinfo(np.int32).max else np.int64)
        self._table[ids - self._low] = np.arange(len(ids))

    def is_unique(self) -> bool:
        return int((self._table >= 0).sum()) == len(self._ids)

    def find(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        # Without a sign, what is below the lowest id is far above the highest.
        offset = (ids - self._low).view(np.uint64)
        return self._table[np.minimum(offset, len(self._table) - 1).view(np.int64)]


class _SortedIds:
    """Ids that lie too far apart for a table."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self._order = np.argsort(ids)
        self._sorted = ids[self._order]

    def is_unique(self) -> bool:
        return bool((self._sorted[1:] != self._sorted[:-1]).all())

    def find(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        # In order, so that neighbouring look-ups touch the same memory: several times faster.
        order = np.argsort(ids)
        ids = ids[order]
        at = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        position = np.empty(len(ids), dtype=np.int64)
        position[order] = np.where(self._sorted[at] == ids, self._order[at], -1)
        return position


def _spell(ids: Ids) -> pa.Array:
    return pa.array(ids).cast(pa.large_string()) if isinstance(ids, np.ndarray) else ids


def _as_whole(part: TableFile, table: pa.Table, column: str) -> Ids:
    """Turn ids into whole numbers if all are such and nothing is lost; else into text, empty is null."""
    values = table[column]
    with suppress(pa.ArrowInvalid):
        if pa.types.is_integer(values.type) and not values.null_count:
            return values.cast(pa.int64()).to_numpy()
    text = _as_text(part, table, column)
    with suppress(pa.ArrowInvalid):
        if not text.null_count and pc.all(pc.match_substring_regex(text, _WHOLE)).as_py():
            return text.cast(pa.int64()).to_numpy()
    return text


def _features(part: _Part, table: pa.Table, names: list[str], head: pa.Table | None) -> NDArray[np.float32]:
    """Make the features of a batch; lists must be as long as that of the first node, which is ``head``."""
    if head is None or len(names) > 1:
        return read_features(part, table, names)
    table = pa.concat_tables([head, table.select(names)])
    return read_features(_Part(part.path, part.columns, part.first - 1), table, names)[1:]


@dataclass(frozen=True)
class _Part(TableFile):
    """Some rows of a table; errors name a row by its place in the whole.

    Args:
        first: Rows before them.
    """

    first: int

    def error(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """Make an error that says where in the file it is; ``row`` counts from 0 in the part."""
        return super().error(message, row=None if row is None else row + self.first, column=column)


def _number_rows(file: TableFile, tables: Iterator[pa.Table]) -> Iterator[tuple[_Part, pa.Table]]:
    first = 0
    for table in tables:
        yield _Part(file.path, file.columns, first), table
        first += table.num_rows


def _gather(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Put tables together until they have at least so many rows; leave out empty ones."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        if count >= rows:
            yield pa.concat_tables(held)
            held, count = [], 0
    if count:
        yield pa.concat_tables(held)


def _read_nodes(
    file: TableFile, roles: Mapping[str, str], names: list[str], advance: Advance
) -> Iterator[tuple[_Part, pa.Table]]:
    if file.is_csv:
        types = _csv_types(file, [*roles.values(), *list_columns(names)])
        tables = _read_csv(file, types, advance)
    else:
        rows = _parquet_rows(file)
        tables = _read_parquet(file, list(file.columns), rows, advance, ids=list(roles.values()))
    return _number_rows(file, _gather(tables, 1))


class _Meter:
    """Tells how much of a file was gone through since it was last told."""

    def __init__(self, file: TableFile, advance: Advance) -> None:
        self.size, self._told, self._advance = file.path.stat().st_size, 0, advance

    def reach(self, position: int) -> None:
        if position > self._told:
            self._advance(position - self._told)
            self._told = position


def _read_parquet(
    file: TableFile, columns: list[str], rows: int, advance: Advance, *, ids: Sequence[str]
) -> Iterator[pa.Table]:
    """Read columns; ``ids`` of floats become whole numbers if all of a column are, else text."""
    with _open_parquet(file) as parquet:
        kinds = {name: parquet.schema_arrow.field(name).type for name in ids}
        floats = {name: _float_kind(parquet, name) for name, kind in kinds.items() if _is_float(kind)}
        meter, done = _Meter(file, advance), 0
        for table in _tables(parquet, columns, rows):
            yield _cast_floats(table, floats)
            done += table.num_rows
            meter.reach(meter.size * done // max(1, parquet.metadata.num_rows))
        meter.reach(meter.size)


def _tables(parquet: pq.ParquetFile, columns: list[str], rows: int) -> Iterator[pa.Table]:
    for batch in parquet.iter_batches(rows, columns=columns):
        yield pa.Table.from_batches([batch])


def _parquet_rows(file: TableFile) -> int:
    """Tell how many rows to read at once, from the number of values on a row."""
    with _open_parquet(file) as parquet:
        if not parquet.metadata.num_row_groups:
            return BATCH_ROWS
        group = parquet.metadata.row_group(0)
        num_values: int = sum(group.column(index).num_values for index in range(group.num_columns))
        num_rows: int = BATCH_BYTES * group.num_rows // max(1, 8 * num_values)
        return min(BATCH_ROWS, max(1, num_rows))


@contextmanager
def _open_parquet(file: TableFile) -> Iterator[pq.ParquetFile]:
    try:
        # By itself, Arrow would hold every row group that was read, each as a whole.
        with pq.ParquetFile(file.path, buffer_size=_PARQUET_BUFFER, pre_buffer=False) as parquet:
            yield parquet
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(file.path, error) from None


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _float_kind(parquet: pq.ParquetFile, name: str) -> pa.DataType:
    """Tell what to turn a column into, which only all of it can say: 1e15 is spelt so beside 0.5."""
    try:
        for table in _tables(parquet, [name], BATCH_ROWS):
            _cast_floats(table, {name: pa.int64()})
    except pa.ArrowInvalid:
        return pa.large_string()
    return pa.int64()


def _cast_floats(table: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    for name, kind in kinds.items():
        values = table[name]
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values).cast(kind)
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def _read_csv(
    file: TableFile, types: Mapping[str, pa.DataType], advance: Advance, *, only: Sequence[str] = ()
) -> Iterator[pa.Table]:
    meter, block = _Meter(file, advance), _block_bytes(file)
    with _open_csv(file, types, only) as reader:
        for number, batch in enumerate(reader, 1):
            yield pa.Table.from_batches([batch])
            # Arrow reads ahead, but gives one batch a block.
            meter.reach(min(meter.size, number * block))
    meter.reach(meter.size)


def _block_bytes(file: TableFile) -> int:
    """Tell how much text to read at once: a line must fit into it, and a wide table has long lines."""
    with file.path.open("rb") as lines:
        longest = max(len(lines.readline(_CSV_BYTES_LIMIT)) for _ in range(4))
    return max(CSV_BYTES, min(_CSV_BYTES_LIMIT, CSV_LINES * longest))


def _csv_types(file: TableFile, text: Sequence[str]) -> dict[str, pa.DataType]:
    """Settle on a type for each column, so that no block has another: features are numbers or Booleans."""
    types = dict.fromkeys(text, pa.large_string())
    with _open_csv(file, types) as reader:
        found = {field.name: field.type for field in reader.schema}
    numbers = {name: kind if pa.types.is_boolean(kind) else pa.float64() for name, kind in found.items()}
    return {**numbers, **types}


@contextmanager
def _open_csv(
    file: TableFile, types: Mapping[str, pa.DataType], only: Sequence[str] = ()
) -> Iterator[pc_csv.CSVStreamingReader]:
    # Only a single thread knows the number of a row that is wrong.
    read = pc_csv.ReadOptions(block_size=_block_bytes(file), use_threads=False)
    convert = pc_csv.ConvertOptions(column_types=types, include_columns=list(only))
    try:
        with pc_csv.open_csv(file.path, read, None, convert) as reader:
            yield reader
    except pa.ArrowException as error:
        raise _explain(file, str(error)) from None


def _explain(file: TableFile, reason: str) -> DataError:
    """Say what is wrong with a CSV file, and where."""
    line = _first_not_utf8(file.path) if "UTF8" in reason or "\ufffd" in reason else None
    if line is not None:
        return DataError(f"{file.path}, line {line}: is not UTF-8 text; save the file as UTF-8")
    if ragged := _RAGGED.search(reason):
        number, expected, got = map(int, ragged.groups())
        return file.error(
            f"{got} values where the header has {expected}; quote values that contain a comma",
            row=number - 2,
        )
    if found := _NO_NUMBER.search(reason):
        index, number, value = int(found[1]), int(found[2]), found[3]
        return file.error(
            f"{value[:60]!r} is not a number; turn the column into numbers or drop it",
            row=number - 2,
            column=file.columns[index],
        )
    return file.error(f"cannot be read as CSV: {_one_line(reason)}")


def _first_not_utf8(path: Path) -> int | None:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return None
