"""Graphs in CSV and Parquet tables: what is read, and what is said when it cannot be."""

import tempfile
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets.tables import load_tables
from hpn.errors import DataError

# Isolated node d; a-b in both directions and twice; a self-loop at c.
NODES = "id,label,f0,f1\na,cat,0.5,1\nb,dog,1.5,-2\nc,cat,2,3e2\nd,,0,0\n"
EDGES = "source,target\na,b\nb,a\na,b\nc,c\nb,c\n"


def write(folder, nodes=NODES, edges=EDGES):
    """Write text and bytes as CSV, dictionaries of columns as Parquet."""
    folder = Path(folder)
    for name, table in (("nodes", nodes), ("edges", edges)):
        if isinstance(table, str):
            (folder / f"{name}.csv").write_text(table, encoding="utf-8", newline="")
        elif isinstance(table, bytes):
            (folder / f"{name}.csv").write_bytes(table)
        elif table is not None:
            pq.write_table(pa.table(table), folder / f"{name}.parquet")
    return folder


def as_columns(text):
    """Turn CSV text into columns of the types that Arrow finds in it."""
    table = pa_csv.read_csv(pa.BufferReader(text.encode()))
    return {name: table[name] for name in table.column_names}


def assert_toy(graph):
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.num_links == 5
    assert graph.x.dtype == torch.float32
    assert graph.x.tolist() == [[0.5, 1], [1.5, -2], [2, 300], [0, 0]]
    assert graph.y.tolist() == [0, 1, 0, -1]
    assert graph.class_names == ("cat", "dog")
    assert graph.masks is None


def test_reads_csv(tmp_path):
    graph = load_tables(write(tmp_path))
    assert graph.name == tmp_path.name
    assert_toy(graph)


def test_reads_parquet(tmp_path):
    nodes = as_columns(NODES)
    nodes["label"] = pa.array(["cat", "dog", "cat", None]).dictionary_encode()
    assert_toy(load_tables(write(tmp_path, nodes, as_columns(EDGES))))


def test_reads_one_table_of_each_kind(tmp_path):
    assert_toy(load_tables(write(tmp_path, NODES, as_columns(EDGES))))


def test_reads_the_nodes_table_given_by_its_path(tmp_path):
    write(tmp_path)
    nodes = (tmp_path / "nodes.csv").rename(tmp_path / "my_nodes_2.csv")
    (tmp_path / "edges.csv").rename(tmp_path / "my_edges_2.csv")
    graph = load_tables(nodes)
    assert graph.name == "my_nodes_2.csv"
    assert_toy(graph)


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
    "list": (
        'id,label,features\na,cat,0.5 1\nb,dog,"[1.5, -2]"\nc,cat,2;3e2\nd,,"(0,0)"\n',
        EDGES,
    ),
}


@pytest.mark.parametrize(("nodes", "edges"), SPELLINGS.values(), ids=SPELLINGS)
def test_spelling_makes_no_difference(tmp_path, nodes, edges):
    assert_toy(load_tables(write(tmp_path, nodes, edges)))


LISTS = [[0.5, 1.0], [1.5, -2.0], [2.0, 300.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.float32()), pa.list_(pa.float64(), 2), pa.large_list(pa.float64())],
    ids=str,
)
@pytest.mark.parametrize("name", ["x", "Features", "embedding"])
def test_parquet_list_column(tmp_path, kind, name):
    nodes = as_columns("id,label\na,cat\nb,dog\nc,cat\nd,\n") | {name: pa.array(LISTS, kind)}
    nodes["label"] = pa.array(["cat", "dog", "cat", None])
    assert_toy(load_tables(write(tmp_path, nodes)))


def test_features_of_every_numeric_kind(tmp_path):
    nodes = {
        "id": [1, 2],
        "label": ["a", "b"],
        "bool": [True, False],
        "int": pa.array([1, 2], pa.int8()),
        "half": pa.array(np.array([0.5, 1.5], dtype=np.float16)),
        "decimal": pa.array([Decimal("1.25"), Decimal(2)]),
        "long": [2**62, 1],
    }
    graph = load_tables(write(tmp_path, nodes, "src,dst\n"))
    assert graph.x.tolist() == [[1, 1, 0.5, 1.25, 2**62], [0, 2, 1.5, 2, 1]]
    assert graph.num_links == graph.num_edges == 0


