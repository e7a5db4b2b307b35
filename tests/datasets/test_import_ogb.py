"""OGB's raw files to stores: the same graph as the loader gives, block by block."""

import gzip
import shutil
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from hpn.datasets import import_ogb as module
from hpn.datasets import ogb
from hpn.datasets.graph import Graph
from hpn.datasets.import_ogb import import_ogb, ogb_size
from hpn.datasets.ogb import load_ogb, ogb_url
from hpn.datasets.store import StoreWriter, make_header, open_store
from hpn.errors import ConfigError, DataError

pytest.importorskip("ogb", reason="the ogb package is not installed: pip install 'hpn[ogb]'")

RAW = {
    "edge": "0,1\n1,0\n1,2\n1,2\n3,3\n",
    "node-feat": "0.5,1.0\n1.5,-2.0\n2.0,3.0\n0.0,0.0\n1.0,1.0\n",
    "node-label": "35\n12\n0\n35\n12\n",
    "num-node-list": "5\n",
    "num-edge-list": "5\n",
}
MAPPING = "label idx,arxiv category\n0,arxiv cs na\n12,arxiv cs gt\n35,arxiv cs lo\n"


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 16)


def write(root, name="ogbn-arxiv", mapping=MAPPING, **changes):
    """Write the raw files; the keywords have underscores for hyphens, and None leaves a file out."""
    folder = root / name.replace("-", "_")
    (folder / "raw").mkdir(parents=True)
    changed = {key.replace("_", "-"): value for key, value in changes.items()}
    for key, text in (RAW | changed).items():
        if text is not None:
            (folder / "raw" / f"{key}.csv.gz").write_bytes(gzip.compress(text.encode()))
    if mapping is not None:
        (folder / "mapping").mkdir()
        path = folder / "mapping" / "labelidx2arxivcategeory.csv.gz"
        path.write_bytes(gzip.compress(mapping.encode()))
    return folder / "raw"


def imported(root, name="ogbn-arxiv", **options) -> Graph:
    place = root / "store"
    with StoreWriter(place) as store:
        import_ogb(name, root, store, **options)
    return open_store(place)


def import_error(root):
    """Import, and return the message; nothing may be left of it."""
    before = sorted(root.rglob("*"))
    with pytest.raises(DataError) as error, StoreWriter(root / "store") as store:
        import_ogb("ogbn-arxiv", root, store)
    assert sorted(root.rglob("*")) == before
    assert "\n" not in str(error.value)
    return str(error.value)


