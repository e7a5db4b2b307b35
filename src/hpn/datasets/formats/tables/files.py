"""Tables on disk, CSV or Parquet, in one file or several; errors state file, line and column in one line."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from numpy.typing import NDArray

from hpn.errors import DataError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SUFFIXES = (".csv", ".csv.gz", ".parquet")
MEMORY = 1000
"""Megabytes that DuckDB keeps in memory; beyond it, it writes to a scratch folder."""

_PARQUET_MAGIC = b"PAR1"
_MAX_THREADS = 4
_LINE_BYTES = 1 << 21
_LINKS_AT_ONCE = 1 << 22
_RAGGED = re.compile(r"Line: (\d+).*?Expected Number of Columns: (\d+) Found: (\d+)", re.S)
_LINE = re.compile(r"CSV Error on Line: (\d+)")


@contextmanager
def open_database(scratch: Path | None) -> Iterator[DuckDBPyConnection]:
    """A DuckDB database in memory; what does not fit is written to a temporary folder in ``scratch``."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="hpn-", dir=scratch) as folder:
        # Version 1, the last for Python 3.10, needs more to read rows of thousands of columns.
        limit = MEMORY * (2 if duckdb.__version__.startswith("1.") else 1)
        config: dict[str, Any] = {"memory_limit": f"{limit}MB", "temp_directory": folder}
        # Each thread has buffers of its own, which must fit into the memory together.
        config |= {"threads": min(_MAX_THREADS, os.cpu_count() or 1), "autoinstall_known_extensions": False}
        try:
            with duckdb.connect(":memory:", config=config) as database:
                yield database
        except RuntimeError as error:
            if "interrupted" in str(error):  # how DuckDB reports Ctrl-C
                raise KeyboardInterrupt from None
            raise


