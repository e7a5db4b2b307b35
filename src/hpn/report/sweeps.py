"""A measure over a numeric setting: one line a thing, with a band of ± one standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpn.metrics import Summary
from hpn.report.axes import RIGHT, Frame, draw_axes, draw_line, draw_note, label_room, value_scale
from hpn.report.format import spread
from hpn.report.scales import Scale, number_ticks, plain
from hpn.report.svg import colour, line, points, text, tooltip

_INSET = 18.0
_LEAST = 4.0  # per cent or points: less is noise, and must not look like more
_MAX_CLEAR_BANDS = 6


@dataclass(frozen=True)
class Sweep:
    """One line: a name, and a value, or none, at each setting."""

    label: str
    xs: Sequence[float]
    values: Sequence[Summary | None]


def sweep_svg(
    sweeps: Sequence[Sweep],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    ceiling: float = math.inf,
    reference: float | None = None,
    reference_label: str = "reference",
    standalone: bool = True,
) -> str:
    """Draw one line a sweep over a numeric setting, with a band of ± one standard deviation.

    Percentages and points are drawn over a range of at least 4, and any other quantity over a range of
    at least a tenth of its size, so that noise does not look like a trend.

    Args:
        sweeps: The lines, in the order of their colours; their settings need not be sorted.
        title: Name of the chart, drawn where it stands alone.
        x_label: The setting.
        y_label: What is measured, with its unit, as in ``"AM, %"``.
        log_x: Whether the setting is drawn by its logarithm; all of ``xs`` must then be positive.
        log_y: Whether the values are; those of 0 or less are drawn on the axis.
        ceiling: Largest value that makes sense.
        reference: A value to draw as a line across the chart.
        reference_label: What that value is.
        standalone: Whether to carry title, legend and style sheet, as a file must. Inside a page the
            legend is drawn where there is more than one line.
    """
    xs = sorted({x for sweep in sweeps for x in sweep.xs})
    if log_x and xs and xs[0] <= 0:
        raise ValueError(f"log_x needs settings above 0, got {plain(xs[0])}")
    frame = Frame(title, x_label, y_label, standalone)
    y = _value_scale(sweeps, frame, log_y=log_y, ceiling=ceiling, reference=reference)
    left = label_room(y)
    x = Scale(xs[0] if xs else 0, xs[-1] if xs else 0, left + _INSET, RIGHT - _INSET, is_log=log_x)
    parts = [draw_axes(y, [(x.place(value), name) for value, name in number_ticks(xs, x)])]
    known = [_known(sweep) for sweep in sweeps]
    faint = " faint" if len(sweeps) > _MAX_CLEAR_BANDS else ""
    parts += [_band(row, x, y, style, faint) for style, row in enumerate(known)]
    if reference is not None:
        parts.append(_reference(reference, y, left, reference_label))
    for style, (sweep, row) in enumerate(zip(sweeps, known, strict=True)):
        places = [
            (
                x.place(at),
                y.place(v.mean),
                f"{sweep.label}, {x_label} {plain(at)}: {spread(v)} ({y_label})",
            )
            for at, v in row
        ]
        parts.append(draw_line(places, style, is_marked=[True] * len(places)))
    if not any(known):
        parts.append(draw_note(left, y, "no values"))
    labels = [sweep.label for sweep in sweeps] if standalone or len(sweeps) > 1 else []
    desc = _desc(sweeps, known, x_label=x_label, y_label=y_label)
    return frame.finish(parts, y, desc=desc, labels=labels)


def _known(sweep: Sweep) -> list[tuple[float, Summary]]:
    pairs = zip(sweep.xs, sweep.values, strict=True)
    return sorted(((x, v) for x, v in pairs if v is not None), key=lambda pair: pair[0])


def _value_scale(
    sweeps: Sequence[Sweep], frame: Frame, *, log_y: bool, ceiling: float, reference: float | None
) -> Scale:
    known = [value for sweep in sweeps for value in sweep.values if value is not None]
    values = [value.mean + sign * value.std for value in known for sign in (-1, 0, 1)]
    values += [] if reference is None else [reference]
    is_share = "%" in frame.y_label or "point" in frame.y_label
    least = _LEAST if is_share else max(map(abs, values), default=0.0) / 10
    return value_scale(values, frame.top, least=least, ceiling=ceiling, is_log=log_y)


def _band(row: Sequence[tuple[float, Summary]], x: Scale, y: Scale, style: int, faint: str) -> str:
    """Draw ± one standard deviation: a band, or a whisker where there is a single setting."""
    if not any(value.std for _, value in row):
        return ""
    upper = [(x.place(at), y.place(v.mean + v.std)) for at, v in row]
    lower = [(x.place(at), y.place(v.mean - v.std)) for at, v in row]
    if len(row) == 1:
        return line(*upper[0], *lower[0], f"whisker s{colour(style)}")
    return f'<polygon points="{points(upper + lower[::-1])}" class="band f{colour(style)}{faint}"/>'


def _reference(value: float, y: Scale, left: float, label: str) -> str:
    place = y.place(value)
    rule = line(left, place, RIGHT, place, "axis bound")
    above = place - 5 if place - 18 > y.end else place + 15
    name = text(RIGHT - 4, above, f"{label} {plain(round(value, 2))}", cls="halo", anchor="end")
    return f"<g>{tooltip(f'{label}: {plain(value)}')}{rule}{name}</g>"


def _desc(
    sweeps: Sequence[Sweep], known: Sequence[Sequence[tuple[float, Summary]]], *, x_label: str, y_label: str
) -> str:
    lines = [
        f"{sweep.label}: " + (", ".join(f"{plain(x)}: {spread(v)}" for x, v in row) or "no values")
        for sweep, row in zip(sweeps, known, strict=True)
    ]
    return f"{y_label} by {x_label}. " + "; ".join(lines)
