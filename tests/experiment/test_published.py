from __future__ import annotations

from typing import Any, get_args

import pytest

from hpn.experiment.published import (
    PublishedResult,
    Spread,
    Table,
    _tables,
    published_ablation,
    published_cell,
    published_matrix,
    published_memory,
    published_parameters,
    published_source,
)
from hpn.metrics import METRICS

DATASETS = ("cora", "citeseer", "actor", "ogbn-arxiv", "ogbn-products")
BASELINES = ("finetune", "ewc", "lwf", "gem", "mas", "ergnn", "twp", "joint")
BACKBONES = ("gcn", "gat", "gin")
ROWS = [*((method, backbone) for method in BASELINES for backbone in BACKBONES), ("hpn", None)]


def result(am: tuple[float, float], fm: tuple[float, float] | None) -> PublishedResult:
    return PublishedResult(am=Spread(*am), fm=fm and Spread(*fm))


@pytest.mark.parametrize(
    ("dataset", "method", "backbone", "am", "fm"),
    [
        ("cora", "finetune", "gcn", (63.5, 1.9), (-42.3, 0.4)),
        ("citeseer", "mas", "gin", (65.2, 3.9), (0.0, 2.0)),
        ("actor", "gem", "gcn", (52.7, 3.1), (3.9, 2.9)),
        ("ogbn-arxiv", "joint", "gin", (82.3, 1.9), None),
        ("ogbn-products", "hpn", None, (80.1, 0.8), (2.9, 1.0)),
    ],
)
def test_cells_as_printed(dataset: str, method: str, backbone: str | None, am: Any, fm: Any) -> None:
    assert published_cell(dataset, method, backbone) == result(am, fm)


def test_every_row_and_nothing_else_in_range() -> None:
    tables = _tables()
    names = {f"{method}-{backbone}" if backbone else method for method, backbone in ROWS}
    assert tuple(tables["cells"]) == DATASETS
    assert set(tables["parameters"]) == names
    for dataset in DATASETS:
        assert set(tables["cells"][dataset]) == names
        for method, backbone in ROWS:
            cell = published_cell(dataset, method, backbone)
            assert cell is not None
            assert 40 < cell.am.mean < 100
            assert 0 < cell.am.std < 10
            assert (cell.fm is None) == (method == "joint")
            assert cell.fm is None or (-50 < cell.fm.mean < 10 and 0 < cell.fm.std < 10)


def test_parameters_as_printed_and_consistent() -> None:
    assert (published_parameters("hpn", None), published_parameters("gem", "gat")) == (4908, 2_220_032)
    for backbone in BACKBONES:
        plain = published_parameters("finetune", backbone)
        assert plain is not None
        for method, times in {"ewc": 20, "lwf": 2, "twp": 4, "mas": 1, "joint": 1}.items():
            assert published_parameters(method, backbone) == times * plain
        assert published_parameters("gem", backbone) == 2_200_000 + plain


def test_ablations_as_printed_and_with_the_whole_model_of_the_comparison() -> None:
    assert published_ablation("levels", "cora", "AN") == result((91.7, 1.1), (-0.2, 0.8))
    assert published_ablation("losses", "ogbn-arxiv", "cls+dis") == result((80.7, 1.2), (0.0, 1.4))
    for dataset in ("cora", "ogbn-arxiv"):
        assert list(_tables()["levels"][dataset]) == ["A", "AN", "ANC"]
        assert list(_tables()["losses"][dataset]) == ["cls", "cls+div", "cls+dis", "cls+div+dis"]
        for ablation, conf in (("levels", "ANC"), ("losses", "cls+div+dis")):
            assert published_ablation(ablation, dataset, conf) == published_cell(dataset, "hpn", None)


def test_matrices_as_printed_and_safe_to_change() -> None:
    expected = [[95.02], [95.93, 92.66], [94.57, 92.22, 96.83]]
    found = published_matrix("cora", "hpn", None)
    assert found == expected
    found[0][0] = 0.0
    assert published_matrix("cora", "hpn", None) == expected
    assert {dataset: set(rows) for dataset, rows in _tables()["matrices"].items()} == {
        "cora": {"finetune-gat", "hpn", "gem-gcn", "mas-gat"}
    }
    for method, backbone in (("finetune", "gat"), ("gem", "gcn"), ("mas", "gat")):
        matrix, cell = published_matrix("cora", method, backbone), published_cell("cora", method, backbone)
        assert matrix is not None
        assert cell is not None
        assert cell.fm is not None
        assert METRICS["am"](matrix) == pytest.approx(cell.am.mean, abs=0.05)
        assert METRICS["fm"](matrix) == pytest.approx(cell.fm.mean, abs=0.05)


def test_memory_sources_and_what_is_absent() -> None:
    assert published_memory() == {"dataset": "ogbn-products", "bound": 6163, "hpn": 4908}
    sources = [published_source(table) for table in get_args(Table)]
    assert len(set(sources)) == len(sources) == len(_tables()["sources"])
    assert published_source() == sources[0]
    assert all("Hierarchical Prototype Networks" in source for source in sources)
    for absent in (("digits", "ewc", "gcn"), ("cora", "ewc", None), ("cora", "hpn", "gcn"), ("cora", "ncm", None)):
        assert published_cell(*absent) is published_matrix(*absent) is None
    assert published_matrix("citeseer", "hpn", None) is None
    assert published_ablation("losses", "citeseer", "cls") is published_parameters("ncm", None) is None
