"""What the figures of the pages plot; that a page shows them all is tested with the pages."""

from __future__ import annotations

import pytest

from hpn.metrics import METRICS
from hpn.report.figures import chart_spec
from hpn.reproduction.content import Section
from hpn.reproduction.figures import FIGURES, matrix, weights


@pytest.fixture
def draw(make_section):
    """The figures of a kind for a section, which ``change`` alters before, by stem."""

    def make(kind, experiment, change=lambda section: None, **options):
        section = make_section(experiment, **options)
        change(section)
        section = Section.model_validate(section)
        return section, {figure.stem: figure for figure in FIGURES[kind](experiment, section)}

    return make


def test_the_comparison_has_ours_and_the_papers(draw, plotted):
    section, figures = draw("intervals", "comparison")
    rows = plotted(figures["cora"].chart)
    ours = [(row["method"], row["mean"], row["text"]) for row in rows if row["source"] == "ours"]
    assert [one[:2] for one in ours] == [(case.name, case.metrics["am"].mean) for case in section.cases]
    paper = {row["method"]: row["text"] for row in rows if row["source"] == "the paper"}
    assert (paper["ewc · gcn"], paper["hpn (best)"]) == ("63.1 ± 1.2", "93.7 ± 1.5")
    (name, _, high), (last, _, low) = (pick(ours, key=lambda one: one[1]) for pick in (max, min))
    assert figures["cora"].caption == (
        f"The highest is {name} with {high}, the lowest {last} with {low}. Hollow markers: the paper."
    )


def test_names_and_sources_without_the_papers_values(draw, plotted):
    _, figures = draw("intervals", "ablation-losses", is_paper=False)
    rows = plotted(figures["cora"].chart)
    assert [row["method"] for row in rows] == ["cls", "cls+div", "cls+dis", "cls+div+dis"]
    assert {row["source"] for row in rows} == {"ours"}
    assert "ollow" not in figures["cora"].caption + str(chart_spec(figures["cora"].chart)["title"])


def test_a_matrix(make_section, plotted):
    section = Section.model_validate(make_section("accuracy-matrices"))
    figure = matrix(section, section.cases[3])
    assert figure.stem == "cora-hpn (paper)"
    assert figure.title == "Accuracy matrix, hpn (paper) on cora"
    first, second = section.cases[3].matrices
    for row in plotted(figure.chart):
        after, task = row["row"] - 1, row["column"] - 1
        assert row["value"] == pytest.approx((first[after][task] + second[after][task]) / 2)
    assert len(plotted(figure.chart)) == 6


def test_dynamics(draw, plotted):
    section, figures = draw("dynamics", "dynamics")
    rows = [row for row in plotted(figures["cora"].chart) if "run" in row]
    for case in section.cases:
        curve = section.result(case).curve(METRICS["ars"])
        found = {row["x"]: row["mean"] for row in rows if row["run"] == case.name}
        assert found == {after: value.mean for after, value in enumerate(curve, 1) if value}
        end = next(row["text"] for row in rows if (row["run"], row["x"]) == (case.name, 3))
        assert f"{case.name} {end} %" in figures["cora"].caption
    assert draw("dynamics", "dynamics", num_tasks=2)[1] == {}, "one place is no line"


def test_grids_leave_out_what_failed(draw, plotted, fail):
    section, figures = draw("extractors", "sensitivity-extractors", lambda section: fail(section, 0))
    for metric in ("am", "fm"):
        found = {(row["row"], row["column"]): row["value"] for row in plotted(figures[f"cora-{metric}"].chart)}
        assert found == {
            (case.label["num_extractors"], case.label["dim"]): case.metrics[metric].mean for case in section.cases[1:]
        }
    assert figures["cora-am"].caption.startswith("The highest is 22 extractors, dimension 16 with ")


def test_thresholds(draw, plotted, fail):
    def change(section):
        for number, case in enumerate(section["cases"]):
            case["prototypes"]["atomic"] = 9000.0 / 3**number
        fail(section, 4)

    section, figures = draw("thresholds", "sensitivity-threshold", change)
    assert [*figures] == ["cora-am", "cora-fm", "cora-prototypes"]
    kept = {case.label["threshold_atomic"]: case for case in section.measured}
    assert 0.2 not in kept
    for stem, value in {
        "cora-am": lambda case: case.metrics["am"].mean,
        "cora-fm": lambda case: case.metrics["fm"].mean,
        "cora-prototypes": lambda case: case.prototypes["atomic"],
    }.items():
        found = {row["x"]: row["mean"] for row in plotted(figures[stem].chart) if "mean" in row}
        assert found == {x: value(case) for x, case in kept.items()}
    assert figures["cora-prototypes"].caption == "From 9,000 to 1."
    axis = chart_spec(figures["cora-prototypes"].chart)["layer"][0]["encoding"]["y"]["scale"]
    assert axis == {"type": "log", "domain": [1.0, 10000.0]}


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


def test_growth_is_of_the_smallest_hpn(draw, plotted):
    _, figures = draw("growth", "memory")
    assert [*figures] == ["cora-prototypes", "cora-parameters"]
    assert figures["cora-prototypes"].title == "Prototypes of hpn (small) on cora"
    rows = plotted(figures["cora-parameters"].chart)
    assert sorted(row["mean"] for row in rows if "x" in row) == [400.0, 800.0, 1200.0]
    assert [row["bound"] for row in rows if "bound" in row] == [5000.0]
    assert "parameters 1,200 of at most 5,000" in figures["cora-parameters"].caption
    rows = plotted(figures["cora-prototypes"].chart)
    assert {row["series"] for row in rows if "bound" in row} == {"atomic, bound 40"}, "others flatten it"
    assert len({row["series"] for row in rows if "x" in row}) == 3


@pytest.mark.parametrize(("presets", "shown"), [({"small"}, ["hpn (paper)"] * 2), (None, [])])
def test_growth_that_is_not_known(draw, presets, shown):
    def change(section):
        for case in section["cases"]:
            if presets is None or case["case"]["preset"] in presets:
                case["growth"] = None

    _, figures = draw("growth", "memory", change)
    assert [figure.title.split(" of ")[1].split(" on ")[0] for figure in figures.values()] == shown


def test_views_of_each_preset(draw, plotted):
    section, figures = draw("views", "visualization")
    assert [*figures] == ["cora-paper", "cora-best"]
    view = section.cases[0].views[2]
    rows = [row for row in plotted(figures["cora-paper"].chart) if row["panel"] == "after task 3"]
    points = {(h, v, f"topic {label}") for (h, v), label in zip(view.points, view.classes, strict=True)}
    assert {(row["h"], row["v"], row["class"]) for row in rows} == points
    assert "silhouette of the classes is 0.47 ± 0.01 after the last" in figures["cora-paper"].caption
