"""Charts are tested by what they plot: the rows of data, scales and captions, not coordinates."""

import xml.etree.ElementTree as ET

import altair as alt
import pytest

from hpn.errors import ConfigError
from hpn.experiment.published import Spread
from hpn.experiment.run.result import Views
from hpn.metrics import METRICS, summarize
from hpn.report.figures import (
    FIGURES,
    Interval,
    chart_spec,
    chart_svg,
    comparison_chart,
    metric_curve,
    spec_digest,
    view_chart,
)
from hpn.report.results import Run, RunGroup


def draw(name, results, runs=None):
    group = RunGroup.of(results)
    if runs:
        group = RunGroup(runs, group.labels, group.domain)
    specs = [chart_spec(chart) for chart in FIGURES[name].draw(group)]
    for spec in specs:
        alt.Chart.from_dict(spec, validate=True)  # against the schema of Vega-Lite
    return specs


def find(part, key):
    """All values under a key, anywhere in a specification."""
    if isinstance(part, dict):
        own = [part[key]] if key in part else []
        return own + [found for value in part.values() for found in find(value, key)]
    return [found for value in part for found in find(value, key)] if isinstance(part, list) else []


def rows(spec):
    """The first data of a chart."""
    return datasets(spec)[0]


def datasets(spec):
    return [data["values"] for data in find(spec, "data")]


def grown(num_steps=3, **counts):
    return [
        {
            "parameters": 10.0 * k,
            "stored": 20.0 * k,
            "prototypes": {level: num * k for level, num in counts.items()} or None,
            "most_prototypes": None,
        }
        for k in range(1, num_steps + 1)
    ]


def test_a_curve_plots_the_metric_after_each_step_with_its_deviation(make_result):
    results = [make_result(), make_result(method="ewc", seeds=[0], num_seeds=1)]
    (spec,) = draw("accuracy", results)
    plotted = {(row["run"], row["x"]): row for row in rows(spec)}
    for label, result in zip(("finetune · gcn", "ewc · gcn"), results, strict=True):
        for step, value in enumerate(result.curve(METRICS["am"]), 1):
            row = plotted.pop((label, step))
            assert row["mean"] == value.mean
            assert row["low"] == value.mean - value.std
            assert row["high"] == min(100.0, value.mean + value.std)
    assert not plotted
    assert spec["title"]["text"] == "AM after each task"
    assert "standard deviation" in spec["title"]["subtitle"]
    assert "ewc · gcn 8" in spec["description"], "the end in words, for those who do not see it"


def test_runs_can_be_hidden_and_keep_their_colours(make_result):
    group = RunGroup.of([make_result(), make_result(method="ewc")])
    (chart,) = metric_curve(group.single(1), METRICS["am"])
    spec = chart_spec(chart)
    assert {"name": "hidden", "value": []} in spec["params"]
    assert "indexof(hidden, datum.run) < 0" in find(spec, "filter")
    assert {row["run"] for row in rows(spec)} == {"ewc · gcn"}
    domains = [part["domain"] for part in find(spec, "scale") if "domain" in part and len(part["domain"]) == 2]
    assert ["finetune · gcn", "ewc · gcn"] in domains


def test_tasks_before_and_after(make_result):
    (spec,) = draw("tasks_before_after", [make_result(2, num_seeds=1, seeds=[0], matrices=[[[80.0], [60.0, 90.0]]])])
    assert [(row["learned"], row["end"]) for row in rows(spec)] == [(80.0, 60.0), (90.0, 90.0)]
    assert rows(spec)[0]["classes"] == "Theory, Rule learning"


def test_many_tasks_are_wider_than_a_card(make_result):
    results = [make_result(50, method=f"m{i}") for i in range(4)]
    (wide,), (narrow,) = draw("tasks_before_after", results), draw("tasks_before_after", results[:1])
    assert wide["width"] > 1000 > narrow["width"]


def test_costs_are_per_seed_as_in_the_table(make_result):
    (spec,) = draw("cost", [make_result(), make_result(method="ewc", seconds=None, peak_rss_mb=None)])
    known = {row["of"]: row["value"] for row in rows(spec) if "run" in row}
    assert known == {
        "Time to fit, seconds per seed": 30.5 / 2,
        "Time to predict, seconds per seed": 0.75 / 2,
        "Peak memory, MB": 623.4,
    }
    assert draw("cost", [make_result(seconds=None, peak_rss_mb=None)]) == []


def test_growth_under_bounds(make_result):
    counts = {"atomic": 5, "node": 2}
    result = make_result(growth=grown(**counts), bounds={"atomic": 40, "node": 10**30})
    (spec,) = draw("prototypes", [result])
    limits, points, *_ = datasets(spec)
    assert [limit["bound"] for limit in limits] == [40.0], "a bound far away is stated, not drawn"
    assert {row["series"] for row in points} == {"atomic, bound 40", "node, no useful bound"}
    assert [row["mean"] for row in points if "atomic" in row["series"]] == [5, 10, 15]
    assert "log" not in find(spec, "type")
    far = make_result(growth=grown(**counts), bounds={"atomic": 4000})
    assert "log" in find(draw("prototypes", [far]), "type")


