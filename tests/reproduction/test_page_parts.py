from __future__ import annotations

import pytest

from hpn.reproduction.page_cells import case_label
from hpn.reproduction.page_parts import Figures, code, details, finish_page, table


def test_figures_never_share_a_name():
    figures = Figures("dynamics")
    links = [figures.add(name, name, "x") for name in ("a b", "a-b", "A|b", "../a b", "漢字")]
    assert list(figures.files) == [
        *("dynamics-a-b.svg", "dynamics-a-b-2.svg", "dynamics-a-b-3.svg"),
        *("dynamics-a-b-4.svg", "dynamics-graph.svg"),
    ]
    assert links[1] == "![x](dynamics-a-b-2.svg)"


def test_rows_must_fit_their_heads():
    with pytest.raises(ValueError, match="a row needs 2 cells, got 1"):
        table(["a", "b"], [["1"]])


def test_columns_are_aligned():
    assert table(["a", "b", "c"], [], align="lrl").split("\n")[1] == "|---|--:|---|"


def test_no_line_can_end_the_code():
    assert code("x\n```", "````") == "`````\nx\n```\n````\n`````"


def test_a_summary_is_text():
    assert details("<b>\n\n", ["x"])[0] == "<details>\n<summary>&lt;b&gt;</summary>"


def test_a_page_has_no_trailing_spaces_and_one_newline_at_its_end():
    assert finish_page("x", ["a  ", "", "b\t\nc"]).markdown == "a\n\nb\nc\n"


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ({"method": "hpn", "backbone": None, "preset": "small"}, "hpn (small)"),
        ({"preset": "paper", "losses": "cls+div"}, "cls+div (paper)"),
        ({"threshold_atomic": 0.05}, "t_A = 0.05"),
        ({"num_extractors": 1, "dim": 16}, "1 extractor, dimension 16"),
        ({"alpha": 0.0001, "beta": 1.0}, "α = 0.0001, β = 1"),
    ],
)
def test_names_of_cases(label, name):
    assert case_label(label) == name