def test_boolean_words_are_features(tmp_path):
    graph = load_tables(write(tmp_path, "id,label,f\n1,a,True\n2,b,False\n", "src,dst\n1,2\n"))
    assert graph.x.tolist() == [[1], [0]]


def test_x_and_y_are_plain_columns(tmp_path):
    graph = load_tables(write(tmp_path, "id,label,x,y\n1,a,5,6\n2,b,7,8\n", "src,dst\n1,2\n"))
    assert graph.x.tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ([10, 20], ["10", "20"]),
        (["10", "20"], [10, 20]),
        ([10.0, 20.0], pa.array([10, 20], pa.uint16())),
        ([b"10", b"20"], [10, 20]),
        (pa.array(["10", "20"]).dictionary_encode(), pa.array([10, 20]).dictionary_encode()),
        ([10**15 + 1, 10**15 + 2], [1e15 + 1, 1e15 + 2]),
    ],
    ids=["int-text", "text-int", "float-int", "bytes-int", "categories", "large"],
)
def test_ids_of_different_types_match(tmp_path, nodes, edges):
    table = {"id": nodes, "label": [0, 1], "f": [1, 2]}
    graph = load_tables(write(tmp_path, table, {"source": edges, "target": edges[::-1]}))
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]


def test_csv_ids_keep_their_spelling(tmp_path):
    nodes = "id,label,f\n7,a,1\n007,b,2\n7.0,a,3\nNA,b,4\n"
    graph = load_tables(write(tmp_path, nodes, "src,dst\n007,NA\n"))
    assert graph.edge_index.tolist() == [[1, 3], [3, 1]]


LABELS = {
    "kept": (["2", "0", "1"], [2, 0, 1], ("0", "1", "2")),
    "by size": (["10", "9", "-1"], [1, 0, -1], ("9", "10")),
    "by spelling": (["10", "9", "b"], [0, 1, 2], ("10", "9", "b")),
    "whole floats": (["10.0", "", "9.0"], [1, -1, 0], ("9", "10")),
    "fractions": (["1.5", "1.25", ""], [1, 0, -1], ("1.25", "1.5")),
    "one class two spellings": (["1", "01", "1.0"], [0, 0, 0], ("1",)),
}


@pytest.mark.parametrize(("labels", "y", "names"), LABELS.values(), ids=LABELS)
def test_class_numbers_csv(tmp_path, labels, y, names):
    nodes = "id,label,f\n" + "".join(f"{i},{label},1\n" for i, label in enumerate(labels))
    graph = load_tables(write(tmp_path, nodes, "src,dst\n"))
    assert (graph.y.tolist(), graph.class_names) == (y, names)


@pytest.mark.parametrize(
    ("labels", "y", "names"),
    [
        ([10.0, float("nan"), 9.0], [1, -1, 0], ("9", "10")),
        ([10, None, 9], [1, -1, 0], ("9", "10")),
        ([True, False, None], [1, 0, -1], ("false", "true")),
    ],
    ids=["floats", "integers", "Booleans"],
)
def test_class_numbers_parquet(tmp_path, labels, y, names):
    nodes = {"id": [1, 2, 3], "label": labels, "f": [1, 2, 3]}
    graph = load_tables(write(tmp_path, nodes, "src,dst\n"))
    assert (graph.y.tolist(), graph.class_names) == (y, names)


def test_split_column(tmp_path):
    parts = ["train", "Val", "valid", "validation", "test", ""]
    nodes = "id,label,split,f\n" + "".join(f"{i},a,{part},1\n" for i, part in enumerate(parts))
    masks = load_tables(write(tmp_path, nodes, "src,dst\n")).masks
    assert masks.train.nonzero().flatten().tolist() == [0]
    assert masks.val.nonzero().flatten().tolist() == [1, 2, 3]
    assert masks.test.nonzero().flatten().tolist() == [4]


def test_empty_split_column_is_no_split(tmp_path):
    graph = load_tables(write(tmp_path, "id,label,split,f\n1,a,,1\n2,b,,1\n", "src,dst\n"))
    assert graph.masks is None
    assert graph.split_rule == "seeded"


def test_normalize(tmp_path):
    graph = load_tables(write(tmp_path), normalize="row")
    assert torch.allclose(graph.x.abs().sum(dim=1), torch.tensor([1.0, 1.0, 1.0, 0.0]))


