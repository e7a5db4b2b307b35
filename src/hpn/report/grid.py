"""A measure over two settings as a heat map whose shades span its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpn.metrics import Summary
from hpn.report.charts import WIDTH
from hpn.report.format import MISSING, count, decimal, spread
from hpn.report.scales import PHONE
from hpn.report.svg import document, heading, rect, shorten, text, text_width
from hpn.report.theme import NUM_SHADES

_RIGHT = 16.0
_HEIGHT = 36.0
_GAP = 2.0
_LEGEND_WIDTH = 200.0
_MAX_LABEL = 14


@dataclass(frozen=True)
class _Layout:
    """Where the cells are, how large, and the range that their shades span."""

    left: float
    top: float
    width: float
    low: float
    high: float

    def shade(self, value: float) -> int:
        """Shade of a value; the middle one where all values are equal."""
        if self.high <= self.low:
            return NUM_SHADES // 2
        return min(NUM_SHADES - 1, int((value - self.low) / (self.high - self.low) * NUM_SHADES))


def grid_svg(
    cells: Sequence[Sequence[Summary | None]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    row_label: str,
    column_label: str,
    title: str,
    unit: str = "%",
    standalone: bool = True,
) -> str:
    """Draw a heat map with the mean in each cell; the shades run from the lowest to the highest mean.

    Args:
        cells: A value, or none, for each row and column.
        rows: Names of the rows, from top to bottom.
        columns: Names of the columns.
        row_label: What the rows are.
        column_label: What the columns are.
        title: Name of the picture, drawn where it stands alone.
        unit: Unit of the values.
        standalone: Whether to carry title and style sheet, as a file must.
    """
    if len(cells) != len(rows) or any(len(row) != len(columns) for row in cells):
        raise ValueError(f"cells must be {len(rows)} rows of {len(columns)}, one for each name")
    head, used = heading(title, WIDTH) if standalone else ("", 0.0)
    means = [cell.mean for row in cells for cell in row if cell is not None]
    layout = _layout(rows, columns, means, top=used + (40 if standalone else 24))
    parts = [head, text(16 if standalone else 4, layout.top - 10, row_label)]
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            where = f"{row_label} {rows[i]}, {column_label} {columns[j]}"
            parts.append(_cell(cell, i, j, layout, where=where, unit=unit))
    parts += [_names(rows, columns, column_label, layout), _scale(layout, len(rows), unit, bool(means))]
    desc = f"Rows: {row_label}. Columns: {column_label}. " + "; ".join(
        f"{name}: "
        + ", ".join(f"{column}: {spread(cell)}" for column, cell in zip(columns, row, strict=True))
        for name, row in zip(rows, cells, strict=True)
    )
    return document(
        "".join(parts),
        width=max(WIDTH, layout.left + layout.width * len(columns) + _RIGHT),
        height=layout.top + _HEIGHT * len(rows) + 92,
        title=title,
        desc=desc,
        standalone=standalone,
    )


def _layout(rows: Sequence[str], columns: Sequence[str], means: Sequence[float], *, top: float) -> _Layout:
    names = max((text_width(shorten(name, _MAX_LABEL), PHONE) for name in rows), default=0.0)
    left = max(36.0, 16 + names)
    longest = max((text_width(_number(mean, means), PHONE) for mean in means), default=0.0)
    width = min(72.0, max(longest + 8, (WIDTH - left - _RIGHT) / max(1, len(columns))))
    return _Layout(left, top, width, min(means, default=0.0), max(means, default=0.0))


def _number(mean: float, means: Sequence[float]) -> str:
    """Write a mean with one digit, or, where there are large ones, as a count."""
    return decimal(mean) if max(map(abs, means)) < 1000 else count(mean).replace("-", "−")


def _cell(cell: Summary | None, i: int, j: int, layout: _Layout, *, where: str, unit: str) -> str:
    x, y = layout.left + layout.width * j, layout.top + _HEIGHT * i
    middle = (x + (layout.width - _GAP) / 2, y + _HEIGHT / 2 + 3)
    size = (layout.width - _GAP, _HEIGHT - _GAP)
    if cell is None:
        tip = f"{where}: no value"
        return rect(x, y, *size, "stripe", tip=tip) + text(*middle, MISSING, anchor="middle", tip=tip)
    shade = layout.shade(cell.mean)
    tip = f"{where}: {spread(cell)} {unit}".rstrip()
    number = _number(cell.mean, (layout.low, layout.high))
    box = rect(x, y, *size, f"h{shade}", tip=tip)
    return box + text(*middle, number, cls=f"v{shade}", anchor="middle", tip=tip)


def _names(rows: Sequence[str], columns: Sequence[str], column_label: str, layout: _Layout) -> str:
    bottom = layout.top + _HEIGHT * len(rows)
    length = max(3, int(layout.width / text_width("x", PHONE)))
    parts = []
    for i, name in enumerate(rows):
        y = layout.top + _HEIGHT * (i + 0.5) + 3
        parts.append(text(layout.left - 8, y, shorten(name, _MAX_LABEL), anchor="end", tip=name))
    for j, name in enumerate(columns):
        x = layout.left + layout.width * (j + 0.5) - 1
        parts.append(text(x, bottom + 16, shorten(name, length), cls="tick", anchor="middle", tip=name))
    parts.append(text(layout.left, bottom + 36, column_label))
    return "".join(parts)


def _scale(layout: _Layout, num_rows: int, unit: str, has_values: bool) -> str:
    """Draw the legend: every shade, with the lowest and the highest value; one shade if they are equal."""
    if not has_values:
        return ""
    left, top = layout.left, layout.top + _HEIGHT * num_rows + 52
    low, high = (
        f"{_number(v, (layout.low, layout.high))} {unit}".rstrip() for v in (layout.low, layout.high)
    )
    if layout.high <= layout.low:
        return rect(left, top, 20, 10, f"h{layout.shade(0)}") + text(left + 28, top + 10, f"all {low}")
    width = max(_LEGEND_WIDTH, text_width(low + high, PHONE) + 16)
    step = width / NUM_SHADES
    parts = [rect(left + step * k, top, step + 0.4, 10, f"h{k}") for k in range(NUM_SHADES)]
    parts += [text(left, top + 26, low), text(left + width, top + 26, high, anchor="end")]
    return "".join(parts)
