"""How many prototypes fit: the bound over the distance they keep, one line a dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpn.report.axes import RIGHT, Frame, draw_axes, draw_line, label_room, value_scale
from hpn.report.scales import Scale, plain

INSET = 18.0
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
MOST = 1e12
"""Beyond this, a bound on memory is none; lines begin where they come below."""


def bounds_svg(sizes: Mapping[int, Sequence[tuple[float, float]]], *, title: str) -> str:
    """Draw the size of the largest code over its cosine distance.

    Args:
        sizes: By dimension, pairs of a distance and the bound on the size.
        title: Name of the chart.
    """
    drawn = {dim: [(t, size) for t, size in row if size <= MOST] for dim, row in sizes.items()}
    frame = Frame(title, "cosine distance t that any two keep", "prototypes at most", standalone=True)
    y = value_scale([size for row in drawn.values() for _, size in row], frame.top, is_log=True)
    xs = sorted({t for row in sizes.values() for t, _ in row})
    x = Scale(xs[0], xs[-1], label_room(y) + INSET, RIGHT - INSET, is_log=True)
    ticks = [t for t in TICKS if xs[0] <= t <= xs[-1]]
    parts = [draw_axes(y, [(x.place(t), plain(t)) for t in ticks])]
    for style, (dim, row) in enumerate(drawn.items()):
        places = [
            (x.place(t), y.place(size), f"dimension {dim}, distance {plain(t)}: at most {plain(size)}")
            for t, size in row
        ]
        parts.append(draw_line(places, style, is_marked=[True] * len(places)))
    ends = ", ".join(
        f"dimension {dim}: {plain(first)} at {plain(low)}, {plain(last)} at {plain(high)}"
        for dim, ((low, first), *_, (high, last)) in sizes.items()
    )
    labels = [f"dimension {dim}" for dim in sizes]
    return frame.finish(parts, y, desc=f"The bound falls with the distance. {ends}", labels=labels)