@dataclass
class TableFile:
    """A CSV or Parquet file whose columns are known and whose rows are not read yet."""

    path: Path
    columns: dict[str, tuple[str, str]]  # name in `scan` and type (of CSV files, text) by the name in the file
    skip: int = 0  # lines of a CSV file before the first row
    is_strict: bool = True  # whether all lines must end in the same way, as those of one program do

    @property
    def is_csv(self) -> bool:
        """Whether it is text, so that a row has a line number and numbers a spelling."""
        return self.path.suffix != ".parquet"

    @property
    def scan(self) -> str:
        """The expression to put after ``FROM`` to read it; its columns are ``c0``, ``c1`` and so on."""
        names = [name for name, _ in self.columns.values()]
        if not self.is_csv:
            return f"read_parquet({quote_path(self.path)}) AS file ({', '.join(names)})"
        with open_bytes(self.path) as lines:
            longest = max(len(lines.readline()) for _ in range(self.skip + 3))
        options = {
            "columns": "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in names) + "}",
            "compression": "'gzip'" if self.path.suffix == ".gz" else "'none'",
            "max_line_size": max(_LINE_BYTES, 4 * longest),
            **{"skip": self.skip, "header": "false", "auto_detect": "false", "strict_mode": str(self.is_strict)},
            **{"delim": "','", "quote": "'\"'", "escape": "'\"'", "nullstr": "''"},
        }
        return f"read_csv({quote_path(self.path)}, {', '.join(f'{key} = {options[key]}' for key in options)})"

    def error(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """An error that states where in the file it is; ``row`` counts from 0."""
        place = str(self.path)
        if row is not None:
            place += f", line {self._line(row)}" if self.is_csv else f", row {row + 1}"
        if column is not None:
            place += f", column {column!r}"
        return DataError(f"{place}: {' '.join(message.split())}")

    def _line(self, row: int) -> int:
        """The line on which a row begins: empty lines are not rows, and a value may span lines."""
        with io.TextIOWrapper(open_bytes(self.path), encoding="utf-8", errors="replace", newline="") as text:
            lines, last, rows = csv.reader(text), 0, row + (self.skip > 0)
            for words in lines:
                rows -= bool(words)
                if rows < 0:
                    break
                last = lines.line_num
        return last + 1


class Table:
    """One table in one file or several with the same columns, in the order of its rows."""

    def __init__(self, connection: DuckDBPyConnection, files: Sequence[TableFile]) -> None:
        self.connection, self.files, self.columns = connection, files, list(files[0].columns)
        self._starts = [0]

    @property
    def num_bytes(self) -> int:
        """Bytes of its files."""
        return sum(file.path.stat().st_size for file in self.files)

    @property
    def num_rows(self) -> int:
        """Rows; known after :meth:`stage`."""
        return self._starts[-1]

    def types(self, column: str) -> set[str]:
        """The types that a column has in the files."""
        return {file.columns[column][1] for file in self.files}

    def stage(
        self, name: str, select: Callable[[TableFile], Sequence[str]], join: Callable[[TableFile], str] = lambda _: ""
    ) -> None:
        """Read all files into a table of the database: some expressions of columns, joined with other tables.

        Raises:
            DataError: If a file is damaged or not UTF-8, or a row has too few or too many values.
        """
        import duckdb

        self._starts = [0]
        for number, file in enumerate(self.files):
            what = f"INSERT INTO {name}" if number else f"CREATE OR REPLACE TABLE {name} AS"
            try:
                [(added,)] = self.query(f"{what} SELECT {', '.join(select(file))} FROM {file.scan} {join(file)}")
            except duckdb.Error as error:
                if not file.is_strict or not _has_mixed_ends(file):
                    raise _explain(file.path, error) from None
                file.is_strict = False
                self.stage(name, select, join)
                return
            self._starts.append(self.num_rows + added)

    def query(self, query: str, values: Any = None) -> list[Any]:
        """The rows of a query of the database."""
        return self.connection.execute(query, values).fetchall()

    def arrays(self, query: str, start: int = 0, number: int | None = None) -> dict[str, NDArray[Any]]:
        """The columns of all or some rows of a staged table, ``SELECT … FROM …``."""
        end = self.num_rows if number is None else start + number
        return self.connection.execute(f"{query} WHERE rowid >= {start} AND rowid < {end}").fetchnumpy()

    def error(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """An error that states in which file and where it is; ``row`` counts from 0 in the whole table."""
        file, row = (self.files[0], None) if row is None else self._locate(row)
        return file.error(message, row=row, column=column)

    def value(self, row: int, column: str) -> str:
        """The value of a cell as text."""
        file, row = self._locate(row)
        query = f"SELECT {file.columns[column][0]}::VARCHAR FROM {file.scan} LIMIT 1 OFFSET {row}"
        return next((value for (value,) in self.query(query)), None) or ""

    def _locate(self, row: int) -> tuple[TableFile, int]:
        number = max(index for index, start in enumerate(self._starts[:-1]) if start <= row)
        return self.files[number], row - self._starts[number]


def open_table(connection: DuckDBPyConnection, paths: Sequence[Path]) -> Table:
    """Read the names of the columns of a table, which must be the same in all files."""
    files = [_open_file(connection, path) for path in paths]
    for file in files[1:]:
        for name in sorted(set(files[0].columns) ^ set(file.columns)):
            what = "lacks" if name in files[0].columns else "adds"
            raise file.error(f"{what} column {name!r}, unlike {files[0].path.name}; give both the same columns")
    return Table(connection, files)


def text_columns(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The columns of a CSV file; see :class:`TableFile`."""
    return {name: (f"c{index}", "VARCHAR") for index, name in enumerate(names)}


def is_nested(kind: str) -> bool:
    """Whether a type of DuckDB is that of lists, or of other values with parts."""
    return kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION"))


def spell(name: str, kind: str, *, trimmed: bool) -> str:
    """An expression for the values of a column as text."""
    spelt = f"decode({name})" if kind == "BLOB" else f"{name}::VARCHAR"
    return f"trim({spelt}, E' \\t\\r\\n')" if trimmed else spelt


def read_links(edges: Table) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The sources and targets of the staged table ``links``, some rows at a time."""
    for start in range(0, edges.num_rows, _LINKS_AT_ONCE):
        found = edges.arrays("SELECT source, target FROM links", start, _LINKS_AT_ONCE)
        yield found["source"], found["target"]


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file to read, decompressed if it is gzipped."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def quote_path(path: Path) -> str:
    """A path as a string of SQL; brackets keep DuckDB from interpreting a character as a pattern."""
    return "'" + re.sub(r"[*?\[]", r"[\g<0>]", str(path)).replace("'", "''") + "'"


def check_gzip(path: Path) -> None:
    """Compare the checksum of a gzipped file, which DuckDB does not."""
    try:
        with open_bytes(path) as file:
            while path.suffix == ".gz" and file.read(1 << 20):
                pass
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: is cut short or damaged ({error}); copy or write it again") from None


def _open_file(connection: DuckDBPyConnection, path: Path) -> TableFile:
    import duckdb

    try:
        check_gzip(path)
        with open_bytes(path) as lines:
            magic = lines.read(4)
            lines.seek(0)
            skip, header = next(((n, line) for n, line in enumerate(lines, 1) if line.strip()), (0, b""))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    is_parquet = magic == _PARQUET_MAGIC
    if is_parquet != (path.suffix == ".parquet"):
        what = "is a" if is_parquet else "is not a"
        hint = "rename it to end in .parquet" if is_parquet else "if it is a CSV file, rename it to end in .csv"
        raise DataError(f"{path}: {what} Parquet file; {hint}")
    try:
        found = connection.execute(f"DESCRIBE FROM read_parquet({quote_path(path)})").fetchall() if is_parquet else []
    except duckdb.Error as error:
        raise _explain(path, error) from None
    names = [row[0] for row in found] if is_parquet else _csv_columns(path, header)
    for name, times in Counter(names).most_common(1):
        if times > 1:
            raise DataError(f"{path}: column {name!r} appears twice; rename or drop one of them")
    if not is_parquet:
        return TableFile(path, text_columns(names), skip)
    return TableFile(path, {row[0]: (f"c{index}", row[1]) for index, row in enumerate(found)})


def _csv_columns(path: Path, header: bytes) -> list[str]:
    if not header:
        raise DataError(f"{path}: the file is empty; its first line must name the columns")
    try:
        return next(csv.reader([header.decode("utf-8-sig")], strict=True))
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except csv.Error as error:
        raise DataError(f"{path}: the first line must name the columns: {error}") from None


def _explain(path: Path, error: Exception) -> DataError:
    """The error of DuckDB about a file in one line."""
    reason = str(error)
    short = " ".join(reason.split())[:120]
    if "Out of Memory" in reason or "No space left" in reason:
        return DataError(f"{path}: cannot be read, memory or disk is full ({short})")
    if path.suffix == ".parquet":
        return DataError(f"{path}: the Parquet file is cut short or damaged; copy or write it again ({short})")
    if "utf-8" in reason.lower() or "unicode" in reason.lower():
        return _not_utf8(path)
    if ragged := _RAGGED.search(reason):
        line, expected, found = ragged.groups()
        what = f"{found} values where the header has {expected}; quote values that contain a comma"
        return DataError(f"{path}, line {line}: {what}")
    if place := _LINE.search(reason):
        what = "a quote is not closed" if "unterminated quote" in reason else "cannot be read as CSV"
        return DataError(f'{path}, line {place[1]}: {what}; quote values as "…", with "" for a quote')
    if "invalid state" in reason:
        short = "quotes are not closed, or lines end in several ways"
    return DataError(f"{path}: cannot be read as CSV: {short}")


def _has_mixed_ends(file: TableFile) -> bool:
    """Whether some lines of a CSV file end with a carriage return and others do not."""
    if not file.is_csv:
        return False
    with open_bytes(file.path) as lines:
        return len({line.endswith(b"\r\n") for line in lines if line.endswith(b"\n")}) > 1


def _not_utf8(path: Path) -> DataError:
    with open_bytes(path) as lines:
        for number, line in enumerate(lines, 1):
            if "\ufffd" in line.decode(errors="replace"):
                return DataError(f"{path}, line {number}: is not UTF-8 text; save the file as UTF-8")
    return DataError(f"{path}: is not UTF-8 text; save the file as UTF-8")