def lines(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


SPELLINGS = {
    "as it is": {},
    "whole features": {"node_feat": "1,2\n" * 5},
    "fractions late": {"node_feat": "1,2\n" * 4 + "0.1,1e-3\n"},
    "one feature": {"node_feat": "0.1\n0.2\n0.30000001\n-0.4\n5e-324\n"},
    "a tie once rounded to float64": {"node_feat": "1.0000000596046447754\n" * 5},
    "no last newline": {"edge": RAW["edge"].rstrip(), "node_feat": RAW["node-feat"].rstrip()},
    "Windows": {"edge": RAW["edge"].replace("\n", "\r\n")},
    "unlabelled": {"node_label": "4\n7\n39\n3\nnan\n"},
    "no names": {"mapping": None},
}


@pytest.mark.parametrize("block", [24, 33, 1 << 20])
@pytest.mark.parametrize("change", SPELLINGS.values(), ids=SPELLINGS)
def test_the_graph_is_that_of_the_loader(tmp_path, monkeypatch, change, block):
    monkeypatch.setattr(module, "_BLOCK_BYTES", block)
    write(tmp_path, **change)
    graph, expected = imported(tmp_path), load_ogb("ogbn-arxiv", tmp_path)
    assert graph.fingerprint() == expected.fingerprint()
    assert make_header(graph) == make_header(expected)


def test_products_are_read_too(tmp_path):
    write(tmp_path, "ogbn-products", mapping=None, node_label="4\n7\n46\n3\nnan\n")
    graph, expected = imported(tmp_path, "ogbn-products"), load_ogb("ogbn-products", tmp_path)
    assert graph.class_order == (4, 7, 3)
    assert graph.fingerprint() == expected.fingerprint()
    assert make_header(graph) == make_header(expected)


def write_larger(root, nodes=500, links=20_000, features=20):
    random = np.random.default_rng(0)
    return write(
        root,
        edge=lines(random.integers(0, nodes, (links, 2)).tolist()),
        node_feat=lines(random.normal(size=(nodes, features)).astype(np.float32).tolist()),
        node_label=lines(random.integers(0, 40, (nodes, 1)).tolist()),
        num_node_list=f"{nodes}\n",
        num_edge_list=f"{links}\n",
    )


def test_many_blocks_make_the_same_graph(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 13)
    write_larger(tmp_path)
    assert imported(tmp_path).fingerprint() == load_ogb("ogbn-arxiv", tmp_path).fingerprint()


def test_neither_edges_nor_features_are_in_memory_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 15)
    monkeypatch.setattr("hpn.datasets.edge_sort._BLOCK", 1 << 12)
    monkeypatch.setattr("hpn.datasets.fingerprint._PIECE_BYTES", 1 << 15)
    write_larger(tmp_path, nodes=5000, links=40_000, features=30)
    imported(tmp_path)
    shutil.rmtree(tmp_path / "store")
    tracemalloc.start()
    try:
        imported(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5000 * 30 * 4


def test_shards_make_no_difference(tmp_path):
    write(tmp_path)
    with StoreWriter(tmp_path / "s", shards=3) as store:
        import_ogb("ogbn-arxiv", tmp_path, store)
    graph = replace(open_store(tmp_path / "s"))
    assert graph.fingerprint() == load_ogb("ogbn-arxiv", tmp_path).fingerprint()
    with (
        pytest.raises(ConfigError, match="6 shards are too many for 5 nodes"),
        StoreWriter(tmp_path / "t", shards=6) as store,
    ):
        import_ogb("ogbn-arxiv", tmp_path, store)


def test_features_can_be_kept_as_float16(tmp_path):
    write(tmp_path, node_feat="0.1,0.2\n" * 5)
    graph = imported(tmp_path, features="float16")
    assert str(graph.x.dtype) == "torch.float16"
    assert graph.x.tolist() == load_ogb("ogbn-arxiv", tmp_path).x.half().tolist()


def test_progress_adds_up_to_the_size(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr("hpn.datasets.edge_sort.RANGES", 2)
    raw, steps = write_larger(tmp_path, links=60_000), []
    imported(tmp_path, advance=steps.append)
    assert (
        sum(steps) == ogb_size("ogbn-arxiv", tmp_path) == sum(file.stat().st_size for file in raw.iterdir())
    )
    assert min(steps) >= 0
    assert len(steps) > 100


def test_missing_files_are_told_of_in_the_words_of_the_loader(tmp_path):
    write(tmp_path, edge=None)
    message = import_error(tmp_path)
    assert "lacks edge.csv.gz" in message
    assert ogb_url("ogbn-arxiv") in message
    for function in (load_ogb, ogb_size):
        with pytest.raises(DataError) as error:
            function("ogbn-arxiv", tmp_path)
        assert str(error.value) == message


def test_what_is_missing_is_downloaded_and_unpacked(tmp_path, monkeypatch):
    source = tmp_path / "server"
    write(source)
    (source / "ogbn_arxiv").rename(source / "arxiv")
    shutil.make_archive(str(source / "arxiv"), "zip", source, "arxiv")
    monkeypatch.setattr(ogb, "ogb_url", lambda name: (source / "arxiv.zip").as_uri())
    root = tmp_path / "data"
    assert ogb_size("ogbn-arxiv", root) > 0
    shutil.rmtree(root)
    assert imported(root).num_links == 5
    assert sorted(path.name for path in root.iterdir()) == ["ogbn_arxiv", "store"]


@pytest.mark.parametrize("cut", [1, 9, 12])
@pytest.mark.parametrize("file", RAW)
def test_files_that_are_cut_short_are_named(tmp_path, file, cut):
    path = write(tmp_path) / f"{file}.csv.gz"
    path.write_bytes(path.read_bytes()[:-cut])
    assert str(path) in import_error(tmp_path)


def test_a_long_file_that_is_cut_short_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 1 << 12)
    path = write_larger(tmp_path) / "edge.csv.gz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert f"{path}: is cut short or damaged" in import_error(tmp_path)


@pytest.mark.parametrize("file", ["edge", "node-feat"])
def test_checksums_are_compared(tmp_path, file):
    path = write(tmp_path) / f"{file}.csv.gz"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    assert f"{path}: is cut short or damaged" in import_error(tmp_path)


@pytest.mark.parametrize("file", RAW)
def test_files_that_are_not_gzip_are_named(tmp_path, file):
    path = write(tmp_path) / f"{file}.csv.gz"
    path.write_text(RAW[file])
    assert str(path) in import_error(tmp_path)


BAD = {
    "edge text": (
        {"edge": "0,1\n" * 9 + "0,a\n"},
        "edge.csv.gz: cannot be read (In CSV column #1: Row #10: ",
    ),
    "edge empty": ({"edge": ""}, "edge.csv.gz: cannot be read (Empty CSV file)"),
    "edge ragged": (
        {"edge": "0,1\n" * 9 + "0,1,2\n"},
        "edge.csv.gz: cannot be read (CSV parse error: Row #10",
    ),
    "edge of three": ({"edge": "0,1,2\n" * 5}, "edge.csv.gz: expected two nodes a line, found 3 columns"),
    "edge half": ({"edge": "0,1\n" * 9 + ",1\n"}, "edge.csv.gz: edge 9 lacks a node"),
    "edge fraction": ({"edge": "0,1\n" * 9 + "0,1.5\n"}, "edge.csv.gz: cannot be read"),
    "edges missing": ({"edge": "0,1\n" * 4}, "edge.csv.gz: 4 edges, but num-edge-list.csv.gz tells of 5"),
    "edges too many": ({"edge": "0,1\n" * 9}, "edge.csv.gz: 9 edges, but num-edge-list.csv.gz tells of 5"),
    "features long": (
        {"node_feat": "1,2\n" * 6},
        "6 nodes have features, but num-node-list.csv.gz tells of 5",
    ),
    "features text": (
        {"node_feat": "1,2\n" * 4 + "1,a\n"},
        "node-feat.csv.gz: cannot be read (In CSV column #1: R",
    ),
    "features ragged": (
        {"node_feat": "1,2\n" * 4 + "1\n"},
        "node-feat.csv.gz: cannot be read (CSV parse error: R",
    ),
    "features empty": ({"node_feat": ""}, "node-feat.csv.gz: cannot be read (Empty CSV file)"),
    "labels text": ({"node_label": "a\n" * 5}, "node-label.csv.gz: expected one class number"),
    "labels short": (
        {"node_label": "1\n" * 4},
        "node-label.csv.gz: 4 nodes have labels, but num-node-list.csv.gz",
    ),
    "labels empty": ({"node_label": ""}, "node-label.csv.gz: cannot be read"),
    "no graph": ({"num_node_list": "\n"}, "num-node-list.csv.gz"),
    "count of text": ({"num_node_list": "a\n"}, "num-node-list.csv.gz"),
    "count missing": ({"num_edge_list": "nan\n"}, "num-edge-list.csv.gz: expected a count, found None"),
    "count below 0": ({"num_edge_list": "-1\n"}, "num-edge-list.csv.gz: expected a count, found -1"),
    "names": ({"mapping": "label idx,name\n1\n"}, "labelidx2arxivcategeory.csv.gz: cannot be read"),
}


@pytest.mark.parametrize(("change", "expected"), BAD.values(), ids=BAD)
def test_bad_content_is_named(tmp_path, change, expected):
    write(tmp_path, **change)
    assert expected in import_error(tmp_path)


SAME = {
    "unknown node": ({"edge": "0,1\n" * 4 + "0,9\n"}, "edge 4 (0 - 9)"),
    "negative node": ({"edge": "0,1\n" * 4 + "-1,0\n"}, "edge 4 (-1 - 0)"),
    "features short": ({"node_feat": "1,2\n" * 4}, "node-feat.csv.gz: 4 nodes have features"),
    "features missing": ({"node_feat": "1,2\n" * 4 + "1,\n"}, "feature 1 of node 4 is nan"),
    "features infinite": ({"node_feat": "1,2\n" * 3 + "-inf,0\n1,2\n"}, "feature 0 of node 3 is -inf"),
    "features too large": ({"node_feat": "1.5,2\n" * 3 + "1e39,0\n1,2\n"}, "feature 0 of node 3 is inf"),
    "no label": ({"node_label": "nan\n" * 5}, "no node has a label"),
    "label below -1": ({"node_label": "1\n" * 4 + "-2\n"}, "label -2 is below -1"),
}


@pytest.mark.parametrize(("change", "expected"), SAME.values(), ids=SAME)
def test_what_does_not_fit_is_told_of_in_the_words_of_the_loader(tmp_path, change, expected):
    write(tmp_path, **change)
    message = import_error(tmp_path)
    assert expected in message
    with np.errstate(over="ignore"), pytest.raises(DataError) as error:
        load_ogb("ogbn-arxiv", tmp_path)
    assert message == str(error.value)


@pytest.mark.parametrize("array", ["x", "indices"])
def test_a_full_disk_is_not_taken_for_damage(tmp_path, monkeypatch, array):
    append = StoreWriter.append

    def fail(store, name, rows):
        if name == array:
            raise OSError(28, "No space left on device")
        append(store, name, rows)

    monkeypatch.setattr(StoreWriter, "append", fail)
    write(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        imported(tmp_path)


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(ogb.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'hpn\[ogb\]'"):
        ogb_size("ogbn-arxiv", tmp_path)


def test_unknown_names_are_refused(tmp_path):
    with (
        pytest.raises(ConfigError, match="did you mean 'ogbn-arxiv'"),
        StoreWriter(tmp_path / "store") as store,
    ):
        import_ogb("ogb-arxiv", tmp_path, store)
