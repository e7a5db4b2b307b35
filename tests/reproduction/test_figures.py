"""What the figures of the pages plot; that a page shows them all is tested with the pages."""

from __future__ import annotations

from typing import Any

import altair as alt
import pytest

from hpn.report.figures import chart_spec
from hpn.reproduction.content import Section
from hpn.reproduction.figures import FIGURES


def plotted_rows(chart: alt.TopLevelMixin) -> list[dict[str, Any]]:
    """Everything that a chart plots, in order; data that layers share once."""
    found: list[dict[str, Any]] = []

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            values = part.get("data", {}).get("values", []) if isinstance(part.get("data"), dict) else []
            found.extend(row for row in values if row not in found)
        for child in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            walk(child)

    walk(chart_spec(chart))
    return found


@pytest.fixture
def draw(make_section):
    """The figures of a kind for a section, which ``change`` alters before, by stem."""

    def make(kind, experiment, change=lambda section: None, **options):
        section = make_section(experiment, **options)
        change(section)
        section = Section.model_validate(section)
        return section, {figure.stem: figure for figure in FIGURES[kind](experiment, section)}

    return make


def test_names_and_sources_without_the_papers_values(draw):
    _, figures = draw("intervals", "ablation-losses", is_paper=False)
    rows = plotted_rows(figures["cora"].chart)
    assert [row["method"] for row in rows] == ["cls", "cls+div", "cls+dis", "cls+div+dis"]
    assert {row["source"] for row in rows} == {"ours"}
    assert "ollow" not in figures["cora"].caption + str(chart_spec(figures["cora"].chart)["title"])


def test_grids_leave_out_what_failed(draw, fail):
    section, figures = draw("extractors", "sensitivity-extractors", lambda section: fail(section, 0))
    for metric in ("am", "fm"):
        found = {(row["row"], row["column"]): row["value"] for row in plotted_rows(figures[f"cora-{metric}"].chart)}
        assert found == {
            (case.label["num_extractors"], case.label["dim"]): case.metrics[metric].mean for case in section.cases[1:]
        }
    assert figures["cora-am"].caption.startswith("The highest is 22 extractors, dimension 16 with ")


@pytest.mark.parametrize(("presets", "shown"), [({"small"}, ["hpn (paper)"] * 2), (None, [])])
def test_growth_that_is_not_known(draw, presets, shown):
    def change(section):
        for case in section["cases"]:
            if presets is None or case["case"]["preset"] in presets:
                case["growth"] = None

    _, figures = draw("growth", "memory", change)
    assert [figure.title.split(" of ")[1].split(" on ")[0] for figure in figures.values()] == shown
