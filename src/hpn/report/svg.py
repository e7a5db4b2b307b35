"""Drawing primitives: the SVG document, text, markers, scales and axes."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from hpn.report.format import coord, decimal, esc
from hpn.report.theme import DASHES, SERIES_LIGHT, svg_css

# Outlines for radius 1. Seven shapes against eight colours: 56 runs before a pair repeats.
_MARKERS = (
    None,  # a circle
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
    ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    ((0, 1.2), (1.1, -0.8), (-1.1, -0.8)),
    (
        *((-0.4, -1.1), (0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4)),
        *((0.4, 1.1), (-0.4, 1.1), (-0.4, 0.4), (-1.1, 0.4), (-1.1, -0.4), (-0.4, -0.4)),
    ),
    ((0, -1.2), (1.15, -0.35), (0.7, 1), (-0.7, 1), (-1.15, -0.35)),
)


@dataclass(frozen=True)
class Plot:
    """The area inside the axes and the range of values its height stands for."""

    left: float
    top: float
    width: float
    height: float
    low: float
    high: float

    @property
    def right(self) -> float:
        """Right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Bottom edge."""
        return self.top + self.height

    def y(self, value: float) -> float:
        """Height of a value; what lies outside the range is drawn on the edge."""
        inside = max(self.low, min(self.high, value))
        return self.bottom - (inside - self.low) / (self.high - self.low) * self.height


def document(body: str, *, width: float, height: float, title: str, desc: str, standalone: bool) -> str:
    """Wrap a drawing as one ``<svg>`` element with a name and a description for screen readers.

    Args:
        body: The drawing.
        width: Natural width in pixels.
        height: Natural height in pixels.
        title: Name of the picture.
        desc: What it shows, in words.
        standalone: Whether to carry the style sheet and a ground of its own, as a file must.
    """
    w, h = coord(width), coord(height)
    own = ""
    if standalone:
        ground = rect(0.5, 0.5, width - 1, height - 1, "ground")
        own = f"<style>{svg_css()}</style>{ground}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hpn" role="img" aria-label="{esc(title)}" '
        f'width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
        f"<title>{esc(title)}</title><desc>{esc(desc)}</desc>{own}{body}</svg>"
    )


def text(x: float, y: float, value: object, *, cls: str = "", anchor: str = "start", tip: str = "") -> str:
    """Draw text; ``tip`` shows while the pointer rests on it."""
    css = f' class="{cls}"' if cls else ""
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{coord(x)}" y="{coord(y)}"{css}{at}>{tooltip(tip)}{esc(value)}</text>'


def heading(title: str, width: float) -> tuple[str, float]:
    """Draw the title of a file in lines that fit a width, and give the height they take."""
    lines = textwrap.wrap(title, max(12, int((width - 32) / 7.8))) or [""]
    parts = [text(16, 28 + 18 * i, row, cls="head") for i, row in enumerate(lines)]
    return "".join(parts), 28.0 + 18 * (len(lines) - 1)


def tooltip(value: str) -> str:
    """Text that shows while the pointer rests on the element it is put into."""
    return f"<title>{esc(value)}</title>" if value else ""


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> str:
    """Draw a straight line."""
    ends = f'x1="{coord(x1)}" y1="{coord(y1)}" x2="{coord(x2)}" y2="{coord(y2)}"'
    return f'<line {ends} class="{cls}"/>'


def rect(x: float, y: float, width: float, height: float, cls: str, *, tip: str = "") -> str:
    """Draw a rectangle; ``tip`` shows while the pointer rests on it."""
    box = f'x="{coord(x)}" y="{coord(y)}" width="{coord(width)}" height="{coord(height)}"'
    return f'<rect {box} class="{cls}">{tooltip(tip)}</rect>'


def points(xys: Sequence[tuple[float, float]]) -> str:
    """Write points for a polyline or polygon."""
    return " ".join(f"{coord(x)},{coord(y)}" for x, y in xys)


def colour(style: int) -> int:
    """Number of the colour of a style."""
    return style % len(SERIES_LIGHT)


def dash(style: int) -> str:
    """Dash attribute of a style, empty for a full line."""
    pattern = DASHES[style // len(SERIES_LIGHT) % len(DASHES)]
    return f' stroke-dasharray="{pattern}"' if pattern else ""


def outline(style: int) -> Sequence[tuple[float, float]] | None:
    """Corners of the marker of a style, for radius 1; none for a circle."""
    return _MARKERS[style % len(_MARKERS)]


def marker(x: float, y: float, style: int, radius: float = 4) -> str:
    """Draw the marker of a style."""
    corners = outline(style)
    cls = f'class="marker f{colour(style)}"'
    if corners is None:
        return f'<circle cx="{coord(x)}" cy="{coord(y)}" r="{coord(radius)}" {cls}/>'
    shape = points([(x + radius * dx, y + radius * dy) for dx, dy in corners])
    return f'<polygon points="{shape}" {cls}/>'


def swatch(style: int, x: float = 0, y: float = 0) -> str:
    """Draw a style's piece of line with its marker, 26 wide, around height ``y``."""
    rule = line(x, y, x + 26, y, f"line s{colour(style)}").replace("/>", f"{dash(style)}/>")
    return rule + marker(x + 13, y, style)


