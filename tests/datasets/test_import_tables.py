"""Tables streamed into a store: the same graph, and the same errors, as when they are read at once."""

import json
import shutil
import tempfile
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

from hpn.datasets import import_tables as module
from hpn.datasets import table_stream
from hpn.datasets.import_tables import import_tables, tables_size
from hpn.datasets.store import HEADER, StoreWriter, make_header, open_store
from hpn.datasets.table_files import open_table
from hpn.datasets.tables import load_tables
from hpn.errors import DataError

NODES = "id,label,f0,f1\na,cat,0.5,1\nb,dog,1.5,-2\nc,cat,2,3e2\nd,,0,0\n"
EDGES = "source,target\na,b\nb,a\na,b\nc,c\nb,c\n"
ONE = {"id": ["a"], "label": ["cat"], "f": [1.0]}
TWO = {"id": ["a", "b"], "label": ["cat", "dog"]}


@pytest.fixture(autouse=True)
def _many_batches(monkeypatch):
    use_tiny_batches(monkeypatch)


def use_tiny_batches(monkeypatch, rows=2, csv_bytes=32):
    monkeypatch.setattr(table_stream, "BATCH_ROWS", rows)
    monkeypatch.setattr(table_stream, "CSV_BYTES", csv_bytes)
    monkeypatch.setattr(table_stream, "CSV_LINES", 1)
    monkeypatch.setattr(module, "TEXT_ROWS", rows)


def write(folder, nodes=NODES, edges=EDGES):
    """Write text and bytes as CSV, dictionaries of columns as Parquet."""
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    for name, table in (("nodes", nodes), ("edges", edges)):
        if isinstance(table, str | bytes):
            content = table.encode() if isinstance(table, str) else table
            (folder / f"{name}.csv").write_bytes(content)
        elif table is not None:
            pq.write_table(pa.table(table), folder / f"{name}.parquet")
    return folder


def imported(source, **options):
    place = source.parent / "store"
    shutil.rmtree(place, ignore_errors=True)
    with StoreWriter(place) as store:
        import_tables(source, store, **options)
    return open_store(place)


def assert_same(source):
    expected, found = load_tables(source), imported(source)
    assert found.fingerprint() == expected.fingerprint()
    header = json.loads((source.parent / "store" / HEADER).read_text(encoding="utf-8"))
    told = make_header(expected)
    assert {key: header[key] for key in told} == told
    return found


def error_of(load, *args):
    with pytest.raises(DataError) as error:
        load(*args)
    assert "\n" not in str(error.value)
    return str(error.value)


def assert_same_error(source, expected):
    message = error_of(imported, source)
    assert expected in message
    assert message == error_of(load_tables, source)
    assert [path.name for path in source.parent.iterdir()] == [source.name]


TABLES = {
    "csv": (NODES, EDGES),
    "no edges": (NODES, "source,target\n"),
    "no Parquet edges": (NODES, {"u": pa.array([], pa.int64()), "v": pa.array([], pa.int64())}),
    "header case and spaces": (NODES.replace("id,label", "ID, Label "), EDGES),
    "other columns": (NODES, "weight,to,from\n1,a,b\nx,b,c\n,d,d\n"),
    "byte order mark": ("\ufeff" + NODES, "\ufeff" + EDGES),
    "Windows lines": (NODES.replace("\n", "\r\n"), EDGES.replace("\n", "\r\n")),
    "empty lines": ("\n" + NODES.replace("\n", "\n\n"), EDGES + "\n\n"),
    "quotes": (NODES.replace("a,cat", '"a","cat"'), EDGES),
    "spaces": (NODES.replace(",", ", "), EDGES.replace(",", " , ")),
    "lists": ('id,label,x\na,cat,0.5 1\nb,dog,"[1.5, -2]"\nc,cat,2;3e2\nd,,"(0,0)"\n', EDGES),
    "one number a list": ("id,label,x\na,cat,1\nb,dog,2\nc,cat,3\n", "u,v\na,b\n"),
    "x and y": ("id,label,x,y\na,cat,1,2\nb,dog,2,3\nc,cat,3,4\n", "u,v\na,b\n"),
    "Boolean words": ("id,label,f,g\n1,a,True,1\n2,b,False,1\n3,b,False,.5\n", "u,v\n1,2\n"),
    "whole numbers, then fractions": ("id,label,f\n1,a,1\n2,b,2\n3,b,3\n4,a,2.5\n", "u,v\n1,2\n"),
    "spellings of ids": ("id,label,f\n7,a,1\n007,b,2\n7.0,a,3\nNA,b,4\n-0,b,5\n", "u,v\n007,NA\n7.0,-0\n"),
    "text after numbers": ("id,label,f\n1,a,1\n2,b,2\n3,b,3\n4,a,2\nz,a,2\n", "u,v\n1,2\n3,z\n4,1\nz,1\n"),
}


