"""One table on disk, CSV or Parquet, read so that whatever is wrong with it is said in one line."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from hpn.errors import DataError

_PARQUET_MAGIC = b"PAR1"
# A line must fit into one block, and a wide table has long lines.
_BLOCK_BYTES = 1 << 24
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


@dataclass(frozen=True)
class TableFile:
    """A CSV or Parquet file whose column names are known and whose rows are not yet read.

    Args:
        path: Where it is.
        columns: Names of its columns, as written there.
    """

    path: Path
    columns: tuple[str, ...]

    @property
    def is_csv(self) -> bool:
        """Whether it is text, so that a row has a line number and numbers a spelling."""
        return self.path.suffix == ".csv"

    def read(self, *, text: Sequence[str], only: Sequence[str] = ()) -> pa.Table:
        """Read the rows.

        Args:
            text: Columns of a CSV file to leave as they are spelt (``007`` is not ``7``).
            only: Columns to read; all of them by default.

        Raises:
            DataError: If the file is damaged, not UTF-8, or a row has too few or many values.
        """
        if not self.is_csv:
            return _read_parquet(self.path, only)
        types = dict.fromkeys(text, pa.large_string())
        options = pc_csv.ConvertOptions(column_types=types, include_columns=list(only))
        try:
            table = pc_csv.read_csv(self.path, pc_csv.ReadOptions(block_size=_BLOCK_BYTES), None, options)
        except pa.ArrowException as error:
            raise self._explain(error, options) from None
        if any(pa.types.is_binary(kind) for kind in table.schema.types):
            raise _not_utf8(self.path)
        return table

    def error(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """Make an error that says where in the file it is; ``row`` counts from 0."""
        place = str(self.path)
        if row is not None:
            place += f", line {self._line(row)}" if self.is_csv else f", row {row + 1}"
        if column is not None:
            place += f", column {column!r}"
        return DataError(f"{place}: {' '.join(message.split())}")

    def _line(self, row: int) -> int:
        """Find the line a row is on: empty lines are no rows, and the header is one."""
        with self.path.open("rb") as file:
            lines = (number for number, line in enumerate(file, 1) if line.strip(b"\r\n"))
            return next(islice(lines, row + 1, None), row + 2)

    def _explain(self, error: pa.ArrowException, options: pc_csv.ConvertOptions) -> DataError:
        reason = str(error)
        if "UTF8" in reason:
            return _not_utf8(self.path)
        try:
            # Only a single thread knows the number of the row.
            slow = pc_csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
            pc_csv.read_csv(self.path, slow, None, options)
        except pa.ArrowException as again:
            reason = str(again)
        ragged = _RAGGED.search(reason)
        if ragged is None:
            return self.error(f"cannot be read as CSV: {_one_line(reason)}")
        number, expected, got = map(int, ragged.groups())
        return self.error(
            f"{got} values where the header has {expected}; quote values that contain a comma",
            row=number - 2,
        )


def open_table(path: Path) -> TableFile:
    """Look at a table's kind and column names.

    Raises:
        DataError: If it is missing, not what its name says, or names a column twice.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            header = next((line for line in file if line.strip()), b"")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if path.suffix == ".parquet":
        columns = _parquet_columns(path, magic)
    elif magic == _PARQUET_MAGIC:
        raise DataError(f"{path}: is a Parquet file; rename it to end in .parquet")
    else:
        columns = _csv_columns(path, header)
    repeated = [name for name, times in Counter(columns).items() if times > 1]
    if repeated:
        raise DataError(f"{path}: column {repeated[0]!r} appears twice; rename or drop one of them")
    return TableFile(path, columns)


def _csv_columns(path: Path, header: bytes) -> tuple[str, ...]:
    if not header:
        raise DataError(f"{path}: the file is empty; its first line must name the columns")
    try:
        header.decode()
        return tuple(pc_csv.read_csv(io.BytesIO(header)).column_names)
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except pa.ArrowException as error:
        reason = _one_line(str(error))
        raise DataError(f"{path}: the first line must name the columns: {reason}") from None


def _parquet_columns(path: Path, magic: bytes) -> tuple[str, ...]:
    if magic != _PARQUET_MAGIC:
        raise DataError(f"{path}: is not a Parquet file; if it is a CSV file, rename it to end in .csv")
    try:
        return tuple(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from None


def _read_parquet(path: Path, only: Sequence[str]) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            return file.read(columns=list(only) or None)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> DataError:
    reason = _one_line(str(error))
    return DataError(f"{path}: the Parquet file is cut short or damaged; copy or write it again ({reason})")


def _not_utf8(path: Path) -> DataError:
    content = path.read_bytes()
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return DataError(f"{path}, line {line}: is not UTF-8 text; save the file as UTF-8")
    return DataError(f"{path}: is not UTF-8 text; save the file as UTF-8")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:120]
