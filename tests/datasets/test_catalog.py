from __future__ import annotations

from pathlib import Path

import pytest

from hpn.datasets import CATALOG, describe_graph, load_dataset
from hpn.datasets.catalog import default_data_root
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


def test_a_users_real_file(data_root: Path) -> None:
    graph = load_dataset(str(data_root / "debian-sections.npz"))
    assert (graph.num_nodes, graph.num_links, graph.num_features) == (63620, 322803, 128)
    assert graph.num_classes == 51
    assert graph.class_names[0] == "libs"


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
