"""Every chart, as a function from results to Vega-Altair charts; ``FIGURES`` lists them.

A chart names no colour: the page and the SVG files supply those (:mod:`hpn.report.theme`). Its title and subtitle
become the caption on a page. Charts of several runs have a parameter ``hidden`` with the names of runs that the reader
has switched off.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import altair as alt
from altair.utils.schemapi import debug_mode

from hpn.errors import ConfigError
from hpn.experiment.compare.result import Comparison
from hpn.experiment.published import Spread
from hpn.experiment.run.result import RunResult, View
from hpn.metrics import METRICS, Metric, Summary, summarize
from hpn.report.comparison import compared_metrics, paper_value, row_label
from hpn.report.format import bound_text, clean, count, decimal, is_number, plural, quantity, spread
from hpn.report.results import RunGroup, prototype_growth, shown_metrics, step_noun, step_text
from hpn.report.studies import Study, find_studies
from hpn.report.theme import DASHES, FILE_FONT, LIGHT

Row = dict[str, Any]
Draw = Callable[[RunGroup], Iterator[alt.TopLevelMixin]]

WIDTH, HEIGHT = 440, 250
MAX_TEXT = 14  # cells of a matrix are labelled up to this many steps
_FULL = 100.0
_WIDE_RANGE = 30.0  # largest over smallest, from which a logarithm shows more
_MAX_DRAWN = 1000.0  # a bound this many times the largest value is not drawn
_MAX_LINEAR = 20.0  # a bound this many times the largest value calls for a logarithm
_MAX_PANELS = 6
_MAX_GROWTHS = 4


Scope = Literal["group", "run", "study"]


@dataclass(frozen=True)
class ReportFigure:
    """An entry of ``FIGURES``: charts of comparable runs (``group``), of one run (``run``) or of sweeps (``study``)."""

    scope: Scope
    draw: Draw


FIGURES: dict[str, ReportFigure] = {}


def _figure(scope: Scope) -> Callable[[Draw], Draw]:
    def add(draw: Draw) -> Draw:
        def drawn(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
            with debug_mode(False):  # definitions are validated by the tests, not in every report
                yield from draw(group)

        FIGURES[draw.__name__] = ReportFigure(scope, drawn)
        return draw

    return add


@_figure("group")
def accuracy(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
    """AM after each step."""
    return metric_curve(group, METRICS["am"])


@_figure("group")
def retained(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
    """ARS after each step."""
    return metric_curve(group, METRICS["ars"])


def metric_curve(group: RunGroup, metric: Metric, title: str | None = None) -> Iterator[alt.TopLevelMixin]:
    """Draw a metric after each step, one line per run, with its deviation over seeds."""
    noun, ceiling = step_noun(group.results[0]), _FULL if metric.name == "am" else math.inf
    curves = {label: enumerate(result.curve(metric), 1) for label, result in group.named}
    rows = [row for label, curve in curves.items() for row in _summary_rows(label, curve, ceiling=ceiling)]
    if len({row["x"] for row in rows}) > 1:
        yield _lines(
            rows,
            group.domain,
            title or f"{metric.label} after each {noun}",
            _deviation(metric.definition, rows),
            x=_step_axis(f"{noun}s learned"),
            y=_value_axis(rows, f"{metric.label}, {metric.unit}"),
            tip=f"after {noun}",
        )


@_figure("group")
def tasks_before_after(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
    """Accuracy on each step just after it was learned, and at the end."""
    noun, result = step_noun(group.results[0]), max(group.results, key=lambda result: len(result.steps))
    matrices = {label: run.mean_matrix() for label, run in group.named}
    rows: list[Row] = []
    for label, matrix in matrices.items():
        for j, last in enumerate(matrix[-1]):
            learned = matrix[j][j]
            if last and learned:
                pair = {"learned": learned.mean, "end": last.mean}
                texts = {"learned_text": spread(learned), "end_text": spread(last)}
                rows.append({"run": label, "x": j + 1, "classes": step_text(result, j), **pair, **texts})
    if not rows:
        return
    num_marks = len(result.steps) * len(group.labels)
    colour, shape = _series("run", group.domain)
    # Where there are many marks, steps are drawn as wide as they need to be, and the box scrolls.
    width = WIDTH if num_marks <= 60 else num_marks * 6 + len(result.steps) * 8
    x = alt.X("x:O", title=noun, axis=alt.Axis(labelAngle=0, labelOverlap=True))
    offset = alt.XOffset("run:N", scale=alt.Scale(domain=group.labels))
    tips = _tips(run="run", x=noun, classes="classes", learned_text="learned", end_text="end")
    base = alt.Chart(_data(rows)).transform_filter(_VISIBLE)
    base = base.encode(x=x, xOffset=offset, color=colour, shape=shape, tooltip=tips)
    values = [{"low": min(row["learned"], row["end"]), "high": max(row["learned"], row["end"])} for row in rows]
    axis = _value_axis(values, "accuracy, %")
    layers = alt.layer(
        base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y=_on(axis, "learned"), y2="end:Q"),
        base.mark_point(filled=False, size=45, opacity=0.8).encode(y=_on(axis, "learned")),
        base.mark_point(filled=True, size=45, opacity=1).encode(y=_on(axis, "end")),
    )
    ends = "; ".join(f"{label} {', '.join(map(spread, matrix[-1]))}" for label, matrix in matrices.items())
    about = "hollow: just after learning; filled: at the end"
    yield _finish(layers, f"Accuracy on each {noun}", about, f"At the end: {ends}", width=width)


@_figure("group")
def cost(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
    """The cost of the runs: seconds and memory, one bar per run."""
    costs = {"fit": "Time to fit, seconds per seed", "predict": "Time to predict, seconds per seed"}
    rows: list[Row] = []
    for name, title in {**costs, "peak_rss_mb": "Peak memory, MB"}.items():
        sources = {label: run.seconds_per_seed() if name in costs else run for label, run in group.named}
        known = {label: value for label, of in sources.items() if is_number(value := getattr(of, name, None))}
        most = max(known.values(), default=0.0) or 1.0
        rows += [{"place": f"|{title}", "head": title}] if known else []
        for run, value in known.items():
            shown = {"value": value, "share": value / most, "text": quantity(value)}
            rows.append({"place": f"{run}|{title}", "run": run, "of": title, **shown})
    if not rows:
        return
    places = [row["place"] for row in rows]
    names = alt.Axis(labelExpr="split(datum.label, '|')[0]", labelLimit=130, labelPadding=8, ticks=False, domain=False)
    x = alt.X("share:Q", axis=None, scale=alt.Scale(domain=[0, 1.2]))
    y = alt.Y("place:N", sort=places, title=None, axis=names)
    base = alt.Chart(_data(rows)).transform_filter(_VISIBLE).encode(y=y)
    heads = base.transform_filter("isValid(datum.head)")
    bars = base.transform_filter("isValid(datum.run)").encode(x=x, tooltip=_tips(run="run", of="cost", text="value"))
    layers = alt.layer(
        heads.mark_text(align="left", fontWeight=600).encode(x=alt.value(0), text="head:N"),
        bars.mark_bar(height=13).encode(color=_series("run", group.domain, None)[0]),
        bars.mark_text(align="left", dx=6).encode(text="text:N"),
    )
    values = "; ".join(f"{row['run']} {row['of']}: {row['text']}" for row in rows if "run" in row)
    yield _finish(layers, "Cost", "less is better", values, height=alt.Step(22))


@_figure("group")
def stored(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
    """Numbers that a method stores after each step."""
    noun = step_noun(group.results[0])
    rows: list[Row] = [
        {"run": label, "x": i, "mean": entry.stored, "text": count(entry.stored)}
        for label, result in group.named
        for i, entry in enumerate(result.growth or [], 1)
        if entry.stored
    ]
    if len({row["x"] for row in rows}) > 1:
        yield _lines(
            rows,
            group.domain,
            f"Stored numbers after each {noun}",
            f"all that is kept between {noun}s; mean over seeds",
            x=_step_axis(f"{noun}s learned"),
            y=_count_axis([row["mean"] for row in rows], "numbers"),
            tip=f"after {noun}",
        )


@_figure("group")
def prototypes(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
    """Prototypes of each level after each step under their bounds, for the first few runs that have any."""
    noun = step_noun(group.results[0])
    grown = {label: prototype_growth(result) for label, result in group.named if len(result.steps) > 1}
    growing = [(label, result) for label, result in group.named if grown.get(label)]
    rest = len(growing) - _MAX_GROWTHS
    for number, (label, result) in enumerate(growing[:_MAX_GROWTHS], 1):
        more = f"; {plural(rest, 'more run')} not drawn" if rest > 0 and number == _MAX_GROWTHS else ""
        yield growth_chart(
            grown[label],
            result.bounds or {},
            title=f"Prototypes after each {noun}, {label}",
            about=f"mean over seeds; dashed: the bound for any stream{more}",
            y_title="prototypes",
            noun=noun,
        )


def growth_chart(
    grown: Mapping[str, Sequence[float | None]],
    bounds: Mapping[str, int | None],
    *,
    title: str,
    about: str,
    y_title: str,
    noun: str = "task",
) -> alt.TopLevelMixin:
    """Draw quantities that grow with the steps, each with a dashed line at its bound.

    A bound of more than 1,000 times the largest value is stated in the legend and not drawn.
    """
    names = {name: f"{name}, {bound_text(bounds[name], 'bound ')}" if name in bounds else name for name in grown}
    rows: list[Row] = [
        {"series": names[name], "x": i, "mean": float(value), "text": count(value)}
        for name, values in grown.items()
        for i, value in enumerate(values, 1)
        if is_number(value)
    ]
    most = max((row["mean"] for row in rows), default=1.0) or 1.0
    limits: list[Row] = [
        {"series": names[name], "bound": float(bound), "text": count(bound)}
        for name, bound in bounds.items()
        if name in grown and bound is not None and bound <= _MAX_DRAWN * most
    ]
    tops = [limit["bound"] for limit in limits]
    is_log = max(tops, default=0.0) > _MAX_LINEAR * most
    axis = _count_axis([row["mean"] for row in rows if row["mean"] > 0] + tops, y_title, is_log=is_log)
    choice = _choose("series")
    colour, shape = _series("series", names.values())
    shown = _opacity(choice, 1, 0.1)
    tips = _tips(series=y_title, x=f"after {noun}", text="number")
    base = alt.Chart(_data(rows)).encode(
        x=_step_axis(f"{noun}s learned"), y=_on(axis, "mean"), color=colour, opacity=shown, tooltip=tips
    )
    bound = alt.Chart(_data(limits)).mark_rule(strokeDash=[5, 4], strokeWidth=1.5)
    layers = [
        bound.encode(y=_on(axis, "bound"), color=colour, opacity=shown, tooltip=_tips(series="bound")),
        base.mark_line(strokeWidth=2),
        base.mark_point(filled=True, size=45).encode(shape=shape),
    ]
    chart = alt.layer(*layers if limits else layers[1:]).add_params(choice)
    ends = "; ".join(f"{names[name]}: {count(values[-1])}" for name, values in grown.items() if values)
    return _finish(chart, title, about, f"After the last {noun}: {ends}", has_runs=False)


@_figure("run")
def matrix(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
    """The accuracy matrix of a run."""
    if any(value for row in group.results[0].mean_matrix() for value in row):
        yield matrix_chart(group.results[0], title="Accuracy matrix")


def matrix_chart(result: RunResult, *, title: str) -> alt.TopLevelMixin:
    """Draw the accuracy on each step after each step."""
    noun, kept = step_noun(result), result.metrics.get("ars")
    rows: list[Row] = [
        {
            **{"row": after + 1, "column": task + 1, "classes": step_text(result, task)},
            **{"value": value.mean, "text": decimal(value.mean), "tip": f"{spread(value)} %"},
            "is_ahead": task > after,
        }
        for after, accuracies in enumerate(result.mean_matrix())
        for task, value in enumerate(accuracies)
        if value is not None
    ]
    ahead = f"; outlined: {noun}s still to come" if any(row["is_ahead"] for row in rows) else ""
    return _heat(
        rows,
        title,
        f"percent, mean over seeds{ahead}",
        f"{title}, one row per moment{f'; ARS {spread(kept)}' if kept else ''}",
        heads=(f"after {noun}", f"{noun} tested"),
        domain=(0.0, _FULL),
        tips=_tips(row=f"after {noun}", column=noun, classes="classes", tip="accuracy"),
    )


@_figure("run")
def node_views(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
    """t-SNE of the first seed's test nodes, after up to six of the steps."""
    (run,) = group.runs
    if run.views and (views := run.first_views):
        about = f"t-SNE, seed {run.views.seeds[0]}; at the end: silhouette {decimal(views[-1].silhouette, 2)}, "
        about += f"{decimal(views[-1].neighbors)} % of the nodes among their own class"
        names = {label: run.result.class_name(label) for step in run.result.steps for label in step.classes}
        yield view_chart(views, names, title="Test nodes as the learner represents them", about=about)