ONE = {"id": ["a"], "label": ["cat"], "f": [1.0]}
TWO = {"id": ["a", "b"], "label": ["cat", "dog"]}
BAD_NODES = {
    "duplicate id": (
        "id,label,f\na,x,1\n\nb,y,2\na,x,3\n",
        "nodes.csv, line 5, column 'id': id 'a'",
    ),
    "empty id": ("id,label,f\na,x,1\n,y,2\n", "nodes.csv, line 3, column 'id': the id is empty"),
    "null id": (TWO | {"id": ["a", None], "f": [1, 2]}, "nodes.parquet, row 2, column 'id'"),
    "no id": ("name,label,f\na,x,1\n", "nodes.csv: has no column 'id'; found: name, label, f"),
    "no label": ("id,f\na,1\n", "nodes.csv: has no column 'label'"),
    "two ids": ("id,Id,label,f\na,a,x,1\n", "nodes.csv: columns 'id' and 'Id' both mean the id"),
    "twice a feature": ("id,label,f,f\na,x,1,2\n", "nodes.csv: column 'f' appears twice"),
    "no features": ("id,label\na,x\n", "nodes.csv: has no feature columns"),
    "short line": (
        "id,label,f\na,x,1\n\nb,y\n",
        "nodes.csv, line 4: 2 values where the header has 3",
    ),
    "long line": ("id,label,f\na,x,1,5\n", "nodes.csv, line 2: 4 values where the header has 3"),
    "word": ("id,label,f,g\na,x,1,1\nb,x,2,abc\n", "nodes.csv, line 3, column 'g': 'abc' is not a"),
    "date": (
        "id,label,f\na,x,2020-01-01\n",
        "nodes.csv, line 2, column 'f': '2020-01-01' is not a",
    ),
    "missing": ("id,label,f\na,x,1\nb,x,\n", "nodes.csv, line 3, column 'f': the value is missing"),
    "nan word": (
        "id,label,f\na,x,1\nb,x,nan\n",
        "nodes.csv, line 3, column 'f': the value is missing",
    ),
    "infinite": ("id,label,f\na,x,inf\n", "nodes.csv, line 2, column 'f': inf is not a finite"),
    "too large": (
        "id,label,f\na,x,1e300\n",
        "nodes.csv, line 2, column 'f': 1e+300 is not a finite",
    ),
    "null": (TWO | {"f": [1.0, None]}, "nodes.parquet, row 2, column 'f': the value is missing"),
    "nan": (TWO | {"f": [1.0, float("nan")]}, "nodes.parquet, row 2, column 'f': nan is not"),
    "text": (TWO | {"f": ["1", "one"]}, "nodes.parquet, row 2, column 'f': 'one' is not a number"),
    "list with another": (
        TWO | {"x": [[1], [2]], "f": [1, 2]},
        "nodes.parquet, row 1, column 'x': '[1]' is not a number",
    ),
    "ragged list": (
        TWO | {"x": [[1, 2], [2]]},
        "nodes.parquet, row 2, column 'x': the list has 1 values, that of the first node 2",
    ),
    "ragged words": (
        "id,label,x\na,x,1 2\nb,x,1\n",
        "nodes.csv, line 3, column 'x': the list has 1",
    ),
    "list of words": (
        "id,label,x\na,x,1 2\nb,x,1 z\n",
        "nodes.csv, line 3, column 'x': 'z' is not",
    ),
    "null in list": (
        TWO | {"x": [[1, 2], [1, None]]},
        "nodes.parquet, row 2, column 'x': the value",
    ),
    "null list": (
        TWO | {"x": [[1, 2], None]},
        "nodes.parquet, row 2, column 'x': the list is empty",
    ),
    "empty words": (
        "id,label,x\na,x,1 2\nb,x,\n",
        "nodes.csv, line 3, column 'x': the list is empty",
    ),
    "empty lists": (
        TWO | {"x": pa.array([[], []], pa.list_(pa.float64()))},
        "the list has 0 values",
    ),
    "list ids": (ONE | {"id": [[1]]}, "nodes.parquet, column 'id': holds list<"),
    "no label at all": ("id,label,f\na,,1\n", "nodes.csv, column 'label': no node has a label"),
    "unknown part": (
        "id,label,split,f\na,x,train,1\nb,x,tset,1\n",
        "nodes.csv, line 3, column 'split': 'tset' is not one of train, val and test",
    ),
    "no rows": ("id,label,f\n", "nodes.csv: the table has no rows"),
    "no Parquet rows": (pa.table(ONE).slice(0, 0), "nodes.parquet: the table has no rows"),
    "empty file": ("", "nodes.csv: the file is empty"),
    "Latin-1": ("id,label,f\na,é,1\n".encode("latin-1"), "nodes.csv, line 2: is not UTF-8"),
    "Latin-1 header": ("id,label,é\na,x,1\n".encode("latin-1"), "nodes.csv, line 1: is not UTF-8"),
    "Latin-1 feature": ("id,label,f\na,x,é\n".encode("latin-1"), "nodes.csv, line 2: is not UTF-8"),
    "UTF-16": (NODES.encode("utf-16"), "nodes.csv, line 1: is not UTF-8"),
    "invalid text": (
        ONE | {"id": pa.array([b"\xff"]).view(pa.string())},
        "nodes.parquet, column 'id': holds string",
    ),
}


