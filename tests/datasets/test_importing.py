from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpn.datasets import load_dataset
from hpn.datasets.importing import import_dataset
from hpn.datasets.store import open_store
from hpn.errors import ConfigError, DataError

OPTIONS = {"num_nodes": 120, "num_links": 300, "num_classes": 4, "num_features": 3}


def write_npz(path: Path) -> Path:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "adj_indptr": np.arange(31),
        "adj_indices": (np.arange(30) + 1) % 30,
        "adj_shape": np.array([30, 30]),
        "attr_matrix": rng.normal(size=(30, 4)),
        "labels": np.arange(30) % 3,
    }
    np.savez(path, **arrays)
    return path


def write_tables(folder: Path) -> Path:
    folder.mkdir()
    nodes = "".join(f"n{i},c{i % 2},{i / 7},{-i}\n" for i in range(20))
    edges = "".join(f"n{i},n{(i * 3 + 1) % 20}\n" for i in range(20))
    (folder / "nodes.csv").write_text("id,label,a,b\n" + nodes)
    (folder / "edges.csv").write_text("source,target\n" + edges)
    return folder


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("write", [write_npz, write_tables])
def test_a_file_is_streamed_to_the_same_graph(tmp_path: Path, write: Any, shards: int) -> None:
    source = str(write(tmp_path / "g.npz"))
    sizes, read = [], [0]

    def begin(total: int) -> Any:
        sizes.append(total)
        return lambda count: read.append(read[-1] + count)

    import_dataset(source, tmp_path / "s", begin=begin, shards=shards)
    stored = load_dataset(str(tmp_path / "s"))
    assert replace(stored).fingerprint() == stored.fingerprint() == load_dataset(source).fingerprint()
    assert (tmp_path / "s" / "x-00002.bin").exists() == (shards == 3)
    assert sizes == [read[-1]]


def test_data_that_is_made_in_memory_is_written(tmp_path: Path) -> None:
    import_dataset("synthetic", tmp_path / "s", options=OPTIONS, shards=2)
    stored = load_dataset(str(tmp_path / "s"))
    assert replace(stored).fingerprint() == load_dataset("synthetic", **OPTIONS).fingerprint()
    assert stored.name == "synthetic"


@pytest.mark.parametrize(
    ("source", "options", "complaint"),
    [
        ("nothing", {}, "no data set or file"),
        ("cora", {}, "exists"),
        ("synthetic", {"numnodes": 3}, "num_nodes"),
    ],
)
def test_what_cannot_be_imported_is_named(
    tmp_path: Path, source: str, options: dict[str, Any], complaint: str
) -> None:
    place = tmp_path / ("there" if complaint == "exists" else "s")
    (tmp_path / "there").mkdir()
    with pytest.raises((ConfigError, DataError), match=complaint):
        import_dataset(source, place, options=options)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_store_can_be_cut_into_other_shards(tmp_path: Path) -> None:
    import_dataset("synthetic", tmp_path / "whole", options=OPTIONS)
    import_dataset(str(tmp_path / "whole"), tmp_path / "three", shards=3)
    import_dataset(str(tmp_path / "three"), tmp_path / "again")
    names = {path.name for path in (tmp_path / "three").iterdir()}
    assert {"x-00000.bin", "x-00002.bin", "indices-00001.bin"} <= names
    graphs = [open_store(tmp_path / name) for name in ("whole", "three", "again")]
    assert len({graph.fingerprint() for graph in graphs}) == 1
    for name in ("x.bin", "indices.bin", "y.bin"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_files_have_no_options(tmp_path: Path) -> None:
    source = str(write_npz(tmp_path / "g.npz"))
    with pytest.raises(ConfigError, match="streamed as it is"):
        import_dataset(source, tmp_path / "t", options={"normalize": "row"})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("write", [write_npz, write_tables])
def test_more_shards_than_nodes_are_refused(tmp_path: Path, write: Any) -> None:
    source = write(tmp_path / "g.npz")
    with pytest.raises(ConfigError, match=r"31 shards are too many for [23]0 nodes"):
        import_dataset(str(source), tmp_path / "s", shards=31)
    with pytest.raises(ConfigError, match="must be from 1 to the number of nodes, got 0"):
        import_dataset(str(source), tmp_path / "s", shards=0)
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]
