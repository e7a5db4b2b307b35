"""Charts that compare results: what the report shows, each also usable as a file of its own."""

from __future__ import annotations

from collections.abc import Sequence

from hpn.metrics import Summary
from hpn.report.charts import Bars, Series, bars_svg, curves_svg, dots_svg
from hpn.report.format import count, is_number, quantity
from hpn.report.results import (
    Result,
    accuracy_curve,
    class_names,
    label_results,
    mean_matrix,
    retaining_curve,
)

COSTS = ("parameters", "fit", "memory")
_FULL = 100.0


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


def _series(results: Sequence[Result], values: Sequence[Sequence[Summary | None]]) -> list[Series]:
    labels = label_results(results)
    return [Series(label, row) for label, row in zip(labels, values, strict=True)]


def _fit_seconds(result: Result) -> float | None:
    """Seconds to fit, a seed: the result holds the sum, and runs may differ in seeds."""
    seconds = (result.get("seconds") or {}).get("fit")
    return seconds / len(result["seeds"]) if is_number(seconds) else None


def _finite(values: Sequence[float | None]) -> list[float | None]:
    return [value if is_number(value) else None for value in values]
