"""Charts that compare results: what the report shows, each also usable as a file of its own."""

from __future__ import annotations

from collections.abc import Sequence

from hpn.experiment.run.result import RunResult, View
from hpn.metrics import METRICS, Metric, Summary
from hpn.report.charts import Bars, Series, bars_svg, curves_svg, dots_svg
from hpn.report.format import count, is_number, quantity
from hpn.report.growth import GrowthLine, growth_svg
from hpn.report.results import Run, label_results, prototype_growth, step_noun, step_text
from hpn.report.scales import is_wide_range
from hpn.report.scatter import Panel, scatter_svg

COSTS = ("parameters", "fit", "memory")
_FULL = 100.0
_MAX_PANELS = 6


def metric_svg(results: Sequence[RunResult], metric: Metric, *, standalone: bool = True) -> str:
    """Draw a metric after each step, one line per result."""
    noun = step_noun(results[0])
    return curves_svg(
        _series(results, [result.curve(metric) for result in results]),
        title=f"{metric.label} after each {noun}",
        noun=noun,
        ceiling=_FULL if metric.name == "am" else float("inf"),  # a retained share may exceed 100 %
        standalone=standalone,
    )


def accuracy_svg(results: Sequence[RunResult], *, standalone: bool = True) -> str:
    """Draw AM after each step, one line per result."""
    return metric_svg(results, METRICS["am"], standalone=standalone)


def retaining_svg(results: Sequence[RunResult], *, standalone: bool = True) -> str:
    """Draw ARS after each step, one line per result."""
    return metric_svg(results, METRICS["ars"], standalone=standalone)


def final_svg(results: Sequence[RunResult], *, standalone: bool = True) -> str:
    """Draw the accuracy on each step after the last one was learned, one dot per result."""
    longest = max(results, key=lambda result: len(result.steps))
    noun = step_noun(longest)
    return dots_svg(
        _series(results, [result.mean_matrix()[-1] for result in results]),
        title=f"Accuracy on each {noun} at the end",
        noun=noun,
        tips=[step_text(longest, step) for step in range(len(longest.steps))],
        ceiling=_FULL,
        standalone=standalone,
    )


def cost_svg(results: Sequence[RunResult], *, panels: Sequence[str] = COSTS, standalone: bool = True) -> str:
    """Draw parameters, seconds to fit one seed and peak memory, or some of them, one bar per result."""
    parameters = [result.parameters for result in results]
    fits = [result.seconds.fit / len(result.seeds) if result.seconds else None for result in results]
    memory = [result.peak_rss_mb for result in results]
    bars = {
        "parameters": Bars("Parameters", _finite(parameters), [*map(count, parameters)]),
        "fit": Bars("Time to fit, seconds per seed", _finite(fits), [*map(quantity, fits)]),
        "memory": Bars("Peak memory, MB", _finite(memory), [*map(quantity, memory)]),
    }
    chosen = [bars[name] for name in panels]
    title = "Cost" if len(chosen) > 1 else chosen[0].head
    return bars_svg(label_results(results), chosen, title=title, standalone=standalone)


def stored_svg(results: Sequence[RunResult], *, standalone: bool = True) -> str:
    """Draw the numbers a method keeps after each step, one line per result that counted them."""
    lines = [
        GrowthLine(label, [entry.stored for entry in result.growth or []], None)
        for result, label in zip(results, label_results(results), strict=True)
    ]
    sizes = [value for line in lines for value in line.values if is_number(value) and value > 0]
    noun = step_noun(results[0])
    return growth_svg(
        lines,
        title=f"Stored numbers after each {noun}",
        y_label="numbers",
        noun=noun,
        log_y=is_wide_range(sizes),
        has_legend=False,
        standalone=standalone,
    )


def prototypes_svg(result: RunResult, *, title: str | None = None, standalone: bool = True) -> str:
    """Draw the prototypes of each level after each step, under their bounds."""
    bounds, noun = result.bounds or {}, step_noun(result)
    lines = [
        GrowthLine(level, values, bounds.get(level)) for level, values in prototype_growth(result).items()
    ]
    title = title or f"Prototypes after each {noun}, {label_results([result])[0]} on {result.dataset}"
    return growth_svg(lines, title=title, y_label="prototypes", noun=noun, standalone=standalone)


def views_svg(run: Run, *, title: str | None = None, standalone: bool = True) -> str:
    """Draw the first seed's test nodes as the learner sees them (t-SNE), after up to six of the steps."""
    result, noun = run.result, step_noun(run.result)
    panels = [
        Panel(f"after {noun} {view.after + 1}", view.points, view.classes) for view in _some(run.first_views)
    ]
    names = {label: result.class_name(label) for step in result.steps for label in step.classes}
    title = title or f"t-SNE of the test nodes, {label_results([result])[0]} on {result.dataset}"
    return scatter_svg(panels, labels=names, title=title, standalone=standalone)


def _some(views: Sequence[View]) -> list[View]:
    """All views, or some of them evenly spaced up to the last."""
    num = min(_MAX_PANELS, len(views))
    return [views[round(k * (len(views) - 1) / max(1, num - 1))] for k in range(num)]


def _series(results: Sequence[RunResult], values: Sequence[Sequence[Summary | None]]) -> list[Series]:
    return [Series(label, row) for label, row in zip(label_results(results), values, strict=True)]


def _finite(values: Sequence[float | None]) -> list[float | None]:
    return [value if is_number(value) else None for value in values]
