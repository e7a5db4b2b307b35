"""Charts: curves over tasks, dots by task, horizontal bars. From numbers to SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpn.metrics import Summary
from hpn.report.format import coord, spread
from hpn.report.svg import (
    Plot,
    colour,
    dash,
    document,
    is_labelled,
    label_step,
    legend,
    line,
    marker,
    nice_range,
    points,
    rect,
    text,
    tooltip,
    y_axis,
)
from hpn.report.variants import short_name

WIDTH = 420.0
_BARS_WIDTH = 340.0
_PLOT_HEIGHT = 200.0
_LEFT, _RIGHT = 40.0, 14.0
_MAX_CLEAR_BANDS = 6


@dataclass(frozen=True)
class Series:
    """One run in a chart: a name and a value, or none, for each task."""

    label: str
    values: Sequence[Summary | None]


@dataclass(frozen=True)
class Bars:
    """One quantity in a bar chart: a heading, and for each run a value with its text."""

    head: str
    values: Sequence[float | None]
    texts: Sequence[str]


def curves_svg(
    series: Sequence[Series],
    *,
    title: str,
    noun: str = "task",
    ceiling: float = math.inf,
    standalone: bool = True,
) -> str:
    """Draw one line per run over the tasks, with a band of ± one standard deviation.

    Args:
        series: The runs, in the order of their colours.
        title: Name of the chart, drawn where it stands alone.
        noun: What a step of the stream is called.
        ceiling: Largest value that makes sense.
        standalone: Whether to carry title, legend and style sheet, as a file must.
    """
    num_tasks = max(len(s.values) for s in series)
    plot = _plot(series, WIDTH - _LEFT - _RIGHT, ceiling, standalone)
    inset = min(24.0, plot.width / 2 / num_tasks)
    gap = (plot.width - 2 * inset) / (num_tasks - 1) if num_tasks > 1 else 0.0
    xs = [plot.left + inset + gap * i if gap else plot.left + plot.width / 2 for i in range(num_tasks)]
    faint = " faint" if len(series) > _MAX_CLEAR_BANDS else ""
    parts = [y_axis(plot), _x_axis(plot, xs, f"{noun}s learned")]
    parts += [_band(plot, xs, s, style, faint) for style, s in enumerate(series)]
    parts += [_curve(plot, xs, s, style, noun) for style, s in enumerate(series)]
    if not any(value for s in series for value in s.values):
        middle = (plot.left + plot.width / 2, plot.top + plot.height / 2)
        parts.append(text(*middle, "not defined for these runs", anchor="middle"))
    return _finish(parts, series, plot, title=title, standalone=standalone)


def dots_svg(
    series: Sequence[Series],
    *,
    title: str,
    noun: str = "task",
    tips: Sequence[str] = (),
    ceiling: float = math.inf,
    standalone: bool = True,
) -> str:
    """Draw one dot per run and task, side by side, with whiskers of ± one standard deviation.

    Args:
        series: The runs, in the order of their colours.
        title: Name of the chart, drawn where it stands alone.
        noun: What a step of the stream is called.
        tips: What to show while the pointer rests on a task's number.
        ceiling: Largest value that makes sense.
        standalone: Whether to carry title, legend and style sheet, as a file must.
    """
    num_tasks, num_runs = max(len(s.values) for s in series), len(series)
    plot = _plot(series, dots_width(num_tasks, num_runs) - _LEFT - _RIGHT, ceiling, standalone)
    column = plot.width / num_tasks
    step = min(14.0, (column - 6) / num_runs)
    xs = [plot.left + column * (j + 0.5) for j in range(num_tasks)]
    parts = [
        rect(xs[j] - column / 2, plot.top, column, plot.height, "stripe") for j in range(1, num_tasks, 2)
    ]
    parts += [y_axis(plot), _x_axis(plot, xs, noun, tips)]
    radius = min(4.0, step * 0.4)
    for style, s in enumerate(series):
        shift = (style - (num_runs - 1) / 2) * step
        for j, value in enumerate(s.values):
            if value is not None:
                tip = f"{s.label}, {noun} {j + 1}: {spread(value)} %"
                parts.append(_dot(plot, xs[j] + shift, value, style, radius=radius, tip=tip))
    return _finish(parts, series, plot, title=title, standalone=standalone)


def dots_width(num_tasks: int, num_runs: int) -> float:
    """Width of :func:`dots_svg`: ``WIDTH``, or more where the dots would not fit side by side."""
    num_dots = num_tasks * num_runs
    room = 10.0 if num_dots <= 60 else 7.0 if num_dots <= 180 else 5.0
    return max(WIDTH, _LEFT + num_tasks * (num_runs * room + 6) + _RIGHT)


def bars_svg(labels: Sequence[str], panels: Sequence[Bars], *, title: str, standalone: bool = True) -> str:
    """Draw panels of horizontal bars from zero, one bar per run, each with its value.

    Args:
        labels: Names of the runs, in the order of their colours.
        panels: The quantities.
        title: Name of the chart, drawn where it stands alone.
        standalone: Whether to carry title and style sheet, as a file must.
    """
    left, right = 138.0, _BARS_WIDTH - 76
    y = 44.0 if standalone else 6.0
    parts = [text(16, 28, title, cls="head")] if standalone else []
    for panel in panels:
        top = max([v for v in panel.values if v is not None], default=0.0) or 1.0
        parts.append(text(left, y + 12, panel.head, cls="strong"))
        y += 22
        for style, (label, value) in enumerate(zip(labels, panel.values, strict=True)):
            parts.append(text(left - 8, y + 11, short_name(label, 18), cls="ink", anchor="end", tip=label))
            length = 0.0 if value is None else max(1.0, value / top * (right - left))
            if value is not None:
                tip = f"{label}: {panel.texts[style]}"
                parts.append(rect(left, y + 1, length, 12, f"f{colour(style)}", tip=tip))
            parts.append(text(left + length + 6, y + 11, panel.texts[style]))
            y += 19
        y += 12
    desc = "; ".join(
        f"{panel.head}: " + ", ".join(f"{n} {t}" for n, t in zip(labels, panel.texts, strict=True))
        for panel in panels
    )
    return document(
        "".join(parts), width=_BARS_WIDTH, height=y, title=title, desc=desc, standalone=standalone
    )


def _plot(series: Sequence[Series], width: float, ceiling: float, standalone: bool) -> Plot:
    values = [value for s in series for value in s.values if value is not None]
    low, high = nice_range(
        max(0.0, min((v.mean - v.std for v in values), default=0.0)),
        min(ceiling, max((v.mean + v.std for v in values), default=100.0)),
        ceiling=ceiling,
    )
    return Plot(_LEFT, 66.0 if standalone else 26.0, width, _PLOT_HEIGHT, low, high)


def _x_axis(plot: Plot, xs: Sequence[float], label: str, tips: Sequence[str] = ()) -> str:
    gap = xs[1] - xs[0] if len(xs) > 1 else plot.width
    step = label_step(len(xs), gap)
    parts = [line(plot.left, plot.bottom, plot.right, plot.bottom, "axis")]
    for i, x in enumerate(xs):
        if is_labelled(i, step):
            tip = tips[i] if i < len(tips) else ""
            parts.append(text(x, plot.bottom + 18, i + 1, anchor="middle", tip=tip))
    parts.append(text(plot.left + plot.width / 2, plot.bottom + 36, label, anchor="middle"))
    return "".join(parts)


def _band(plot: Plot, xs: Sequence[float], series: Series, style: int, faint: str) -> str:
    known = [(x, v) for x, v in zip(xs, series.values, strict=False) if v is not None]
    if len(known) < 2 or not any(v.std for _, v in known):
        return ""
    upper = [(x, plot.y(v.mean + v.std)) for x, v in known]
    lower = [(x, plot.y(v.mean - v.std)) for x, v in reversed(known)]
    return f'<polygon points="{points(upper + lower)}" class="band f{colour(style)}{faint}"/>'


def _curve(plot: Plot, xs: Sequence[float], series: Series, style: int, noun: str) -> str:
    known = [(i, x, v) for i, (x, v) in enumerate(zip(xs, series.values, strict=False)) if v]
    path = points([(x, plot.y(v.mean)) for _, x, v in known])
    parts = [f'<polyline points="{path}" class="line s{colour(style)}"{dash(style)}/>']
    step = label_step(len(xs), plot.width / len(xs), 18)
    radius = 4.0 if len(xs) <= 10 else 3.5
    for i, x, value in known:
        y = plot.y(value.mean)
        shape = marker(x, y, style, radius) if is_labelled(i, step) or i == len(xs) - 1 else ""
        tip = tooltip(f"{series.label}, after {noun} {i + 1}: {spread(value)} %")
        parts.append(f'<g>{tip}<circle cx="{coord(x)}" cy="{coord(y)}" r="7" class="hit"/>{shape}</g>')
    return "".join(parts)


def _dot(plot: Plot, x: float, value: Summary, style: int, *, radius: float, tip: str) -> str:
    low, high = (plot.y(value.mean + sign * value.std) for sign in (-1, 1))
    whisker = line(x, low, x, high, f"whisker s{colour(style)}") if value.std else ""
    shape = marker(x, plot.y(value.mean), style, radius)
    return f'<g class="dot">{tooltip(tip)}{whisker}{shape}</g>'


def _finish(parts: list[str], series: Sequence[Series], plot: Plot, *, title: str, standalone: bool) -> str:
    height = plot.bottom + 46
    parts.insert(0, text(plot.left - 8, plot.top - 12, "%", anchor="end"))
    if standalone:
        names = [s.label for s in series]
        rows, used = legend(names, left=16, top=height + 14, right=plot.right)
        parts += [text(16, 28, title, cls="head"), rows]
        height += used + 12
    ends = [(s.label, next((v for v in reversed(s.values) if v), None)) for s in series]
    desc = "In per cent at the end: " + ", ".join(f"{label} {spread(value)}" for label, value in ends)
    width = plot.right + _RIGHT
    return document("".join(parts), width=width, height=height, title=title, desc=desc, standalone=standalone)
