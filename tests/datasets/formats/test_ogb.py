"""The reader of OGB on a tiny data set in OGB's own on-disk layout."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from hpn.datasets.formats import ogb
from hpn.datasets.formats.ogb import load_ogb
from hpn.datasets.formats.tables import features as features_module
from hpn.datasets.formats.tables import files as files_module
from hpn.errors import DataError

RAW = {
    "edge": "0,1\n1,0\n1,2\n1,2\n3,3\n",
    "node-feat": "0.5,1.0\n1.5,-2.0\n2.0,3.0\n0.0,0.0\n1.0,1.0\n",
    "node-label": "35\n12\n0\n35\n12\n",
}
MAPPING = "label idx,arxiv category\n0,arxiv cs na\n12,arxiv cs gt\n35,arxiv cs lo\n"


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


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(features_module, "_BLOCK_ROWS", 2)
    monkeypatch.setattr(files_module, "_LINKS_AT_ONCE", 2)


def test_reads_the_raw_files(tmp_path, read):
    write(tmp_path)
    graph = read(load_ogb, "ogbn-arxiv", tmp_path / "ogbn_arxiv" / "raw")
    assert graph.name == "ogbn-arxiv"
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.num_links == 5
    assert graph.x.tolist() == [[0.5, 1], [1.5, -2], [2, 3], [0, 0], [1, 1]]
    assert graph.y.tolist() == [35, 12, 0, 35, 12]
    assert graph.split_rule == "index"
    assert graph.class_order == (35, 12, 0)
    assert graph.num_classes == 36
    assert graph.class_names[12] == "arxiv cs gt"
    assert graph.class_names[1] == "1"


def test_products_without_names(tmp_path, read):
    write(tmp_path, "ogbn-products", mapping=None, node_label="4\n7\n46\n3\nnan\n")
    graph = read(load_ogb, "ogbn-products", tmp_path / "ogbn_products" / "raw")
    assert graph.y.tolist() == [4, 7, 46, 3, -1]
    assert graph.class_order == (4, 7, 3)
    assert graph.class_names[46] == "46"


FEATURES = {
    "whole": ("1,2\n" * 5, [[1.0, 2.0]] * 5),
    "fractions late": ("1,2\n" * 4 + "0.5,1e-3\n", [[1.0, 2.0]] * 4 + [[0.5, float(np.float32(1e-3))]]),
    "a tie once rounded to float64": ("1.0000000596046447754\n" * 5, [[1.0]] * 5),
    "no last newline": ("1\n2\n3\n4\n5", [[1], [2], [3], [4], [5]]),
    "Windows": ("1\r\n2\r\n3\r\n4\r\n5\r\n", [[1], [2], [3], [4], [5]]),
}


@pytest.mark.parametrize(("text", "expected"), FEATURES.values(), ids=FEATURES)
def test_features(tmp_path, text, expected):
    write(tmp_path, node_feat=text)
    assert load_ogb("ogbn-arxiv", tmp_path / "ogbn_arxiv" / "raw").x.tolist() == expected


def test_class_orders_are_those_of_the_paper():
    ends = {name: (sorted(order), order[:4], order[-4:]) for name, order in ogb.CLASS_ORDERS.items()}
    assert ends["ogbn-arxiv"] == (list(range(40)), (35, 12, 15, 21), (0, 17, 29, 32))
    assert ends["ogbn-products"] == (list(range(46)), (4, 7, 6, 3), (39, 33, 45, 40))


def load_error(root):
    with pytest.raises(DataError) as error:
        load_ogb("ogbn-arxiv", root / "ogbn_arxiv" / "raw")
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_files_are_named_with_the_address(tmp_path):
    write(tmp_path, edge=None)
    message = load_error(tmp_path)
    assert "lacks edge.csv.gz" in message
    assert "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip" in message
    assert str(tmp_path / "ogbn_arxiv") in message


def serve(monkeypatch, tmp_path):
    """Stand in for OGB's server with a folder; the archive holds a folder named like itself."""
    source = tmp_path / "server"
    write(source)
    (source / "ogbn_arxiv").rename(source / "arxiv")
    archive = shutil.make_archive(str(source / "arxiv"), "zip", source, "arxiv")
    monkeypatch.setattr(ogb, "ADDRESS", source.as_uri())
    return Path(archive)


def test_what_is_missing_is_downloaded_and_unpacked(tmp_path, monkeypatch):
    serve(monkeypatch, tmp_path)
    root = tmp_path / "data"
    assert load_ogb("ogbn-arxiv", root / "ogbn_arxiv" / "raw").num_links == 5
    assert [path.name for path in root.iterdir()] == ["ogbn_arxiv"]


def test_a_broken_archive_leaves_nothing_unpacked(tmp_path, monkeypatch):
    archive = serve(monkeypatch, tmp_path)
    archive.write_bytes(archive.read_bytes()[:-30])
    assert "cannot be unpacked" in load_error(tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["arxiv.zip"]


@pytest.mark.parametrize("keep", [-12, None], ids=["cut", "wrong checksum"])
@pytest.mark.parametrize("file", RAW)
def test_truncated_and_changed_files_are_named(tmp_path, file, keep):
    path = write(tmp_path) / f"{file}.csv.gz"
    content = path.read_bytes()
    path.write_bytes(content[:keep] if keep else content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    assert f"{path}: is cut short or damaged" in load_error(tmp_path)


BAD = {
    "edge text": ({"edge": "0,1\n" * 4 + "0,a\n"}, "edge.csv.gz, line 5: edge 4 (0 - None) lacks a node"),
    "edge empty": ({"edge": ""}, "edge.csv.gz: the file is empty"),
    "edge ragged": ({"edge": "0,1\n" * 4 + "0,1,2\n"}, "edge.csv.gz, line 5: 3 values"),
    "edge of three": ({"edge": "0,1,2\n" * 5}, "edge.csv.gz: expected two nodes per line, found 3 columns"),
    "unknown node": ({"edge": "0,1\n" * 4 + "0,9\n"}, "edge 4 (0 - 9)"),
    "negative node": ({"edge": "0,1\n" * 4 + "-1,0\n"}, "edge 4 (-1 - 0)"),
    "features short": ({"node_feat": "1,2\n" * 4}, "4 nodes have features but 5 have labels"),
    "features text": ({"node_feat": "1,2\n" * 4 + "1,a\n"}, "node-feat.csv.gz, line 5, column '1': 'a' is not"),
    "features ragged": ({"node_feat": "1,2\n" * 4 + "1\n"}, "node-feat.csv.gz, line 5: 1 values"),
    "labels text": ({"node_label": "a\n" * 5}, "node-label.csv.gz, line 1: 'a' is not a class number"),
    "labels huge": ({"node_label": "1\n" * 4 + "1e12\n"}, "line 5: '1e12' is not a class number"),
    "labels short": ({"node_label": "1\n" * 4}, "5 nodes have features but 4 have labels"),
    "names": ({"mapping": "label idx,name\n1\n"}, "labelidx2arxivcategeory.csv.gz, line 2: 1 values"),
}


@pytest.mark.parametrize(("change", "expected"), BAD.values(), ids=BAD)
def test_bad_content_is_named(tmp_path, change, expected):
    write(tmp_path, **change)
    assert expected in load_error(tmp_path)
