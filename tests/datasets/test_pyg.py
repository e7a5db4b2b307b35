from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from hpn.datasets.pyg import load_actor, load_planetoid, load_webkb
from hpn.errors import DataError


def test_cora_has_the_public_split_and_row_sums_of_one(data_root: Path) -> None:
    graph = load_planetoid("Cora", data_root)
    assert graph.masks is not None
    sizes = [int(mask.sum()) for mask in (graph.masks.train, graph.masks.val, graph.masks.test)]
    assert sizes == [140, 500, 1000]
    sums = torch.sparse.sum(graph.x.to_sparse_coo(), dim=1).to_dense()
    assert torch.allclose(sums, torch.ones(2708))
    binary = load_planetoid("Cora", data_root, normalize="none")
    assert set(binary.x.values().tolist()) == {1.0}


def test_the_data_root_may_be_read_only(data_root: Path, tmp_path: Path) -> None:
    shutil.copytree(data_root / "Cora" / "raw", tmp_path / "Cora" / "raw")
    before = sorted(tmp_path.rglob("*"))
    load_planetoid("Cora", tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_pickle_that_is_not_the_published_one_is_never_read(data_root: Path, tmp_path: Path) -> None:
    shutil.copytree(data_root / "Cora" / "raw", tmp_path / "Cora" / "raw")
    marker = tmp_path / "ran"
    attack = f"cos\nsystem\n(S'touch {marker}'\ntR."
    (tmp_path / "Cora" / "raw" / "ind.cora.graph").write_text(attack)
    with pytest.raises(DataError, match=r"ind\.cora\.graph is not the published file"):
        load_planetoid("Cora", tmp_path)
    assert not marker.exists()


def geom_gcn(folder: Path, name: str) -> None:
    """A tiny data set in Geom-GCN's layout."""
    import numpy as np

    folder.mkdir(parents=True)
    header = "node_id\tfeature\tlabel\n"
    rows = "".join(f"{node}\t{node % 3},{3 + node % 2}\t{node % 2}\n" for node in range(8))
    (folder / "out1_node_feature_label.txt").write_text(header + rows)
    edges = "".join(f"{node}\t{(node + 1) % 8}\n" for node in range(8)) + "0\t1\n2\t2\n"
    (folder / "out1_graph_edges.txt").write_text("node_id\tnode_id\n" + edges)
    for number in range(10):
        masks = {f"{part}_mask": np.zeros(8, dtype=np.uint8) for part in ("train", "val", "test")}
        np.savez(folder / f"{name}_split_0.6_0.2_{number}.npz", **masks)


def test_actor_and_webkb_layouts(tmp_path: Path) -> None:
    geom_gcn(tmp_path / "actor" / "raw", "film")
    graph = load_actor(tmp_path)
    assert (graph.num_nodes, graph.num_links, graph.num_edges, graph.num_features) == (8, 10, 8, 5)
    assert graph.split_rule == "index"


def test_webkb_leaves_out_small_classes(data_root: Path) -> None:
    assert load_webkb("texas", data_root).class_order == (0, 2, 3, 4)  # class 1 has one node


def test_broken_files_are_named(tmp_path: Path) -> None:
    geom_gcn(tmp_path / "actor" / "raw", "film")
    (tmp_path / "actor" / "raw" / "out1_node_feature_label.txt").write_text("garbage\nmore\n")
    with pytest.raises(DataError, match=r"actor: the files in .* cannot be read"):
        load_actor(tmp_path)
