"""One table on disk, CSV or Parquet, a batch of rows at a time; errors name the row in the whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from hpn.datasets.store import Advance
from hpn.datasets.table_features import list_columns
from hpn.datasets.table_files import _RAGGED, TableFile, _damaged, _one_line
from hpn.errors import DataError

BATCH_ROWS = 1 << 18
"""Rows read at once, fewer if they are wide."""
BATCH_BYTES = 1 << 26
"""Features read at once, in bytes of float64."""
CSV_BYTES = 1 << 20
"""Text read at once."""
CSV_LINES = 1 << 11
"""Lines read at once if they are long, unless that is too much text."""

_CSV_BYTES_LIMIT = 1 << 24
_PARQUET_BUFFER = 1 << 16
_NO_NUMBER = re.compile(
    r"In CSV column #(\d+): Row #(\d+): CSV conversion error .*?: invalid value '(.*)'", re.S
)


@dataclass(frozen=True)
class TablePart(TableFile):
    """Some rows of a table; errors name a row by its place in the whole.

    Args:
        first: Rows before them.
    """

    first: int

    def error(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """Make an error that says where in the file it is; ``row`` counts from 0 in the part."""
        return super().error(message, row=None if row is None else row + self.first, column=column)


def number_rows(file: TableFile, tables: Iterator[pa.Table]) -> Iterator[tuple[TablePart, pa.Table]]:
    """Give each batch of a table with its place in it."""
    first = 0
    for table in tables:
        yield TablePart(file.path, file.columns, first), table
        first += table.num_rows


def gather(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
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


def read_nodes(
    file: TableFile, roles: Mapping[str, str], names: list[str], advance: Advance
) -> Iterator[tuple[TablePart, pa.Table]]:
    """Read a nodes table; columns that play a role are text or whole numbers, the others features."""
    if file.is_csv:
        types = _csv_types(file, [*roles.values(), *list_columns(names)])
        tables = read_csv(file, types, advance)
    else:
        rows = _parquet_rows(file)
        tables = read_parquet(file, list(file.columns), rows, advance, ids=list(roles.values()))
    return number_rows(file, gather(tables, 1))


class _Meter:
    """Tells how much of a file was gone through since it was last told."""

    def __init__(self, file: TableFile, advance: Advance) -> None:
        self.size, self._told, self._advance = file.path.stat().st_size, 0, advance

    def reach(self, position: int) -> None:
        if position > self._told:
            self._advance(position - self._told)
            self._told = position


def read_parquet(
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


def read_csv(
    file: TableFile, types: Mapping[str, pa.DataType], advance: Advance, *, only: Sequence[str] = ()
) -> Iterator[pa.Table]:
    """Read columns of the given types; all of them unless told which."""
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
