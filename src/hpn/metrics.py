r"""The list of metrics: everything that shows or writes metrics iterates over :data:`METRICS`.

All are functions of what was measured with one seed. Row ``i`` of the accuracy matrix holds the accuracies
on steps ``0 … i`` after step ``i`` was learned, so ``matrix[i][j]`` is the paper's :math:`a_{i,j}`; where
steps to come were evaluated, their accuracies follow in the same row. A new metric is one decorated
function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["METRICS", "Matrix", "Measured", "Metric", "Summary"]
__all__ += ["metric", "metrics_table", "retaining_ratios", "summarize"]

Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Measured:
    """What was measured with one seed, in percent.

    Args:
        matrix: Accuracies: row ``i`` is after step ``i``.
        balanced: The same, averaged over the classes of a step.
        chance: Accuracy of guessing, in the same shape; ``None`` where it was not recorded.
        reference: The matrix of a reference run, such as joint training.
        forgets: Whether anything can be forgotten; joint training learns all steps anew each time.
    """

    matrix: Matrix
    balanced: Matrix | None = None
    chance: Matrix | None = None
    reference: Matrix | None = None
    forgets: bool = True

    def __post_init__(self) -> None:
        lengths = [len(row) for row in self.matrix]
        if not lengths or any(not i < length <= len(lengths) for i, length in enumerate(lengths)):
            raise ValueError(
                f"matrix must have rows of 1, 2, … p accuracies, or more where steps to come were evaluated, "
                f"got rows of {lengths}"
            )

    def until(self, step: int) -> Measured:
        """What was known after an earlier step."""

        def cut(matrix: Matrix | None) -> Matrix:
            return [row[: step + 1] for row in (matrix or [])[: step + 1]]

        names = ("matrix", "balanced", "chance", "reference")
        parts: dict[str, Any] = {name: cut(getattr(self, name)) or None for name in names}
        return replace(self, **parts)


Function = Callable[[Measured], float | None]


@dataclass(frozen=True)
class Metric:
    """What a metric is called, how to read it, and how it is computed.

    Args:
        name: Its field in results.
        label: What tables call it.
        unit: ``%``, or ``points`` for differences of accuracies.
        definition: One line, which follows the label in output.
        function: Of what was measured with one seed; ``None`` where the metric does not apply.
        higher_is_better: Its direction.
    """

    name: str
    label: str
    unit: str
    definition: str
    function: Function
    higher_is_better: bool = True

    @property
    def is_signed(self) -> bool:
        """Whether its sign is shown, as for differences."""
        return self.unit == "points"

    @property
    def title(self) -> str:
        """The label, and what it means."""
        return self.describe()

    def describe(self, noun: str = "task") -> str:
        """The label, and what it means; ``noun`` is what the stream calls its steps."""
        return f"{self.label} ({self.definition.replace('task', noun)})"

    def __call__(self, measured: Measured | Matrix) -> float | None:
        """The metric of one seed, or of a bare accuracy matrix."""
        return self.function(measured if isinstance(measured, Measured) else Measured(measured))

    def curve(self, measured: Measured) -> list[float | None]:
        """The metric after each step."""
        return [self.function(measured.until(step)) for step in range(len(measured.matrix))]


METRICS: dict[str, Metric] = {}
"""All metrics by name, in the order in which they are shown."""


def metric(label: str, unit: str, definition: str, *, higher_is_better: bool = True) -> Callable[[Function], Function]:
    """Add a function to the list, under its own name."""

    def add(function: Function) -> Function:
        name = function.__name__
        METRICS[name] = Metric(name, label, unit, definition, function, higher_is_better)
        return function

    return add


@metric("AM", "%", "average accuracy after the last task")
def am(measured: Measured) -> float:
    r"""Accuracy mean, :math:`\frac{1}{p} \sum_j a_{p,j}`.

    Example:
        >>> am(Measured([[95.02], [95.93, 92.66], [94.57, 92.22, 96.83]]))
        94.54
    """
    return _mean(measured.matrix[-1])


@metric("FM", "points", "change of accuracy since each task was learned; negative is forgetting")
def fm(measured: Measured) -> float | None:
    r"""Forgetting mean, :math:`\frac{1}{p-1} \sum_{j<p} (a_{p,j} - a_{j,j})`.

    Example:
        >>> round(fm(Measured([[94.12], [47.96, 93.30], [71.49, 49.68, 94.44]])), 1)
        -33.1
    """
    matrix, past = measured.matrix, len(measured.matrix) - 1
    if past == 0 or not measured.forgets:
        return None
    return sum(matrix[-1][j] - matrix[j][j] for j in range(past)) / past


@metric("ARS", "%", "average share of the accuracy on earlier tasks that is retained")
def ars(measured: Measured) -> float | None:
    """Average retaining score: the mean of the retaining ratios after the last step.

    Example:
        >>> ars(Measured([[80.0], [60.0, 90.0], [40.0, 90.0, 70.0]]))
        75.0
    """
    ratios = retaining_ratios(measured.matrix, len(measured.matrix) - 1)
    return 100.0 * (sum(ratios) / len(ratios)) if ratios and measured.forgets else None


@metric("AAA", "%", "average anytime accuracy: the mean of AM after each task")
def aaa(measured: Measured) -> float:
    r"""Average anytime accuracy, :math:`\frac{1}{p} \sum_i \frac{1}{i} \sum_{j \le i} a_{i,j}`.

    Example:
        >>> aaa(Measured([[80.0], [60.0, 90.0]]))
        77.5
    """
    return _mean([_mean(row[: i + 1]) for i, row in enumerate(measured.matrix)])


@metric("BWT", "points", "backward transfer: what later tasks changed, averaged over all moments")
def bwt(measured: Measured) -> float | None:
    r"""Backward transfer, the mean of :math:`a_{i,j} - a_{j,j}` over all :math:`j < i`.

    FM looks at the end only, this at every moment (Díaz-Rodríguez et al., 2018).

    Example:
        >>> bwt(Measured([[80.0], [60.0, 90.0], [70.0, 90.0, 50.0]]))
        -10.0
    """
    matrix = measured.matrix
    changes = [matrix[i][j] - matrix[j][j] for i in range(len(matrix)) for j in range(i)]
    return _mean(changes) if changes and measured.forgets else None


@metric("FWT", "points", "forward transfer: accuracy on a task just before it is learned, above chance")
def fwt(measured: Measured) -> float | None:
    r"""Forward transfer, the mean of :math:`a_{j-1,j}` minus the accuracy of guessing, over :math:`j > 1`.

    Example:
        >>> fwt(Measured([[80.0, 60.0], [75.0, 90.0]], chance=[[50.0, 50.0], [50.0, 50.0]]))
        10.0
    """
    matrix, chance = measured.matrix, measured.chance
    last = len(matrix) - 1
    if chance is None or not last or any(len(matrix[i]) < i + 2 for i in range(last)):
        return None
    return _mean([matrix[i][i + 1] - chance[i][i + 1] for i in range(last)])


@metric(
    "intransigence",
    "points",
    "how far accuracy on a task just learned stays below that of the reference run",
    higher_is_better=False,
)
def intransigence(measured: Measured) -> float | None:
    r"""Intransigence, the mean of :math:`a^*_{j,j} - a_{j,j}` (Chaudhry et al., 2018).

    :math:`a^*` is the accuracy of a reference run, usually of joint training.

    Example:
        >>> intransigence(Measured([[80.0], [60.0, 90.0]], reference=[[85.0], [85.0, 91.0]]))
        3.0
    """
    if measured.reference is None:
        return None
    pairs = zip(measured.reference, measured.matrix, strict=True)
    return _mean([best[j] - row[j] for j, (best, row) in enumerate(pairs)])


@metric("balanced AM", "%", "AM with every class of a task counted the same")
def balanced_am(measured: Measured) -> float | None:
    """AM of class-balanced accuracies."""
    return None if measured.balanced is None else _mean(measured.balanced[-1])


def retaining_ratios(matrix: Matrix, after: int) -> list[float]:
    r"""Retaining ratio of each earlier step after step ``after``, :math:`a_{i,j} / a_{j,j}, j < i`.

    A step that was never answered right (``a[j][j] = 0``) has nothing to retain: its ratio is 1.

    Example:
        >>> retaining_ratios([[80.0], [60.0, 90.0]], after=1)
        [0.75]
    """
    return [matrix[after][j] / matrix[j][j] if matrix[j][j] else 1.0 for j in range(after)]


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


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def metrics_table() -> str:
    """All metrics in Markdown, as the documentation has them."""
    rows = [
        f"| {metric.label} | `{name}` | {metric.unit} | {'higher' if metric.higher_is_better else 'lower'} | "
        f"{metric.definition} |"
        for name, metric in METRICS.items()
    ]
    return "\n".join(["| metric | field | unit | better | definition |", "|---|---|---|---|---|", *rows])
