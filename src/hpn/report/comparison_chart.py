"""A chart of one metric by method: mean and deviation of each, the paper's beside ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpn.experiment.published import Spread
from hpn.metrics import Summary
from hpn.report.format import coord, decimal, spread
from hpn.report.svg import (
    colour,
    document,
    line,
    marker,
    nice_step,
    rect,
    shorten,
    text,
    text_width,
    tooltip,
)

WIDTH = 480.0
_ROW = 24.0
_RIGHT = 16.0
_RADIUS, _RING = 4.0, 3.6
_MIN_SPAN = 10.0
STYLES: dict[str | None, int] = {"gcn": 0, "gat": 1, "gin": 2, None: 6}
"""Colour and marker of a backbone, or of none."""

Position = Callable[[float], float]


@dataclass(frozen=True)
class Interval:
    """One line of the chart: a name, its backbone, our value over seeds and the paper's."""

    label: str
    backbone: str | None
    ours: Summary | None
    paper: Spread | None


def intervals_svg(
    rows: Sequence[Interval], *, title: str, ceiling: float = math.inf, standalone: bool = True
) -> str:
    """Draw a filled marker for ours and a hollow one below it for the paper's, with ± one deviation.

    Args:
        rows: From top to bottom.
        title: Name of the chart, drawn where it stands alone.
        ceiling: Largest value that makes sense.
        standalone: Whether to carry title and style sheet, as a file must.
    """
    left = 24 + max(text_width(shorten(row.label, 18)) for row in rows)
    top = 44.0 if standalone else 6.0
    bottom = top + _ROW * len(rows)
    low, high = _range(rows, ceiling)

    def position(value: float) -> float:
        inside = max(low, min(high, value))
        return left + (inside - low) / (high - low) * (WIDTH - _RIGHT - left)

    parts = [text(16, 28, title, cls="head")] if standalone else []
    parts += [rect(0, top + _ROW * i, WIDTH, _ROW, "stripe") for i in range(1, len(rows), 2)]
    parts.append(_axis(position, low, high, top, bottom))
    for number, row in enumerate(rows):
        middle = top + _ROW * (number + 0.5)
        parts.append(
            text(left - 12, middle + 4, shorten(row.label, 18), cls="ink", anchor="end", tip=row.label)
        )
        parts.append(_marks(row, position, middle))
    desc = "; ".join(f"{row.label} {spread(row.ours)}{_paper_words(row)}" for row in rows)
    return document(
        "".join(parts), width=WIDTH, height=bottom + 26, title=title, desc=desc, standalone=standalone
    )


def _paper_words(row: Interval) -> str:
    return f" (the paper {decimal(row.paper.mean)})" if row.paper else ""


def _range(rows: Sequence[Interval], ceiling: float) -> tuple[float, float]:
    known = [value for row in rows for value in (row.ours, row.paper) if value]
    low = min((value.mean - value.std for value in known), default=0.0)
    high = min(ceiling, max((value.mean + value.std for value in known), default=100.0))
    if high - low < _MIN_SPAN:
        low, high = (low + high - _MIN_SPAN) / 2, (low + high + _MIN_SPAN) / 2
    step = nice_step(high - low)
    return math.floor(low / step) * step, min(ceiling, math.ceil(high / step) * step)


def _axis(position: Position, low: float, high: float, top: float, bottom: float) -> str:
    step = nice_step(high - low)
    parts = []
    for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1):
        x = position(k * step)
        parts.append(line(x, top, x, bottom, "grid"))
        parts.append(text(x, bottom + 18, decimal(k * step, 0 if step >= 1 else 1), anchor="middle"))
    return "".join(parts)


def _marks(row: Interval, position: Position, middle: float) -> str:
    style = STYLES.get(row.backbone, STYLES[None])
    stroke = f"whisker s{colour(style)}"
    parts = []
    if row.paper:
        y = middle + 5 if row.ours else middle
        tip = f"{row.label}, the paper: {spread(row.paper)}"
        x = coord(position(row.paper.mean))
        ring = f'<circle cx="{x}" cy="{coord(y)}" r="{_RING}" class="{stroke}"/>'
        parts.append(f"<g>{tooltip(tip)}{_whiskers(row.paper, position, y, stroke, gap=_RING)}{ring}</g>")
    if row.ours:
        y = middle - 5 if row.paper else middle
        tip = f"{row.label}: {spread(row.ours)}"
        shape = marker(position(row.ours.mean), y, style, _RADIUS)
        parts.append(
            f'<g class="dot">{tooltip(tip)}{_whiskers(row.ours, position, y, stroke, gap=0)}{shape}</g>'
        )
    return "".join(parts)


def _whiskers(value: Summary | Spread, position: Position, y: float, cls: str, *, gap: float) -> str:
    """± one deviation to either side of a marker, which covers ``gap`` around its middle."""
    x = position(value.mean)
    ends = [(position(value.mean + sign * value.std), x + sign * gap) for sign in (-1, 1)]
    return "".join(line(end, y, start, y, cls) for end, start in ends if abs(end - x) > gap)
