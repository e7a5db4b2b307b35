"""Graphs in CSV and Parquet tables: what is read, and the message if it cannot be read."""

import csv
import gzip
import io
import tempfile
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets import edges as edges_module
from hpn.datasets import load_graph
from hpn.datasets.formats.tables import features as features_module
from hpn.datasets.formats.tables import files as files_module
from hpn.datasets.formats.tables.read import load_tables
from hpn.errors import DataError

# Isolated node d; a-b in both directions and twice; a self-loop at c.
NODES = "id,label,f0,f1\na,cat,0.5,1\nb,dog,1.5,-2\nc,cat,2,3e2\nd,,0,0\n"
EDGES = "source,target\na,b\nb,a\na,b\nc,c\nb,c\n"
NODE_COLUMNS = {
    "id": ["a", "b", "c", "d"],
    "label": ["cat", "dog", "cat", None],
    "f0": [0.5, 1.5, 2.0, 0.0],
    "f1": [1, -2, 300, 0],
}
EDGE_COLUMNS = {"source": list("abacb"), "target": list("babcc")}
NAN = float("nan")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Several blocks for every table; that a single one gives the same is what other tests expect."""
    monkeypatch.setattr(features_module, "_BLOCK_ROWS", 2)
    monkeypatch.setattr(files_module, "_LINKS_AT_ONCE", 2)
    monkeypatch.setattr(edges_module, "SORTED_AT_ONCE", 3)


def assert_toy(graph):
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.num_links == 5
    assert graph.x.dtype == torch.float32
    assert graph.x.tolist() == [[0.5, 1], [1.5, -2], [2, 300], [0, 0]]
    assert graph.y.tolist() == [0, 1, 0, -1]
    assert graph.class_names == ("cat", "dog")
    assert graph.node_ids.tolist() == ["a", "b", "c", "d"]
    assert graph.masks is None


def error_of(path, read=None, **options):
    with pytest.raises(DataError) as error:
        read(load_tables, path, **options) if read else load_tables(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("nodes", [NODES, NODE_COLUMNS], ids=["CSV", "Parquet"])
@pytest.mark.parametrize("edges", [EDGES, EDGE_COLUMNS], ids=["CSV", "Parquet"])
def test_reads_tables_of_any_kind(tmp_path, write_tables, read, nodes, edges):
    graph = read(load_tables, write_tables(tmp_path, nodes, edges))
    assert_toy(graph)
    assert graph.name == tmp_path.name
    assert graph.feature_names == ("f0", "f1")
    assert graph.column_kinds == {"f0": "number", "f1": "number"}
    notes = ("1 self-loop dropped", "1 duplicate edge merged", "1 edge with one direction only, used in both")
    assert graph.notes == notes


def test_reads_gzip(tmp_path, write_tables, read):
    write_tables(tmp_path, NODES, None)
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(EDGES.encode()))
    assert_toy(read(load_tables, tmp_path))
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress(EDGES.encode())[:-9])
    assert "edges.csv.gz: is cut short or damaged" in error_of(tmp_path)


@pytest.mark.parametrize("name", ["{}-{}.csv", "{}/part {}.csv"])
def test_a_table_may_be_cut_into_files(tmp_path, read, name):
    header, *rows = NODES.splitlines(keepends=True)
    for number, part in enumerate([rows[:2], rows[2:]]):
        path = tmp_path / name.format("nodes", number)
        path.parent.mkdir(exist_ok=True)
        path.write_text(header + "".join(part))
        path = tmp_path / name.format("edges", number)
        path.parent.mkdir(exist_ok=True)
        path.write_text(EDGES if number else "target,source\n")
    assert_toy(read(load_tables, tmp_path))
    path.write_text(EDGES.replace("c,c", "c,z"))
    assert f"{path}, line 5, column 'target': 'z'" in error_of(tmp_path)
    nodes = tmp_path / name.format("nodes", 1)
    nodes.write_text(header + rows[2] + rows[3].replace("0,0", "0,x"))
    assert f"{nodes}, line 3, column 'f1': 'x' is not a number" in error_of(tmp_path)
    nodes.write_text("id,label,f0\nx,y,1\n")
    assert f"{nodes}: lacks column 'f1', unlike" in error_of(tmp_path)


def test_reads_the_nodes_table_given_by_its_path(tmp_path, write_tables):
    write_tables(tmp_path, NODES, EDGES)
    nodes = (tmp_path / "nodes.csv").rename(tmp_path / "my_nodes_2.csv")
    (tmp_path / "edges.csv").rename(tmp_path / "my_edges_2.csv")
    graph = load_tables(nodes)
    assert graph.name == "my_nodes_2.csv"
    assert_toy(graph)


def test_paths_are_not_patterns(tmp_path, write_tables):
    write_tables(tmp_path / "d1", "id,label,f\nx,y,1\n", "u,v\n")
    assert_toy(load_tables(write_tables(tmp_path / "d[1]'s", NODES, EDGES)))


SPELLINGS = {
    "header case and spaces": (NODES.replace("id,label", "ID, Label "), EDGES),
    "aliases": (NODES, EDGES.replace("source,target", "SRC,dst")),
    "from and to": (NODES, EDGES.replace("source,target", "from,to")),
    "swapped and extra columns": (
        NODES,
        "weight,to,from,note\n" + "".join(f"1,{t},{s},é\n" for s, t in ["ab", "ba", "ab", "cc", "bc"]),
    ),
    "byte order mark": ("\ufeff" + NODES, "\ufeff" + EDGES),
    "Windows lines": (NODES.replace("\n", "\r\n"), EDGES.replace("\n", "\r\n")),
    "empty lines": ("\n" + NODES.replace("\n", "\n\n"), EDGES + "\n\n"),
    "quotes": (NODES.replace("a,cat", '"a","cat"'), EDGES),
    "spaces": (NODES.replace(",", ", "), EDGES.replace(",", " , ")),
    "list": ('id,label,features\na,cat,0.5 1\nb,dog,"[1.5, -2]"\nc,cat,2;3e2\nd,,"(0,0)"\n', EDGES),
}


@pytest.mark.parametrize(("nodes", "edges"), SPELLINGS.values(), ids=SPELLINGS)
def test_spelling_makes_no_difference(tmp_path, write_tables, nodes, edges):
    assert_toy(load_tables(write_tables(tmp_path, nodes, edges)))


def test_other_words_for_the_same_columns(tmp_path, read):
    (tmp_path / "my-nodes.csv").write_text("node_id,class,feat\na,1,0.5 1\nb,0,2 3\n")
    (tmp_path / "my-edges.csv").write_text("u,v\na,b\n")
    graph = read(load_tables, tmp_path)
    assert graph.y.tolist() == [1, 0]
    assert graph.x.tolist() == [[0.5, 1.0], [2.0, 3.0]]
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
    assert graph.feature_names is None
    (tmp_path / "other-nodes.csv").touch()
    expected = "more than one nodes table, my-nodes.csv and other-nodes.csv"
    assert expected in error_of(tmp_path)


LISTS = [[0.5, 1.0], [1.5, -2.0], [2.0, 300.0], [0.0, 0.0]]


@pytest.mark.parametrize("kind", ["FLOAT[]", "DOUBLE[2]", "DECIMAL(9,2)[]"])
@pytest.mark.parametrize("name", ["x", "Features", "embedding"])
def test_parquet_list_column(tmp_path, write_tables, kind, name):
    nodes = {key: NODE_COLUMNS[key] for key in ("id", "label")} | {name: (kind, LISTS)}
    assert_toy(load_tables(write_tables(tmp_path, nodes, EDGES)))


@pytest.mark.parametrize("kind", ["UTINYINT", "BIGINT", "UBIGINT", "DOUBLE", "VARCHAR"])
@pytest.mark.parametrize("edge_kind", ["INTEGER", "FLOAT", "VARCHAR", "BLOB", "DECIMAL(18,0)"])
def test_ids_of_different_types_match(tmp_path, write_tables, kind, edge_kind):
    table = {"id": (kind, ["10", "20"]), "label": [0, 1], "f": [1, 2]}
    edges = {"u": (edge_kind, ["10", "20"]), "v": (edge_kind, ["20", "10"])}
    graph = load_tables(write_tables(tmp_path, table, edges))
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
    assert graph.node_ids.dtype == np.int64


IDS = {
    "dense": [0, 1, 2, 3, 4],
    "far apart": [10**12, -(10**9), 5, 2**63 - 1, -(2**63)],
    "beyond int64": ("UBIGINT", [2**64 - 1, 1, 2**63, 9, 7]),
    "text": ["b", "a", "ü", " a", "7"],
    "numbers as text": ["10", "7", "-3", "0", "99999999999999999"],
    "alike but not the same": ["7", "7\n", "07", "+7", "7.0"],
    "whole floats": [3.0, 1.0, 1e15, 4.0, 2.0],
    "fractions": [3.0, 1.0, 1e15, 4.5, 2.0],
    "categories": ("ENUM('v', 'w', 'x', 'y', 'z')", ["z", "y", "x", "w", "v"]),
    "bytes": [b"10", b"20", b"30", b"40", b"x"],
    "decimals": [Decimal("1.50"), Decimal(2), Decimal(3), Decimal(4), Decimal(5)],
    "Booleans and dates": ("DATE", [f"2020-01-0{day}" for day in range(1, 6)]),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_ids_of_every_kind(tmp_path, write_tables, read, ids):
    kind, values = ids if isinstance(ids, tuple) else (None, ids)
    turned = values[1:] + values[:1]
    nodes = {"id": ids, "label": [0, 1, 2, 0, 1], "f": [1, 2, 3, 4, 5]}
    edges = {"source": ids, "target": (kind, turned) if kind else turned}
    graph = read(load_tables, write_tables(tmp_path, nodes, edges))
    assert graph.num_edges == 5
    assert graph.index(graph.node_ids).tolist() == [0, 1, 2, 3, 4]
    is_whole = all(str(value).removesuffix(".0").lstrip("-").isdigit() for value in values)
    assert (graph.node_ids.dtype == np.int64) == (is_whole and "07" not in values and 2**63 not in values)


def test_csv_ids_keep_their_spelling(tmp_path, write_tables, read):
    nodes = "id,label,f\n7,a,1\n007,b,2\n7.0,a,3\nNA,b,4\n-0,b,5\n"
    graph = read(load_tables, write_tables(tmp_path, nodes, "src,dst\n007,NA\n7.0,-0\n"))
    assert graph.edge_index.tolist() == [[1, 2, 3, 4], [3, 4, 1, 2]]
    assert graph.node_ids.tolist() == ["7", "007", "7.0", "NA", "-0"]


LABELS = {
    "kept": (["2", "0", "1"], [2, 0, 1], ("0", "1", "2")),
    "by size": (["10", "9", "-1"], [1, 0, -1], ("9", "10")),
    "by spelling": (["10", "9", "b"], [0, 1, 2], ("10", "9", "b")),
    "whole floats": (["10.0", "", "9.0"], [1, -1, 0], ("9", "10")),
    "fractions": (["1.5", "1.25", ""], [1, 0, -1], ("1.25", "1.5")),
    "one class two spellings": (["1", "01", "1.0"], [0, 0, 0], ("1",)),
    "text and -1": (["b", "a", "-1"], [1, 0, -1], ("a", "b")),
    "text and whole": (["01", "new", "2.0"], [0, 2, 1], ("1", "2", "new")),
    "Parquet floats": ([10.0, NAN, 9.0], [1, -1, 0], ("9", "10")),
    "Parquet integers": ([10, None, 9], [1, -1, 0], ("9", "10")),
    "Parquet Booleans": ([True, False, None], [1, 0, -1], ("false", "true")),
    "Parquet categories": (("ENUM('x', 'y')", ["y", None, "x"]), [1, -1, 0], ("x", "y")),
    "only the last": ([None, "", "x"], [-1, -1, 0], ("x",)),
}


@pytest.mark.parametrize(("labels", "y", "names"), LABELS.values(), ids=LABELS)
def test_class_numbers(tmp_path, write_tables, read, labels, y, names):
    nodes = {"id": [1, 2, 3], "label": labels, "f": [1, 2, 3]}
    if isinstance(labels, list) and isinstance(labels[0], str):
        nodes = "id,label,f\n" + "".join(f"{i},{label},1\n" for i, label in enumerate(labels))
    graph = read(load_tables, write_tables(tmp_path, nodes, "src,dst\n"))
    assert (graph.y.tolist(), graph.class_names) == (y, names)
    assert graph.num_links == graph.num_edges == 0


@pytest.mark.parametrize("nodes", ["id,f\na,1\nb,2\n", "id,label,f\na,,1\nb,,2\n"], ids=["no column", "empty"])
def test_labels_may_be_optional(tmp_path, write_tables, nodes):
    graph = load_graph(write_tables(tmp_path, nodes, "u,v\na,b\n"), labels="optional")
    assert (graph.y.tolist(), graph.class_names, graph.feature_names) == ([-1, -1], (), ("f",))


def test_split_column(tmp_path, write_tables, read):
    parts = ["train", "Val", "valid", " validation", "test", ""]
    nodes = "id,label,split,f\n" + "".join(f"{i},a,{part},1\n" for i, part in enumerate(parts))
    graph = read(load_tables, write_tables(tmp_path, nodes, "src,dst\n"))
    assert graph.split_rule == "given"
    assert graph.masks.train.nonzero().flatten().tolist() == [0]
    assert graph.masks.val.nonzero().flatten().tolist() == [1, 2, 3]
    assert graph.masks.test.nonzero().flatten().tolist() == [4]


@pytest.mark.parametrize("parts", [[None, None], ["", " "], [NAN, NAN]], ids=["null", "empty", "nan"])
def test_an_empty_split_column_is_not_a_split(tmp_path, write_tables, read, parts):
    nodes = {"id": [1, 2], "label": ["a", "b"], "split": parts, "f": [1, 2]}
    graph = read(load_tables, write_tables(tmp_path, nodes, "src,dst\n"))
    assert graph.masks is None
    assert graph.split_rule == "seeded"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2", "-1", "2", "7"], [2, -1, 2, 7]),
        (["2024-01-31", "2023-12-01 10:30:00", "2024-01-31", "1999-06-05"], [20240131, 20231201, 20240131, 19990605]),
        ([2.0, 3.0, 2.0, 4.0], [2, 3, 2, 4]),
        (("DATE", ["2024-01-31"] * 4), [20240131] * 4),
    ],
    ids=["numbers", "dates", "whole floats", "dates of Parquet"],
)
def test_times(tmp_path, write_tables, read, values, expected):
    is_csv = isinstance(values, list) and isinstance(values[0], str)
    lines = NODES.strip().split("\n")
    nodes = NODE_COLUMNS | {"when": values}
    if is_csv:
        nodes = "\n".join(f"{line},{word}" for line, word in zip(lines, ["when", *values], strict=True))
    graph = read(load_tables, write_tables(tmp_path, nodes, EDGES), time="when")
    assert graph.node_time.tolist() == expected
    assert graph.feature_names == ("f0", "f1"), "the time is not a feature"
    assert load_graph(tmp_path, time="when").fingerprint() == graph.fingerprint()


@pytest.mark.parametrize(
    ("word", "column", "expected"),
    [
        ("1.5", "when", "line 4, column 'when': '1.5' is not a time; give every node a whole number or a date"),
        ("", "when", "line 4, column 'when': is empty; give every node"),
        ("2024-01-31", "when", "line 4, column 'when': '2024-01-31' is not a time"),
        ("3", "wen", "has no column 'wen' for the time; did you mean 'when'?"),
        ("3", "id", "column 'id' cannot be the time: it is the id"),
    ],
)
def test_bad_times_are_named(tmp_path, write_tables, word, column, expected):
    nodes = f"id,label,f,when\na,x,1,2\nb,y,2,2\nc,x,3,{word}\n"
    assert expected in error_of(write_tables(tmp_path, nodes, "source,target\na,a\n"), time=column)


def test_edges_with_unknown_ends_can_be_dropped(tmp_path, write_tables, read):
    folder = write_tables(tmp_path, NODES, EDGES + "a,z\n,b\nz,z\n")
    assert "edges.csv, line 7, column 'target': 'z' is not the id of a node" in error_of(folder)
    graph = read(load_tables, folder, unknown_edges="drop")
    assert_toy(graph)
    assert graph.notes[0] == "3 edges with an unknown end dropped"


TWO = {"id": ["a", "b"], "label": ["cat", "dog"]}
THREE = {"id": [1, 2, 3], "label": [1, 1, 1]}
BAD_NODES = {
    "duplicate id": ("id,label,f\na,x,1\n\nb,y,2\nc,y,2\na,x,3\n", "line 6, column 'id': id 'a' is given to an"),
    "duplicate number": ({"id": [5, 7, 9, 7], "label": [1] * 4, "f": [1] * 4}, "row 4, column 'id': id '7'"),
    "empty id": ("id,label,f\na,x,1\nc,x,1\n,y,2\n", "nodes.csv, line 4, column 'id': the id is empty"),
    "null id": (THREE | {"id": [1, 2, None], "f": [1] * 3}, "nodes.parquet, row 3, column 'id'"),
    "no id": ("name,label,f\na,x,1\n", "nodes.csv: has no column 'id'; found: name, label, f"),
    "no label": ("id,f\na,1\n", "nodes.csv: has no column 'label'"),
    "two ids": ("id,Id,label,f\na,a,x,1\n", "nodes.csv: columns 'id' and 'Id' both mean the id"),
    "twice a feature": ("id,label,f,f\na,x,1,2\n", "nodes.csv: column 'f' appears twice"),
    "no features": ("id,label\na,x\n", "nodes.csv: has no feature columns"),
    "short line": ("id,label,f\na,x,1\nb,x,1\n\nd,y\n", "nodes.csv, line 5: 2 values where the header has 3"),
    "word": ("id,label,f,g\na,x,1,1\nb,x,2,2\nc,x,2,abc\n", "nodes.csv, line 4, column 'g': 'abc' is not a number"),
    "after a long value": (
        'id,label,f,g\na,x,1,"two\nlines"\nb,x,q,z\n',
        "nodes.csv, line 4, column 'f': 'q' is not a number",
    ),
    "date": ("id,label,f\na,x,2020-01-01\n", "nodes.csv, line 2, column 'f': '2020-01-01' is not a number"),
    "missing": ("id,label,f\na,x,1\nc,x,2\nb,x,\n", "nodes.csv, line 4, column 'f': the value is missing"),
    "infinite": ("id,label,f\na,x,1\nb,x,inf\n", "nodes.csv, line 3, column 'f': inf is not a finite float32"),
    "null": (THREE | {"f": [1, 1, None]}, "nodes.parquet, row 3, column 'f': the value is missing"),
    "text": (THREE | {"f": ["1", "2", "one"]}, "nodes.parquet, row 3, column 'f': 'one' is not a number"),
    "list with another": (TWO | {"x": [[1], [2]], "f": [1, 2]}, "column 'x': holds INTEGER[]; a list must be"),
    "ragged list": (
        {"id": [1, 2, 3, 4], "label": [1] * 4, "x": [[1, 2], [1, 2], [2], [1, 2]]},
        "nodes.parquet, row 3, column 'x': the list has 1 values, that of the first node 2",
    ),
    "list of words": ("id,label,x\na,x,1 2\nb,x,1 2\nc,x,1 z\n", "line 4, column 'x': 'z' is not a number"),
    "null list": (THREE | {"x": [[1, 2], [1, 2], None]}, "row 3, column 'x': the list is empty"),
    "empty lists": (TWO | {"x": ("DOUBLE[]", [[], []])}, "the list has 0 values"),
    "no label at all": ("id,label,f\na,,1\nb,,2\n", "nodes.csv, column 'label': no node has a label"),
    "unknown part": (
        "id,label,split,f\na,x,train,1\nb,x,,1\nc,x,tset,1\n",
        "nodes.csv, line 4, column 'split': 'tset' is not one of train, val and test",
    ),
    "no rows": ("id,label,f\n", "nodes.csv: the table has no rows"),
    "empty file": ("", "nodes.csv: the file is empty"),
    "Latin-1": ("id,label,f\na,x,1\nb,x,1\na,é,1\n".encode("latin-1"), "nodes.csv, line 4: is not UTF-8"),
    "bad quotes": ('id,label,f\na,"x"y,1\n', "nodes.csv, line 2: a quote is not closed"),
    "mixed line ends": ("id,label,f\r\na,x,1\nb,x\r\nc,x,1\n", "nodes.csv, line 3"),
}


@pytest.mark.parametrize("first", ["\n", "\r\n"])
def test_lines_may_end_in_several_ways(tmp_path, write_tables, read, first):
    """As when one program appends to the file of another."""
    other = "\n" if first == "\r\n" else "\r\n"
    nodes = f"id,label,f{first}a,x,1{first}b,y,2{other}c,x,3{other}"
    graph = read(load_tables, write_tables(tmp_path, nodes, f"u,v{first}a,b{other}"))
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert graph.x.flatten().tolist() == [1, 2, 3]
    assert graph.class_names == ("x", "y")
    assert graph.num_edges == 1


@pytest.mark.parametrize(("nodes", "expected"), BAD_NODES.values(), ids=BAD_NODES)
def test_bad_nodes_are_named(tmp_path, write_tables, nodes, expected):
    assert expected in error_of(write_tables(tmp_path, nodes, "source,target\na,a\n"))


BAD_EDGES = {
    "unknown source": ("u,v\na,b\nb,c\nz,b\n", "edges.csv, line 4, column 'u': 'z' is not the id of a node"),
    "unknown target": ("u,v\na,b\na,b\na,7\n", "edges.csv, line 4, column 'v': '7' is not the id of a node"),
    "empty end": ("u,v\na,b\na,b\na,\n", "edges.csv, line 4, column 'v': is empty"),
    "no target": ("source,weight\na,1\n", "edges.csv: has no column 'target'; found: source, weight"),
    "two sources": ("source,src,target\na,a,b\n", "columns 'source' and 'src' both mean the source"),
    "ragged": ("u,v\na,b\na,b\na,b,c\n", "edges.csv, line 4: 3 values where the header has 2"),
    "empty file": ("", "edges.csv: the file is empty"),
    "Latin-1": ("u,v\na,b\na,b\na,b\na,é\n".encode("latin-1"), "edges.csv, line 5: is not UTF-8"),
}


@pytest.mark.parametrize(("edges", "expected"), BAD_EDGES.values(), ids=BAD_EDGES)
def test_bad_edges_are_named(tmp_path, write_tables, read, edges, expected):
    assert expected in error_of(write_tables(tmp_path, NODES, edges), read)


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({"u": [1, 2, 4], "v": [1, 2, 5]}, "edges.parquet, row 3, column 'u': '4' is not the id of a node"),
        ({"u": [1, 2, 1], "v": ("UBIGINT", [1, 2, 2**64 - 1])}, "row 3, column 'v': '1844674"),
        ({"u": [1, 2, None], "v": [1, 2, 5]}, "edges.parquet, row 3, column 'u': is empty"),
        ({"u": [1.0, 2.0, NAN], "v": [1, 2, 5]}, "edges.parquet, row 3, column 'u': is empty"),
        ({"u": ["1", "2", "01"], "v": [1, 2, 5]}, "edges.parquet, row 3, column 'u': '01' is not the id"),
        ("u,v\n1,2\n2,1\n1,01\n", "edges.csv, line 4, column 'v': '01' is not the id of a node"),
        ("u,v\n1,2\n2,1\n1,1.0\n", "edges.csv, line 4, column 'v': '1.0' is not the id of a node"),
    ],
)
def test_bad_edges_between_numbered_nodes(tmp_path, write_tables, edges, expected):
    nodes = {"id": [10**12, 1, 2, 5], "label": [0, 1, 0, 1], "f": [1, 2, 3, 4]}
    assert expected in error_of(write_tables(tmp_path, nodes, edges))


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("nodes.csv", lambda content: content, "nodes.csv: is a Parquet file"),
        ("nodes.parquet", lambda content: NODES.encode(), "nodes.parquet: is not a Parquet file"),
        ("nodes.parquet", lambda content: b"", "nodes.parquet: is not a Parquet file"),
        ("nodes.parquet", lambda content: content[:-50], "nodes.parquet: the Parquet file is cut short"),
        ("nodes.parquet", lambda old: old[:-40] + b"\xff" * 20 + old[-20:], "the Parquet file is cut short or"),
    ],
    ids=["Parquet as CSV", "CSV as Parquet", "nothing", "cut", "footer"],
)
def test_files_that_are_not_what_they_are_called(tmp_path, write_tables, name, change, expected):
    path = write_tables(tmp_path, NODE_COLUMNS, EDGES) / "nodes.parquet"
    content = path.read_bytes()
    path.unlink()
    (tmp_path / name).write_bytes(change(content))
    assert expected in error_of(tmp_path)


@pytest.mark.parametrize("name", ["nodes", "edges"])
def test_damaged_pages_are_named(tmp_path, write_tables, name):
    ids = list(range(2999))
    nodes = {"id": ids, "label": [i % 3 for i in ids], "f": [i / 7 for i in ids]}
    path = write_tables(tmp_path, nodes, {"u": ids, "v": ids}) / f"{name}.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(996) + content[1000:])
    assert f"{name}.parquet: the Parquet file is cut short or damaged" in error_of(tmp_path)


def test_missing_tables_are_named(tmp_path, write_tables):
    assert "no such file or folder" in error_of(tmp_path / "absent")
    assert "has no nodes table" in error_of(tmp_path)
    write_tables(tmp_path, NODES)
    expected = "nodes.csv: the edges table is missing; put edges.csv beside it"
    assert expected in error_of(tmp_path)
    assert expected in error_of(tmp_path / "nodes.csv")
    write_tables(tmp_path, NODE_COLUMNS, EDGES)
    assert "holds more than one nodes table, nodes.csv and nodes.parquet" in error_of(tmp_path)
    assert "edges.csv: expected the nodes table" in error_of(tmp_path / "edges.csv")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "nodes-1.csv").write_text(NODES)
    assert "parts: the edges table is missing" in error_of(tmp_path / "parts")


def test_very_wide_and_very_long_lines(tmp_path, write_tables):
    width = 5000
    wide = ",".join(f"f{index}" for index in range(width))
    rows = "".join(f"{node},a,{','.join(['0.123456789'] * width)}\n" for node in range(4))
    graph = load_tables(write_tables(tmp_path / "wide", f"id,label,{wide}\n{rows}", "u,v\n0,3\n"))
    assert graph.x.shape == (4, width)
    assert graph.x.unique().tolist() == [np.float32(0.123456789)]
    long = f"id,label,f\na,b,{'word ' * 600_000}\nc,d,none\n"
    assert load_tables(write_tables(tmp_path / "long", long, "u,v\n")).column_kinds == {"f": "text"}


def test_tables_may_be_larger_than_memory(tmp_path, write_tables, monkeypatch):
    for name, value in (("_BLOCK_ROWS", 1 << 16), ("MEMORY", 20)):
        monkeypatch.setattr(files_module if name == "MEMORY" else features_module, name, value)
    monkeypatch.setattr(files_module, "_LINKS_AT_ONCE", 1 << 22)
    monkeypatch.setattr(edges_module, "SORTED_AT_ONCE", 1 << 17)
    query = "SELECT i AS id, i % 3 AS label, [i % 7 FOR x IN range(200)] AS x FROM range(50000) t(i)"
    duckdb.connect().execute(f"COPY ({query}) TO '{tmp_path}/nodes.parquet'")
    query = "SELECT i % 50000 AS u, i * 7919 % 50000 AS v FROM range(300000) t(i)"
    duckdb.connect().execute(f"COPY ({query}) TO '{tmp_path}/edges.parquet'")
    graph = load_tables(tmp_path)
    assert torch.equal(graph.x, (torch.arange(50_000) % 7)[:, None].expand(-1, 200).float())
    assert graph.num_links == 300_000
    assert 3 * 7919 % 50_000 in graph.indices[graph.indptr[3] : graph.indptr[4]]


def test_lack_of_memory_is_not_taken_for_damage(tmp_path, monkeypatch, write_tables):
    monkeypatch.setattr(files_module, "MEMORY", 1)
    folder = write_tables(tmp_path, {"id": list(range(9999)), "label": [1] * 9999, "f": [1] * 9999}, EDGES)
    with pytest.raises(DataError, match=r"nodes\.parquet: cannot be read, memory or disk is full"):
        load_tables(folder)


def test_an_interrupt_is_not_an_error(tmp_path, write_tables, monkeypatch):
    def interrupt(table, query, values=None):
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(files_module.Table, "query", interrupt)
    with pytest.raises(KeyboardInterrupt):
        load_tables(write_tables(tmp_path, NODES, EDGES))


@st.composite
def graphs(draw):
    kinds = [st.integers(-99, 99), st.integers(-(2**63), 2**63 - 1), st.text("abäß-_.,01", min_size=1, max_size=4)]
    ids = draw(st.lists(draw(st.sampled_from(kinds)), min_size=1, max_size=10, unique=True))
    links = draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=20))
    labels = draw(st.lists(st.sampled_from(["x", "y", None]), min_size=len(ids), max_size=len(ids)))
    labels[0] = "x"
    row = st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=2)
    return ids, links, labels, draw(st.lists(row, min_size=len(ids), max_size=len(ids)))


def as_csv(columns):
    text = io.StringIO()
    csv.writer(text).writerows([columns, *zip(*columns.values(), strict=True)])
    return text.getvalue()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(graph=graphs(), kinds=st.tuples(st.booleans(), st.booleans()), is_list=st.booleans())
def test_round_trip(write_tables, graph, kinds, is_list):
    ids, links, labels, x = graph
    kind = "BIGINT" if isinstance(ids[0], int) else "VARCHAR"
    features = {"x": x} if is_list else {"f": [row[0] for row in x], "g": [row[1] for row in x]}
    nodes = {"id": ids, "label": labels, **features}
    edges = {end: [link[i] for link in links] for i, end in enumerate(["from", "to"])}
    typed = {"id": (kind, ids), "label": ("VARCHAR", labels), **features}
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_tables(
            write_tables(
                Path(folder),
                as_csv(nodes) if kinds[0] else typed,
                as_csv(edges) if kinds[1] else {end: (kind, column) for end, column in edges.items()},
            )
        )
    number = {name: index for index, name in enumerate(ids)}
    undirected = {(number[a], number[b]) for a, b in links if a != b}
    undirected |= {(b, a) for a, b in undirected}
    assert loaded.edge_index.T.tolist() == [list(edge) for edge in sorted(undirected)]
    assert loaded.num_links == len(links)
    names = sorted({label for label in labels if label})
    assert loaded.class_names == tuple(names)
    assert loaded.y.tolist() == [names.index(label) if label else -1 for label in labels]
    assert loaded.x.tolist() == x
    assert loaded.index(ids).tolist() == list(range(len(ids)))
