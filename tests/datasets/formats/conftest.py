"""Every reader is tested with both sinks: what it gives, and what it refuses, must be the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hpn.datasets import Graph
from hpn.datasets.store import StoreWriter, open_store

Read = Callable[..., Graph]


@pytest.fixture(params=["memory", "store"])
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Call a reader, such as ``read(load_npz, path)``; nothing may be left of a store that failed."""

    def into_store(loader: Read, *source: Any, **options: Any) -> Graph:
        place = tmp_path_factory.mktemp("sink") / "store"
        with StoreWriter(place) as store:
            try:
                loader(*source, store, **options)
            finally:
                assert store.is_finished == place.exists()
        assert [path.name for path in place.parent.iterdir()] == ["store"]
        return open_store(place)

    return into_store if request.param == "store" else lambda loader, *args, **options: loader(*args, **options)


@pytest.fixture(scope="session")
def write_tables() -> Callable[..., Path]:
    """Write a nodes and an edges table: text and bytes as CSV, columns as Parquet."""

    def write(folder: Path, nodes: Any = None, edges: Any = None) -> Path:
        folder.mkdir(exist_ok=True)
        for name, table in (("nodes", nodes), ("edges", edges)):
            if isinstance(table, str | bytes):
                content = table.encode() if isinstance(table, str) else table
                (folder / f"{name}.csv").write_bytes(content)
            elif table is not None:
                write_parquet(folder / f"{name}.parquet", table)
        return folder

    return write


def write_parquet(path: Path, columns: dict[str, Any], options: str = "") -> None:
    """Write columns, each a list of values, or a pair of a type of DuckDB and a list."""
    shown, values = [], []
    for name, column in columns.items():
        kind, content = column if isinstance(column, tuple) else (None, column)
        shown.append(f'unnest({f"?::{kind}[]" if kind else "?"}) AS "{name}"')
        values.append(content if isinstance(content, list) else content.tolist())
    duckdb.connect().execute(f"COPY (SELECT {', '.join(shown)}) TO '{path}' (FORMAT parquet {options})", values)
