"""Figures of the pages, drawn by the charts of the report from the results of an experiment on a data set.

``hpn.reproduction.pages.render_page(content).figures`` has the Altair chart of each SVG file of a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import altair as alt

from hpn.experiment.run.result import RunResult
from hpn.metrics import METRICS, Summary
from hpn.report import figures as charts
from hpn.report.figures import Interval
from hpn.report.format import bound_text, count, decimal, spread
from hpn.report.results import RunGroup
from hpn.report.studies import Study
from hpn.reproduction.content import CaseResult, Section
from hpn.reproduction.verdicts import published

_SWEPT = METRICS["am"], METRICS["fm"]


@dataclass(frozen=True)
class PageFigure:
    """A figure of a page."""

    stem: str  # what distinguishes its file name from the other figures of the page
    chart: alt.TopLevelMixin
    title: str  # also the alternative text
    caption: str  # the numbers to read from it, as a sentence


def intervals(experiment: str, section: Section) -> Iterator[PageFigure]:
    """AM of every case, the paper's below ours."""
    rows = []
    for case in section.cases:
        # All cases of an ablation have one preset, so that it is left out of their names.
        name = case.label.get("levels") or case.label.get("losses") or case.name
        paper, ours = published(experiment, section, case), case.metrics.get("am")
        if ours or paper:
            rows.append(Interval(name, case.backbone, ours, paper.am if paper else None))
    if rows:
        has_paper = any(row.paper for row in rows)
        what = "method" if "method" in section.cases[0].label else "configuration"
        title = f"AM of every {what} on {section.dataset}"
        about = "mean ± standard deviation over seeds" + "; hollow: the paper" * has_paper
        chart = charts.comparison_chart(rows, title=title, about=about, x_title="AM, %")
        caption = f"{_extremes((row.label, row.ours) for row in rows)}.{' Hollow markers: the paper.' * has_paper}"
        yield PageFigure(section.dataset, chart, title, caption)


def matrix(section: Section, case: CaseResult) -> PageFigure:
    """The accuracy matrix of a case."""
    title = f"Accuracy matrix, {case.name} on {section.dataset}"
    kept = f"; ARS {spread(ars)} at the end" if (ars := case.metrics.get("ars")) else ""
    chart = charts.matrix_chart(section.result(case), title=title)
    caption = f"The mean over seeds, one row per moment after a task{kept}."
    return PageFigure(f"{section.dataset}-{case.name}", chart, title, caption)


def dynamics(_experiment: str, section: Section) -> Iterator[PageFigure]:
    """ARS after each task, one line per case."""
    group = RunGroup.of([section.result(c) for c in section.measured], [c.name for c in section.measured])
    title = f"ARS after each task on {section.dataset}"
    for chart in charts.metric_curve(group, METRICS["ars"], title=title) if group.runs else ():
        curves = [result.curve(METRICS["ars"]) for result in group.results]
        ends = [f"{name} {spread(curve[-1])} %" for name, curve in zip(group.labels, curves, strict=True)]
        yield PageFigure(section.dataset, chart, title, f"After the last task: {', '.join(ends)}.")


def extractors(_experiment: str, section: Section) -> Iterator[PageFigure]:
    """AM and FM over the number of extractors and the dimension."""
    titles = {"num_extractors": "extractors", "dim": "dimension"}
    runs = [section.result(case) for case in section.measured]
    for metric in _SWEPT:
        title = f"{metric.label} by extractors and dimension on {section.dataset}"
        chart = charts.grid_chart(runs, [*titles], metric, title=title, titles=titles)
        ends = _extremes((case.name, case.metrics.get(metric.name)) for case in section.measured)
        yield PageFigure(f"{section.dataset}-{metric.name}", chart, title, f"{ends}.")


def thresholds(_experiment: str, section: Section) -> Iterator[PageFigure]:
    """AM, FM and atomic prototypes over the threshold."""
    dataset, x_title = section.dataset, "threshold t_A"
    runs = [section.result(case) for case in section.measured]
    yield from _over("threshold_atomic", {dataset: runs}, x_title, dataset)
    known = [value for case in section.measured if (value := (case.prototypes or {}).get("atomic"))]
    title = f"Atomic prototypes over the {x_title} on {dataset}"
    study = Study(dataset, ("threshold_atomic",), [("", runs)])
    chart = charts.sweep_chart(study, None, title=title, x_title=x_title)
    ends = f"From {count(max(known))} to {count(min(known))}." if known else "No values."
    yield PageFigure(f"{dataset}-prototypes", chart, title, ends)


