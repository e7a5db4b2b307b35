"""Axes of the charts over numbers, and what is around and along their lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpn.report.charts import WIDTH
from hpn.report.format import coord
from hpn.report.scales import PHONE, Scale, fit_range, log_range, value_ticks
from hpn.report.svg import (
    colour,
    dash,
    document,
    heading,
    legend,
    line,
    marker,
    points,
    text,
    text_width,
    tooltip,
)

HEIGHT = 200.0
RIGHT = WIDTH - 14.0


@dataclass(frozen=True)
class Frame:
    """What a chart has around its lines: names, and whether it is a file of its own."""

    title: str
    x_label: str
    y_label: str
    standalone: bool

    @property
    def top(self) -> float:
        """Where the area inside the axes begins."""
        return heading(self.title, WIDTH)[1] + 42 if self.standalone else 30.0

    def finish(
        self,
        parts: Sequence[str],
        y: Scale,
        *,
        desc: str,
        labels: Sequence[str],
        styles: Sequence[int] | None = None,
    ) -> str:
        """Put the names and the legend around a drawing, and make it a document."""
        left, height = label_room(y), y.start + 46
        drawn = [*parts, text(16 if self.standalone else 4, y.end - 14, self.y_label)]
        drawn.append(text((left + RIGHT) / 2, y.start + 36, self.x_label, anchor="middle"))
        if self.standalone:
            drawn.append(heading(self.title, WIDTH)[0])
        if labels:
            size = 12.0 if self.standalone else PHONE
            rows, used = legend(labels, left=16, top=height + 14, right=RIGHT, styles=styles, size=size)
            drawn.append(rows)
            height += used + 12
        return document(
            "".join(drawn),
            width=WIDTH,
            height=height,
            title=self.title,
            desc=desc,
            standalone=self.standalone,
        )


def value_scale(
    values: Iterable[float],
    top: float,
    *,
    least: float = 0.0,
    ceiling: float = math.inf,
    is_log: bool = False,
    from_zero: bool = False,
) -> Scale:
    """Vertical scale that holds the values, or the positive ones where it is logarithmic.

    Args:
        values: What is to be drawn.
        top: Where the area begins.
        least: Smallest range.
        ceiling: Largest value that makes sense.
        is_log: Whether it is logarithmic, if any value is positive.
        from_zero: Whether a linear scale starts at 0, as that of a count.
    """
    known = list(values)
    if is_log and any(value > 0 for value in known):
        return Scale(*log_range(known), top + HEIGHT, top, is_log=True)
    known += [0.0] if from_zero else []
    return Scale(*fit_range(known, least=least, ceiling=ceiling), top + HEIGHT, top)


def label_room(y: Scale) -> float:
    """Where the area inside the axes begins, so that the numbers left of it have room."""
    return max(40.0, 14 + max((text_width(name, 13) for _, name in value_ticks(y)), default=0.0))


def draw_axes(y: Scale, ticks: Sequence[tuple[float, str]]) -> str:
    """Draw grid lines with their values, and the horizontal axis with labels at places."""
    left = label_room(y)
    parts = []
    for value, name in value_ticks(y):
        parts.append(line(left, y.place(value), RIGHT, y.place(value), "grid"))
        parts.append(text(left - 8, y.place(value) + 4, name, anchor="end"))
    parts.append(line(left, y.start, RIGHT, y.start, "axis"))
    parts += [text(x, y.start + 18, name, cls="tick", anchor="middle") for x, name in ticks]
    return "".join(parts)


def draw_line(places: Sequence[tuple[float, float, str]], style: int, *, is_marked: Sequence[bool]) -> str:
    """Draw a line through places ``(x, y, tip)``, with the marker of its style at some of them."""
    path = points([(x, y) for x, y, _ in places])
    parts = [f'<polyline points="{path}" class="line s{colour(style)}"{dash(style)}/>'] if places else []
    for (x, y, tip), marked in zip(places, is_marked, strict=True):
        shape = marker(x, y, style) if marked else ""
        spot = f'<circle cx="{coord(x)}" cy="{coord(y)}" r="7" class="hit"/>'
        parts.append(f"<g>{tooltip(tip)}{spot}{shape}</g>")
    return "".join(parts)


def draw_note(left: float, y: Scale, note: str) -> str:
    """Say in the middle of the area why there is nothing in it."""
    return text((left + RIGHT) / 2, (y.start + y.end) / 2, note, anchor="middle")
