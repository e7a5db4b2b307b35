"""What the figures of the pages plot; that a page shows them all is tested with the pages."""

from __future__ import annotations

import pytest

from hpn.report.figures import chart_spec
from hpn.reproduction.content import Section
from hpn.reproduction.figures import FIGURES, weights


@pytest.fixture
def draw(make_section):
    """The figures of a kind for a section, which ``change`` alters before, by stem."""

    def make(kind, experiment, change=lambda section: None, **options):
        section = make_section(experiment, **options)
        change(section)
        section = Section.model_validate(section)
        return section, {figure.stem: figure for figure in FIGURES[kind](experiment, section)}

    return make


def test_names_and_sources_without_the_papers_values(draw, plotted):
    _, figures = draw("intervals", "ablation-losses", is_paper=False)
    rows = plotted(figures["cora"].chart)
    assert [row["method"] for row in rows] == ["cls", "cls+div", "cls+dis", "cls+div+dis"]
    assert {row["source"] for row in rows} == {"ours"}
    assert "ollow" not in figures["cora"].caption + str(chart_spec(figures["cora"].chart)["title"])


def test_grids_leave_out_what_failed(draw, plotted, fail):
    section, figures = draw("extractors", "sensitivity-extractors", lambda section: fail(section, 0))
    for metric in ("am", "fm"):
        found = {(row["row"], row["column"]): row["value"] for row in plotted(figures[f"cora-{metric}"].chart)}
        assert found == {
            (case.label["num_extractors"], case.label["dim"]): case.metrics[metric].mean for case in section.cases[1:]
        }
    assert figures["cora-am"].caption.startswith("The highest is 22 extractors, dimension 16 with ")


def test_weights_of_all_data_sets_share_a_chart(make_section, plotted):
    names = ("cora", "citeseer")
    sections = [make_section("sensitivity-losses", name) for name in names]
    sections[1]["cases"] = sections[1]["cases"][:3]  # α is 1 in each
    sections = [Section.model_validate(section) for section in sections]
    figures = {figure.stem: figure for figure in weights(sections)}
    assert [*figures] == ["beta-am", "beta-fm", "alpha-am", "alpha-fm"]
    assert figures["beta-am"].title == "AM over β, with α = 1"
    assert figures["alpha-fm"].caption.endswith("; citeseer has no values.")
    powers = [10.0**k for k in range(-4, 4)]
    for stem, figure in figures.items():
        swept, metric = stem.split("-")
        xs = {name: [] for name in names}
        for row in plotted(figure.chart):
            if "run" in row:
                xs[row["run"]].append(row["x"])
                case = sections[names.index(row["run"])].find(**{"alpha": 1.0, "beta": 1.0, swept: row["x"]})
                assert row["mean"] == case.metrics[metric].mean
        assert xs == {"cora": pytest.approx(powers), "citeseer": pytest.approx(powers[:3] if swept == "beta" else [])}


@pytest.mark.parametrize(("presets", "shown"), [({"small"}, ["hpn (paper)"] * 2), (None, [])])
def test_growth_that_is_not_known(draw, presets, shown):
    def change(section):
        for case in section["cases"]:
            if presets is None or case["case"]["preset"] in presets:
                case["growth"] = None

    _, figures = draw("growth", "memory", change)
    assert [figure.title.split(" of ")[1].split(" on ")[0] for figure in figures.values()] == shown
