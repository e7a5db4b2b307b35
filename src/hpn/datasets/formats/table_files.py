"""Tables on disk, CSV or Parquet, one file or several, read by DuckDB; errors are one line."""

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
from dataclasses import dataclass, replace
from functools import cached_property
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
    """A DuckDB database in memory; what does not fit goes to a temporary folder in ``scratch``."""
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
            if "interrupted" in str(error):  # what DuckDB makes of Ctrl-C
                raise KeyboardInterrupt from None
            raise


@dataclass(frozen=True)
class TableFile:
    """A CSV or Parquet file whose columns are known and whose rows are not yet read.

    Args:
        path: Where it is.
        columns: Names of its columns, as written there.
        types: What DuckDB calls their types; those of CSV files are all text.
        skip: Lines of a CSV file before the first row.
        has_mixed_ends: Whether its lines end in several ways, as when one program appends to another's file.
    """

    path: Path
    columns: tuple[str, ...]
    types: tuple[str, ...]
    skip: int = 0
    has_mixed_ends: bool = False

    @property
    def is_csv(self) -> bool:
        """Whether it is text, so that a row has a line number and numbers a spelling."""
        return self.path.suffix != ".parquet"

    @property
    def scan(self) -> str:
        """What to put after ``FROM`` to read it; its columns are ``c0``, ``c1`` and so on."""
        names = [f"c{index}" for index in range(len(self.columns))]
        if not self.is_csv:
            return f"read_parquet({quote_path(self.path)}) AS file ({', '.join(names)})"
        with open_bytes(self.path) as lines:
            longest = max(len(lines.readline()) for _ in range(self.skip + 3))
        options = {
            "columns": "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in names) + "}",
            "compression": "'gzip'" if self.path.suffix == ".gz" else "'none'",
            "max_line_size": max(_LINE_BYTES, 4 * longest),
            **{"skip": self.skip, "header": "false", "auto_detect": "false"},
            "strict_mode": "false" if self.has_mixed_ends else "true",
            **{"delim": "','", "quote": "'\"'", "escape": "'\"'", "nullstr": "''"},
        }
        return f"read_csv({quote_path(self.path)}, {', '.join(f'{key} = {options[key]}' for key in options)})"

    def column(self, name: str) -> tuple[str, str]:
        """What a column is called in :attr:`scan`, and its type."""
        return self._columns[name]

    @cached_property
    def _columns(self) -> dict[str, tuple[str, str]]:
        places = [f"c{index}" for index in range(len(self.columns))]
        return dict(zip(self.columns, zip(places, self.types, strict=True), strict=True))

    def error(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """Make an error that says where in the file it is; ``row`` counts from 0."""
        place = str(self.path)
        if row is not None:
            place += f", line {self._line(row)}" if self.is_csv else f", row {row + 1}"
        if column is not None:
            place += f", column {column!r}"
        return DataError(f"{place}: {' '.join(message.split())}")

    def _line(self, row: int) -> int:
        """Find the line on which a row begins: empty lines are not rows, and a value may span lines."""
        with io.TextIOWrapper(open_bytes(self.path), encoding="utf-8", errors="replace", newline="") as text:
            lines, last, rows = csv.reader(text), 0, row + (self.skip > 0)
            for words in lines:
                rows -= bool(words)
                if rows < 0:
                    break
                last = lines.line_num
        return last + 1


class Table:
    """One table in one file or several, each with the same columns.

    Args:
        connection: The database that reads it.
        files: Its files, in the order of its rows.
    """

    def __init__(self, connection: DuckDBPyConnection, files: Sequence[TableFile]) -> None:
        self.connection, self.files, self.columns = connection, list(files), files[0].columns
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
        return {file.column(column)[1] for file in self.files}

    def stage(
        self, name: str, select: Callable[[TableFile], Sequence[str]], join: Callable[[TableFile], str] = lambda _: ""
    ) -> None:
        """Read all files into a table of the database.

        Args:
            name: What to call it.
            select: Expressions of the columns of a file, each with its name in the new table.
            join: Tables of the database to join with a file.

        Raises:
            DataError: If a file is damaged, not UTF-8, or a row has too few or many values.
        """
        import duckdb

        self._starts = [0]
        for number, file in enumerate(self.files):
            what = f"INSERT INTO {name}" if number else f"CREATE OR REPLACE TABLE {name} AS"
            try:
                [(added,)] = self.query(f"{what} SELECT {', '.join(select(file))} FROM {file.scan} {join(file)}")
            except duckdb.Error as error:
                if not _has_mixed_ends(file):
                    raise explain(file.path, error) from None
                self.files[number] = replace(file, has_mixed_ends=True)
                self.stage(name, select, join)
                return
            self._starts.append(self.num_rows + added)

    def query(self, query: str, values: Any = None) -> list[Any]:
        """The rows of a query of the database."""
        return self.connection.execute(query, values).fetchall()

    def arrays(self, query: str, start: int, number: int) -> dict[str, NDArray[Any]]:
        """The columns of some rows of a staged table, ``SELECT … FROM …``."""
        rows = f"rowid >= {start} AND rowid < {start + number}"
        return self.connection.execute(f"{query} WHERE {rows}").fetchnumpy()

    def error(self, message: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """Make an error that says in which file and where it is; ``row`` counts from 0 in the whole table."""
        file, row = (self.files[0], None) if row is None else self._locate(row)
        return file.error(message, row=row, column=column)

    def value(self, row: int, column: str) -> str | None:
        """The value of a cell as text."""
        file, row = self._locate(row)
        query = f"SELECT {file.column(column)[0]}::VARCHAR FROM {file.scan} LIMIT 1 OFFSET {row}"
        return next((value for (value,) in self.query(query)), None)

    def _locate(self, row: int) -> tuple[TableFile, int]:
        number = max(index for index, start in enumerate(self._starts[:-1]) if start <= row)
        return self.files[number], row - self._starts[number]


def open_table(connection: DuckDBPyConnection, paths: Sequence[Path]) -> Table:
    """Look at the columns of a table.

    Raises:
        DataError: If a file is missing, not what its name says, names a column twice, or has other columns
            than the first.
    """
    files = [_open_file(connection, path) for path in paths]
    for file in files[1:]:
        for name in sorted(set(files[0].columns) ^ set(file.columns)):
            what = "lacks" if name in files[0].columns else "adds"
            raise file.error(f"{what} column {name!r}, unlike {files[0].path.name}; make them alike")
    return Table(connection, files)


def is_nested(kind: str) -> bool:
    """Whether a type of DuckDB is that of lists, or of other values with parts."""
    return kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION"))


def spell(name: str, kind: str, *, trimmed: bool) -> str:
    """An expression that spells the values of a column."""
    spelt = f"decode({name})" if kind == "BLOB" else f"{name}::VARCHAR"
    return f"trim({spelt}, E' \\t\\r\\n')" if trimmed else spelt


def read_links(edges: Table) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The sources and targets of the staged table ``links``, some rows at a time."""
    for start in range(0, edges.num_rows, _LINKS_AT_ONCE):
        found = edges.arrays("SELECT source, target FROM links", start, _LINKS_AT_ONCE)
        yield found["source"], found["target"]


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file to read, unpacked if it is gzipped."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def check_gzip(path: Path) -> None:
    """Compare the checksum of a file if it is gzipped, which DuckDB does not.

    Raises:
        DataError: If it is cut short or damaged.
    """
    try:
        with open_bytes(path) as file:
            while path.suffix == ".gz" and file.read(1 << 20):
                pass
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: is cut short or damaged ({error}); copy or write it again") from None


def explain(path: Path, error: Exception) -> DataError:
    """Say in one line what DuckDB found wrong with a file."""
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
        short = "quotes are broken, or lines end in several ways"
    return DataError(f"{path}: cannot be read as CSV: {short}")


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
        if is_parquet:
            found = connection.execute(f"DESCRIBE FROM read_parquet({quote_path(path)})").fetchall()
            file = TableFile(path, tuple(row[0] for row in found), tuple(row[1] for row in found))
        else:
            columns = _csv_columns(path, header)
            file = TableFile(path, columns, ("VARCHAR",) * len(columns), skip)
    except duckdb.Error as error:
        raise explain(path, error) from None
    for name, times in Counter(file.columns).items():
        if times > 1:
            raise DataError(f"{path}: column {name!r} appears twice; rename or drop one of them")
    return file


def _csv_columns(path: Path, header: bytes) -> tuple[str, ...]:
    if not header:
        raise DataError(f"{path}: the file is empty; its first line must name the columns")
    try:
        return tuple(next(csv.reader([header.decode("utf-8-sig")], strict=True)))
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except csv.Error as error:
        raise DataError(f"{path}: the first line must name the columns: {error}") from None


def _has_mixed_ends(file: TableFile) -> bool:
    """Whether some lines of a CSV file end with a carriage return and others do not."""
    ends = set()
    if file.is_csv and not file.has_mixed_ends:
        with open_bytes(file.path) as lines:
            ends = {line.endswith(b"\r\n") for line in lines if line.endswith(b"\n")}
    return len(ends) > 1


def quote_path(path: Path) -> str:
    """Spell a path in SQL; brackets keep DuckDB from taking a character for a pattern."""
    return "'" + re.sub(r"[*?\[]", r"[\g<0>]", str(path)).replace("'", "''") + "'"


def _not_utf8(path: Path) -> DataError:
    with open_bytes(path) as lines:
        for number, line in enumerate(lines, 1):
            if "\ufffd" in line.decode(errors="replace"):
                return DataError(f"{path}, line {number}: is not UTF-8 text; save the file as UTF-8")
    return DataError(f"{path}: is not UTF-8 text; save the file as UTF-8")
