"""What is measured: one list of metrics, and their mean and deviation over seeds."""

from hpn.metrics.registry import (
    METRICS,
    Matrix,
    Measured,
    Metric,
    Summary,
    metric,
    metrics_table,
    retaining_ratios,
    summarize,
)

__all__ = [
    "METRICS",
    "Matrix",
    "Measured",
    "Metric",
    "Summary",
    "metric",
    "metrics_table",
    "retaining_ratios",
    "summarize",
]
