"""The readers of the package keep the contract, and one that breaks a rule is found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import torch

from hpn.datasets import Graph
from hpn.datasets.formats.npz import load_npz
from hpn.datasets.formats.tables.read import load_tables
from hpn.datasets.sink import Sink, write_graph
from hpn.errors import DataError
from hpn.testing import check_format


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.txt"
    path.write_text("1.5 0\n2.5 1\n0.5 0\n")
    return path


def read_text(path: Path, sink: Any = None) -> Graph:
    """Features and labels, one node per line; the nodes are a path."""
    try:
        rows = np.loadtxt(path, ndmin=2)
        y = torch.from_numpy(rows[:, 1].copy()).long()
        nodes = torch.arange(len(rows))
        graph = Graph.build("text", x=torch.from_numpy(rows[:, :1]).float(), links=torch.stack([nodes, nodes]), y=y)
    except (OSError, ValueError, IndexError) as error:
        raise DataError(f"{path}: cannot be read ({type(error).__name__})") from error
    return write_graph(sink or Sink(), graph)


def write_tables(folder: Path, suffix: str) -> Path:
    folder.mkdir()
    for name, rows in (("nodes", "(1, 'x', 0.5), (2, 'y', 1.5), (3, 'x', 0.25)"), ("edges", "(1, 2), (2, 3)")):
        columns = "id, label, a" if name == "nodes" else "source, target"
        duckdb.execute(f"COPY (FROM (VALUES {rows}) t({columns})) TO '{folder / name}{suffix}'")
    return folder


def write_npz(path: Path) -> Path:
    adjacency = {"adj_data": np.ones(2), "adj_indices": np.array([1, 2]), "adj_indptr": np.array([0, 1, 2, 2])}
    np.savez(path, **adjacency, adj_shape=[3, 3], attr_matrix=np.eye(3), labels=np.array([0, 1, 0]))
    return path


def test_readers_of_the_package(tmp_path: Path) -> None:
    tables = [(load_tables, write_tables(tmp_path / kind, kind)) for kind in (".csv", ".csv.gz", ".parquet")]
    for reader, path in (*tables, (load_npz, write_npz(tmp_path / "graph.npz"))):
        for name, verdict in check_format(reader, path).items():
            assert (verdict.outcome, verdict.reason) == ("passed", ""), (name, path)


def test_a_reader_of_ones_own(text_file: Path) -> None:
    verdicts = check_format(read_text, text_file, raise_on_failure=True)
    assert list(verdicts) == [name for _, name, _ in BROKEN]


def appends(path: Path, sink: Any = None) -> Graph:
    graph = read_text(path, sink)
    path.write_text(path.read_text() + "1 1\n")
    return graph


def ignores_masks(path: Path, sink: Any = None) -> Graph:
    graph = read_text(path)
    return write_graph(sink, Graph.build("other", x=graph.x + 1, links=graph.edge_index, y=graph.y)) if sink else graph


def invents(path: Path, sink: Any = None) -> Graph:
    if not path.exists():
        path.write_text("1 0\n")
    return read_text(path, sink)


def lets_errors_past(path: Path, sink: Any = None) -> Graph:
    try:
        return read_text(path, sink)
    except DataError as error:
        if "FileNotFoundError" in str(error):
            raise
        raise KeyError("line") from error


BROKEN = [
    (appends, "graph_is_read_alike_twice", "give different graphs"),
    (ignores_masks, "store_equals_memory", "x differ between memory and a store"),
    (invents, "missing_files_are_named", "is read without an error"),
    (lets_errors_past, "damaged_files_give_a_graph_or_an_error", "raises KeyError, not an error of hpn"),
]


@pytest.mark.parametrize(("reader", "name", "expected"), BROKEN)
def test_each_check_can_fail(reader: Callable[..., Graph], name: str, expected: str, text_file: Path) -> None:
    verdict = check_format(reader, text_file)[name]
    assert verdict.outcome == "failed"
    assert expected in verdict.reason
