"""Every reader is tested with both sinks: its graphs and its errors must be the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hpn.datasets import Graph
from hpn.datasets.store import StoreWriter, open_store
from hpn.errors import DataError

Read = Callable[..., Graph]


@pytest.fixture
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Call a reader, such as ``read(load_npz, path)``, with both sinks; a store that failed leaves nothing."""

    def read_twice(loader: Read, *source: Any, **options: Any) -> Graph:
        place = tmp_path_factory.mktemp("sink") / "store"
        expected: Any = None
        try:
            expected = loader(*source, **options)
        except DataError as error:
            with pytest.raises(DataError, match=f"^{re.escape(str(error))}$"), StoreWriter(place) as store:
                loader(*source, store, **options)
            assert list(place.parent.iterdir()) == []
            raise
        with StoreWriter(place) as store:
            loader(*source, store, **options)
        assert [path.name for path in place.parent.iterdir()] == ["store"]
        opened = open_store(place)
        assert opened.fingerprint() == expected.fingerprint()
        return opened

    return read_twice


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
