"""Clouds of points in small panels, a colour and a shape a class, the same in all of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpn.report.charts import WIDTH
from hpn.report.format import coord, is_number
from hpn.report.scales import PHONE
from hpn.report.svg import colour, document, heading, legend, outline, rect, shorten, text

_SIDE, _GAP = 16.0, 12.0
_PADDING = 8.0
_HEAD = 22.0
_RADIUS = 2.2

Point = tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """One cloud: a heading, and points each with the number of its class."""

    head: str
    points: Sequence[Point]
    groups: Sequence[int]


def scatter_svg(
    panels: Sequence[Panel],
    *,
    labels: Mapping[int, str],
    title: str,
    columns: int | None = None,
    standalone: bool = True,
) -> str:
    """Draw clouds of points side by side, each scaled to itself, both its axes alike.

    Nothing is written along the axes: a projection such as t-SNE has no units.

    Args:
        panels: The clouds, from left to right and top to bottom.
        labels: Names of the classes; one without is called by its number.
        title: Name of the picture, drawn where it stands alone.
        columns: Panels side by side; by default two, or one if there is one.
        standalone: Whether to carry title and style sheet, as a file must.
    """
    groups = sorted({group for panel in panels for group in panel.groups})
    styles = {group: style for style, group in enumerate(sorted({*groups, *labels}))}
    names = {group: str(labels.get(group, f"class {group}")) for group in groups}
    columns = columns or min(2, max(1, len(panels)))
    head, used = heading(title, WIDTH) if standalone else ("", 0.0)
    side = _SIDE if standalone else 2.0
    size = (WIDTH - 2 * side - _GAP * (columns - 1)) / columns
    top = used + 14 if standalone else 2.0
    parts = [head]
    for k, panel in enumerate(panels):
        left, above = side + (size + _GAP) * (k % columns), top + (size + _HEAD + _GAP) * (k // columns)
        parts.append(
            text(left, above + 14, shorten(panel.head, int(size / 7.8)), cls="strong", tip=panel.head)
        )
        parts.append(_cloud(panel, left, above + _HEAD, size, styles))
    bottom = top + (size + _HEAD + _GAP) * -(-len(panels) // columns) - _GAP
    rows, taken = legend(
        list(names.values()),
        left=side,
        top=bottom + 24,
        right=WIDTH - side,
        styles=[styles[group] for group in names],
        has_lines=False,
        size=12 if standalone else PHONE,
    )
    return document(
        "".join([*parts, rows]),
        width=WIDTH,
        height=bottom + taken + 18,
        title=title,
        desc=_desc(panels, names),
        standalone=standalone,
    )


def _cloud(panel: Panel, left: float, top: float, size: float, styles: Mapping[int, int]) -> str:
    frame = rect(left, top, size, size, "frame")
    known = [
        (x, y, group)
        for (x, y), group in zip(panel.points, panel.groups, strict=True)
        if is_number(x) and is_number(y)
    ]
    if not known:
        return frame + text(left + size / 2, top + size / 2, "no points", anchor="middle")
    xs, ys = [x for x, _, _ in known], [y for _, y, _ in known]
    span = max(max(xs) - min(xs), max(ys) - min(ys))
    zoom = (size - 2 * _PADDING) / span if span > 0 else 0.0
    middle = ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2)
    places: dict[int, list[Point]] = {}
    for x, y, group in known:
        at = (left + size / 2 + (x - middle[0]) * zoom, top + size / 2 - (y - middle[1]) * zoom)
        places.setdefault(group, []).append(at)
    marks = "".join(_markers(places[group], styles[group]) for group in sorted(places))
    return f'{frame}<g class="cloud">{marks}</g>'


def _markers(places: Sequence[Point], style: int) -> str:
    """Draw all markers of a class as one path: a tenth of the bytes of as many elements."""
    corners = outline(style)
    if corners is None:  # a dot is a stroke of no length with round ends
        dots = "".join(f"M{coord(x)} {coord(y)}h.1" for x, y in places)
        return f'<path d="{dots}" class="s{colour(style)}" stroke-width="4.4" stroke-linecap="round"/>'
    at = [(round(_RADIUS * dx, 1), round(_RADIUS * dy, 1)) for dx, dy in corners]
    steps = " ".join(f"{coord(c - a)} {coord(d - b)}" for (a, b), (c, d) in itertools.pairwise(at))
    path = "".join(f"M{coord(x + at[0][0])} {coord(y + at[0][1])}l{steps}z" for x, y in places)
    return f'<path d="{path}" class="f{colour(style)}"/>'


def _desc(panels: Sequence[Panel], names: Mapping[int, str]) -> str:
    said = []
    for panel in panels:
        sizes = [
            f"{name} {panel.groups.count(group)}" for group, name in names.items() if group in panel.groups
        ]
        said.append(f"{panel.head}: {', '.join(sizes) or 'no points'}")
    return "The axes have no units: what lies together matters, not where. Points: " + "; ".join(said)