def legend(
    labels: Sequence[str],
    *,
    left: float,
    top: float,
    right: float,
    styles: Sequence[int] | None = None,
    has_lines: bool = True,
    size: float = 12,
) -> tuple[str, float]:
    """Draw the names of the styles in rows that wrap, and give the height they take.

    Args:
        labels: The names.
        left: Where the rows start.
        top: Height of the first row's text.
        right: Where the rows end.
        styles: The style of each name; by default they are counted.
        has_lines: Whether a piece of line runs through each marker.
        size: Font size to leave room for; on a phone, a page draws letters larger.
    """
    parts, x, y = [], left, top
    indent = 32.0 if has_lines else 14.0
    for style, label in zip(styles or range(len(labels)), labels, strict=True):
        short = shorten(label, 34)
        width = indent + text_width(short, size) + 18
        if x > left and x + width - 18 > right:
            x, y = left, y + 20
        sign = swatch(style, x, y - 4) if has_lines else marker(x + 5, y - 4, style)
        parts += [sign, text(x + indent, y, short, cls="ink", tip=label)]
        x += width
    return "".join(parts), y - top + 20


def text_width(value: str, size: float = 12) -> float:
    """Estimate the width of text, wide (East Asian) characters counted as such.

    Example:
        >>> text_width("abcd") < text_width("漢字漢字")
        True
    """
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in value)
    return size * (0.56 * (len(value) - wide) + wide)


def shorten(value: str, length: int) -> str:
    """Cut text to a number of characters.

    Example:
        >>> shorten("fine-tuning", 6), shorten("ewc", 6)
        ('fine-…', 'ewc')
    """
    return value if len(value) <= length else value[: length - 1] + "…"


def nice_step(span: float, parts: int = 5) -> float:
    """Step of 1, 2 or 5 times a power of ten that cuts a span into about so many parts.

    Example:
        >>> nice_step(37.0), nice_step(100.0), nice_step(2.2)
        (10.0, 20.0, 0.5)
    """
    power = 10.0 ** math.floor(math.log10(span / parts))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power * parts >= span)


def nice_range(low: float, high: float, *, ceiling: float = math.inf) -> tuple[float, float]:
    """Widen a range of percentages to whole steps, at least 10 wide and within 0 and ``ceiling``.

    Example:
        >>> nice_range(61.0, 97.0, ceiling=100.0), nice_range(50.0, 50.0)
        ((60.0, 100.0), (40.0, 60.0))
    """
    if high - low < 10:
        low, high = (low + high) / 2 - 5, (low + high) / 2 + 5
        if high > ceiling:
            low, high = ceiling - 10, ceiling
    for _ in range(2):  # widening may call for a longer step
        step = nice_step(high - low)
        low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return max(0.0, low), max(10.0, min(ceiling, high))


def y_axis(plot: Plot) -> str:
    """Draw the grid lines with their values."""
    step = nice_step(plot.high - plot.low)
    first = math.ceil(plot.low / step - 1e-9)
    last = math.floor(plot.high / step + 1e-9)
    digits = 0 if step >= 1 else 1
    parts = []
    for k in range(first, last + 1):
        y = plot.y(k * step)
        parts.append(line(plot.left, y, plot.right, y, "grid"))
        parts.append(text(plot.left - 8, y + 4, decimal(k * step, digits), anchor="end"))
    return "".join(parts)


def label_step(num: int, space: float, room: float = 24) -> int:
    """Every how many of ``num`` labels to draw, ``space`` apart, so that each has ``room``.

    Example:
        >>> label_step(5, 60.0), label_step(50, 8.0), label_step(300, 1.2)
        (1, 5, 20)
    """
    # No step of 2: the first label is always drawn, and 1 would run into 2.
    steps = (1, 5, 10, 20, 50, 100, 200, 500)
    return next((step for step in steps if step * space >= room), num)


def is_labelled(index: int, step: int) -> bool:
    """Whether the label of a task (counted from 0, shown from 1) is drawn.

    Example:
        >>> [i + 1 for i in range(12) if is_labelled(i, 5)]
        [1, 5, 10]
    """
    return (index + 1) % step == 0 or index == 0
