"""Figures of the experiments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hpn.metrics import METRICS, Summary, summarize
from hpn.report.charts import Series, curves_svg
from hpn.report.comparison_chart import Interval, intervals_svg
from hpn.report.format import count, decimal, spread
from hpn.report.grid import grid_svg
from hpn.report.heatmap import matrix_svg
from hpn.report.scales import plain
from hpn.report.scatter import Panel, scatter_svg
from hpn.report.sweeps import Sweep, sweep_svg
from hpn.reproduction.page_cells import Verdicts, case_label, metric_name
from hpn.reproduction.page_parts import Figures
from hpn.reproduction.results import CaseResult, Section

_SWEPT = ("am", "fm")
_FULL = 100.0
_WIDE = 20.0  # how many times the smallest the largest is where a logarithm shows more


def intervals_figure(figures: Figures, verdicts: Verdicts, what: str) -> str:
    """AM of every case, the paper's below ours; empty if there is neither.

    Args:
        figures: Takes the figure.
        verdicts: A section with the paper's numbers.
        what: What the rows are, for the text.
    """
    section = verdicts.section
    rows = [
        Interval(_short_label(case), case.backbone, case.metrics.get("am"), verdicts.paper(case, "am"))
        for case in section.cases
    ]
    rows = [row for row in rows if row.ours or row.paper]
    if not rows:
        return ""
    has_paper = verdicts.has_paper("am")
    title = f"AM on {section.dataset}, %" + (" (hollow: the paper)" if has_paper else "")
    paper = "the paper’s as hollow markers below ours; " if has_paper else ""
    svg = intervals_svg(rows, title=title, ceiling=_FULL)
    alt = f"AM of {what} on {section.dataset}: {paper}{_extremes([(r.label, r.ours) for r in rows])}"
    return figures.add(section.dataset, svg, alt)


def matrix_figure(figures: Figures, section: Section, case: CaseResult) -> str:
    """The accuracy matrix of a case."""
    name = case_label(case.label)
    title = f"Accuracy matrix, {name} on {section.dataset}"
    svg = matrix_svg(section.result(case), title=title)
    kept = f"; ARS {spread(ars)} at the end" if (ars := case.metrics.get("ars")) else ""
    alt = f"{title}: the mean over seeds, a row for the moment after each task{kept}"
    return figures.add(f"{section.dataset}-{name}", svg, alt)


def dynamics_figure(figures: Figures, section: Section) -> str:
    """ARS after each task, a line a case; empty if all failed."""
    curves = {case_label(case.label): section.result(case).curve(METRICS["ars"]) for case in section.measured}
    if not curves:
        return ""
    title = f"ARS after each task on {section.dataset}"
    svg = curves_svg([Series(label, curve) for label, curve in curves.items()], title=title)
    ends = ", ".join(f"{label} {spread(curve[-1])} %" for label, curve in curves.items())
    return figures.add(section.dataset, svg, f"{title}: {ends} after the last")


def extractors_figures(figures: Figures, section: Section) -> list[str]:
    """AM and FM over the number of extractors and the dimension."""
    nums, dims = ({case.label[key] for case in section.cases} for key in ("num_extractors", "dim"))
    rows, columns = sorted(nums), sorted(dims)
    found = {(case.label["num_extractors"], case.label["dim"]): case for case in section.measured}
    shown = []
    for metric in _SWEPT:
        cells = [
            [case.metrics.get(metric) if (case := found.get((row, column))) else None for column in columns]
            for row in rows
        ]
        title = f"{metric_name(metric)} by extractors and dimension on {section.dataset}"
        svg = grid_svg(
            cells,
            rows=[plain(row) for row in rows],
            columns=[plain(column) for column in columns],
            row_label="extractors",
            column_label="dimension",
            title=title,
            unit=METRICS[metric].unit,
        )
        ends = _extremes([(case_label(case.label), case.metrics.get(metric)) for case in found.values()])
        shown.append(figures.add(f"{section.dataset}-{metric}", svg, f"{title}: {ends}"))
    return shown


def threshold_figures(figures: Figures, section: Section) -> list[str]:
    """AM, FM and atomic prototypes over the threshold."""
    cases = section.cases
    xs = [case.label["threshold_atomic"] for case in cases]
    dataset = section.dataset
    shown = []
    for metric in _SWEPT:
        sweep = Sweep(dataset, xs, [case.metrics.get(metric) for case in cases])
        shown.append(_sweep_figure(figures, [sweep], metric, x_label="threshold t_A", name=dataset))
    counts = [(case.prototypes or {}).get("atomic") for case in cases]
    known = [value for value in counts if value]
    log_y = bool(known) and max(known) > _WIDE * min(known)
    sweep = Sweep(dataset, xs, [summarize([value]) for value in counts])
    title = f"Atomic prototypes over the threshold t_A on {dataset}"
    svg = sweep_svg([sweep], title=title, x_label="threshold t_A", y_label="atomic prototypes", log_y=log_y)
    ends = f": from {count(max(known))} to {count(min(known))}" if known else ""
    return [*shown, figures.add(f"{dataset}-prototypes", svg, title + ends)]


def losses_figures(figures: Figures, sections: Sequence[Section]) -> list[str]:
    """AM and FM over each weight while the other is 1, data sets with the same weights in one chart."""
    shown = []
    for swept, fixed, symbol, other in (("beta", "alpha", "β", "α"), ("alpha", "beta", "α", "β")):
        for metric in _SWEPT:
            sweeps = [_weight_sweep(section, swept, fixed, metric) for section in sections]
            groups: dict[tuple[float, ...], list[Sweep]] = {}
            for sweep in sweeps:
                groups.setdefault(tuple(sorted(sweep.xs)), []).append(sweep)
            shown += [
                _sweep_figure(
                    *(figures, group, metric),
                    x_label=f"{symbol}, with {other} = 1",
                    name=swept,
                    log_x=True,
                )
                for xs, group in groups.items()
                if xs
            ]
    return shown


def _weight_sweep(section: Section, swept: str, fixed: str, metric: str) -> Sweep:
    cases = [case for case in section.cases if case.label[fixed] == 1 and case.label[swept] > 0]
    xs = [case.label[swept] for case in cases]
    return Sweep(section.dataset, xs, [case.metrics.get(metric) for case in cases])


def _sweep_figure(
    figures: Figures,
    sweeps: Sequence[Sweep],
    metric: str,
    *,
    x_label: str,
    name: str,
    log_x: bool = False,
) -> str:
    title = f"{metric_name(metric)} over {x_label}" + (f" on {sweeps[0].label}" if len(sweeps) == 1 else "")
    ceiling = _FULL if metric == "am" else math.inf
    y_label = f"{METRICS[metric].label}, {METRICS[metric].unit}"
    svg = sweep_svg(sweeps, title=title, x_label=x_label, y_label=y_label, log_x=log_x, ceiling=ceiling)
    ranges = "; ".join(_range(sweep) for sweep in sweeps)
    return figures.add(f"{name}-{metric}", svg, f"{title}: {ranges}")


def view_figures(figures: Figures, section: Section) -> list[str]:
    """t-SNE of the test nodes after each task, a figure a preset."""
    labels = {int(key): str(name) for key, name in section.classes.items()}
    shown = []
    for case in section.measured:
        views = case.views or []
        if not views:
            continue
        panels = [Panel(f"after task {view.after + 1}", view.points, view.classes) for view in views]
        name = case_label(case.label)
        title = f"Test nodes of {section.dataset} as {name} sees them"
        alt = f"{title}: t-SNE after each of {len(views)} tasks, a colour a class"
        if case.separation:
            apart = spread(case.separation[-1].silhouette, 2)
            alt += f"; over all seeds the silhouette of the classes is {apart} after the last"
        svg = scatter_svg(panels, labels=labels, title=title)
        shown.append(figures.add(f"{section.dataset}-{case.preset}", svg, alt))
    return shown


def _short_label(case: CaseResult) -> str:
    """The name of a case; what an ablation leaves in stands alone, as all are of one preset."""
    label = case.label
    return label.get("levels") or label.get("losses") or case_label(label)


def _range(sweep: Sweep) -> str:
    """How far a line goes up and down."""
    means = [value.mean for value in sweep.values if value is not None]
    if not means:
        return f"{sweep.label} has no values"
    return f"{sweep.label} from {decimal(min(means))} to {decimal(max(means))}"


def _extremes(values: Iterable[tuple[str, Summary | None]]) -> str:
    """Which is highest and which lowest."""
    known = [(label, value) for label, value in values if value is not None]
    if not known:
        return "nothing was measured"
    low, high = (pick(known, key=lambda pair: pair[1].mean) for pick in (min, max))
    if spread(low[1]) == spread(high[1]):
        return f"{spread(high[1])} everywhere"
    return f"the highest is {high[0]} with {spread(high[1])}, the lowest {low[0]} with {spread(low[1])}"
