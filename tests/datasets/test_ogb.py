"""The OGB loader on a tiny data set in OGB's own on-disk layout."""

import builtins
import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpn.datasets import ogb
from hpn.datasets.ogb import load_ogb, ogb_url
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


def test_reads_the_raw_files(tmp_path):
    write(tmp_path)
    graph = load_ogb("ogbn-arxiv", tmp_path)
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


def test_products_without_names(tmp_path):
    write(tmp_path, "ogbn-products", mapping=None, node_label="4\n7\n46\n3\nnan\n")
    graph = load_ogb("ogbn-products", tmp_path)
    assert graph.y.tolist() == [4, 7, 46, 3, -1]
    assert graph.class_order == (4, 7, 3)
    assert graph.class_names[46] == "46"


def test_whole_number_features(tmp_path):
    write(tmp_path, node_feat="1,2\n" * 5)
    assert load_ogb("ogbn-arxiv", tmp_path).x.tolist() == [[1.0, 2.0]] * 5


def test_class_orders_are_those_of_the_paper():
    orders = ogb.CLASS_ORDERS
    assert sorted(orders["ogbn-arxiv"]) == list(range(40))
    assert sorted(orders["ogbn-products"]) == list(range(46))
    assert orders["ogbn-arxiv"][:4] == (35, 12, 15, 21)
    assert orders["ogbn-arxiv"][-4:] == (0, 17, 29, 32)
    assert orders["ogbn-products"][:4] == (4, 7, 6, 3)
    assert orders["ogbn-products"][-4:] == (39, 33, 45, 40)


def test_url():
    assert ogb_url("ogbn-arxiv") == "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
    assert ogb_url("ogbn-products").endswith("/products.zip")
    with pytest.raises(ConfigError, match="did you mean 'ogbn-arxiv'"):
        ogb_url("ogb-arxiv")


def load_error(root):
    with pytest.raises(DataError) as error:
        load_ogb("ogbn-arxiv", root)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_files_are_named_with_the_address(tmp_path):
    write(tmp_path, edge=None)
    message = load_error(tmp_path)
    assert "lacks edge.csv.gz" in message
    assert ogb_url("ogbn-arxiv") in message
    assert str(tmp_path / "ogbn_arxiv") in message


def serve(monkeypatch, tmp_path):
    """Stand in for OGB's server with a folder; the archive holds a folder named like itself."""
    source = tmp_path / "server"
    write(source)
    (source / "ogbn_arxiv").rename(source / "arxiv")
    archive = shutil.make_archive(str(source / "arxiv"), "zip", source, "arxiv")
    monkeypatch.setattr(ogb, "ogb_url", lambda name: (source / "arxiv.zip").as_uri())
    return Path(archive)


def test_what_is_missing_is_downloaded_and_unpacked(tmp_path, monkeypatch):
    serve(monkeypatch, tmp_path)
    root = tmp_path / "data"
    assert load_ogb("ogbn-arxiv", root).num_links == 5
    assert [path.name for path in root.iterdir()] == ["ogbn_arxiv"]


def test_a_broken_archive_leaves_nothing_unpacked(tmp_path, monkeypatch):
    archive = serve(monkeypatch, tmp_path)
    archive.write_bytes(archive.read_bytes()[:-30])
    assert "cannot be unpacked" in load_error(tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["arxiv.zip"]


def test_offline_it_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setattr(ogb, "ogb_url", lambda name: (tmp_path / "no" / "arxiv.zip").as_uri())
    message = load_error(tmp_path / "data")
    assert "cannot download" in message
    assert "put arxiv.zip" in message


@pytest.mark.parametrize("file", RAW)
def test_truncated_files_are_named(tmp_path, file):
    path = write(tmp_path) / f"{file}.csv.gz"
    path.write_bytes(path.read_bytes()[:-9])
    assert path.name in load_error(tmp_path)


@pytest.mark.parametrize("file", RAW)
def test_files_that_are_not_gzip_are_named(tmp_path, file):
    path = write(tmp_path) / f"{file}.csv.gz"
    path.write_text(RAW[file])
    assert path.name in load_error(tmp_path)


BAD = {
    "edge text": ({"edge": "0,a\n" * 5}, "edge.csv.gz"),
    "edge empty": ({"edge": ""}, "edge.csv.gz"),
    "edge ragged": ({"edge": "0,1\n0,1,2\n"}, "edge.csv.gz"),
    "edge fraction": ({"edge": "0,\n" * 5}, "edge"),
    "unknown node": ({"edge": "0,1\n" * 4 + "0,9\n"}, "edge 4 (0 - 9)"),
    "features short": ({"node_feat": "1,2\n" * 4}, "node-feat.csv.gz: 4 nodes have features"),
    "features text": ({"node_feat": "1,a\n" * 5}, "node-feat.csv.gz"),
    "features missing": ({"node_feat": "1,2\n" * 4 + "1,\n"}, "feature 1 of node 4 is nan"),
    "labels text": ({"node_label": "a\n" * 5}, "node-label.csv.gz: expected one class number"),
    "labels short": ({"node_label": "1\n" * 4}, "but 4 have labels"),
    "labels empty": ({"node_label": ""}, "node-label.csv.gz: cannot be read"),
    "no graph": ({"num_node_list": "\n"}, "num-node-list.csv.gz"),
    "names": ({"mapping": "label idx,name\n1\n"}, "labelidx2arxivcategeory.csv.gz: cannot be read"),
}


@pytest.mark.parametrize(("change", "expected"), BAD.values(), ids=BAD)
def test_bad_content_is_named(tmp_path, change, expected):
    write(tmp_path, **change)
    assert expected in load_error(tmp_path)


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(ogb.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'hpn\[ogb\]'"):
        load_ogb("ogbn-arxiv", tmp_path)


def test_with_half_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    write(tmp_path)
    real = builtins.__import__

    def without_ogb(name, *args, **kwargs):
        if name.startswith("ogb."):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_ogb)
    with pytest.raises(ConfigError, match=r"pip install 'hpn\[ogb\]'"):
        load_ogb("ogbn-arxiv", tmp_path)


def test_nothing_is_printed_asked_or_fetched(tmp_path):
    write(tmp_path)
    program = f"""
import socket, sys, threading
from pathlib import Path
def refuse(*args, **kwargs):
    raise AssertionError("the network was asked")
socket.socket.connect = socket.getaddrinfo = refuse
started = []
start = threading.Thread.start
threading.Thread.start = lambda self: (started.append(self), start(self))
from hpn.datasets.ogb import load_ogb
load_ogb("ogbn-arxiv", Path({str(tmp_path)!r}))
assert all(type(thread).__name__ == "TMonitor" for thread in started), started  # of tqdm
assert "outdated" not in sys.modules
import outdated
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input="", capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert not (tmp_path / "ogbn_arxiv" / "processed").exists()
