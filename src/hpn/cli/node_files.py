"""Files about nodes that commands read and write: ids, and predictions."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hpn.errors import ConfigError, DataError, describe_disk_full, disk_full
from hpn.experiment.run.folder import write_atomic

ID_NAMES = ("id", "node", "node_id")
COLUMNS = ("id", "class", "probability", "second_class", "second_probability")


def read_ids_file(path: Path) -> list[Any]:
    """Read ids from the column ``id`` of a CSV or Parquet table, or from a text file with one id per line.

    Raises:
        DataError: If the file cannot be read or has no ids.
    """
    try:
        found = _read_parquet(path) if path.suffix == ".parquet" else _read_text(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {path} ({getattr(error, 'strerror', None) or error})") from None
    if not found:
        raise DataError(f"{path} has no ids; give a table with a column id")
    return found


def _read_text(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    names = [cell.strip().lower() for cell in rows[0]] if rows else []
    at = next((names.index(name) for name in ID_NAMES if name in names), None)
    if at is None and len(names) > 1:
        raise DataError(f"{path} has no column id; its columns are {', '.join(names[:8])}")
    body = rows if at is None else rows[1:]
    if at is None and any(len(row) > 1 for row in rows):
        raise DataError(
            f"{path} has no column id, and rows of several values; name the columns in its first line"
        )
    wrong = next((number for number, row in enumerate(body, 1) if len(row) <= (at or 0)), None)
    if wrong is not None:
        raise DataError(f"{path}: row {wrong} has no id; give every row one")
    return [row[at or 0].strip() for row in body]


def _read_parquet(path: Path) -> list[Any]:
    import duckdb

    from hpn.datasets.formats.table_files import open_database, quote_path

    try:
        with open_database(None) as database:
            rows = database.execute(f"FROM read_parquet({quote_path(path)})")
            names = [str(column[0]) for column in rows.description or ()]
            at = next((place for place, name in enumerate(names) if name.lower() in ID_NAMES), None)
            if at is None:
                raise DataError(f"{path} has no column id; its columns are {', '.join(names[:8])}")
            return [row[at] for row in rows.fetchall()]
    except duckdb.Error as error:
        raise DataError(f"cannot read {path} ({str(error).splitlines()[0]})") from None


def check_table(path: Path, graph: Path) -> None:
    """Refuse a file that predictions cannot be written to, before they are made.

    Raises:
        ConfigError: If its name ends in neither ``.csv`` nor ``.parquet``, it is a file of the graph or a
            folder, or its folder does not exist.
    """
    if path.suffix not in {".csv", ".parquet"}:
        raise ConfigError(
            f"--out {path}: expected a name that ends in .csv or .parquet, or - for standard output"
        )
    if not path.parent.is_dir():
        raise ConfigError(f"--out {path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise ConfigError(f"--out {path} is a folder; give the name of a file")
    folder = graph if graph.is_dir() else graph.parent
    is_table = "nodes" in path.name or "edges" in path.name
    if path.is_file() and is_table and path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"--out {path} is a file of the graph; choose another name")


def write_table(path: Path, rows: Iterable[Sequence[Any]], has_whole_ids: bool) -> None:
    """Write predictions as CSV or Parquet; an earlier file stays until the new one is complete.

    Raises:
        DataError: If the disk is full.
    """
    try:
        _write(path, to_csv(rows), has_whole_ids)
    except Exception as error:
        if not disk_full(error):
            raise
        kept = "the earlier file is kept" if path.is_file() else "no prediction is written"
        raise DataError(describe_disk_full(path, kept)) from error


def _write(path: Path, text: str, has_whole_ids: bool) -> None:
    if path.suffix == ".csv":
        write_atomic(path, text.encode())
        return
    from hpn.datasets.formats.table_files import open_database, quote_path

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    source = part.with_suffix(".csv")
    kinds = ("BIGINT" if has_whole_ids else "VARCHAR", "VARCHAR", "DOUBLE", "VARCHAR", "DOUBLE")
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in zip(COLUMNS, kinds, strict=True))
    try:
        source.write_text(text, encoding="utf-8", newline="")
        options = f"header = true, columns = {{{columns}}}, auto_detect = false, quote = '\"'"
        reader = f"read_csv({quote_path(source)}, {options})"
        target = "'" + str(part).replace("'", "''") + "'"
        with open_database(None) as database:
            database.execute(f"COPY (SELECT * FROM {reader}) TO {target} (FORMAT parquet)")
        part.replace(path)
    finally:
        source.unlink(missing_ok=True)
        part.unlink(missing_ok=True)


def to_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Predictions as CSV with a header; probabilities with all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return text.getvalue()
