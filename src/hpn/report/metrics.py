"""The table of all metrics, as the documentation has it."""

from __future__ import annotations

from hpn.metrics import METRICS


def metrics_table() -> str:
    """All metrics in Markdown: label, field in JSON, unit, direction and definition."""
    rows = [
        f"| {metric.label} | `{name}` | {metric.unit} | {'higher' if metric.higher_is_better else 'lower'} | "
        f"{metric.definition} |"
        for name, metric in METRICS.items()
    ]
    return "\n".join(["| metric | field | unit | better | definition |", "|---|---|---|---|---|", *rows])