def test_of_many_runs_the_first_four_show_their_prototypes(make_result):
    specs = draw("prototypes", [make_result(method=f"hpn{i}", growth=grown(atomic=5)) for i in range(6)])
    assert len(specs) == 4
    assert [("2 more runs not drawn" in spec["title"]["subtitle"]) for spec in specs] == [False] * 3 + [True]


def test_stored_numbers_and_old_results_without_them(make_result):
    small, large = make_result(growth=grown()), make_result(method="joint", growth=grown())
    for entry in large.growth:
        entry.__dict__["stored"] = 1e6
    (spec,) = draw("stored", [small, large, make_result(method="ewc")])
    assert [row["mean"] for row in rows(spec)] == [20, 40, 60, 1e6, 1e6, 1e6]
    assert "log" in find(spec, "type")
    assert "log" not in find(draw("stored", [small]), "type")
    assert draw("stored", [make_result()]) == []


def test_one_step_has_no_curves(make_result):
    result = make_result(num_tasks=1, growth=grown(1, atomic=5))
    assert [draw(name, [result]) for name in ("accuracy", "retained", "stored", "prototypes")] == [[]] * 4
    assert draw("matrix", [result])


def test_the_matrix_is_the_result(make_result, make_time_result):
    result = make_result()
    (spec,) = draw("matrix", [result])
    plotted = {(row["row"] - 1, row["column"] - 1): row["value"] for row in rows(spec)}
    matrix = result.mean_matrix()
    assert plotted == {(i, j): matrix[i][j].mean for i in range(3) for j in range(i + 1)}
    (spec,) = draw("matrix", [make_time_result()])
    assert [row["is_ahead"] for row in rows(spec)] == [False, True, False, False, True, False, False, False]
    assert "outlined: steps still to come" in spec["title"]["subtitle"]
    assert "text" not in [mark["type"] for mark in find(draw("matrix", [make_result(50)]), "mark")]


VIEW = {"silhouette": 0.25, "neighbors": 80.0, "classes": [0, 1, 4], "points": [[0, 1], [2, 3], [4, 5]]}


@pytest.mark.parametrize(("num_steps", "panels"), [(3, [1, 2, 3]), (23, [1, 5, 10, 14, 19, 23])])
def test_views_of_the_first_seed(make_result, num_steps, panels):
    views = Views.model_validate({"seeds": [7], "views": [[{**VIEW, "after": k} for k in range(num_steps)]]})
    result = make_result(num_steps)
    (spec,) = draw("node_views", [result], [Run(result, views)])
    assert list(dict.fromkeys(row["panel"] for row in rows(spec))) == [f"after task {k}" for k in panels]
    assert rows(spec)[0] == {"panel": "after task 1", "class": "Theory", "h": 0.0, "v": 1.0}
    assert spec["title"]["subtitle"].startswith("t-SNE, seed 7; at the end: silhouette 0.25, 80.0 %")
    assert draw("node_views", [result], [Run(result, Views(seeds=[0], views=[[]]))]) == []


def _runs(make_result, changes, **fields):
    return [make_result(method="hpn", backbone=None, params=change, **fields) for change in changes]


def test_a_sweep_plots_every_metric_over_the_setting(make_result):
    runs = _runs(make_result, [{"dim": dim} for dim in (16, 2, 4)], prototypes={"atomic": 30.5}, fm=None)
    specs = draw("sensitivity", runs)
    heads = [spec["title"]["text"] for spec in specs]
    assert heads[0] == "AM by dim, hpn"
    assert "FM by dim, hpn" not in heads
    assert heads[-1] == "Atomic prototypes by dim, hpn"
    assert [(row["x"], row["mean"]) for row in rows(specs[0])] == [(dim, 81.0) for dim in (2, 4, 16)]
    assert {row["mean"] for row in rows(specs[-1])} == {30.5}


@pytest.mark.parametrize("num_steps", [1, 3, 50])
def test_every_chart_is_drawn_as_a_file_whatever_the_names(make_result, hostile, num_steps):
    pytest.importorskip("vl_convert")
    result = make_result(
        num_steps,
        **{"method": hostile, "dataset": hostile, "class_names": {"0": hostile}},
        **{"growth": grown(num_steps, **{hostile: 3}), "bounds": {hostile: 9}},
    )
    charts = [
        chart for figure in FIGURES.values() if figure.scope == "group" for chart in figure.draw(RunGroup.of([result]))
    ]
    interval = Interval(hostile, hostile, summarize([1.0, 2.0]), Spread(2.0, 1.0))
    charts.append(comparison_chart([interval], title=hostile, about=hostile, x_title=hostile))
    for chart in charts[:: 1 if num_steps == 3 else 3]:
        text = chart_svg(chart)
        root = ET.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert not [e for e in root.iter() if e.tag.endswith(("script", "foreignObject"))]
        assert not [name for e in root.iter() for name in e.attrib if name.startswith("on")]
        assert spec_digest(chart) in text.splitlines()[0]


def test_without_the_library_svg_files_are_refused_in_one_line(make_result, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    chart = view_chart([], {}, title="x", about="")
    with pytest.raises(ConfigError, match=r"pip install 'hpn\[docs\]'"):
        chart_svg(chart)
