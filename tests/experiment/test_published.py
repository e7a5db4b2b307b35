from __future__ import annotations

import pytest

from hpn.experiment.published import (
    Cell,
    Spread,
    _tables,
    published_cell,
    published_parameters,
    published_source,
)

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
def test_cells_as_printed(
    dataset: str,
    method: str,
    backbone: str | None,
    am: tuple[float, float],
    fm: tuple[float, float] | None,
) -> None:
    expected = Cell(am=Spread(*am), fm=None if fm is None else Spread(*fm))
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
        assert published_parameters("ewc", backbone) == 20 * plain
        assert published_parameters("lwf", backbone) == 2 * plain
        assert published_parameters("twp", backbone) == 4 * plain
        assert published_parameters("mas", backbone) == plain
        assert published_parameters("joint", backbone) == plain
        assert published_parameters("gem", backbone) == 2_200_000 + plain


def test_what_the_paper_does_not_report_is_none() -> None:
    for absent in (
        ("digits", "ewc", "gcn"),
        ("cora", "ewc", None),
        ("cora", "hpn", "gcn"),
        ("cora", "ncm", None),
    ):
        assert published_cell(*absent) is None
    assert published_parameters("ncm", None) is None
    assert "Hierarchical Prototype Networks" in published_source()
