"""What is measured: one list of metrics, and their mean and deviation over seeds."""

from hpn.metrics.registry import METRICS, Matrix, Measured, Metric, metric, retaining_ratios
from hpn.metrics.summary import Summary, summarize

__all__ = [
    "METRICS",
    "Matrix",
    "Measured",
    "Metric",
    "Summary",
    "metric",
    "retaining_ratios",
    "summarize",
]
