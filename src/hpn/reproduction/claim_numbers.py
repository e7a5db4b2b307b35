"""What the tests of claims share: cases of a section, their numbers, and differences between them.

Cases of a section were run with the same seeds, so two of them are compared seed by seed: a difference is
the mean of the differences of the pairs, and its standard error theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hpn.metrics import Summary, summarize
from hpn.report.format import decimal
from hpn.reproduction.results import CaseResult, Section

Outcome = Literal["holds", "does not hold", "not tested here"]

NUM_ERRORS = 2.0
"""A difference is clear if it exceeds this many standard errors."""


@dataclass(frozen=True)
class Finding:
    """What the results on a data set say of a claim.

    Args:
        dataset: The data set, and the preset in brackets if it is not the paper's.
        verdict: Whether the claim holds there; ``not tested here`` if the numbers cannot tell.
        numbers: The numbers that decide, in one sentence.
        counts: Whether it enters the verdict on the claim.
    """

    dataset: str
    verdict: Outcome
    numbers: str
    counts: bool = True


def decide(section: Section, holds: bool, numbers: str) -> Finding:
    """A finding on the data set of a section."""
    return Finding(section.dataset, "holds" if holds else "does not hold", numbers)


def cannot_tell(section: Section, why: str) -> Finding:
    """A finding that tells nothing, and why."""
    return Finding(section.dataset, "not tested here", why)


def one_seed(section: Section) -> Finding:
    """With one seed there is no standard error."""
    return cannot_tell(section, "One seed cannot tell: its differences have no standard error.")


def find_case(section: Section, **wanted: Any) -> CaseResult | None:
    """The first case that has all that is wanted and did not fail."""
    for case in section.measured:
        known = {"method": case.method, "backbone": case.backbone, **case.label}
        if all(known.get(key) == value for key, value in wanted.items()):
            return case
    return None


def read(case: CaseResult | None, metric: str) -> Summary | None:
    """A metric of a case, if it has one."""
    return case.metrics.get(metric) if case else None


def average(summaries: Sequence[Summary]) -> Summary | None:
    """The mean of several summaries, seed by seed.

    Example:
        >>> average([summarize([1.0, 2.0]), summarize([3.0, 6.0])]).values
        [2.0, 4.0]
    """
    if len({len(summary.values) for summary in summaries}) != 1:
        return None
    return summarize(
        [math.fsum(values) / len(values) for values in zip(*(s.values for s in summaries), strict=True)]
    )


def difference(more: Summary, less: Summary) -> Summary | None:
    """What one has more than the other, seed by seed; ``None`` if their seeds do not pair.

    Example:
        >>> difference(summarize([3.0, 5.0]), summarize([1.0, 2.0])).values
        [2.0, 3.0]
    """
    if len(more.values) != len(less.values):
        return None
    return summarize([high - low for high, low in zip(more.values, less.values, strict=True)])


def standard_error(summary: Summary) -> float:
    """Standard error of the mean over seeds.

    Example:
        >>> standard_error(Summary(0.0, 3.0, [0.0] * 9))
        1.0
    """
    return summary.std / math.sqrt(len(summary.values))


def is_clear(gain: Summary) -> bool:
    """Whether a difference is above zero by more than two standard errors."""
    return gain.mean > NUM_ERRORS * standard_error(gain)


def gain_text(gain: Summary) -> str:
    """Write a difference with its standard error.

    Example:
        >>> gain_text(Summary(1.25, 0.3, [1.0, 1.5, 1.0, 1.5]))
        '+1.25 (standard error 0.15)'
    """
    return f"{decimal(gain.mean, 2, signed=True)} (standard error {decimal(standard_error(gain), 2)})"