def view_chart(
    views: Sequence[View], names: Mapping[int, str], *, title: str, about: str, noun: str = "task"
) -> alt.TopLevelMixin:
    """Draw nodes in the plane, one panel per view and one colour per class."""
    num = min(_MAX_PANELS, len(views))
    chosen = [views[round(k * (len(views) - 1) / max(1, num - 1))] for k in range(num)]
    rows: list[Row] = [
        {"panel": f"after {noun} {view.after + 1}", "class": names.get(label, str(label)), "h": h, "v": v}
        for view in chosen
        for (h, v), label in zip(view.points, view.classes, strict=True)
    ]
    classes = list(dict.fromkeys(row["class"] for row in rows))
    choice = _choose("class")
    colour, shape = _series("class", classes)
    scale = alt.Scale(zero=False)
    points = alt.Chart(width=210, height=210).mark_point(filled=True, size=26)
    points = points.encode(
        x=alt.X("h:Q", axis=None, scale=scale),
        y=alt.Y("v:Q", axis=None, scale=scale),
        color=colour,
        shape=shape,
        opacity=_opacity(choice, 0.75, 0.06),
        tooltip=_tips(**{"class": "class"}),
    )
    panels = alt.Facet("panel:N", sort=[row["panel"] for row in rows], title=None)
    chart = points.add_params(choice).facet(panels, data=_data(rows), columns=2, spacing=12)
    drawn: alt.TopLevelMixin = chart.resolve_scale(x="independent", y="independent").properties(
        title=alt.Title(title, subtitle=about), description=f"{title}: {len(rows)} points, {len(classes)} classes"
    )
    return drawn


