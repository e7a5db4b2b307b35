"""Charts that compare results: what the report shows, each also usable as a file of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hpn.metrics import Summary
from hpn.report.charts import Bars, Series, bars_svg, curves_svg, dots_svg
from hpn.report.format import count, is_number, quantity
from hpn.report.growth import Growth, growth_svg
from hpn.report.results import (
    Result,
    accuracy_curve,
    all_class_names,
    class_names,
    first_views,
    label_results,
    mean_matrix,
    prototype_growth,
    retaining_curve,
)
from hpn.report.scales import is_wide_range
from hpn.report.scatter import Panel, scatter_svg

COSTS = ("parameters", "fit", "memory")
_FULL = 100.0
_MAX_PANELS = 6


def accuracy_svg(results: Sequence[Result], *, standalone: bool = True) -> str:
    """Draw AM after each task, one line a result."""
    series = _series(results, [accuracy_curve(result) for result in results])
    title = "Accuracy mean (AM) after each task"
    return curves_svg(series, title=title, ceiling=_FULL, standalone=standalone)


def retaining_svg(results: Sequence[Result], *, standalone: bool = True) -> str:
    """Draw ARS after each task, one line a result."""
    series = _series(results, [retaining_curve(result) for result in results])
    title = "Average retaining score (ARS) after each task"
    return curves_svg(series, title=title, standalone=standalone)


def final_svg(results: Sequence[Result], *, standalone: bool = True) -> str:
    """Draw the accuracy on each task after the last one was learned, one dot a result."""
    series = _series(results, [mean_matrix(result)[-1] for result in results])
    longest = max(results, key=lambda result: len(result["tasks"]))
    tips = [", ".join(class_names(longest, j)) for j in range(len(longest["tasks"]))]
    title = "Accuracy on each task at the end"
    return dots_svg(series, title=title, tips=tips, ceiling=_FULL, standalone=standalone)


def cost_svg(results: Sequence[Result], *, panels: Sequence[str] = COSTS, standalone: bool = True) -> str:
    """Draw parameters, seconds to fit a seed and peak memory, or some of them, a bar a result."""
    parameters = [result.get("parameters") for result in results]
    fits = [_fit_seconds(result) for result in results]
    memory = [result.get("peak_rss_mb") for result in results]
    bars = {
        "parameters": Bars("Parameters", _finite(parameters), [*map(count, parameters)]),
        "fit": Bars("Time to fit, seconds a seed", _finite(fits), [*map(quantity, fits)]),
        "memory": Bars("Peak memory, MB", _finite(memory), [*map(quantity, memory)]),
    }
    chosen = [bars[name] for name in panels]
    title = "Cost" if len(chosen) > 1 else chosen[0].head
    return bars_svg(label_results(results), chosen, title=title, standalone=standalone)


def stored_svg(results: Sequence[Result], *, standalone: bool = True) -> str:
    """Draw the numbers a method keeps after each task, one line a result that counted them."""
    growths = [
        Growth(label, [entry.get("stored") for entry in result.get("growth") or []], None)
        for result, label in zip(results, label_results(results), strict=True)
    ]
    sizes = [value for growth in growths for value in growth.values if is_number(value) and value > 0]
    return growth_svg(
        growths,
        title="Stored numbers after each task",
        y_label="numbers",
        log_y=is_wide_range(sizes),
        has_legend=False,
        standalone=standalone,
    )


def prototypes_svg(result: Result, *, title: str | None = None, standalone: bool = True) -> str:
    """Draw the prototypes of each level after each task, under their bounds."""
    bounds = result.get("bounds") or {}
    growths = [Growth(level, values, bounds.get(level)) for level, values in prototype_growth(result).items()]
    title = title or f"Prototypes after each task, {label_results([result])[0]} on {result['dataset']}"
    return growth_svg(growths, title=title, y_label="prototypes", standalone=standalone)


def views_svg(result: Result, *, title: str | None = None, standalone: bool = True) -> str:
    """Draw the first seed's test nodes as the learner sees them (t-SNE), after up to six of the tasks."""
    panels = [
        Panel(f"after task {view['after'] + 1}", [(x, y) for x, y in view["points"]], view["classes"])
        for view in _some(first_views(result))
    ]
    title = title or f"t-SNE of the test nodes, {label_results([result])[0]} on {result['dataset']}"
    return scatter_svg(panels, labels=all_class_names(result), title=title, standalone=standalone)


def _some(views: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """All views, or some of them evenly spaced up to the last."""
    num = min(_MAX_PANELS, len(views))
    return [views[round(k * (len(views) - 1) / max(1, num - 1))] for k in range(num)]


def _series(results: Sequence[Result], values: Sequence[Sequence[Summary | None]]) -> list[Series]:
    labels = label_results(results)
    return [Series(label, row) for label, row in zip(labels, values, strict=True)]


def _fit_seconds(result: Result) -> float | None:
    """Seconds to fit, a seed: the result holds the sum, and runs may differ in seeds."""
    seconds = (result.get("seconds") or {}).get("fit")
    return seconds / len(result["seeds"]) if is_number(seconds) else None


def _finite(values: Sequence[float | None]) -> list[float | None]:
    return [value if is_number(value) else None for value in values]
