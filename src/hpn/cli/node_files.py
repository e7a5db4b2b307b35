"""Files of nodes that commands read and write: ids and predictions."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hpn.errors import ConfigError, DataError, describe_disk_full, disk_full
from hpn.experiment.run.folder import write_atomic

ID_NAMES = ("id", "node", "node_id")
COLUMNS = {
    "id": "VARCHAR",
    "class": "VARCHAR",
    "probability": "DOUBLE",
    "second_class": "VARCHAR",
    "second_probability": "DOUBLE",
}
"""Columns of predictions and their types; ids that are whole numbers stay whole numbers."""


def read_ids_file(path: Path) -> list[Any]:
    """Read ids from the column ``id`` of a CSV or Parquet table, or from a text file with one id per line."""
    import duckdb

    is_parquet = path.suffix == ".parquet"
    try:
        rows = _read_parquet(path) if is_parquet else _read_csv(path)
    except (OSError, UnicodeDecodeError, csv.Error, duckdb.Error) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise DataError(f"cannot read {path} ({reason})") from None
    names = [str(name).lower() for name in rows[0]] if rows else []
    at = next((names.index(name) for name in ID_NAMES if name in names), None)
    if at is None and (is_parquet or any(len(row) > 1 for row in rows)):
        columns = ", ".join(names[:8])
        raise DataError(f"{path} has no column id (columns: {columns}); name one of them id")
    ids = [row[at or 0] if len(row) > (at or 0) else None for row in rows[0 if at is None else 1 :]]
    if not ids:
        raise DataError(f"{path} has no ids; give a table with a column id")
    if None in ids:
        raise DataError(f"{path}: row {ids.index(None) + 1} has no id; give every row one")
    return ids


def _read_csv(path: Path) -> list[Sequence[Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = ([cell.strip() for cell in row] for row in csv.reader(file))
        return [row for row in rows if any(row)]


def _read_parquet(path: Path) -> list[Sequence[Any]]:
    from hpn.datasets.formats.tables.files import open_database, quote_path

    with open_database(None) as database:
        rows = database.execute(f"FROM read_parquet({quote_path(path)})")
        return [[column[0] for column in rows.description or ()], *rows.fetchall()]


def check_table(path: Path, graph: Path) -> None:
    """Refuse a file that predictions cannot be written to, before they are made."""
    if path.suffix not in {".csv", ".parquet"}:
        raise ConfigError(f"--out {path}: expected a name that ends in .csv or .parquet, or - for standard output")
    if not path.parent.is_dir():
        raise ConfigError(f"--out {path}: there is no folder {path.parent}; create it first")
    if path.is_dir():
        raise ConfigError(f"--out {path} is a folder; give the name of a file")
    folder = graph if graph.is_dir() else graph.parent
    is_table = "nodes" in path.name or "edges" in path.name
    if path.is_file() and is_table and path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"--out {path} is a file of the graph; choose another name")


def write_table(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    """Write predictions as CSV or Parquet; an earlier file stays until the new one is complete."""
    try:
        write_atomic(path, to_csv(rows).encode() if path.suffix == ".csv" else _to_parquet(rows))
    except Exception as error:
        if not disk_full(error):
            raise
        kept = "the earlier file is kept" if path.is_file() else "no prediction is written"
        raise DataError(describe_disk_full(path, kept)) from error


def _to_parquet(rows: Sequence[Sequence[Any]]) -> bytes:
    import numpy as np

    from hpn.datasets.formats.tables.files import open_database

    has_whole_ids = all(isinstance(row[0], int) for row in rows)
    types = {**COLUMNS, "id": "BIGINT" if has_whole_ids else "VARCHAR"}
    casts = ", ".join(f"{name}::{kind} AS {name}" for name, kind in types.items())
    columns = {name: np.array([row[at] for row in rows], object) for at, name in enumerate(COLUMNS)}
    with tempfile.TemporaryDirectory() as folder, open_database(None) as database:
        database.register("predictions", columns)
        database.sql(f"SELECT {casts} FROM predictions").write_parquet(f"{folder}/predictions")
        return Path(folder, "predictions").read_bytes()


def to_csv(rows: Iterable[Sequence[Any]]) -> str:
    """Predictions as CSV with a header; probabilities have all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return text.getvalue()