@_figure("study")
def sensitivity(group: RunGroup) -> Iterator[alt.TopLevelMixin]:
    """Runs of one method that differ in one or two numeric hyper-parameters and in nothing else."""
    for study in find_studies(group.results):
        runs = [run for _, line in study.lines for run in line]
        for metric in shown_metrics(runs):
            if len(study.names) == 1:
                yield sweep_chart(study, metric)
            else:
                yield grid_chart(runs, study.names, metric, title=f"{metric.label}, {study.method}")
        if len(study.names) == 1 and any(_atomic(run) for run in runs):
            yield sweep_chart(study, None)


def sweep_chart(
    study: Study, metric: Metric | None, *, title: str | None = None, x_title: str | None = None
) -> alt.TopLevelMixin:
    """Draw a metric, or the number of atomic prototypes, over one hyper-parameter."""
    (name,) = study.names
    several = len(study.lines) > 1
    rows: list[Row] = []
    for label, runs in study.lines:
        points = [(run.params[name], run.metrics.get(metric.name) if metric else _atomic(run)) for run in runs]
        points.sort(key=lambda point: point[0])
        rows += _summary_rows(label if several else study.method, points, is_count=metric is None)
    head, unit = (metric.label, f", {metric.unit}") if metric else ("Atomic prototypes", "")
    kind = {"type": "log"} if _is_wide([row["x"] for row in rows]) else {"zero": False}
    y_title = f"{head}{unit}" if metric else head.lower()
    return _lines(
        rows,
        list(dict.fromkeys(row["run"] for row in rows)),
        title or f"{head} by {name}, {study.method}",
        _deviation("", rows),
        x=alt.X("x:Q", title=x_title or name, scale=alt.Scale(**kind, nice=False, padding=14), axis=_PLAIN_AXIS),
        y=_value_axis(rows, y_title) if metric else _count_axis([row["mean"] for row in rows], y_title),
        tip=x_title or name,
        has_legend=several,
    )