@pytest.mark.parametrize(("nodes", "edges"), TABLES.values(), ids=TABLES)
def test_csv_gives_the_graph_that_is_loaded(tmp_path, nodes, edges):
    assert_same(write(tmp_path / "data", nodes, edges))


def in_parquet(ids, edges=None, **columns):
    count = len(ids)
    nodes = {"id": ids, "label": [index % 3 for index in range(count)], "f": np.arange(count) / 7, **columns}
    edges = ids if edges is None else edges
    return nodes, {"source": edges, "target": pa.concat_arrays([pa.array(edges)[1:], pa.array(edges)[:1]])}


IDS = {
    "dense": [0, 1, 2, 3, 4],
    "from elsewhere": [107, 103, 104, 106, 105],
    "negative": [-2, 5, 0, -1, 3],
    "far apart": [10**12, -(10**9), 5, 2**63 - 1, -(2**63)],
    "small integers": pa.array([3, 1, 2, 9, 7], pa.uint8()),
    "beyond int64": pa.array([2**64 - 1, 1, 2**63, 9, 7], pa.uint64()),
    "text": ["b", "a", "ü", " a", "7"],
    "numbers as text": ["10", "7", "-3", "0", "99999999999999999"],
    "nineteen digits as text": ["9223372036854775807", "1", "9223372036854775808", "2", "3"],
    "alike but not the same": ["7", "7\n", "07", "+7", "7.0"],
    "whole floats": [3.0, 1.0, 1e15, 4.0, 2.0],
    "fractions": [3.0, 1.0, 1e15, 4.5, 2.0],
    "float32": pa.array([3, 1, 2, 4, 5], pa.float32()),
    "categories": pa.array(["z", "y", "x", "w", "v"]).dictionary_encode(),
    "bytes": [b"10", b"20", b"30", b"40", b"x"],
    "decimals": [Decimal("1.50"), Decimal(2), Decimal(3), Decimal(4), Decimal(5)],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_parquet_gives_the_graph_that_is_loaded(tmp_path, ids):
    assert assert_same(write(tmp_path / "data", *in_parquet(ids))).num_edges == 5


@pytest.mark.parametrize("kind", ["dense", "far apart", "numbers as text", "categories"])
def test_csv_and_parquet_may_be_mixed(tmp_path, kind):
    nodes, edges = in_parquet(IDS[kind])
    source = write(tmp_path / "data", nodes, None)
    pa_csv.write_csv(pa.table(edges), source / "edges.csv")
    assert assert_same(source).num_edges == 5


@pytest.mark.parametrize(
    "tables", [TABLES["csv"], TABLES["lists"], in_parquet(IDS["dense"]), in_parquet(IDS["text"])]
)
def test_a_single_batch_gives_the_same_graph(tmp_path, tables, monkeypatch):
    monkeypatch.undo()
    assert table_stream.CSV_BYTES > 1 << 10
    assert_same(write(tmp_path / "data", *tables))


def test_batches_are_small(tmp_path, monkeypatch):
    seen = []
    numbered = table_stream.number_rows

    def watch(file, tables):
        for part, table in numbered(file, tables):
            seen.append((part.first, table.num_rows))
            yield part, table

    for place in (module, table_stream):
        monkeypatch.setattr(place, "number_rows", watch)
    imported(write(tmp_path / "data", *in_parquet(IDS["dense"])))
    assert seen == 2 * [(0, 2), (2, 2), (4, 1)]
    seen.clear()
    imported(write(tmp_path / "more", *in_parquet(IDS["text"])))
    # Of edges by text as many as there are nodes, since all ids are hashed anew for each batch.
    assert seen == [(0, 2), (2, 2), (4, 1), (0, 5)]


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ([10, 20, 30], ["10", "20", "30"]),
        (["10", "20", "30"], [10, 20, 30]),
        ([10.0, 20.0, 30.0], pa.array([10, 20, 30], pa.uint16())),
        ([10, 20, 30], [10.0, 20.0, 30.0]),
        ([b"10", b"20", b"30"], [10, 20, 30]),
        ([10**15 + 1, 10**15 + 2, 5], [1e15 + 1, 1e15 + 2, 5.0]),
        ([2**63 - 1, 1, 2], [str(2**63 - 1), "1", "2"]),
    ],
    ids=["int-text", "text-int", "float-int", "int-float", "bytes-int", "large", "largest"],
)
def test_ids_of_different_types_match(tmp_path, nodes, edges):
    assert assert_same(write(tmp_path / "data", *in_parquet(nodes, edges))).num_edges == 3


