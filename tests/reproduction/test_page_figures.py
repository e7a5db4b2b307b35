from __future__ import annotations

import re

from hpn.reproduction.page_cells import Verdicts
from hpn.reproduction.page_figures import (
    dynamics_figure,
    extractors_figures,
    intervals_figure,
    losses_figures,
    matrix_figure,
    threshold_figures,
    view_figures,
)
from hpn.reproduction.page_parts import Figures
from hpn.reproduction.results import Section


def test_the_comparison_has_the_papers_values_as_hollow_markers(make_section):
    figures, section = Figures("comparison"), make_section("comparison")
    alt = intervals_figure(figures, Verdicts("comparison", Section.model_validate(section)), "every method")
    (svg,) = figures.files.values()
    assert "ewc · gcn, the paper: 63.1 ± 1.2" in svg
    assert "hpn (best), the paper: 93.7 ± 1.5" in svg
    assert "hollow" in alt
    assert re.search(r"the highest is .+ with \d+\.\d ± \d\.\d, the lowest finetune · gcn with", alt)


def test_without_the_papers_values_there_are_no_hollow_markers(make_section):
    figures, section = Figures("comparison"), make_section("comparison", is_paper=False)
    assert "hollow" not in intervals_figure(
        figures, Verdicts("comparison", Section.model_validate(section)), "every method"
    )
    assert "the paper" not in "".join(figures.files.values())


def test_names_of_ablations_fit(make_section):
    figures, section = Figures("ablation-losses"), make_section("ablation-losses")
    intervals_figure(
        figures, Verdicts("ablation-losses", Section.model_validate(section)), "every configuration"
    )
    (svg,) = figures.files.values()
    assert "cls+div+dis</text>" in svg
    assert "…</text>" not in svg


def test_a_matrix(make_section):
    figures, section = Figures("accuracy-matrices"), make_section("accuracy-matrices")
    section = Section.model_validate(section)
    matrix_figure(figures, section, section.cases[3])
    ((name, svg),) = figures.files.items()
    assert name == "accuracy-matrices-cora-hpn-paper.svg"
    assert "Accuracy matrix, hpn (paper) on cora" in svg


def test_dynamics(make_section):
    figures, section = Figures("dynamics"), make_section("dynamics")
    alt = dynamics_figure(figures, Section.model_validate(section))
    (svg,) = figures.files.values()
    for label in ("finetune · gat", "twp · gat", "hpn (paper)", "hpn (best)"):
        assert label in svg
        assert re.search(rf"{re.escape(label)} \d+\.\d ± \d\.\d %", alt)


def test_grids_have_a_place_for_what_failed(make_section, fail):
    figures, section = Figures("sensitivity-extractors"), make_section("sensitivity-extractors")
    fail(section, 0)
    am, fm = extractors_figures(figures, Section.model_validate(section))
    assert "no value" in figures.files["sensitivity-extractors-cora-am.svg"]
    assert "the highest is 22 extractors, dimension 16" in am
    assert fm.endswith("-fm.svg)")


def test_thresholds(make_section, fail):
    figures, section = Figures("sensitivity-threshold"), make_section("sensitivity-threshold")
    for number, case in enumerate(section["cases"]):
        case["prototypes"]["atomic"] = 9000.0 / 3**number
    fail(section, 4)
    shown = threshold_figures(figures, Section.model_validate(section))
    assert [*figures.files] == [
        f"sensitivity-threshold-cora-{what}.svg" for what in ("am", "fm", "prototypes")
    ]
    assert "from 9,000 to 1" in shown[2]
    assert ">1,000</text>" in figures.files["sensitivity-threshold-cora-prototypes.svg"], "a logarithmic axis"


def test_weights_of_both_data_sets_share_a_chart(make_section):
    figures = Figures("sensitivity-losses")
    sections = [make_section("sensitivity-losses", name) for name in ("cora", "citeseer")]
    shown = losses_figures(figures, [*map(Section.model_validate, sections)])
    assert [*figures.files] == [
        f"sensitivity-losses-{weight}-{metric}.svg" for weight in ("beta", "alpha") for metric in ("am", "fm")
    ]
    for svg in figures.files.values():
        assert "cora" in svg
        assert "citeseer" in svg
        assert svg.count('class="hit"') == 16, "eight weights each; 1 belongs to both sweeps"
    assert "AM over β, with α = 1" in shown[0]


def test_other_weights_are_another_chart(make_section):
    sections = [make_section("sensitivity-losses", name) for name in ("cora", "citeseer")]
    sections[1]["cases"] = sections[1]["cases"][:3]
    figures = Figures("sensitivity-losses")
    losses_figures(figures, [*map(Section.model_validate, sections)])
    assert "sensitivity-losses-beta-am-2.svg" in figures.files
    assert "sensitivity-losses-alpha-am-2.svg" not in figures.files, "no α was swept"


def test_views_of_each_preset(make_section):
    figures, section = Figures("visualization"), make_section("visualization")
    shown = view_figures(figures, Section.model_validate(section))
    assert [*figures.files] == ["visualization-cora-paper.svg", "visualization-cora-best.svg"]
    svg = figures.files["visualization-cora-paper.svg"]
    for text in ("after task 1", "after task 3", "topic 5"):
        assert text in svg
    assert "silhouette of the classes is 0.47 ± 0.01 after the last" in shown[0]