def assert_one_line(error, expected):
    message = str(error.value)
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize(("nodes", "expected"), BAD_NODES.values(), ids=BAD_NODES)
def test_bad_nodes_are_named(tmp_path, nodes, expected):
    with pytest.raises(DataError) as error:
        load_tables(write(tmp_path, nodes, "source,target\na,a\n"))
    assert_one_line(error, expected)


BAD_EDGES = {
    "unknown source": (
        "source,target\na,b\nz,b\n",
        "edges.csv, line 3, column 'source': 'z' is the id",
    ),
    "unknown target": (
        "source,target\na,7\n",
        "edges.csv, line 2, column 'target': '7' is the id of no",
    ),
    "empty end": ("source,target\na,\n", "edges.csv, line 2, column 'target': is empty"),
    "null end": (
        {"src": ["a", "b"], "dst": ["b", None]},
        "edges.parquet, row 2, column 'dst': is empty",
    ),
    "no target": (
        "source,weight\na,1\n",
        "edges.csv: has no column 'target'; found: source, weight",
    ),
    "two sources": (
        "source,src,target\na,a,b\n",
        "columns 'source' and 'src' both mean the source",
    ),
    "ragged": ("source,target\na,b\na,b,c\n", "edges.csv, line 3: 3 values where the header has 2"),
    "open quote": (
        'source,target\n"a,b\na,b\n',
        "edges.csv, line 2: 1 values where the header has 2",
    ),
    "empty file": ("", "edges.csv: the file is empty"),
    "Latin-1": ("source,target\na,é\n".encode("latin-1"), "edges.csv, line 2: is not UTF-8"),
}


@pytest.mark.parametrize(("edges", "expected"), BAD_EDGES.values(), ids=BAD_EDGES)
def test_bad_edges_are_named(tmp_path, edges, expected):
    with pytest.raises(DataError) as error:
        load_tables(write(tmp_path, NODES, edges))
    assert_one_line(error, expected)


def parquet_bytes(folder):
    write(folder, as_columns(NODES), None)
    content = (folder / "nodes.parquet").read_bytes()
    (folder / "nodes.parquet").unlink()
    return content


def damaged_footer(content):
    middle = bytearray(content)
    middle[-40:-20] = b"\xff" * 20
    return bytes(middle)


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("nodes.csv", lambda content: content, "nodes.csv: is a Parquet file"),
        ("nodes.parquet", lambda content: NODES.encode(), "nodes.parquet: is not a Parquet file"),
        ("nodes.parquet", lambda content: b"\0" * 99, "nodes.parquet: is not a Parquet file"),
        ("nodes.parquet", lambda content: b"", "nodes.parquet: is not a Parquet file"),
        ("nodes.parquet", lambda content: content[:-50], "nodes.parquet: the Parquet file is cut"),
        ("nodes.parquet", lambda content: content[:8], "nodes.parquet: the Parquet file is cut"),
        (
            "nodes.parquet",
            damaged_footer,
            "nodes.parquet: the Parquet file is cut short or damaged",
        ),
    ],
    ids=["Parquet as CSV", "CSV as Parquet", "zeros", "nothing", "cut", "start only", "footer"],
)
def test_files_that_are_not_what_they_are_called(tmp_path, name, change, expected):
    write(tmp_path, None)
    (tmp_path / name).write_bytes(change(parquet_bytes(tmp_path)))
    with pytest.raises(DataError) as error:
        load_tables(tmp_path)
    assert_one_line(error, expected)