def test_a_fraction_decides_how_a_whole_column_is_spelt(tmp_path):
    nodes, edges = in_parquet([1e15, 2.0, 3.0, 4.0, 0.5], [1e15, 2.0, 3.0, 4.0])
    assert_same_error(write(tmp_path / "data", nodes, edges), "row 1, column 'source': '1000000000000000'")


LISTS = [[0.5, 1.0], [1.5, -2.0], [2.0, 300.0], [0.0, 0.0], [1.0, 7.0]]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.list_(pa.float64(), 2), pa.large_list(pa.float64())], ids=str
)
def test_parquet_list_column(tmp_path, kind):
    nodes, edges = in_parquet(IDS["dense"], embedding=pa.array(LISTS, kind))
    del nodes["f"]
    assert assert_same(write(tmp_path / "data", nodes, edges)).x.tolist() == LISTS


def test_features_of_every_numeric_kind(tmp_path):
    columns = {
        "bool": [True, False, True],
        "int": pa.array([1, 2, 3], pa.int8()),
        "half": pa.array(np.array([0.5, 1.5, 2], dtype=np.float16)),
        "decimal": pa.array([Decimal("1.25"), Decimal(2), Decimal(3)]),
        "long": [2**62, 1, 2],
        "words": ["1", "2e3", "-4"],
    }
    assert_same(write(tmp_path / "data", *in_parquet([1, 2, 3], **columns)))


