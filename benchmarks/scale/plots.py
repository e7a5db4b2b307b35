"""The pictures of the page, in the style of the reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.scale.asked import Results, fit_exponent, nodes_curve
from benchmarks.scale.plan import AUTHORS_BATCH, AUTHORS_FIRST, AUTHORS_LAST, DATASETS, LARGE
from hpn.metrics import Summary
from hpn.report.axes import RIGHT, Frame, draw_axes, label_room, value_scale
from hpn.report.charts import Bars, bars_svg
from hpn.report.format import count, decimal, quantity
from hpn.report.growth import Growth, growth_svg
from hpn.report.scales import Scale, log_range, number_ticks
from hpn.report.svg import colour, marker, points, tooltip
from hpn.report.sweeps import Sweep, sweep_svg

_INSET = 18.0
SPEEDS = {
    "gather alone": ("fit", "gather_per_second"),
    "HPN": ("fit", "nodes_per_second"),
    "HPN, 1 thread": ("fit-1-thread", "nodes_per_second"),
    "GCN, whole graph": ("gcn-whole", "nodes_per_second"),
    "GCN, batches": ("gcn-batches", "nodes_per_second"),
}
PEAKS = {
    "import": "import",
    "HPN, fit": "fit",
    "HPN, predict": "predict",
    "HPN, whole run": "run",
    "GCN, whole graph": "gcn-whole",
    "GCN, batches": "gcn-batches",
}


@dataclass(frozen=True)
class Curve:
    """Points of a measurement; ``fit`` draws the nearest power law as a line instead of joining them."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    fit: bool = False


def draw_all(results: Results, quick: bool) -> dict[str, str]:
    """Every picture that there are results for, by file name."""
    drawn = {
        "speeds.svg": speeds_svg(results),
        "memory.svg": memory_svg(results),
        "authors.svg": authors_svg(results),
        "growth-nodes.svg": nodes_svg(results, quick),
        "growth-tasks.svg": tasks_svg(results),
        "growth-prototypes.svg": prototypes_svg(results),
    }
    return {name: picture for name, picture in drawn.items() if picture}


def speeds_svg(results: Results) -> str:
    """Training nodes a second: one panel a data set."""

    def rate(cell: str, key: str, dataset: str) -> float | None:
        value: float | None = results.get(f"{cell}/{dataset}", {}).get(key)
        return value

    panels = []
    for dataset in DATASETS:
        values = [rate(*place, dataset) for place in SPEEDS.values()]
        if any(values):
            texts = [quantity(None if value is None else value / 1000) for value in values]
            panels.append(Bars(dataset, values, texts))
    return bars_svg(list(SPEEDS), panels, title="Thousand training nodes a second") if panels else ""


def memory_svg(results: Results) -> str:
    """Peak memory of each process: one panel a data set."""
    panels = []
    for dataset in DATASETS:
        values = [results.get(f"{cell}/{dataset}", {}).get("peak_mb") for cell in PEAKS.values()]
        if any(values):
            texts = ["–" if value is None else f"{decimal(value / 1000, 2)} GB" for value in values]
            panels.append(Bars(dataset, values, texts))
    return bars_svg(list(PEAKS), panels, title="Peak memory of a process") if panels else ""


def authors_svg(results: Results) -> str:
    """Training nodes a second, task by task, above the speed of the authors' code."""
    sweeps = []
    for size in (AUTHORS_BATCH, LARGE["batch_size"]):
        if found := results.get(f"tasks/batch-{size}"):
            rates: list[Summary | None] = [Summary(mean=r, std=0.0, values=[r]) for r in found["by_task"]]
            sweeps.append(Sweep(f"batch {size:,}", range(1, len(rates) + 1), rates))
    if not sweeps:
        return ""
    ends = [Summary(mean=rate, std=0.0, values=[rate]) for rate in (AUTHORS_FIRST, AUTHORS_LAST)]
    sweeps.append(Sweep(f"authors’ code, batch {AUTHORS_BATCH}", (1, len(sweeps[0].xs)), ends))
    return sweep_svg(
        sweeps,
        title="arxiv-like: training nodes a second, task by task",
        x_label="task",
        y_label="nodes a second",
        log_y=True,
    )