def test_damaged_pages_are_named(tmp_path):
    nodes = {"id": np.arange(9999), "label": np.arange(9999) % 3, "f": np.arange(9999) / 7}
    path = write(tmp_path, nodes, "source,target\n") / "nodes.parquet"
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        load_tables(tmp_path)
    assert_one_line(error, "nodes.parquet: the Parquet file is cut short or damaged")


def test_missing_tables_are_named(tmp_path):
    def message(path):
        with pytest.raises(DataError) as error:
            load_tables(path)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "no such file or folder" in message(tmp_path / "absent")
    assert "has no nodes table" in message(tmp_path)
    write(tmp_path, NODES, None)
    assert "nodes.csv: the edges table is missing; put edges.csv beside it" in message(tmp_path)
    assert "put edges.csv beside it" in message(tmp_path / "nodes.csv")
    write(tmp_path, as_columns(NODES), EDGES)
    assert "holds more than one nodes table, nodes.csv and nodes.parquet" in message(tmp_path)
    assert "edges.csv: expected the nodes table" in message(tmp_path / "edges.csv")


@st.composite
def graphs(draw):
    kind = draw(st.sampled_from([st.integers(-99, 99), st.text("abcäß-_.,", min_size=1, max_size=4)]))
    ids = draw(st.lists(kind, min_size=1, max_size=10, unique=True))
    links = draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=20))
    labels = draw(st.lists(st.sampled_from(["x", "y", None]), min_size=len(ids), max_size=len(ids)))
    labels[0] = "x"
    row = st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=2)
    return ids, links, labels, draw(st.lists(row, min_size=len(ids), max_size=len(ids)))


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), kinds=st.tuples(st.booleans(), st.booleans()), is_list=st.booleans())
def test_round_trip(graph, kinds, is_list):
    ids, links, labels, x = graph
    features = {"x": x} if is_list else {"f": [row[0] for row in x], "g": [row[1] for row in x]}
    nodes = {"id": ids, "label": pa.array(labels, pa.string()), **features}
    kind = pa.array(ids).type
    edges = {end: pa.array([link[i] for link in links], kind) for i, end in enumerate(["from", "to"])}
    with tempfile.TemporaryDirectory() as folder:
        for name, table, is_csv in zip(("nodes", "edges"), (nodes, edges), kinds, strict=True):
            if is_csv:
                words = {"x": [str(row) for row in x]} if "x" in table else {}
                pa_csv.write_csv(pa.table({**table, **words}), Path(folder) / f"{name}.csv")
            else:
                pq.write_table(pa.table(table), Path(folder) / f"{name}.parquet")
        loaded = load_tables(Path(folder))
    number = {name: index for index, name in enumerate(ids)}
    undirected = {(number[a], number[b]) for a, b in links if a != b}
    undirected |= {(b, a) for a, b in undirected}
    assert loaded.edge_index.T.tolist() == [list(edge) for edge in sorted(undirected)]
    assert loaded.num_links == len(links)
    names = sorted({label for label in labels if label})
    assert loaded.class_names == tuple(names)
    assert loaded.y.tolist() == [names.index(label) if label else -1 for label in labels]
    assert loaded.x.tolist() == x


def test_a_million_edges_load_in_seconds(tmp_path):
    rng = np.random.default_rng(0)
    num_nodes = 100_000
    nodes = {
        "id": np.arange(num_nodes),
        "label": np.arange(num_nodes) % 9,
        "f": rng.random(num_nodes),
    }
    ends = rng.integers(0, num_nodes, (2, 1_000_000))
    edges = {"source": pa.array(ends[0]).cast(pa.string()), "target": ends[1]}
    folder = write(tmp_path, nodes, None)
    pa_csv.write_csv(pa.table(edges), folder / "edges.csv")
    begin = time.perf_counter()
    graph = load_tables(folder)
    assert time.perf_counter() - begin < 10
    assert graph.num_links == 1_000_000


def test_other_words_for_the_same_columns(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "my-nodes.csv").write_text("node_id,class,feat\na,1,0.5 1\nb,0,2 3\n")
    (folder / "my-edges.csv").write_text("u,v\na,b\n")
    graph = load_tables(folder)
    assert graph.y.tolist() == [1, 0]
    assert graph.x.tolist() == [[0.5, 1.0], [2.0, 3.0]]
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]
    (folder / "other-nodes.csv").touch()
    with pytest.raises(DataError, match=r"more than one nodes table, my-nodes\.csv and other-nodes\.csv"):
        load_tables(folder)
