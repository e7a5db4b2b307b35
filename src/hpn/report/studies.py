"""Sensitivity: runs of one method that differ in one or two numeric hyper-parameters and nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpn.metrics import Summary, summarize
from hpn.report.cards import figure_card, plot_box
from hpn.report.format import is_number
from hpn.report.grid import grid_svg
from hpn.report.results import Result, method_label
from hpn.report.scales import is_wide_range, plain
from hpn.report.sweeps import Sweep, sweep_svg
from hpn.report.variants import Params, differing, setting_key, variant_names

_MIN_POINTS = 3
_MAX_COLUMNS = 8
_ATOMIC = "Atomic prototypes"
_MEASURES = (("AM", "%", 100.0), ("FM", "points", math.inf))


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
    lines: list[tuple[str, list[Result]]]


def find_studies(results: Sequence[Result]) -> list[Study]:
    """Find the runs that tell what one or two hyper-parameters do; those of two before those of one."""
    methods: dict[str, list[Result]] = {}
    for result in results:
        methods.setdefault(method_label(result), []).append(result)
    return [study for method, runs in methods.items() for study in _of_method(method, runs)]


def sensitivity_block(results: Sequence[Result]) -> str:
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


def _of_method(method: str, runs: Sequence[Result]) -> list[Study]:
    varied = differing([_params(run) for run in runs])
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


def _alike(runs: Sequence[Result], names: tuple[str, ...]) -> list[list[Result]]:
    """Split runs into those that agree in all but some numeric settings; of equal ones the first counts."""
    parts: dict[tuple[tuple[str, str], ...], dict[tuple[float, ...], Result]] = {}
    for run in runs:
        params = _params(run)
        if all(is_number(params.get(name)) for name in names):
            place = tuple(float(params[name]) for name in names)
            parts.setdefault(setting_key(params, without=names), {}).setdefault(place, run)
    return [list(part.values()) for part in parts.values()]


def _fills_square(part: Sequence[Result], pair: tuple[str, ...]) -> bool:
    """Whether two values of one setting were both run with the same two of the other."""
    rows: dict[float, set[float]] = {}
    for run in part:
        first, second = (float(_params(run)[name]) for name in pair)
        rows.setdefault(first, set()).add(second)
    return any(len(one & other) > 1 for one, other in itertools.combinations(rows.values(), 2))


def _covers(grid: Study, name: str, part: Sequence[Result]) -> bool:
    inside = {id(run) for _, runs in grid.lines for run in runs}
    return name in grid.names and all(id(run) in inside for run in part)


def _line_names(lines: Sequence[Sequence[Result]], name: str) -> list[str]:
    """Name lines by what they do not share."""
    others = [{k: v for k, v in _params(runs[0]).items() if k != name} for runs in lines]
    named = variant_names(others)
    return [text or f"setting {i + 1}" for i, text in enumerate(named)]


def _sweeps(study: Study) -> list[str]:
    (name,) = study.names
    xs = [float(_params(run)[name]) for _, runs in study.lines for run in runs]
    measures = [(head, f"{head}, {unit}", ceiling) for head, unit, ceiling in _MEASURES]
    figures = []
    for head, y_label, ceiling in (*measures, (_ATOMIC, _ATOMIC.lower(), math.inf)):
        sweeps = [_sweep(study, line, runs, head) for line, runs in study.lines]
        means = [value["mean"] for sweep in sweeps for value in sweep.values if value is not None]
        if not means:
            continue
        title = f"{head} by {name}, {study.method}"
        svg = sweep_svg(
            sweeps,
            title=title,
            x_label=name,
            y_label=y_label,
            log_x=is_wide_range(xs),
            log_y=head == _ATOMIC and is_wide_range(means),
            ceiling=ceiling,
            standalone=False,
        )
        sub = "mean over seeds" if head == _ATOMIC else "mean ± standard deviation over seeds"
        figures.append(figure_card(title, sub, plot_box(svg, title)))
    return figures


def _sweep(study: Study, line: str, runs: Sequence[Result], head: str) -> Sweep:
    xs = [float(_params(run)[study.names[0]]) for run in runs]
    return Sweep(line if len(study.lines) > 1 else study.method, xs, [_measure(run, head) for run in runs])


def _measure(run: Result, head: str) -> Summary | None:
    if head != _ATOMIC:
        found: Summary | None = run[head.lower()]
        return found
    atomic = (run.get("prototypes") or {}).get("atomic")
    return summarize([float(atomic)]) if is_number(atomic) else None


def _grids(study: Study) -> list[str]:
    ((_, runs),) = study.lines
    axes = {name: sorted({float(_params(run)[name]) for run in runs}) for name in study.names}
    rows, columns = sorted(study.names, key=lambda name: -len(axes[name]))  # a phone scrolls down
    at = {tuple(float(_params(run)[name]) for name in (rows, columns)): run for run in runs}
    figures = []
    for head, unit, _ in _MEASURES:
        found = [[at.get((row, column)) for column in axes[columns]] for row in axes[rows]]
        cells = [[None if run is None else _measure(run, head) for run in line] for line in found]
        if not any(cell for line in cells for cell in line):
            continue
        title = f"{head} by {rows} and {columns}, {study.method}"
        svg = grid_svg(
            cells,
            rows=[plain(value) for value in axes[rows]],
            columns=[plain(value) for value in axes[columns]],
            row_label=rows,
            column_label=columns,
            title=title,
            unit=unit,
            standalone=False,
        )
        box = plot_box(svg, title, keeps_size=len(axes[columns]) > _MAX_COLUMNS)
        figures.append(figure_card(title, f"mean over seeds, {unit}", box))
    return figures


def _params(run: Result) -> Params:
    found: Params = run.get("params") or {}
    return found