def grid_chart(
    runs: Sequence[RunResult], names: Sequence[str], metric: Metric, *, title: str, titles: Mapping[str, str] = {}
) -> alt.TopLevelMixin:
    """Draw a metric over two hyper-parameters."""
    first, second = names
    found = [(run, value) for run in runs if (value := run.metrics.get(metric.name))]
    rows: list[Row] = [
        {
            **{"row": run.params[first], "column": run.params[second], "value": value.mean},
            **{"text": decimal(value.mean), "tip": spread(value, signed=metric.is_signed)},
        }
        for run, value in found
    ]
    ends = sorted((value for _, value in found), key=lambda value: value.mean)
    heads = titles.get(first, first), titles.get(second, second)
    return _heat(
        rows,
        title,
        f"{metric.unit}, mean over seeds",
        f"{title}: from {spread(ends[0])} to {spread(ends[-1])}" if ends else title,
        heads=heads,
        tips=_tips(row=heads[0], column=heads[1], tip=metric.label),
    )


@dataclass(frozen=True)
class Interval:
    """One line of a comparison: a name, its backbone, our value over seeds and the paper's."""

    label: str
    backbone: str | None
    ours: Summary | None
    paper: Spread | None = None


def comparison_charts(comparison: Comparison) -> Iterator[alt.TopLevelMixin]:
    """One chart per metric of a comparison."""
    for metric in compared_metrics(comparison):
        rows = [
            Interval(row_label(row), row.backbone, row.metrics.get(metric.name), paper_value(metric, row))
            for row in comparison.rows
        ]
        better = f"{'right' if metric.higher_is_better else 'left'} is better"
        paper = "; filled: ours, hollow: the paper’s" if any(row.paper for row in rows) else ""
        yield comparison_chart(
            [row for row in rows if row.ours or row.paper],
            title=metric.label,
            about=f"{metric.definition}; {better}{paper}",
            x_title=f"{metric.label}, {metric.unit}",
        )


