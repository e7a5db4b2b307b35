"""Figures of the experiments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpn.metrics import Summary
from hpn.report.charts import Series, curves_svg
from hpn.report.comparison_chart import Interval, intervals_svg
from hpn.report.format import count, decimal, spread
from hpn.report.grid import grid_svg
from hpn.report.heatmap import matrix_svg
from hpn.report.results import retaining_curve
from hpn.report.scales import plain
from hpn.report.scatter import Panel, scatter_svg
from hpn.report.sweeps import Sweep, sweep_svg
from hpn.reproduction.page_cells import Case, Section, Verdicts, as_interval, case_label, measured, single
from hpn.reproduction.page_parts import Figures
from hpn.reproduction.page_tables import as_result, two_digits

METRICS = {"am": "AM, %", "fm": "FM, points"}
_UNITS = {"am": "%", "fm": "points"}
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
        Interval(_short_label(case), case["backbone"], case["am"], as_interval(verdicts.paper(case, "am")))
        for case in section["cases"]
    ]
    rows = [row for row in rows if row.ours or row.paper]
    if not rows:
        return ""
    has_paper = verdicts.has_paper("am")
    title = f"AM on {section['dataset']}, %" + (" (hollow: the paper)" if has_paper else "")
    paper = "the paper’s as hollow markers below ours; " if has_paper else ""
    svg = intervals_svg(rows, title=title, ceiling=_FULL)
    alt = f"AM of {what} on {section['dataset']}: {paper}{_extremes([(r.label, r.ours) for r in rows])}"
    return figures.add(section["dataset"], svg, alt)


def matrix_figure(figures: Figures, section: Section, case: Case) -> str:
    """The accuracy matrix of a case."""
    name = case_label(case["case"])
    title = f"Accuracy matrix, {name} on {section['dataset']}"
    svg = matrix_svg(as_result(section, case), title=title)
    kept = f"; ARS {spread(case['ars'])} at the end" if case["ars"] else ""
    alt = f"{title}: the mean over seeds, a row for the moment after each task{kept}"
    return figures.add(f"{section['dataset']}-{name}", svg, alt)


def dynamics_figure(figures: Figures, section: Section) -> str:
    """ARS after each task, a line a case; empty if all failed."""
    curves = {
        case_label(case["case"]): retaining_curve(as_result(section, case)) for case in measured(section)
    }
    if not curves:
        return ""
    title = f"ARS after each task on {section['dataset']}"
    svg = curves_svg([Series(label, curve) for label, curve in curves.items()], title=title)
    ends = ", ".join(f"{label} {spread(curve[-1])} %" for label, curve in curves.items())
    return figures.add(section["dataset"], svg, f"{title}: {ends} after the last")


def extractors_figures(figures: Figures, section: Section) -> list[str]:
    """AM and FM over the number of extractors and the dimension."""
    nums, dims = ({case["case"][key] for case in section["cases"]} for key in ("num_extractors", "dim"))
    rows, columns = sorted(nums), sorted(dims)
    found = {(case["case"]["num_extractors"], case["case"]["dim"]): case for case in measured(section)}
    shown = []
    for metric, unit in _UNITS.items():
        cells = [[_value(found.get((row, column)), metric) for column in columns] for row in rows]
        title = f"{metric.upper()} by extractors and dimension on {section['dataset']}"
        svg = grid_svg(
            cells,
            rows=[plain(row) for row in rows],
            columns=[plain(column) for column in columns],
            row_label="extractors",
            column_label="dimension",
            title=title,
            unit=unit,
        )
        ends = _extremes([(case_label(case["case"]), _value(case, metric)) for case in found.values()])
        shown.append(figures.add(f"{section['dataset']}-{metric}", svg, f"{title}: {ends}"))
    return shown


def threshold_figures(figures: Figures, section: Section) -> list[str]:
    """AM, FM and atomic prototypes over the threshold."""
    cases = section["cases"]
    xs = [case["case"]["threshold_atomic"] for case in cases]
    dataset = section["dataset"]
    shown = []
    for metric, y_label in METRICS.items():
        sweep = Sweep(dataset, xs, [_value(case, metric) for case in cases])
        shown.append(_sweep_figure(figures, [sweep], metric, y_label, x_label="threshold t_A", name=dataset))
    counts = [(case["prototypes"] or {}).get("atomic") for case in cases]
    known = [value for value in counts if value]
    log_y = bool(known) and max(known) > _WIDE * min(known)
    sweep = Sweep(dataset, xs, [single(value) for value in counts])
    title = f"Atomic prototypes over the threshold t_A on {dataset}"
    svg = sweep_svg([sweep], title=title, x_label="threshold t_A", y_label="atomic prototypes", log_y=log_y)
    ends = f": from {count(max(known))} to {count(min(known))}" if known else ""
    return [*shown, figures.add(f"{dataset}-prototypes", svg, title + ends)]


def losses_figures(figures: Figures, sections: Sequence[Section]) -> list[str]:
    """AM and FM over each weight while the other is 1, data sets with the same weights in one chart."""
    shown = []
    for swept, fixed, symbol, other in (("beta", "alpha", "β", "α"), ("alpha", "beta", "α", "β")):
        for metric, y_label in METRICS.items():
            sweeps = [_weight_sweep(section, swept, fixed, metric) for section in sections]
            groups: dict[tuple[float, ...], list[Sweep]] = {}
            for sweep in sweeps:
                groups.setdefault(tuple(sorted(sweep.xs)), []).append(sweep)
            shown += [
                _sweep_figure(
                    *(figures, group, metric, y_label),
                    x_label=f"{symbol}, with {other} = 1",
                    name=swept,
                    log_x=True,
                )
                for xs, group in groups.items()
                if xs
            ]
    return shown


def _weight_sweep(section: Section, swept: str, fixed: str, metric: str) -> Sweep:
    cases = [case for case in section["cases"] if case["case"][fixed] == 1 and case["case"][swept] > 0]
    xs = [case["case"][swept] for case in cases]
    return Sweep(section["dataset"], xs, [_value(case, metric) for case in cases])


def _sweep_figure(
    figures: Figures,
    sweeps: Sequence[Sweep],
    metric: str,
    y_label: str,
    *,
    x_label: str,
    name: str,
    log_x: bool = False,
) -> str:
    title = f"{metric.upper()} over {x_label}" + (f" on {sweeps[0].label}" if len(sweeps) == 1 else "")
    ceiling = _FULL if metric == "am" else math.inf
    svg = sweep_svg(sweeps, title=title, x_label=x_label, y_label=y_label, log_x=log_x, ceiling=ceiling)
    ranges = "; ".join(_range(sweep) for sweep in sweeps)
    return figures.add(f"{name}-{metric}", svg, f"{title}: {ranges}")


def view_figures(figures: Figures, section: Section) -> list[str]:
    """t-SNE of the test nodes after each task, a figure a preset."""
    labels = {int(key): str(name) for key, name in section["classes"].items()}
    shown = []
    for case in measured(section):
        views: Sequence[Mapping[str, Any]] = case["views"] or []
        if not views:
            continue
        panels = [
            Panel(
                f"after task {view['after'] + 1}", [(x, y) for x, y in view["points"]], list(view["classes"])
            )
            for view in views
        ]
        name = case_label(case["case"])
        title = f"Test nodes of {section['dataset']} as {name} sees them"
        alt = f"{title}: t-SNE after each of {len(views)} tasks, a colour a class"
        if case["separation"]:
            apart = two_digits(case["separation"][-1]["silhouette"])
            alt += f"; over all seeds the silhouette of the classes is {apart} after the last"
        svg = scatter_svg(panels, labels=labels, title=title)
        shown.append(figures.add(f"{section['dataset']}-{case['case']['preset']}", svg, alt))
    return shown


def _short_label(case: Case) -> str:
    """The name of a case; what an ablation leaves in stands alone, as all are of one preset."""
    label = case["case"]
    return label.get("levels") or label.get("losses") or case_label(label)


def _value(case: Case | None, metric: str) -> Summary | None:
    found: Summary | None = case[metric] if case else None
    return found


def _range(sweep: Sweep) -> str:
    """How far a line goes up and down."""
    means = [value.mean for value in sweep.values if value is not None]
    if not means:
        return f"{sweep.label} has no values"
    return f"{sweep.label} from {decimal(min(means))} to {decimal(max(means))}"


def _extremes(values: Iterable[tuple[str, Mapping[str, Any] | None]]) -> str:
    """Which is highest and which lowest."""
    known = [(label, value) for label, value in values if value is not None]
    if not known:
        return "nothing was measured"
    low, high = (pick(known, key=lambda pair: pair[1].mean) for pick in (min, max))
    if spread(low[1]) == spread(high[1]):
        return f"{spread(high[1])} everywhere"
    return f"the highest is {high[0]} with {spread(high[1])}, the lowest {low[0]} with {spread(low[1])}"
