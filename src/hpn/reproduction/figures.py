"""Figures of the pages, from the results of an experiment on a data set; the only place that draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpn.metrics import METRICS, Summary, summarize
from hpn.report.charts import Series, curves_svg
from hpn.report.comparison_chart import Interval, intervals_svg
from hpn.report.format import count, decimal, spread
from hpn.report.grid import grid_svg
from hpn.report.growth import GrowthLine, bound_text, growth_svg
from hpn.report.heatmap import matrix_svg
from hpn.report.scales import plain
from hpn.report.scatter import Panel, scatter_svg
from hpn.report.sweeps import Sweep, sweep_svg
from hpn.reproduction.content import CaseResult, Section
from hpn.reproduction.verdicts import published

_SWEPT = ("am", "fm")
_FULL = 100.0
_WIDE = 20.0  # ratio of the largest to the smallest value from which a logarithmic axis is used
_DRAWN = ("small", "paper", "best")


@dataclass(frozen=True)
class Figure:
    """A figure of a page.

    Args:
        stem: What distinguishes its file name from the other figures of the page.
        svg: The figure.
        alt: What it shows.
        caption: The numbers to read from it, as a sentence.
    """

    stem: str
    svg: str
    alt: str
    caption: str


def intervals(experiment: str, section: Section) -> Iterator[Figure]:
    """AM of every case, the paper's below ours."""
    rows = []
    for case in section.cases:
        # All cases of an ablation have one preset, so that it is left out of their names.
        name = case.label.get("levels") or case.label.get("losses") or case.name
        paper = published(experiment, section, case)
        rows.append(Interval(name, case.backbone, case.metrics.get("am"), paper and paper.am))
    rows = [row for row in rows if row.ours or row.paper]
    if not rows:
        return
    has_paper = any(row.paper for row in rows)
    what = "method" if "method" in section.cases[0].label else "configuration"
    title = f"AM on {section.dataset}, %" + (" (hollow: the paper)" if has_paper else "")
    yield Figure(
        section.dataset,
        intervals_svg(rows, title=title, ceiling=_FULL),
        f"AM of every {what} on {section.dataset}",
        f"{_extremes((row.label, row.ours) for row in rows)}.{' Hollow markers: the paper.' * has_paper}",
    )


def matrix(section: Section, case: CaseResult) -> Figure:
    """The accuracy matrix of a case."""
    title = f"Accuracy matrix, {case.name} on {section.dataset}"
    kept = f"; ARS {spread(ars)} at the end" if (ars := case.metrics.get("ars")) else ""
    return Figure(
        f"{section.dataset}-{case.name}",
        matrix_svg(section.result(case), title=title),
        title,
        f"The mean over seeds, one row per moment after a task{kept}.",
    )


def dynamics(_experiment: str, section: Section) -> Iterator[Figure]:
    """ARS after each task, one line per case."""
    curves = {case.name: section.result(case).curve(METRICS["ars"]) for case in section.measured}
    if curves:
        title = f"ARS after each task on {section.dataset}"
        svg = curves_svg([Series(label, curve) for label, curve in curves.items()], title=title)
        ends = ", ".join(f"{label} {spread(curve[-1])} %" for label, curve in curves.items())
        yield Figure(section.dataset, svg, title, f"After the last task: {ends}.")


def extractors(_experiment: str, section: Section) -> Iterator[Figure]:
    """AM and FM over the number of extractors and the dimension."""
    rows, columns = (
        sorted({case.label[key] for case in section.cases}) for key in ("num_extractors", "dim")
    )
    for metric in _SWEPT:
        found = {
            (case.label["num_extractors"], case.label["dim"]): case.metrics.get(metric)
            for case in section.measured
        }
        title = f"{METRICS[metric].label} by extractors and dimension on {section.dataset}"
        svg = grid_svg(
            [[found.get((row, column)) for column in columns] for row in rows],
            rows=[plain(row) for row in rows],
            columns=[plain(column) for column in columns],
            row_label="extractors",
            column_label="dimension",
            title=title,
            unit=METRICS[metric].unit,
        )
        ends = _extremes((case.name, case.metrics.get(metric)) for case in section.measured)
        yield Figure(f"{section.dataset}-{metric}", svg, title, f"{ends}.")


def thresholds(_experiment: str, section: Section) -> Iterator[Figure]:
    """AM, FM and atomic prototypes over the threshold."""
    cases, dataset = section.cases, section.dataset
    xs = [case.label["threshold_atomic"] for case in cases]
    for metric in _SWEPT:
        sweep = Sweep(dataset, xs, [case.metrics.get(metric) for case in cases])
        yield _metric_over([sweep], metric, "threshold t_A", dataset)
    counts = [(case.prototypes or {}).get("atomic") for case in cases]
    known = [value for value in counts if value]
    title = f"Atomic prototypes over the threshold t_A on {dataset}"
    svg = sweep_svg(
        [Sweep(dataset, xs, [summarize([value]) for value in counts])],
        title=title,
        x_label="threshold t_A",
        y_label="atomic prototypes",
        log_y=bool(known) and max(known) > _WIDE * min(known),
    )
    ends = f"From {count(max(known))} to {count(min(known))}." if known else "No values."
    yield Figure(f"{dataset}-prototypes", svg, title, ends)


