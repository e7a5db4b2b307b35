"""The charts of a group of comparable runs, each on a card of the page."""

from __future__ import annotations

from collections.abc import Sequence

from hpn.report.cards import figure_card, plot_box
from hpn.report.charts import dots_width
from hpn.report.figures import (
    COSTS,
    accuracy_svg,
    cost_svg,
    final_svg,
    prototypes_svg,
    retaining_svg,
    stored_svg,
)
from hpn.report.results import Result, label_results, prototype_growth
from hpn.report.wording import plural

_MAX_NARROW = 520.0  # wider charts have a row of the page to themselves
_MAX_BARS = 6  # of more runs, the costs stand side by side
_MAX_GROWTHS = 4  # charts of prototypes in a group; of many runs alike, the first tell enough


def group_charts(results: Sequence[Result]) -> str:
    """Build the charts that comparable runs share: what they learned and kept, cost, and grew to."""
    num_tasks = len(results[0]["tasks"])
    has_spread = any(len(result["seeds"]) > 1 for result in results)
    sub = "mean ± standard deviation over seeds" if has_spread else "one seed"
    curves = (
        ("Accuracy mean (AM) after each task", accuracy_svg),
        ("Average retaining score (ARS) after each task", retaining_svg),
    )
    figures = [
        figure_card(head, sub, plot_box(draw(results, standalone=False), head))
        for head, draw in curves
        if num_tasks > 1
    ]
    head, is_wide = "Accuracy on each task at the end", dots_width(num_tasks, len(results)) > _MAX_NARROW
    final = plot_box(final_svg(results, standalone=False), head, keeps_size=is_wide)
    costs = "".join(cost_svg(results, panels=[name], standalone=False) for name in COSTS)
    figures.append(figure_card(head, sub, final, is_wide=is_wide))
    bars = f'<div class="bars">{costs}</div>'
    is_tall = is_wide or len(results) > _MAX_BARS
    figures.append(figure_card("Cost", "less is better", bars, is_wide=is_tall))
    return "".join([*figures, *(_growth_charts(results) if num_tasks > 1 else ())])


def _growth_charts(results: Sequence[Result]) -> list[str]:
    figures = []
    if any(result.get("growth") for result in results):
        head = "Stored numbers after each task"
        svg = stored_svg(results, standalone=False)
        figures.append(
            figure_card(head, "all that is kept between tasks; mean over seeds", plot_box(svg, head))
        )
    growing = [
        pair for pair in zip(results, label_results(results), strict=True) if prototype_growth(pair[0])
    ]
    drawn = growing[:_MAX_GROWTHS]
    for i, (result, label) in enumerate(drawn):
        head = f"Prototypes after each task, {label}"
        sub = "mean over seeds; dashed: the most that any stream could lead to"
        if i == len(drawn) - 1 < len(growing) - 1:
            sub += f"; {plural(len(growing) - len(drawn), 'more run')} not drawn"
        svg = prototypes_svg(result, title=head, standalone=False)
        figures.append(figure_card(head, sub, plot_box(svg, head)))
    return figures
