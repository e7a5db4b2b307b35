"""What a learner keeps after each task, under the bound that no stream can lead past."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpn.report.axes import RIGHT, Frame, draw_axes, draw_line, draw_note, label_room, value_scale
from hpn.report.format import count, is_number
from hpn.report.scales import PHONE, Scale
from hpn.report.svg import colour, is_labelled, label_step, line, marker, shorten, text, text_width, tooltip
from hpn.theory.memory import NO_BOUND

_MAX_DRAWN = 1000  # a bound this many times the largest value would flatten everything else
_MAX_LINEAR = 20
_HEADROOM = 0.1


Place = tuple[float, float, str]


@dataclass(frozen=True)
class GrowthLine:
    """One line: a name, a value, or none, after each task, and the most it can become, if known."""

    label: str
    values: Sequence[float | None]
    bound: float | None


@dataclass(frozen=True)
class _Box:
    """Where the name of a bound may stand: its left edge, its base line and its width."""

    left: float
    base: float
    width: float

    @property
    def right(self) -> float:
        """Right edge."""
        return self.left + self.width


def growth_svg(
    growths: Sequence[GrowthLine],
    *,
    title: str,
    y_label: str,
    noun: str = "task",
    log_y: bool | None = None,
    has_legend: bool = True,
    standalone: bool = True,
) -> str:
    """Draw one line per thing over the tasks, each with a dashed line at its bound.

    A bound of more than 1,000 times the largest value is not drawn but written in the legend.

    Args:
        growths: The lines, in the order of their colours; one without values is left out, and keeps
            its colour.
        title: Name of the chart, drawn where it stands alone.
        y_label: What is counted.
        noun: What a step of the stream is called.
        log_y: Whether values are drawn by their logarithm; by default, if a bound that is drawn is
            more than 20 times the largest value.
        has_legend: Whether to name the lines. A file always does.
        standalone: Whether to carry title, legend and style sheet, as a file must.
    """
    known = [value for growth in growths for value in growth.values if is_number(value)]
    most = max(known, default=0.0) or 1.0
    bounds = {style: g.bound for style, g in enumerate(growths) if any(map(is_number, g.values))}
    drawn = {s: float(b) for s, b in bounds.items() if b is not None and 0 <= b <= _MAX_DRAWN * most}
    is_log = any(b > _MAX_LINEAR * most for b in drawn.values()) if log_y is None else log_y
    frame = Frame(title, f"{noun}s learned", y_label, standalone)
    y = value_scale(
        [*known, *_headroom(known, drawn, is_log=is_log)], frame.top, is_log=is_log, from_zero=True
    )
    xs = _places(max((len(g.values) for g in growths), default=1), y)
    parts = [draw_axes(y, _task_ticks(xs)), _bound_lines(growths, drawn, y)]
    lines = {style: _known(growths[style], xs, y, noun) for style in bounds}
    parts += [_line(places, xs, style) for style, places in lines.items()]
    parts.append(_bound_labels(drawn, [*lines.values()], y))
    if not known:
        parts.append(draw_note(label_room(y), y, "no values"))
    styles = list(bounds) if has_legend or standalone else []
    labels = [_label(growths[style], is_drawn=style in drawn) for style in styles]
    desc = f"After the last {noun}: " + ", ".join(_words(growths[style]) for style in bounds)
    return frame.finish(parts, y, desc=desc, labels=labels, styles=styles)


def _headroom(known: Sequence[float], drawn: Mapping[int, float], *, is_log: bool) -> list[float]:
    """The highest bound, and what is far enough above it that the name of the bound fits between."""
    if not drawn:
        return []
    top = max(drawn.values())
    least = min((value for value in [*known, top] if value > 0), default=1.0)
    return [*drawn.values(), top * max(1.2, top / least) ** _HEADROOM if is_log else top * (1 + _HEADROOM)]


def _places(num_tasks: int, y: Scale) -> list[float]:
    left = label_room(y)
    inset = min(24.0, (RIGHT - left) / 2 / max(1, num_tasks))
    if num_tasks <= 1:
        return [(left + RIGHT) / 2] * num_tasks
    gap = (RIGHT - left - 2 * inset) / (num_tasks - 1)
    return [left + inset + gap * i for i in range(num_tasks)]


def _task_ticks(xs: Sequence[float]) -> list[tuple[float, str]]:
    step = label_step(len(xs), xs[1] - xs[0] if len(xs) > 1 else math.inf)
    return [(x, str(i + 1)) for i, x in enumerate(xs) if is_labelled(i, step)]


def _known(growth: GrowthLine, xs: Sequence[float], y: Scale, noun: str) -> list[Place]:
    return [
        (xs[i], y.place(value), f"{growth.label}, after {noun} {i + 1}: {count(value)}")
        for i, value in enumerate(growth.values)
        if is_number(value)
    ]


def _line(places: Sequence[Place], xs: Sequence[float], style: int) -> str:
    step = label_step(len(xs), xs[1] - xs[0] if len(xs) > 1 else math.inf, 18)
    marked = {x for i, x in enumerate(xs) if is_labelled(i, step)} | {places[-1][0]}
    return draw_line(places, style, is_marked=[x in marked for x, _, _ in places])


def _bound_lines(growths: Sequence[GrowthLine], drawn: Mapping[int, float], y: Scale) -> str:
    parts = []
    for style, bound in drawn.items():
        rule = line(label_room(y), y.place(bound), RIGHT, y.place(bound), f"bound s{colour(style)}")
        parts.append(f"<g>{tooltip(f'{growths[style].label}, bound {count(bound)}')}{rule}</g>")
    return "".join(parts)


def _bound_labels(drawn: Mapping[int, float], lines: Sequence[Sequence[Place]], y: Scale) -> str:
    """Write each bound along its line, with the marker of its thing, where neither lines nor names are."""
    rules = [y.place(bound) for bound in drawn.values()]
    taken: list[_Box] = []
    parts = []
    for style, bound in drawn.items():
        name, rule = f"bound {count(bound)}", y.place(bound)
        width = 17 + text_width(name, PHONE)
        free = [box for box in _boxes(rule, width, y) if not _is_taken(box, taken, rules, lines)]
        box = next(iter(free or _boxes(rule, width, y)))
        taken.append(box)
        parts.append(marker(box.left + 6, box.base - 4, style, 3))
        parts.append(text(box.left + 14, box.base, name, cls="halo"))
    return "".join(parts)


def _boxes(rule: float, width: float, y: Scale) -> list[_Box]:
    """Places for the name of a bound, best first: above its line at the left, where lines are low."""
    left = label_room(y)
    starts = (left + 3, RIGHT - width - 3, (left + RIGHT - width) / 2)
    boxes = [_Box(start, rule + rise, width) for rise in (-6, 15, -21, 30) for start in starts]
    return [box for box in boxes if y.end + 10 <= box.base <= y.start - 4] or boxes[:1]


def _is_taken(
    box: _Box, taken: Sequence[_Box], rules: Sequence[float], lines: Sequence[Sequence[Place]]
) -> bool:
    top, bottom = box.base - 12, box.base + 4
    if any(top < rule < bottom for rule in rules):
        return True
    if any(abs(box.base - o.base) < 16 and box.left < o.right and o.left < box.right for o in taken):
        return True
    return any(
        # Between two points a line is nowhere higher or lower than both: their box is enough to avoid.
        one[0] < box.right
        and other[0] > box.left
        and min(one[1], other[1]) < bottom
        and max(one[1], other[1]) > top
        for line_places in lines
        for one, other in zip(line_places, [*line_places[1:], line_places[-1]], strict=True)
    )


def _label(growth: GrowthLine, *, is_drawn: bool) -> str:
    if growth.bound is None or is_drawn:
        return growth.label
    bound = f", {bound_text(growth.bound, 'bound ')}"
    return shorten(growth.label, 34 - len(bound)) + bound


def _words(growth: GrowthLine) -> str:
    last = next((value for value in reversed(growth.values) if is_number(value)), None)
    return f"{growth.label} {count(last)}" + (
        "" if growth.bound is None else f" ({bound_text(growth.bound, 'bound ')})"
    )


def bound_text(bound: float | None, before: str = "") -> str:
    """Write a bound, unless there is none or it is so large that it bounds nothing.

    Example:
        >>> bound_text(4096, "bound "), bound_text(10**15), bound_text(10**19), bound_text(None)
        ('bound 4,096', '1.0 × 10¹⁵', 'no useful bound', 'no useful bound')
    """
    return "no useful bound" if bound is None or bound >= NO_BOUND else f"{before}{count(bound)}"
