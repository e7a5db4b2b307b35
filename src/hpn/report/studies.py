"""Sensitivity: runs of one method that differ in one or two numeric hyper-parameters and nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpn.experiment.run.result import RunResult
from hpn.metrics import Metric, Summary, summarize
from hpn.report.cards import figure_card, plot_box
from hpn.report.format import is_number
from hpn.report.grid import grid_svg
from hpn.report.results import method_name, metric_of, shown_metrics
from hpn.report.scales import is_wide_range, plain
from hpn.report.sweeps import Sweep, sweep_svg
from hpn.report.variants import differing, setting_key, variant_names

_MIN_POINTS = 3
_MAX_COLUMNS = 8
_FULL = 100.0


@dataclass(frozen=True)
class Study:
    """Runs of a method over one hyper-parameter, or over two.

    Args:
        method: Method and backbone.
        names: The hyper-parameters.
        lines: Runs that agree in all others, each with what tells them from the other lines.
    """

    method: str
    names: tuple[str, ...]
    lines: list[tuple[str, list[RunResult]]]


def find_studies(results: Sequence[RunResult]) -> list[Study]:
    """Find the runs that tell what one or two hyper-parameters do; those of two before those of one."""
    methods: dict[str, list[RunResult]] = {}
    for result in results:
        methods.setdefault(method_name(result.method, result.backbone), []).append(result)
    return [study for method, runs in methods.items() for study in _of_method(method, runs)]


def sensitivity_block(results: Sequence[RunResult]) -> str:
    """Build the charts of all studies among the runs of a group; empty where there are none."""
    figures = [
        figure
        for study in find_studies(results)
        for figure in (_grids(study) if len(study.names) > 1 else _sweeps(study))
    ]
    if not figures:
        return ""
    return (
        '<div class="study"><h3>Sensitivity</h3><p class="note">Runs of one method that differ in nothing '
        f'but what is named.</p><div class="grid">{"".join(figures)}</div></div>'
    )


def _of_method(method: str, runs: Sequence[RunResult]) -> list[Study]:
    varied = differing([run.params for run in runs])
    grids = [
        Study(method, pair, [("", part)])
        for pair in itertools.combinations(varied, 2)
        for part in _alike(runs, pair)
        if _fills_square(part, pair)
    ]
    studies = []
    for name in varied:
        lines = [
            part
            for part in _alike(runs, (name,))
            if len(part) >= _MIN_POINTS and not any(_covers(grid, name, part) for grid in grids)
        ]
        if lines:
            studies.append(Study(method, (name,), list(zip(_line_names(lines, name), lines, strict=True))))
    return [*grids, *studies]


def _alike(runs: Sequence[RunResult], names: tuple[str, ...]) -> list[list[RunResult]]:
    """Split runs into those that agree in all but some numeric settings; of equal ones the first counts."""
    parts: dict[tuple[tuple[str, str], ...], dict[tuple[float, ...], RunResult]] = {}
    for run in runs:
        params = run.params
        if all(is_number(params.get(name)) for name in names):
            place = tuple(float(params[name]) for name in names)
            parts.setdefault(setting_key(params, without=names), {}).setdefault(place, run)
    return [list(part.values()) for part in parts.values()]


def _fills_square(part: Sequence[RunResult], pair: tuple[str, ...]) -> bool:
    """Whether two values of one setting were both run with the same two of the other."""
    rows: dict[float, set[float]] = {}
    for run in part:
        first, second = (float(run.params[name]) for name in pair)
        rows.setdefault(first, set()).add(second)
    return any(len(one & other) > 1 for one, other in itertools.combinations(rows.values(), 2))


def _covers(grid: Study, name: str, part: Sequence[RunResult]) -> bool:
    inside = {id(run) for _, runs in grid.lines for run in runs}
    return name in grid.names and all(id(run) in inside for run in part)


def _line_names(lines: Sequence[Sequence[RunResult]], name: str) -> list[str]:
    """Name lines by what they do not share."""
    others = [{k: v for k, v in runs[0].params.items() if k != name} for runs in lines]
    named = variant_names(others)
    return [text or f"setting {i + 1}" for i, text in enumerate(named)]


@dataclass(frozen=True)
class _Measure:
    """Something that is drawn over the settings."""

    head: str
    y_label: str
    unit: str
    value: Callable[[RunResult], Summary | None]

    @property
    def is_count(self) -> bool:
        """Whether it is a count, which has no deviation and may be drawn by its logarithm."""
        return not self.unit


def _measures(study: Study) -> list[_Measure]:
    """Every metric that has a value, and atomic prototypes where a single setting changes."""
    runs = [run for _, line in study.lines for run in line]
    measures = [_of_metric(metric) for metric in shown_metrics(runs)]
    if len(study.names) == 1 and any(_atomic(run) for run in runs):
        measures.append(_Measure("Atomic prototypes", "atomic prototypes", "", _atomic))
    return measures


def _of_metric(metric: Metric) -> _Measure:
    return _Measure(
        metric.label, f"{metric.label}, {metric.unit}", metric.unit, lambda run: metric_of(run, metric)
    )


def _atomic(run: RunResult) -> Summary | None:
    return summarize([(run.prototypes or {}).get("atomic")])


def _sweeps(study: Study) -> list[str]:
    (name,) = study.names
    xs = [float(run.params[name]) for _, runs in study.lines for run in runs]
    figures = []
    for measure in _measures(study):
        sweeps = [
            Sweep(
                line if len(study.lines) > 1 else study.method,
                [float(run.params[name]) for run in runs],
                [measure.value(run) for run in runs],
            )
            for line, runs in study.lines
        ]
        means = [value.mean for sweep in sweeps for value in sweep.values if value is not None]
        title = f"{measure.head} by {name}, {study.method}"
        svg = sweep_svg(
            sweeps,
            title=title,
            x_label=name,
            y_label=measure.y_label,
            log_x=is_wide_range(xs),
            log_y=measure.is_count and is_wide_range(means),
            ceiling=_FULL if measure.unit == "%" and max(means) <= _FULL else math.inf,
            standalone=False,
        )
        sub = "mean over seeds" if measure.is_count else "mean ± standard deviation over seeds"
        figures.append(figure_card(title, sub, plot_box(svg, title)))
    return figures


def _grids(study: Study) -> list[str]:
    ((_, runs),) = study.lines
    axes = {name: sorted({float(run.params[name]) for run in runs}) for name in study.names}
    rows, columns = sorted(study.names, key=lambda name: -len(axes[name]))  # a phone scrolls down
    at = {tuple(float(run.params[name]) for name in (rows, columns)): run for run in runs}
    found = [[at.get((row, column)) for column in axes[columns]] for row in axes[rows]]
    figures = []
    for measure in _measures(study):
        title = f"{measure.head} by {rows} and {columns}, {study.method}"
        svg = grid_svg(
            [[None if run is None else measure.value(run) for run in line] for line in found],
            rows=[plain(value) for value in axes[rows]],
            columns=[plain(value) for value in axes[columns]],
            row_label=rows,
            column_label=columns,
            title=title,
            unit=measure.unit,
            standalone=False,
        )
        box = plot_box(svg, title, keeps_size=len(axes[columns]) > _MAX_COLUMNS)
        figures.append(figure_card(title, f"mean over seeds, {measure.unit}", box))
    return figures
