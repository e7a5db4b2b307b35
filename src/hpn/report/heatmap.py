"""The accuracy matrix as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpn.experiment.run.result import RunResult
from hpn.metrics import Summary
from hpn.report.format import decimal, spread
from hpn.report.results import label_results, step_noun
from hpn.report.svg import document, is_labelled, label_step, rect, text
from hpn.report.theme import NUM_SHADES, shade

_LEFT, _RIGHT = 50.0, 16.0
_LEGEND_WIDTH = 200.0
MAX_ROOMY = 8
"""Most tasks whose cells are large enough to still be read on a phone."""


@dataclass(frozen=True)
class _Cells:
    """Size of the cells, and how many digits their numbers have (none: too small for numbers)."""

    width: float
    height: float
    digits: int | None
    css: str


def matrix_svg(result: RunResult, *, title: str | None = None, standalone: bool = True) -> str:
    """Draw the accuracy matrix, the mean over seeds in each cell.

    A column is the step tested, a row the moment after a step was learned. Above the diagonal are steps that
    were tested before they were learned, if there are any: outlined instead of filled.

    Args:
        result: A result.
        title: Name of the picture; by default method and data set.
        standalone: Whether to carry title and style sheet, as a file must.
    """
    matrix, noun = result.mean_matrix(), step_noun(result)
    cells = _cells(len(matrix))
    title = title or f"Accuracy matrix, {label_results([result])[0]} on {result.dataset}"
    top = 68.0 if standalone else 24.0
    left = _LEFT
    bottom = top + cells.height * len(matrix)
    width = max(left + cells.width * len(matrix), left + _LEGEND_WIDTH) + _RIGHT
    parts = [text(16, 28, title, cls="head")] if standalone else []
    parts.append(text(left - 10, top - 10, f"after {noun}", cls="small", anchor="middle"))
    parts.append(_body(matrix, cells, left, top, noun))
    parts.append(_labels(len(matrix), cells, left, top, noun))
    parts.append(_scale(left, bottom + 52))
    has_ahead = any(len(row) > i + 1 for i, row in enumerate(matrix))
    ahead = f"; outlined: {noun}s still to come" if has_ahead else ""
    desc = (
        f"{len(matrix)} by {len(matrix)} {'matrix' if ahead else 'lower triangular matrix'}; x is the {noun} "
        f"tested, y the {noun} learned last{ahead}. After the last {noun}: "
        f"{', '.join(spread(cell) for cell in matrix[-1])} %"
    )
    return document(
        "".join(parts),
        width=max(width, 40 + 8.4 * len(title)) if standalone else width,
        height=bottom + 92,
        title=title,
        desc=desc,
        standalone=standalone,
    )


def _cells(num_tasks: int) -> _Cells:
    if num_tasks <= MAX_ROOMY:
        return _Cells(min(72.0, 416 / num_tasks), 36, 1, "")
    if num_tasks <= 14:
        return _Cells(36, 26, 1, " small")
    if num_tasks <= 22:
        return _Cells(23, 20, 0, " small")
    size = max(8.0, 500 / num_tasks)
    return _Cells(size, size, None, "")


def _body(
    matrix: Sequence[Sequence[Summary | None]], cells: _Cells, left: float, top: float, noun: str
) -> str:
    gap = 2.0 if cells.digits is not None else 1.0
    parts = []
    for i, row in enumerate(matrix):
        for j, cell in enumerate(row):
            if cell is None:
                continue
            x, y, k = left + cells.width * j, top + cells.height * i, shade(cell.mean)
            tip = (
                f"after {noun} {i + 1}, {noun} {j + 1}{', still to come' if j > i else ''}: {spread(cell)} %"
            )
            box = rect(x, y, cells.width - gap, cells.height - gap, "frame" if j > i else f"h{k}", tip=tip)
            if cells.digits is not None:
                middle = (x + (cells.width - gap) / 2, y + cells.height / 2 + 3)
                number = decimal(cell.mean, cells.digits)
                css = f"{'ink' if j > i else f'v{k}'}{cells.css}"
                box += text(*middle, number, cls=css, anchor="middle", tip=tip)
            parts.append(box)
    return "".join(parts)


def _labels(num_tasks: int, cells: _Cells, left: float, top: float, noun: str) -> str:
    step_x = label_step(num_tasks, cells.width, 20)
    step_y = label_step(num_tasks, cells.height, 16)
    bottom = top + cells.height * num_tasks
    parts = []
    for k in range(num_tasks):
        if is_labelled(k, step_y):
            y = top + cells.height * (k + 0.5) + 3
            parts.append(text(left - 10, y, k + 1, anchor="end"))
        if is_labelled(k, step_x):
            x = left + cells.width * (k + 0.5) - 1
            parts.append(text(x, bottom + 16, k + 1, anchor="middle"))
    parts.append(text(left, bottom + 34, f"{noun} tested", cls="small"))
    return "".join(parts)


def _scale(left: float, top: float) -> str:
    """Draw the legend: every shade, with the accuracies at its ends and middle."""
    step = _LEGEND_WIDTH / NUM_SHADES
    parts = [rect(left + step * k, top, step + 0.4, 10, f"h{k}") for k in range(NUM_SHADES)]
    for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = left + _LEGEND_WIDTH * part
        parts.append(text(x, top + 24, f"{100 * part:.0f} %", cls="small", anchor=anchor))
    return "".join(parts)
