"""The charts of a group of comparable runs, each on a card of the page."""

from __future__ import annotations

from collections.abc import Sequence

from hpn.experiment.run.result import RunResult
from hpn.metrics import METRICS
from hpn.report.cards import figure_card, plot_box
from hpn.report.charts import dots_width
from hpn.report.figures import COSTS, cost_svg, final_svg, metric_svg, prototypes_svg, stored_svg
from hpn.report.results import label_results, prototype_growth, step_noun
from hpn.report.wording import plural

_CURVES = ("am", "ars")
_MAX_NARROW = 520.0  # wider charts have a row of the page to themselves
_MAX_BARS = 6  # of more runs, the costs stand side by side
_MAX_GROWTHS = 4  # charts of prototypes in a group; of many runs alike, the first tell enough


def group_charts(results: Sequence[RunResult]) -> str:
    """Build the charts that comparable runs share: what they learned and kept, cost, and grew to."""
    num_steps, noun = len(results[0].steps), step_noun(results[0])
    has_spread = any(len(result.seeds) > 1 for result in results)
    sub = "mean ± standard deviation over seeds" if has_spread else "one seed"
    figures = []
    for metric in (METRICS[name] for name in _CURVES) if num_steps > 1 else ():
        head = f"{metric.label} after each {noun}"
        svg = metric_svg(results, metric, standalone=False)
        figures.append(figure_card(head, f"{metric.definition}; {sub}", plot_box(svg, head)))
    head, is_wide = f"Accuracy on each {noun} at the end", dots_width(num_steps, len(results)) > _MAX_NARROW
    final = plot_box(final_svg(results, standalone=False), head, keeps_size=is_wide)
    costs = "".join(cost_svg(results, panels=[name], standalone=False) for name in COSTS)
    figures.append(figure_card(head, sub, final, is_wide=is_wide))
    bars = f'<div class="bars">{costs}</div>'
    is_tall = is_wide or len(results) > _MAX_BARS
    figures.append(figure_card("Cost", "less is better", bars, is_wide=is_tall))
    return "".join([*figures, *(_growth_charts(results) if num_steps > 1 else ())])


def _growth_charts(results: Sequence[RunResult]) -> list[str]:
    figures, noun = [], step_noun(results[0])
    if any(result.growth for result in results):
        head = f"Stored numbers after each {noun}"
        svg = stored_svg(results, standalone=False)
        figures.append(
            figure_card(head, f"all that is kept between {noun}s; mean over seeds", plot_box(svg, head))
        )
    growing = [
        pair for pair in zip(results, label_results(results), strict=True) if prototype_growth(pair[0])
    ]
    drawn = growing[:_MAX_GROWTHS]
    for i, (result, label) in enumerate(drawn):
        head = f"Prototypes after each {noun}, {label}"
        sub = "mean over seeds; dashed: the most that any stream could lead to"
        if i == len(drawn) - 1 < len(growing) - 1:
            sub += f"; {plural(len(growing) - len(drawn), 'more run')} not drawn"
        svg = prototypes_svg(result, title=head, standalone=False)
        figures.append(figure_card(head, sub, plot_box(svg, head)))
    return figures