LABELS = {
    "by size": [10, 9, -1, 10, 2],
    "missing": [10, None, 9, None, 10],
    "text": ["b", "a", None, "", "c"],
    "text and -1": ["b", "a", "-1", None, "c"],
    "numbers as text": ["10", "9", "1.0", "-1", "01"],
    "whole floats": [10.0, float("nan"), 9.0, None, 1e15],
    "fractions": [10.0, float("nan"), 9.0, 0.5, 1e15],
    "Booleans": [True, False, None, True, True],
    "categories": pa.array(["z", None, "x", "z", "y"]).dictionary_encode(),
    "only the last": [None, None, None, None, "x"],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_classes_are_numbered_as_in_memory(tmp_path, labels):
    assert_same(write(tmp_path / "data", *in_parquet(IDS["dense"], label=labels)))


@pytest.mark.parametrize(
    "parts",
    [
        ["train", "Val", "valid", " validation", "test"],
        [None, "", None, None, "test"],
        ["train", None, None, None, None],
        [None, None, None, None, None],
        [float("nan")] * 5,
    ],
    ids=["all", "late", "early", "none", "nan"],
)
def test_given_splits(tmp_path, parts):
    graph = assert_same(write(tmp_path / "data", *in_parquet(IDS["dense"], split=parts)))
    is_given = any(isinstance(part, str) for part in parts)
    assert (graph.masks is not None) == is_given
    assert graph.split_rule == ("given" if is_given else "seeded")


def test_a_nodes_table_may_be_given_by_its_path(tmp_path):
    source = write(tmp_path / "data")
    (source / "nodes.csv").rename(source / "my-nodes.csv")
    (source / "edges.csv").rename(source / "my-edges.csv")
    with StoreWriter(tmp_path / "store") as store:
        import_tables(source / "my-nodes.csv", store)
    assert open_store(tmp_path / "store").name == "my-nodes.csv"


def test_features_may_be_kept_as_float16(tmp_path):
    source = write(tmp_path / "data")
    graph = imported(source, features="float16")
    assert graph.x.dtype == torch.float16
    assert graph.x.tolist() == load_tables(source).x.tolist()
    write(source, NODES.replace("3e2", "3e5"))
    assert "nodes.csv: features are too large for float16" in error_of(
        lambda: imported(source, features="float16")
    )


@pytest.mark.parametrize("nodes", [NODES, in_parquet(["a", "b", "c"])[0]], ids=["CSV", "Parquet"])
def test_progress_adds_up_to_the_size_of_both_tables(tmp_path, nodes):
    source = write(tmp_path / "data", nodes, "source,target\n" + 99 * "a,b\n")
    steps = []
    imported(source, advance=steps.append)
    assert sum(steps) == tables_size(source) == sum(path.stat().st_size for path in source.iterdir())
    assert min(steps) > 0
    assert len(steps) > 9


def test_progress_goes_to_the_end_of_a_table_without_rows(tmp_path):
    source = write(tmp_path / "data", *TABLES["no Parquet edges"])
    steps = []
    imported(source, advance=steps.append)
    assert sum(steps) == tables_size(source)


def test_wide_rows_are_read_fewer_at_once(tmp_path, monkeypatch):
    nodes, edges = in_parquet(IDS["dense"], x=pa.array(LISTS))
    del nodes["f"]
    source = write(tmp_path / "data", nodes, edges)
    monkeypatch.setattr(table_stream, "BATCH_ROWS", 100)
    monkeypatch.setattr(table_stream, "BATCH_BYTES", 100)

    # A row has an id, a label and two features: 32 bytes.
    assert table_stream._parquet_rows(open_table(source / "nodes.parquet")) == 3
    assert_same(source)


def test_long_lines_are_read_in_larger_blocks(tmp_path, monkeypatch):
    wide = ",".join(f"f{index}" for index in range(50))
    rows = "".join(f"{node},a{50 * ',1.25'}\n" for node in range(9))
    source = write(tmp_path / "data", f"id,label,{wide}\n{rows}", "u,v\n0,8\n")
    monkeypatch.setattr(table_stream, "CSV_LINES", 3)
    assert table_stream._block_bytes(open_table(source / "edges.csv")) == 32
    assert table_stream._block_bytes(open_table(source / "nodes.csv")) == 3 * (3 + 50 * 5 + 1)
    assert_same(source)


BAD_NODES = {
    "duplicate id": ("id,label,f\na,x,1\n\nb,y,2\nc,y,2\na,x,3\n", "line 6, column 'id': id 'a' is given"),
    "duplicate number": ({"id": [5, 7, 9, 7], "label": [1] * 4, "f": [1] * 4}, "row 4, column 'id': id '7'"),
    "duplicate far": ({"id": [5, 10**9, 9, 5], "label": [1] * 4, "f": [1] * 4}, "row 4, column 'id': id '5'"),
    "empty id": ("id,label,f\na,x,1\nc,x,1\n,y,2\n", "nodes.csv, line 4, column 'id': the id is empty"),
    "null id": ({"id": [1, 2, None], "label": [1] * 3, "f": [1] * 3}, "nodes.parquet, row 3, column 'id'"),
    "nan id": ({"id": [1, 2, np.nan], "label": [1] * 3, "f": [1] * 3}, "nodes.parquet, row 3, column 'id'"),
    "list ids": (ONE | {"id": [[1]]}, "nodes.parquet, column 'id': holds list<"),
    "invalid text": (ONE | {"id": pa.array([b"\xff"]).view(pa.string())}, "column 'id': holds string"),
    "no id": ("name,label,f\na,x,1\n", "nodes.csv: has no column 'id'; found: name, label, f"),
    "no label": ("id,f\na,1\n", "nodes.csv: has no column 'label'"),
    "no features": ("id,label\na,x\n", "nodes.csv: has no feature columns"),
    "no Parquet features": (TWO, "nodes.parquet: has no feature columns"),
    "short line": (
        "id,label,f\na,x,1\nb,x,1\nc,x,1\n\nd,y\n",
        "nodes.csv, line 6: 2 values where the header",
    ),
    "long line": ("id,label,f\na,x,1,5\n", "nodes.csv, line 2: 4 values where the header has 3"),
    "word": ("id,label,f,g\na,x,1,1\nb,x,2,2\nc,x,2,abc\n", "nodes.csv, line 4, column 'g': 'abc' is not a"),
    "date": ("id,label,f\na,x,2020-01-01\n", "nodes.csv, line 2, column 'f': '2020-01-01' is not a"),
    "missing": ("id,label,f\na,x,1\nc,x,2\nb,x,\n", "nodes.csv, line 4, column 'f': the value is missing"),
    "nan word": ("id,label,f\na,x,1\nb,x,nan\n", "nodes.csv, line 3, column 'f': the value is missing"),
    "infinite": ("id,label,f\na,x,1\nb,x,inf\n", "nodes.csv, line 3, column 'f': inf is not a finite"),
    "too large": ("id,label,f\na,x,1e300\n", "nodes.csv, line 2, column 'f': 1e+300 is not a finite"),
    "null": (
        {"id": [1, 2, 3], "label": [1, 1, 1], "f": [1, 1, None]},
        "nodes.parquet, row 3, column 'f': the value is missing",
    ),
    "nan": (
        {"id": [1, 2, 3], "label": [1, 1, 1], "f": [1, 1, np.nan]},
        "nodes.parquet, row 3, column 'f': nan is not",
    ),
    "text": (
        {"id": [1, 2, 3], "label": [1, 1, 1], "f": ["1", "2", "one"]},
        "nodes.parquet, row 3, column 'f': 'one' is not a number",
    ),
    "list with another": (TWO | {"x": [[1], [2]], "f": [1, 2]}, "row 1, column 'x': '[1]' is not a number"),
    "ragged list": (
        {"id": [1, 2, 3, 4], "label": [1] * 4, "x": [[1, 2], [1, 2], [2], [1, 2]]},
        "nodes.parquet, row 3, column 'x': the list has 1 values, that of the first node 2",
    ),
    "ragged later": (
        {"id": [1, 2, 3, 4], "label": [1] * 4, "x": [[1, 2], [1, 2], [1, 2], [2]]},
        "nodes.parquet, row 4, column 'x': the list has 1 values, that of the first node 2",
    ),
    "ragged words": (
        "id,label,x\na,x,1 2\nb,x,1 2\nc,x,1 2 3\n",
        "nodes.csv, line 4, column 'x': the list has 3",
    ),
    "list of words": ("id,label,x\na,x,1 2\nb,x,1 2\nc,x,1 z\n", "nodes.csv, line 4, column 'x': 'z' is not"),
    "null in list": (
        {"id": [1, 2, 3], "label": [1] * 3, "x": [[1, 2], [1, 2], [1, None]]},
        "nodes.parquet, row 3, column 'x': the value is missing",
    ),
    "null list": (
        {"id": [1, 2, 3], "label": [1] * 3, "x": [[1, 2], [1, 2], None]},
        "nodes.parquet, row 3, column 'x': the list is empty",
    ),
    "empty words": ("id,label,x\na,x,1 2\nb,x,1 2\nc,x,\n", "line 4, column 'x': the list is empty"),
    "empty lists": (TWO | {"x": pa.array([[], []], pa.list_(pa.float64()))}, "the list has 0 values"),
    "no label at all": ("id,label,f\na,,1\nb,,2\n", "nodes.csv, column 'label': no node has a label"),
    "only -1": (TWO | {"label": [-1, -1], "f": [1, 2]}, "column 'label': no node has a label"),
    "unknown part": (
        "id,label,split,f\na,x,train,1\nb,x,,1\nc,x,tset,1\n",
        "nodes.csv, line 4, column 'split': 'tset' is not one of train, val and test",
    ),
    "no rows": ("id,label,f\n", "nodes.csv: the table has no rows"),
    "no Parquet rows": (pa.table(ONE).slice(0, 0), "nodes.parquet: the table has no rows"),
    "empty file": ("", "nodes.csv: the file is empty"),
    "Latin-1": ("id,label,f\na,x,1\nb,x,1\na,é,1\n".encode("latin-1"), "nodes.csv, line 4: is not UTF-8"),
    "Latin-1 feature": ("id,label,f\na,x,1\na,x,é\n".encode("latin-1"), "nodes.csv, line 3: is not UTF-8"),
}


@pytest.mark.parametrize(("nodes", "expected"), BAD_NODES.values(), ids=BAD_NODES)
def test_bad_nodes_are_named_as_in_memory(tmp_path, nodes, expected):
    assert_same_error(write(tmp_path / "data", nodes, "source,target\na,a\n"), expected)


BAD_EDGES = {
    "unknown source": ("u,v\na,b\nb,c\nz,b\n", "edges.csv, line 4, column 'u': 'z' is the id of no node"),
    "unknown target": ("u,v\na,b\na,b\na,7\n", "edges.csv, line 4, column 'v': '7' is the id of no node"),
    "empty end": ("u,v\na,b\na,b\na,\n", "edges.csv, line 4, column 'v': is empty"),
    "null end": ({"u": ["a", "b", "c"], "v": ["b", "b", None]}, "edges.parquet, row 3, column 'v': is empty"),
    "no target": ("source,weight\na,1\n", "edges.csv: has no column 'target'; found: source, weight"),
    "two sources": ("source,src,target\na,a,b\n", "columns 'source' and 'src' both mean the source"),
    "lists": ({"u": [["a"]], "v": ["a"]}, "edges.parquet, column 'u': holds list<"),
    "ragged": ("u,v\na,b\na,b\na,b\na,b\na,b\na,b,c\n", "edges.csv, line 7: 3 values where the header has 2"),
    "open quote": ('u,v\n"a,b\na,b\n', "edges.csv, line 2: 1 values where the header has 2"),
    "empty file": ("", "edges.csv: the file is empty"),
    "Latin-1": ("u,v\na,b\na,b\na,b\na,é\n".encode("latin-1"), "edges.csv, line 5: is not UTF-8"),
}


@pytest.mark.parametrize(("edges", "expected"), BAD_EDGES.values(), ids=BAD_EDGES)
def test_bad_edges_are_named_as_in_memory(tmp_path, edges, expected):
    assert_same_error(write(tmp_path / "data", NODES, edges), expected)


@pytest.mark.parametrize("ids", [[3, 1, 2, 5], [10**12, 1, 2, 5]], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({"u": [1, 2, 4], "v": [1, 2, 5]}, "edges.parquet, row 3, column 'u': '4' is the id of no node"),
        ({"u": [1, 2, 1], "v": [1, 2, -(2**63)]}, "row 3, column 'v': '-9223372036854775808' is"),
        ({"u": [1, 2, 1], "v": [1, 2, 2**63 - 1]}, "row 3, column 'v': '9223372036854775807' is"),
        ({"u": [1, 2, 1], "v": pa.array([1, 2, 2**64 - 1], pa.uint64())}, "row 3, column 'v': '1844674"),
        ({"u": [1, 2, None], "v": [1, 2, 5]}, "edges.parquet, row 3, column 'u': is empty"),
        ({"u": [1.0, 2.0, np.nan], "v": [1, 2, 5]}, "edges.parquet, row 3, column 'u': is empty"),
        ({"u": [1.0, 2.0, 1.5], "v": [1, 2, 5]}, "edges.parquet, row 3, column 'u': '1.5' is the id"),
        ({"u": ["1", "2", "01"], "v": [1, 2, 5]}, "edges.parquet, row 3, column 'u': '01' is the id"),
        ("u,v\n1,2\n2,1\n1,01\n", "edges.csv, line 4, column 'v': '01' is the id of no node"),
        ("u,v\n1,2\n2,1\n1,1.0\n", "edges.csv, line 4, column 'v': '1.0' is the id of no node"),
        ("u,v\n1,2\n2,1\n1,\n", "edges.csv, line 4, column 'v': is empty"),
    ],
)
def test_bad_edges_between_numbered_nodes(tmp_path, ids, edges, expected):
    nodes = {"id": ids, "label": [0, 1, 0, 1], "f": [1, 2, 3, 4]}
    assert_same_error(write(tmp_path / "data", nodes, edges), expected)


