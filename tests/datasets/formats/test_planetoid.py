from __future__ import annotations

import hashlib
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hpn.datasets import CATALOG, Graph, load_dataset
from hpn.datasets.formats.planetoid import PARTS, load_geom_gcn, load_planetoid
from hpn.datasets.sparse import is_sparse
from hpn.errors import DataError
from hpn.streams import plan_tasks


def test_rows_of_cora_have_a_sum_of_one(data_root: Path) -> None:
    graph = load_planetoid("cora", data_root / "Cora" / "raw")
    assert torch.allclose(graph.x.to_dense().sum(dim=1), torch.ones(2708))


@pytest.mark.parametrize("name", ["cora", "citeseer", "actor", "texas"])
def test_graphs_equal_those_of_pytorch_geometric(name: str, data_root: Path, tmp_path: Path) -> None:
    from torch_geometric import datasets

    folder = Path(str(CATALOG[name].folder))
    shutil.copytree(data_root / folder, tmp_path / folder)
    data = {
        "cora": lambda: datasets.Planetoid(str(tmp_path), "Cora"),
        "citeseer": lambda: datasets.Planetoid(str(tmp_path), "CiteSeer"),
        "actor": lambda: datasets.Actor(str(tmp_path / "actor")),
        "texas": lambda: datasets.WebKB(str(tmp_path / "webkb"), "texas"),
    }[name]()[0]
    graph = load_dataset(name, data_root=data_root, normalize="none")
    expected = Graph.build(name, x=data.x, links=data.edge_index, y=data.y)
    assert torch.equal(graph.x.to_dense(), expected.x)
    assert torch.equal(graph.edge_index, expected.edge_index)
    assert torch.equal(graph.y, expected.y)
    if graph.masks is not None:
        assert torch.equal(graph.masks.train, data.train_mask)
        assert torch.equal(graph.masks.val, data.val_mask)
        assert torch.equal(graph.masks.test, data.test_mask)


def test_a_pickle_that_is_not_the_published_one_is_never_read(tmp_path: Path) -> None:
    raw = tmp_path / "Cora" / "raw"
    raw.mkdir(parents=True)
    marker = tmp_path / "ran"
    for part in PARTS:
        (raw / f"ind.cora.{part}").write_text(f"cos\nsystem\n(S'touch {marker}'\ntR.")
    with pytest.raises(DataError, match=r"Cora/raw does not have the published files .*; delete the folder"):
        load_planetoid("cora", tmp_path / "Cora" / "raw")
    assert not marker.exists()


def planetoid(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small data set in Planetoid's layout, taken for the published Cora."""
    num_train, num_known, num_test, num_classes = 14, 600, 20, 7
    raw = root / "Cora" / "raw"
    raw.mkdir(parents=True)
    total = num_known + num_test
    x = sp.csr_matrix(np.eye(total, 5, dtype=np.float32) + np.eye(total, 5, -1, dtype=np.float32))
    y = np.eye(num_classes, dtype=np.int32)[np.arange(total) % num_classes]
    parts = {"x": x[:num_train], "allx": x[:num_known], "tx": x[num_known:]}
    parts |= {"y": y[:num_train], "ally": y[:num_known], "ty": y[num_known:]}
    parts["graph"] = {node: [(node + 1) % total] for node in range(total)}
    for part, content in parts.items():
        (raw / f"ind.cora.{part}").write_bytes(pickle.dumps(content, protocol=2))
    (raw / "ind.cora.test.index").write_text("".join(f"{num_known + i}\n" for i in range(num_test)))
    digests = b"".join(hashlib.sha256((raw / f"ind.cora.{part}").read_bytes()).digest() for part in PARTS)
    published = {"cora": hashlib.sha256(digests).hexdigest()}
    monkeypatch.setattr("hpn.datasets.formats.planetoid.SHA256", published)


def test_planetoids_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planetoid(tmp_path, monkeypatch)
    before = sorted(tmp_path.rglob("*"))
    graph = load_planetoid("cora", tmp_path / "Cora" / "raw")
    assert sorted(tmp_path.rglob("*")) == before, "the data root may be read-only"
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (620, 620, 5, 7)
    assert is_sparse(graph.x)
    assert graph.x.to_dense().sum(dim=1)[:4].tolist() == [1.0] * 4
    assert graph.masks is not None
    sizes = [int(mask.sum()) for mask in (graph.masks.train, graph.masks.val, graph.masks.test)]
    assert sizes == [14, 500, 20]
    assert plan_tasks(graph).classes == ((0, 1), (2, 3), (4, 5))


def geom_gcn(folder: Path) -> None:
    """A tiny data set in Geom-GCN's layout."""
    folder.mkdir(parents=True)
    header = "node_id\tfeature\tlabel\n"
    rows = "".join(f"{node}\t{node % 3},{3 + node % 2}\t{node % 2}\n" for node in range(8))
    (folder / "out1_node_feature_label.txt").write_text(header + rows)
    edges = "".join(f"{node}\t{(node + 1) % 8}\n" for node in range(8)) + "0\t1\n2\t2\n"
    (folder / "out1_graph_edges.txt").write_text("node_id\tnode_id\n" + edges)


def test_actor_and_webkb_layouts(tmp_path: Path) -> None:
    geom_gcn(tmp_path / "actor" / "raw")
    graph = load_geom_gcn("actor", tmp_path / "actor" / "raw")
    assert (graph.num_nodes, graph.num_links, graph.num_edges, graph.num_features) == (8, 10, 8, 5)
    assert graph.split_rule == "index"


def test_webkb_leaves_out_small_classes(data_root: Path) -> None:
    graph = load_geom_gcn("texas", data_root / "webkb" / "texas" / "raw")
    assert graph.class_order == (0, 2, 3, 4), "class 1 has one node"


def test_broken_files_are_named(tmp_path: Path) -> None:
    geom_gcn(tmp_path / "actor" / "raw")
    (tmp_path / "actor" / "raw" / "out1_node_feature_label.txt").write_text("garbage\nmore\n")
    with pytest.raises(DataError, match=r"actor: the files in .* cannot be read"):
        load_geom_gcn("actor", tmp_path / "actor" / "raw")


def test_cora_is_loaded_without_a_warning(data_root: Path) -> None:
    code = "import hpn, sys; hpn.load_graph('cora', data_root=sys.argv[1])"
    words = [sys.executable, "-W", "default", "-c", code, str(data_root)]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stderr == ""
