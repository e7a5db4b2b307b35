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


@pytest.mark.parametrize(
    ("dataset", "method", "backbone", "am", "fm"),
    [
        ("cora", "finetune", "gcn", (63.5, 1.9), (-42.3, 0.4)),
        ("cora", "mas", "gat", (84.7, 0.7), (-5.6, 2.0)),
        ("citeseer", "gem", "gat", (71.3, 2.2), (9.0, 1.5)),
        ("citeseer", "mas", "gin", (65.2, 3.9), (0.0, 2.0)),
        ("actor", "gem", "gcn", (52.7, 3.1), (3.9, 2.9)),
        ("ogbn-arxiv", "gem", "gin", (77.3, 2.1), (-11.2, 1.6)),
        ("ogbn-arxiv", "joint", "gin", (82.3, 1.9), None),
        ("ogbn-products", "twp", "gin", (69.9, 1.4), (-10.3, 2.7)),
        ("cora", "hpn", None, (93.7, 1.5), (0.6, 1.0)),
        ("ogbn-products", "hpn", None, (80.1, 0.8), (2.9, 1.0)),
    ],
)
def test_cells_as_printed(dataset: str, method: str, backbone: str | None, am: Any, fm: Any) -> None:
    expected = PublishedResult(am=Spread(*am), fm=None if fm is None else Spread(*fm))
    assert published_cell(dataset, method, backbone) == expected


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
            if cell.fm is not None:
                assert -50 < cell.fm.mean < 10
                assert 0 < cell.fm.std < 10


def test_parameters_as_printed_and_consistent() -> None:
    assert published_parameters("hpn", None) == 4908
    assert published_parameters("gem", "gat") == 2_220_032
    for backbone in BACKBONES:
        plain = published_parameters("finetune", backbone)
        assert plain is not None
        for method, times in {"ewc": 20, "lwf": 2, "twp": 4, "mas": 1, "joint": 1}.items():
            assert published_parameters(method, backbone) == times * plain
        assert published_parameters("gem", backbone) == 2_200_000 + plain


@pytest.mark.parametrize(
    ("ablation", "dataset", "conf", "am", "fm"),
    [
        ("levels", "cora", "A", (89.2, 1.3), (-0.1, 0.5)),
        ("levels", "cora", "AN", (91.7, 1.1), (-0.2, 0.8)),
        ("levels", "ogbn-arxiv", "A", (82.1, 0.9), (0.0, 1.1)),
        ("levels", "ogbn-arxiv", "AN", (83.6, 1.2), (0.2, 0.9)),
        ("losses", "cora", "cls", (92.4, 1.3), (0.8, 0.7)),
        ("losses", "cora", "cls+div", (92.9, 1.1), (0.3, 1.0)),
        ("losses", "cora", "cls+dis", (92.8, 0.9), (0.0, 1.2)),
        ("losses", "ogbn-arxiv", "cls", (79.6, 1.5), (-0.3, 1.3)),
        ("losses", "ogbn-arxiv", "cls+div", (82.3, 1.0), (0.4, 0.9)),
        ("losses", "ogbn-arxiv", "cls+dis", (80.7, 1.2), (0.0, 1.4)),
    ],
)
def test_ablations_as_printed(ablation: Any, dataset: str, conf: str, am: Any, fm: Any) -> None:
    assert published_ablation(ablation, dataset, conf) == PublishedResult(am=Spread(*am), fm=Spread(*fm))


@pytest.mark.parametrize("dataset", ["cora", "ogbn-arxiv"])
def test_the_whole_model_is_that_of_the_comparison(dataset: str) -> None:
    whole = published_cell(dataset, "hpn", None)
    assert published_ablation("levels", dataset, "ANC") == published_ablation("losses", dataset, "cls+div+dis") == whole
    assert set(_tables()["levels"][dataset]) == {"A", "AN", "ANC"}
    assert set(_tables()["losses"][dataset]) == {"cls", "cls+div", "cls+dis", "cls+div+dis"}


@pytest.mark.parametrize(("method", "backbone"), [("finetune", "gat"), ("gem", "gcn"), ("mas", "gat")])
def test_matrices_are_turned_the_right_way(method: str, backbone: str) -> None:
    matrix, cell = published_matrix("cora", method, backbone), published_cell("cora", method, backbone)
    assert matrix is not None
    assert cell is not None
    assert cell.fm is not None
    assert METRICS["am"](matrix) == pytest.approx(cell.am.mean, abs=0.05)
    assert METRICS["fm"](matrix) == pytest.approx(cell.fm.mean, abs=0.05)


def test_matrices_as_printed_and_safe_to_change() -> None:
    expected = [[95.02], [95.93, 92.66], [94.57, 92.22, 96.83]]
    found = published_matrix("cora", "hpn", None)
    assert found == expected
    found[0][0] = 0.0
    assert published_matrix("cora", "hpn", None) == expected
    assert set(_tables()["matrices"]) == {"cora"}
    assert set(_tables()["matrices"]["cora"]) == {"finetune-gat", "hpn", "gem-gcn", "mas-gat"}


def test_memory_and_sources() -> None:
    assert published_memory() == {"dataset": "ogbn-products", "bound": 6163, "hpn": 4908}
    assert published_source() == published_source("comparison")
    sources = [published_source(table) for table in get_args(Table)]
    assert len(set(sources)) == len(sources) == len(_tables()["sources"])
    assert all("Hierarchical Prototype Networks" in source for source in sources)
    for absent in (("digits", "ewc", "gcn"), ("cora", "ewc", None), ("cora", "hpn", "gcn"), ("cora", "ncm", None)):
        assert published_cell(*absent) is None
        assert published_matrix(*absent) is None
    assert published_matrix("citeseer", "hpn", None) is None
    assert published_ablation("levels", "cora", "C") is None
    assert published_ablation("losses", "citeseer", "cls") is None
    assert published_parameters("ncm", None) is None
