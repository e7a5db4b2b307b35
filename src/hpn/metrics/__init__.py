"""What is measured: pure functions of the accuracy matrix."""

from hpn.metrics.matrix import (
    accuracy_mean,
    accuracy_means,
    average_retaining,
    average_retainings,
    forgetting_mean,
    retaining_ratios,
)
from hpn.metrics.summary import Summary, summarize

__all__ = [
    "Summary",
    "accuracy_mean",
    "accuracy_means",
    "average_retaining",
    "average_retainings",
    "forgetting_mean",
    "retaining_ratios",
    "summarize",
]