def nodes_svg(results: Results, quick: bool) -> str:
    """Seconds an epoch over training nodes, with the nearest power law."""
    xs, ys = nodes_curve(results, quick)
    if len(xs) < 2:
        return ""
    exponent, _ = fit_exponent(xs, ys)
    curve = Curve(f"fitted exponent {decimal(exponent, 2)}", xs, ys, fit=True)
    return loglog_svg(
        [curve],
        title="Seconds an epoch over training nodes",
        x_label="training nodes",
        y_label="seconds an epoch",
    )


def tasks_svg(results: Results) -> str:
    """Time of each of many equal tasks."""
    found = results.get("growth/tasks")
    if not found:
        return ""
    values = [1000 * seconds for seconds in found["by_task"]]
    return growth_svg(
        [Growth(f"{count(found['train'])} training nodes each", values, None)],
        title="Time to learn each of many equal tasks",
        y_label="milliseconds",
        x_label="task",
    )


def prototypes_svg(results: Results) -> str:
    """Time of a batch over the number of prototypes: matching alone, and a whole step."""
    names = {
        "growth/prototypes": "matching a batch, dimension 16",
        "growth/steps": "a whole step, dimension 3",
    }
    curves = [
        Curve(label, results[name]["prototypes"], [1000 * s for s in results[name]["seconds"]])
        for name, label in names.items()
        if name in results
    ]
    if not curves:
        return ""
    return loglog_svg(
        curves,
        title=f"Time of a batch of {LARGE['batch_size']:,} over prototypes",
        x_label="prototypes",
        y_label="milliseconds",
    )


def loglog_svg(curves: Sequence[Curve], *, title: str, x_label: str, y_label: str) -> str:
    """Draw measurements with logarithmic axes."""
    frame = Frame(title, x_label, y_label, standalone=True)
    y = value_scale([value for curve in curves for value in curve.ys], frame.top, is_log=True)
    xs = sorted(x for curve in curves for x in curve.xs)
    x = Scale(*log_range(xs), label_room(y) + _INSET, RIGHT - _INSET, is_log=True)
    parts = [draw_axes(y, [(x.place(value), name) for value, name in number_ticks(xs, x)])]
    parts += [_line(curve, style, x, y) for style, curve in enumerate(curves)]
    for style, curve in enumerate(curves):
        for at, value in zip(curve.xs, curve.ys, strict=True):
            tip = tooltip(f"{count(at)} {x_label}: {quantity(value)} {y_label}")
            parts.append(f"<g>{tip}{marker(x.place(at), y.place(value), style)}</g>")
    desc = "; ".join(
        f"{curve.label}: "
        + ", ".join(f"{count(at)}: {quantity(v)}" for at, v in zip(curve.xs, curve.ys, strict=True))
        for curve in curves
    )
    return frame.finish(parts, y, desc=desc, labels=[curve.label for curve in curves])


def rounded(value: float | None, digits: int = 3) -> float | None:
    """A number with so many digits that mean something."""
    if value is None or value == 0:
        return value
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))


def _line(curve: Curve, style: int, x: Scale, y: Scale) -> str:
    pairs: list[tuple[float, float]] = sorted(zip(curve.xs, curve.ys, strict=True))
    dashes = ""
    if curve.fit:
        exponent, factor = fit_exponent(curve.xs, curve.ys)
        pairs = [(at, factor * at**exponent) for at in (min(curve.xs), max(curve.xs))]
        dashes = ' stroke-dasharray="5 4"'
    path = points([(x.place(at), y.place(value)) for at, value in pairs])
    return f'<polyline points="{path}" class="line s{colour(style)}"{dashes}/>'
