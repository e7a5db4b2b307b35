"""Mean and standard deviation over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """A quantity measured once per seed: mean, sample standard deviation (divisor n − 1), and values."""

    mean: float
    std: float
    values: list[float]


def summarize(values: Sequence[float | None]) -> Summary | None:
    """Mean and sample standard deviation (0 for one seed), or ``None`` if it does not apply.

    Example:
        >>> summarize([1.0, 3.0])
        Summary(mean=2.0, std=1.4142135623730951, values=[1.0, 3.0])
        >>> summarize([None, None]) is None
        True
    """
    numbers = [value for value in values if value is not None]
    if not numbers:
        return None
    if len(numbers) != len(values):
        raise ValueError("values must apply to every seed or to none")
    mean = math.fsum(numbers) / len(numbers)
    spread = math.fsum((value - mean) ** 2 for value in numbers)
    std = math.sqrt(spread / (len(numbers) - 1)) if len(numbers) > 1 else 0.0
    return Summary(mean, std, numbers)
