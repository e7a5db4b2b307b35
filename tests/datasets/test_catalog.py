from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpn.datasets import CATALOG, describe_graph, load_dataset
from hpn.datasets.catalog import default_data_root, import_dataset
from hpn.datasets.sparse import is_sparse
from hpn.errors import ConfigError, DataError

# Actor's literature counts 33,544 edges and 931 features, but its published files hold 33,391 and 932.
REAL = {
    "cora": (2708, 5429, 1433, 7),
    "citeseer": (3327, 4732, 3703, 6),
    "actor": (7600, 33391, 932, 5),
    "texas": (183, 325, 1703, 5),
    "wisconsin": (251, 515, 1703, 5),
    "cornell": (183, 298, 1703, 5),
}


@pytest.mark.parametrize(("name", "expected"), REAL.items())
def test_published_statistics(name: str, expected: tuple[int, ...], data_root: Path) -> None:
    graph = load_dataset(name, data_root=data_root)
    found = (graph.num_nodes, graph.num_links, graph.num_features, graph.num_classes)
    assert found == expected
    assert is_sparse(graph.x), "bags of words stay sparse"
    if name != "actor":
        assert CATALOG[name].published == expected
    else:
        assert "33,544" in describe_graph(graph)["note"]


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(DataError, match="did you mean 'citeseer'"):
        load_dataset("citesear")


def test_an_unknown_option_gets_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'neighbors'"):
        load_dataset("digits", neighbours=3)
    with pytest.raises(ConfigError, match="greater than or equal to 1"):
        load_dataset("digits", neighbors=0)


@pytest.mark.parametrize("name", ["missing.npz", "missing.csv", "missing.parquet", "/no/such/folder"])
def test_a_path_to_nothing(name: str) -> None:
    with pytest.raises(DataError, match=Path(name).name):
        load_dataset(name)


def test_a_file_of_unknown_kind(tmp_path: Path) -> None:
    file = tmp_path / "graph.txt"
    file.write_text("0 1\n")
    with pytest.raises(DataError, match="unknown kind of file"):
        load_dataset(str(file))


def test_the_data_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HPN_DATA", str(tmp_path))
    assert default_data_root() == tmp_path
    monkeypatch.delenv("HPN_DATA")
    assert default_data_root().parts[-2:] == ("hpn", "data")


OPTIONS = {"num_nodes": 120, "num_links": 300, "num_classes": 4, "num_features": 3}


def write_npz(path: Path) -> Path:
    adjacency = {"adj_indptr": np.arange(31), "adj_indices": np.arange(1, 31) % 30, "adj_shape": [30, 30]}
    x = np.random.default_rng(0).normal(size=(30, 4))
    np.savez(path, **adjacency, attr_matrix=x, labels=np.arange(30) % 3)  # type: ignore[arg-type]
    return path


def write_tables(folder: Path) -> Path:
    folder.mkdir()
    nodes = "".join(f"n{i},c{i % 2},{i / 7},{-i}\n" for i in range(20))
    edges = "".join(f"n{i},n{(i * 3 + 1) % 20}\n" for i in range(20))
    (folder / "nodes.csv").write_text("id,label,a,b\n" + nodes)
    (folder / "edges.csv").write_text("source,target\n" + edges)
    return folder


@pytest.mark.parametrize("write", [write_npz, write_tables])
def test_a_file_is_streamed_to_the_same_graph(tmp_path: Path, write: Any) -> None:
    source = str(write(tmp_path / "g.npz"))
    sizes, read = [], [0]

    def begin(total: int) -> Any:
        sizes.append(total)
        return lambda count: read.append(read[-1] + count)

    import_dataset(source, tmp_path / "s", begin=begin)
    stored = load_dataset(str(tmp_path / "s"))
    assert replace(stored).fingerprint() == stored.fingerprint() == load_dataset(source).fingerprint()
    assert sizes == [read[-1]]


def test_data_that_is_made_in_memory_is_written(tmp_path: Path) -> None:
    import_dataset("synthetic", tmp_path / "s", options=OPTIONS)
    stored = load_dataset(str(tmp_path / "s"))
    assert replace(stored).fingerprint() == load_dataset("synthetic", **OPTIONS).fingerprint()
    assert stored.name == "synthetic"


@pytest.mark.parametrize(
    ("source", "options", "complaint"),
    [
        ("nothing", {}, "no data set or file"),
        ("cora", {}, "there exists; choose another path"),
        ("synthetic", {"numnodes": 3}, "num_nodes"),
    ],
)
def test_what_cannot_be_imported_is_named(tmp_path: Path, source: str, options: dict[str, Any], complaint: str) -> None:
    place = tmp_path / ("there" if "exists" in complaint else "s")
    (tmp_path / "there").mkdir()
    with pytest.raises((ConfigError, DataError), match=complaint):
        import_dataset(source, place, options=options)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("write", [write_npz, write_tables])
def test_options_are_those_of_the_format(tmp_path: Path, write: Any) -> None:
    source = str(write(tmp_path / "g.npz"))
    graph = import_dataset(source, tmp_path / "s", options={"normalize": "row"})
    assert graph.fingerprint() == load_dataset(source, normalize="row").fingerprint()
    with pytest.raises(ConfigError, match="did you mean 'normalize'"):
        import_dataset(source, tmp_path / "t", options={"normalise": "row"})
    assert not (tmp_path / "t").exists()