def comparison_chart(intervals: Sequence[Interval], *, title: str, about: str, x_title: str) -> alt.TopLevelMixin:
    """Draw one metric by method: mean and deviation, the paper's hollow below ours."""
    rows: list[Row] = [
        {
            **{"method": one.label, "backbone": one.backbone or "no backbone", "source": source},
            **{"mean": value.mean, "low": value.mean - value.std, "high": value.mean + value.std},
            "text": spread(value),
        }
        for one in intervals
        for source, value in (("ours", one.ours), ("the paper", one.paper))
        if value is not None
    ]
    backbones = [name for name in ("gcn", "gat", "gin", "no backbone") if any(r["backbone"] == name for r in rows)]
    choice = _choose("backbone")
    sources = list(dict.fromkeys(row["source"] for row in rows))
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    scale = alt.Scale(zero=False, domain=[low, high], nice=True) if high > low else alt.Scale(zero=False)
    base = alt.Chart(_data(rows)).encode(
        y=alt.Y("method:N", sort=None, title=None, axis=alt.Axis(grid=True)),
        yOffset=alt.YOffset("source:N", scale=alt.Scale(domain=sources)),
        color=_series("backbone", backbones, 4)[0],
        opacity=_opacity(choice, 1, 0.1),
        tooltip=_tips(method="method", source="from", text="value"),
    )
    ours, paper = (base.transform_filter(alt.datum.source == source) for source in ("ours", "the paper"))
    x = alt.X("mean:Q", title=x_title, scale=scale)
    layers = [
        base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", title=x_title, scale=scale), x2="high:Q"),
        ours.mark_point(filled=True, size=50).encode(x=x),
        paper.mark_point(filled=False, size=40).encode(x=x),
    ]
    chart, height = alt.layer(*layers).add_params(choice), alt.Step(24 if len(sources) == 1 else 12)
    ends = "; ".join(f"{one.label} {spread(one.ours)}" for one in intervals)
    return _finish(chart, title, about, ends, height=height, has_runs=False)