def weights(sections: Sequence[Section]) -> Iterator[PageFigure]:
    """AM and FM over each weight while the other is 1, one line per data set."""
    for swept, fixed, symbol, other in (("beta", "alpha", "β", "α"), ("alpha", "beta", "α", "β")):
        lines = {
            section.dataset: [
                section.result(case) for case in section.measured if case.label[fixed] == 1 and case.label[swept] > 0
            ]
            for section in sections
        }
        yield from _over(swept, lines, f"{symbol}, with {other} = 1", swept)


def _over(name: str, lines: dict[str, list[RunResult]], x_title: str, stem: str) -> Iterator[PageFigure]:
    """AM and FM over a hyper-parameter, one line per data set."""
    place = f" on {next(iter(lines))}" if len(lines) == 1 else ""
    for metric in _SWEPT:
        title = f"{metric.label} over {x_title}{place}"
        chart = charts.sweep_chart(Study("hpn", (name,), [*lines.items()]), metric, title=title, x_title=x_title)
        ranges = (_range(label, [run.metrics.get(metric.name) for run in runs]) for label, runs in lines.items())
        yield PageFigure(f"{stem}-{metric.name}", chart, title, f"{'; '.join(ranges)}.")


def growth(_experiment: str, section: Section) -> Iterator[PageFigure]:
    """Prototypes of each level and all parameters, task by task, of the smallest HPN that there is."""
    hpns = {case.preset: case for case in section.measured if case.growth}
    chosen = next((hpns[preset] for preset in ("small", "paper", "best") if preset in hpns), None)
    if chosen is None:
        return
    for kind, unit in {"prototypes": "most of any seed", "parameters": "mean over seeds"}.items():
        parts = [part for part in chosen.bounded() if (part.name == "parameters") == (kind == "parameters")]
        if not parts:
            continue
        title = f"{kind.capitalize()} of {chosen.name} on {section.dataset}"
        chart = charts.growth_chart(
            {part.name: part.values for part in parts},
            {part.name: part.bound for part in parts},
            title=title,
            about=f"{unit}; dashed: the bound",
            y_title=kind,
        )
        ends = ", ".join(f"{part.name} {count(part.values[-1])} of at most {bound_text(part.bound)}" for part in parts)
        yield PageFigure(f"{section.dataset}-{kind}", chart, title, f"With their bounds; at the end {ends}.")


def views(_experiment: str, section: Section) -> Iterator[PageFigure]:
    """t-SNE of the test nodes after each task, one figure per preset."""
    labels = {int(key): str(name) for key, name in section.classes.items()}
    for case in section.measured:
        if case.views:
            title = f"Test nodes of {section.dataset} as {case.name} represents them"
            about = caption = f"t-SNE after each of {len(case.views)} tasks, one colour per class"
            if case.separation:
                apart = spread(case.separation[-1].silhouette, 2)
                caption += f"; over all seeds the silhouette of the classes is {apart} after the last"
            chart = charts.view_chart(case.views, labels, title=title, about=about)
            yield PageFigure(f"{section.dataset}-{case.preset}", chart, title, f"{caption}.")


def _range(label: str, values: Iterable[Summary | None]) -> str:
    """The lowest and the highest value of a line."""
    means = [value.mean for value in values if value is not None]
    return f"{label} from {decimal(min(means))} to {decimal(max(means))}" if means else f"{label} has no values"


def _extremes(values: Iterable[tuple[str, Summary | None]]) -> str:
    """The highest and the lowest."""
    known = [(label, value) for label, value in values if value is not None]
    if not known:
        return "Nothing was measured"
    low, high = (pick(known, key=lambda pair: pair[1].mean) for pick in (min, max))
    if spread(low[1]) == spread(high[1]):
        return f"{spread(high[1])} everywhere"
    return f"The highest is {high[0]} with {spread(high[1])}, the lowest {low[0]} with {spread(low[1])}"


FIGURES: dict[str, Callable[[str, Section], Iterator[PageFigure]]] = {
    found.__name__: found for found in (intervals, dynamics, extractors, thresholds, growth, views)
}
OVERVIEWS: dict[str, Callable[[Sequence[Section]], Iterator[PageFigure]]] = {"weights": weights}