def weights(sections: Sequence[Section]) -> Iterator[Figure]:
    """AM and FM over each weight while the other is 1, data sets with the same weights in one chart."""
    for swept, fixed, symbol, other in (("beta", "alpha", "β", "α"), ("alpha", "beta", "α", "β")):
        for metric in _SWEPT:
            groups: dict[tuple[float, ...], list[Sweep]] = {}
            for section in sections:
                line = {
                    case.label[swept]: case.metrics.get(metric)
                    for case in section.cases
                    if case.label[fixed] == 1 and case.label[swept] > 0
                }
                sweep = Sweep(section.dataset, [*line], [*line.values()])
                groups.setdefault(tuple(sorted(line)), []).append(sweep)
            for group in (group for xs, group in groups.items() if xs):
                yield _metric_over(group, metric, f"{symbol}, with {other} = 1", swept, log_x=True)


def _metric_over(
    sweeps: Sequence[Sweep], metric: str, x_label: str, stem: str, *, log_x: bool = False
) -> Figure:
    known = METRICS[metric]
    title = f"{known.label} over {x_label}" + (f" on {sweeps[0].label}" if len(sweeps) == 1 else "")
    svg = sweep_svg(
        sweeps,
        title=title,
        x_label=x_label,
        y_label=f"{known.label}, {known.unit}",
        log_x=log_x,
        ceiling=_FULL if metric == "am" else math.inf,
    )
    return Figure(f"{stem}-{metric}", svg, title, f"{'; '.join(map(_range, sweeps))}.")


def growth(_experiment: str, section: Section) -> Iterator[Figure]:
    """Prototypes of each level and all parameters, task by task, of the smallest HPN that there is."""
    hpns = {case.preset: case for case in section.measured if case.growth}
    chosen = next((hpns[preset] for preset in _DRAWN if preset in hpns), None)
    for kind, unit in {"prototypes": "most of any seed", "parameters": "mean over seeds"}.items():
        parts = [
            part
            for part in (chosen.bounded() if chosen else ())
            if (part.name == "parameters") == (kind == "parameters")
        ]
        if not parts or chosen is None:
            continue
        title = f"{kind.capitalize()} of {chosen.name} on {section.dataset}"
        svg = growth_svg(
            [GrowthLine(part.name, part.values, part.bound) for part in parts],
            title=title,
            y_label=f"{kind}, {unit}",
        )
        ends = ", ".join(
            f"{part.name} {count(part.values[-1])} of at most {bound_text(part.bound)}" for part in parts
        )
        yield Figure(f"{section.dataset}-{kind}", svg, title, f"With their bounds; at the end {ends}.")


def views(_experiment: str, section: Section) -> Iterator[Figure]:
    """t-SNE of the test nodes after each task, one figure per preset."""
    labels = {int(key): str(name) for key, name in section.classes.items()}
    for case in (case for case in section.measured if case.views):
        found = case.views or []
        panels = [Panel(f"after task {view.after + 1}", view.points, view.classes) for view in found]
        title = f"Test nodes of {section.dataset} as {case.name} sees them"
        caption = f"t-SNE after each of {len(found)} tasks, one colour per class"
        if case.separation:
            apart = spread(case.separation[-1].silhouette, 2)
            caption += f"; over all seeds the silhouette of the classes is {apart} after the last"
        svg = scatter_svg(panels, labels=labels, title=title)
        yield Figure(f"{section.dataset}-{case.preset}", svg, title, f"{caption}.")


def _range(sweep: Sweep) -> str:
    """The lowest and the highest value of a line."""
    means = [value.mean for value in sweep.values if value is not None]
    if not means:
        return f"{sweep.label} has no values"
    return f"{sweep.label} from {decimal(min(means))} to {decimal(max(means))}"


def _extremes(values: Iterable[tuple[str, Summary | None]]) -> str:
    """The highest and the lowest."""
    known = [(label, value) for label, value in values if value is not None]
    if not known:
        return "Nothing was measured"
    low, high = (pick(known, key=lambda pair: pair[1].mean) for pick in (min, max))
    if spread(low[1]) == spread(high[1]):
        return f"{spread(high[1])} everywhere"
    return f"The highest is {high[0]} with {spread(high[1])}, the lowest {low[0]} with {spread(low[1])}"


FIGURES: dict[str, Callable[[str, Section], Iterator[Figure]]] = {
    found.__name__: found for found in (intervals, dynamics, extractors, thresholds, growth, views)
}
OVERVIEWS: dict[str, Callable[[Sequence[Section]], Iterator[Figure]]] = {"weights": weights}