def code_sizes_chart(sizes: Mapping[int, Sequence[tuple[float, float]]], *, title: str) -> alt.TopLevelMixin:
    """Draw the bound on the size of a spherical code over its cosine distance, one line per dimension."""
    rows: list[Row] = [
        {"run": f"dimension {dim}", "x": t, "mean": size, "text": f"at most {count(size)}"}
        for dim, row in sizes.items()
        for t, size in row
        if size <= 1e12
    ]
    scale = alt.Scale(type="log", nice=False)
    return _lines(
        rows,
        [f"dimension {dim}" for dim in sizes],
        title,
        "largest number of prototypes that fit",
        x=alt.X("x:Q", title="cosine distance t that any two keep", scale=scale, axis=_PLAIN_AXIS),
        y=alt.Y("mean:Q", title="prototypes at most", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")),
        tip="distance",
    )


def chart_spec(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The Vega-Lite specification of a chart, with text that is valid in HTML, SVG and JSON."""
    with alt.data_transformers.enable(consolidate_datasets=False):
        spec: dict[str, Any] = chart.to_dict(validate=False)
    spec.pop("config", None)
    return _cleaned(spec)  # type: ignore[no-any-return]


def chart_svg(chart: alt.TopLevelMixin) -> str:
    """Draw a chart as an SVG file on a white background.

    Its first line has a digest of the specification: positions depend on the fonts of a machine, the specification does
    not.

    Raises:
        ConfigError: If ``vl-convert-python`` is not installed.
    """
    svg: str = require_svg().vegalite_to_svg({**chart_spec(chart), "config": _FILE_CONFIG})
    return f"<!-- Vega-Lite {spec_digest(chart)} -->\n{svg}\n"


def spec_digest(chart: alt.TopLevelMixin) -> str:
    """A short hash of a chart with its data."""
    return hashlib.sha256(json.dumps(chart_spec(chart), sort_keys=True).encode()).hexdigest()[:16]


def require_svg() -> Any:
    """The library that writes SVG.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise ConfigError(
            "SVG files need vl-convert-python, which is not installed: pip install 'hpn[docs]'"
        ) from error
    return vl_convert


_FILE_CONFIG = {**LIGHT.config(background="#ffffff", font=FILE_FONT), "padding": 12}
_VISIBLE = "indexof(hidden, datum.run) < 0"
_PLAIN_AXIS = alt.Axis(format="~g", labelOverlap=True)


def _lines(
    rows: Sequence[Row],
    domain: Sequence[str],
    title: str,
    about: str,
    *,
    x: alt.X,
    y: alt.Y,
    tip: str,
    has_legend: bool = True,
) -> alt.TopLevelMixin:
    """Lines with markers and bands, and at each place a list of all values, the highest first."""
    base = alt.Chart(_data(rows)).transform_filter(_VISIBLE)
    columns = 2 if has_legend else None
    colour, shape = _series("run", domain, columns)
    dash = alt.StrokeDash("run:N", scale=alt.Scale(domain=list(domain), range=list(DASHES)), legend=_legend(columns))
    layers = []
    if any(row.get("low", row["mean"]) < row["mean"] for row in rows):
        layers.append(base.mark_area(opacity=0.13).encode(x=x, y=_on(y, "low"), y2="high:Q", color=colour))
    layers.append(base.mark_line(strokeWidth=2.2).encode(x=x, y=y, color=colour, strokeDash=dash))
    layers.append(base.mark_point(filled=True, size=42, opacity=1).encode(x=x, y=y, color=colour, shape=shape))
    near = alt.selection_point(
        name="near", on="pointerover", nearest=True, encodings=["x"], empty=False, clear="pointerout"
    )
    names = list(dict.fromkeys(row["run"] for row in sorted(rows, key=lambda row: (-row["x"], -row["mean"]))))
    places: dict[float, Row] = {}
    for row in rows:
        places.setdefault(row["x"], {"x": row["x"]})[f"r{names.index(row['run'])}"] = row["text"]
    tips = _tips(x=tip, **{f"r{i}": name for i, name in enumerate(names)})
    rule = alt.Chart(_data(list(places.values()))).mark_rule().encode(x=x, opacity=_opacity(near, 0.5, 0), tooltip=tips)
    last = {row["run"]: row["text"] for row in sorted(rows, key=lambda row: row["x"])}
    ends = "; ".join(f"{name} {text}" for name, text in last.items())
    return _finish(alt.layer(*layers, rule.add_params(near)), title, about, f"{title}. At the end: {ends}")


def _heat(
    rows: Sequence[Row],
    title: str,
    about: str,
    description: str,
    *,
    heads: tuple[str, str],
    tips: Sequence[alt.Tooltip],
    domain: tuple[float, float] | None = None,
) -> alt.TopLevelMixin:
    """Coloured cells; ``heads`` are the titles of rows and columns."""
    values = [row["value"] for row in rows]
    low, high = domain or (min(values, default=0.0), max(values, default=1.0))
    rows = [{**row, "is_upper": row["value"] > low + 0.52 * (high - low)} for row in rows]
    lines, columns = (sorted({row[key] for row in rows}) for key in ("row", "column"))
    size = min(52.0, WIDTH / max(1, len(columns)))
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("column:O", title=heads[1], sort=columns, axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("row:O", title=heads[0], sort=lines, axis=alt.Axis(labelOverlap=True)),
        tooltip=list(tips),
    )
    scale = alt.Scale(domain=[low, high] if high > low else [low - 1, low], range="heatmap")
    layers = [base.mark_rect().encode(color=alt.Color("value:Q", scale=scale, legend=None))]
    if any(row.get("is_ahead") for row in rows):
        line = alt.Stroke("is_ahead:N", scale=alt.Scale(range="category"), legend=None)
        ahead = base.transform_filter("datum.is_ahead").mark_rect(filled=False, strokeWidth=2)
        layers.append(ahead.encode(stroke=line))
    if len(columns) <= MAX_TEXT:
        ink = alt.Color("is_upper:N", scale=alt.Scale(domain=[False, True], range="ordinal"), legend=None)
        layers.append(base.mark_text(fontSize=12).encode(text="text:N", color=ink))
    chart = alt.layer(*layers).resolve_scale(color="independent")
    width, height = round(size * len(columns)), round(min(size, 30.0) * len(lines))
    return _finish(chart, title, about, description, width=width, height=height, has_runs=False)


def _finish(
    chart: Any,
    title: str,
    about: str,
    description: str,
    *,
    width: float = WIDTH,
    height: float | alt.Step = HEIGHT,
    has_runs: bool = True,
) -> alt.TopLevelMixin:
    if has_runs:
        chart = chart.add_params(alt.param(name="hidden", value=[]))
    words = {"title": alt.Title(title, subtitle=about), "description": description}
    finished: alt.TopLevelMixin = chart.properties(**words, width=width, height=height)
    return finished


def _summary_rows(
    label: str, points: Iterable[tuple[float, Summary | None]], *, ceiling: float = math.inf, is_count: bool = False
) -> Iterator[Row]:
    for x, value in points:
        if value is not None:
            row = {"run": label, "x": x, "mean": value.mean}
            if not is_count:
                row |= {"low": value.mean - value.std, "high": min(ceiling, value.mean + value.std)}
            yield {**row, "text": count(value.mean) if is_count else spread(value)}


def _deviation(text: str, rows: Sequence[Row]) -> str:
    has_spread = any(row.get("high", row["mean"]) > row["mean"] for row in rows)
    return "; ".join(filter(None, (text, "mean ± standard deviation over seeds" if has_spread else "")))


def _atomic(run: RunResult) -> Summary | None:
    return summarize([(run.prototypes or {}).get("atomic")])


def _step_axis(title: str) -> alt.X:
    return alt.X(
        "x:Q",
        title=title,
        scale=alt.Scale(nice=False, zero=False, padding=16),
        axis=alt.Axis(tickMinStep=1, format="d", grid=False),
    )


def _value_axis(rows: Sequence[Row], title: str) -> alt.Y:
    """An axis of percentages or points that fits the values, but covers at least 4 points where there is room."""
    lowest = min((row.get("low", 0.0) for row in rows), default=0.0)
    high = max((row.get("high", _FULL) for row in rows), default=_FULL)
    low = max(high - 4, 0.0) if lowest >= 0 else high - 4
    return alt.Y("mean:Q", title=title, scale=alt.Scale(domain=[min(lowest, low), high], nice=True))


def _count_axis(values: Sequence[float], title: str, *, is_log: bool | None = None) -> alt.Y:
    if not (_is_wide(values) if is_log is None else is_log):
        return alt.Y("mean:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(format="~s", tickCount=6))
    low, high = (f(math.log10(g(values))) for f, g in ((math.floor, min), (math.ceil, max)))
    every = math.ceil((high - low) / 7)
    ticks = [10.0**power for power in range(low, high + 1, every)]
    domain = alt.Scale(type="log", domain=[10.0**low, 10.0**high])
    return alt.Y("mean:Q", title=title, scale=domain, axis=alt.Axis(format="~s", values=ticks))


def _on(axis: alt.Y, field: str) -> alt.Y:
    """The same axis for another field."""
    copy = axis.copy(deep=False)
    copy.shorthand = f"{field}:Q"
    return copy  # type: ignore[no-any-return]


def _is_wide(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) > _WIDE_RANGE * min(values)


def _legend(columns: int | None) -> alt.Legend | None:
    return alt.Legend(title=None, orient="bottom", columns=columns) if columns else None


def _series(field: str, domain: Iterable[str], columns: int | None = 2) -> tuple[alt.Color, alt.Shape]:
    """Colour and marker by a field, with one scale and one legend of so many columns."""
    scale, legend = alt.Scale(domain=list(domain)), _legend(columns)
    return alt.Color(f"{field}:N", scale=scale, legend=legend), alt.Shape(f"{field}:N", scale=scale, legend=legend)


def _opacity(choice: alt.Parameter, chosen: float, others: float) -> Any:
    return alt.when(choice).then(alt.value(chosen)).otherwise(alt.value(others))


def _choose(field: str) -> alt.Parameter:
    """A click in the legend shows that entry alone; further clicks add to it."""
    return alt.selection_point(name="chosen", fields=[field], bind="legend", toggle="true")


def _tips(**titles: str) -> list[alt.Tooltip]:
    """What is shown at a mark: fields and their titles."""
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in titles.items()]


class _Rows:
    """Rows that Altair passes on unchanged: it would copy lists with every step of a definition."""

    _schema: ClassVar[dict[str, str]] = {"type": "array"}  # by which Altair knows what has a `to_dict`

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)

    def to_dict(self, **_: Any) -> list[Row]:
        """The rows themselves."""
        return self.rows


def _data(rows: Sequence[Row]) -> alt.InlineData:
    return alt.InlineData(values=_Rows(rows))  # type: ignore[arg-type]


def _cleaned(value: Any) -> Any:
    if isinstance(value, _Rows):
        value = value.rows
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(part) for key, part in value.items()}
    return [_cleaned(part) for part in value] if isinstance(value, list) else value
