from __future__ import annotations

from fractions import Fraction

from hpn.reproduction.page_memory import (
    bounded_parts,
    bounds_table,
    growth_figures,
    largest_share,
    memory_table,
    paper_memory,
)
from hpn.reproduction.page_parts import Figures
from hpn.reproduction.results import CaseResult, Section


def find(section, preset):
    return next(case for case in section["cases"] if case["case"]["preset"] == preset)


def test_the_papers_amounts_stand_beside_ours(make_section, fail, tables_of):
    section = make_section("memory")
    fail(section, 1)
    (table,) = tables_of(memory_table(Section.model_validate(section)))
    assert table[1] == ["finetune · gcn", "1,234", "98,765", "2,336"]
    assert table[2][1:] == [r"failed: out of \| memory \<b\>", "–", "20,032"]
    names = [row[0] for row in table]
    at = names.index("hpn (paper)")
    assert names[at : at + 3] == ["hpn (paper)", "hpn (best)", "hpn (small)"], "in one place"
    assert table[names.index("ridge")][3] == "–"


def test_bounds(make_section, tables_of):
    (table,) = tables_of(bounds_table(Section.model_validate(make_section("memory"))))
    small = [row[1:] for row in table if row[0] == "hpn (small)"]
    assert small == [
        ["atomic", "4", "4", "40", "10.0"],
        ["node", "8", "8", "1,000,000,000", "under 0.01"],
        ["class", "12", "12", "no useful bound", "under 0.01"],
        ["parameters", "1,200", "1,200", "5,000", "24.0"],
    ]


def test_the_most_of_any_seed_counts(make_section, tables_of):
    section = make_section("memory")
    growth = find(section, "small")["growth"]
    growth[1]["most_prototypes"]["atomic"] = 30
    (table,) = tables_of(bounds_table(Section.model_validate(section)))
    assert ["hpn (small)", "atomic", "4", "30", "40", "75.0"] in table
    assert largest_share(Section.model_validate(section)) == (
        "The largest share of a bound that was ever reached: 75.0 % (hpn (small), atomic, after task 2)."
    )


def test_shares_of_bounds_beyond_every_float(make_section):
    part = list(bounded_parts(CaseResult.model_validate(find(make_section("memory"), "best"))))[2]
    assert part.share(12.0) == Fraction(12, 10**400)


def test_without_growth_there_is_nothing_to_say(make_section):
    section = make_section("memory")
    for case in section["cases"]:
        case["growth"] = None
    figures = Figures("memory")
    assert (
        bounds_table(Section.model_validate(section)),
        largest_share(Section.model_validate(section)),
    ) == ("", "")
    assert growth_figures(figures, Section.model_validate(section)) == []
    assert not figures.files


def test_the_smallest_is_drawn(make_section):
    section, figures = make_section("memory"), Figures("memory")
    shown = growth_figures(figures, Section.model_validate(section))
    assert list(figures.files) == ["memory-cora-prototypes.svg", "memory-cora-parameters.svg"]
    assert "hpn (small)" in shown[0]
    assert "parameters 1,200 of at most 5,000" in shown[1]
    find(section, "small")["growth"] = None
    assert "hpn (paper)" in growth_figures(Figures("memory"), Section.model_validate(section))[0]


def test_what_the_paper_says():
    assert paper_memory() == (
        "The paper, on ogbn-products: 4,908 parameters at the end, under a bound of 6,163."
    )