def test_a_late_boolean_among_numbers_is_an_error(tmp_path):
    """The one thing that is not as in memory: the first block says whether a column is of Booleans."""
    source = write(tmp_path / "data", "id,label,f\n" + "".join(f"{i},a,1\n" for i in range(9)) + "x,a,True\n")
    assert "line 11, column 'f': 'True' is not a number" in error_of(imported, source)


@pytest.mark.parametrize("name", ["nodes", "edges"])
@pytest.mark.parametrize("damage", ["cut", "pages"])
def test_damaged_parquet_is_named(tmp_path, name, damage):
    count = 999
    path = write(tmp_path / "data", *in_parquet(np.arange(count))) / f"{name}.parquet"
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content if damage == "pages" else content[:-50])
    message = error_of(imported, tmp_path / "data")
    assert f"{name}.parquet: the Parquet file is cut short or damaged" in message
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_missing_tables_are_named(tmp_path):
    source = write(tmp_path / "data", NODES, None)
    for load in (imported, tables_size):
        assert "put edges.csv beside it" in error_of(load, source)
        assert "no such file or folder" in error_of(load, tmp_path / "absent")


@st.composite
def graphs(draw):
    kinds = [
        st.integers(-9, 20),
        st.integers(-(2**63), 2**63 - 1),
        st.text("abä-_.,01", min_size=1, max_size=4),
    ]
    ids = draw(st.lists(draw(st.sampled_from(kinds)), min_size=1, max_size=12, unique=True))
    links = draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=20))
    labels = draw(st.lists(st.sampled_from(["x", "y", None]), min_size=len(ids), max_size=len(ids)))
    labels[0] = "x"
    row = st.lists(st.floats(-100, 100, width=32), min_size=2, max_size=2)
    return ids, links, labels, draw(st.lists(row, min_size=len(ids), max_size=len(ids)))


@settings(max_examples=30, deadline=None)
@given(graph=graphs(), kinds=st.tuples(st.booleans(), st.booleans()), rows=st.integers(1, 5))
def test_any_graph_in_batches_of_any_size(graph, kinds, rows):
    ids, links, labels, x = graph
    nodes = {"id": ids, "label": pa.array(labels, pa.string()), "x": x}
    ends = {
        end: pa.array([link[i] for link in links], pa.array(ids).type) for i, end in enumerate(["u", "v"])
    }
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        use_tiny_batches(patch, rows, csv_bytes=128)
        source = write(Path(folder) / "data", None, None)
        for name, table, is_csv in zip(("nodes", "edges"), (nodes, ends), kinds, strict=True):
            if is_csv:
                words = {"x": [str(row) for row in x]} if "x" in table else {}
                pa_csv.write_csv(pa.table({**table, **words}), source / f"{name}.csv")
            else:
                pq.write_table(pa.table(table), source / f"{name}.parquet", row_group_size=3)
        assert_same(source)
