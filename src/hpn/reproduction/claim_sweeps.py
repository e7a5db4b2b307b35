"""Tests of claims about what hyper-parameters do. A sweep with a case that failed is not tested."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from hpn.metrics import METRICS, Summary
from hpn.report.format import count, decimal, is_number, spread
from hpn.reproduction.claim_numbers import Finding, average, decide, read
from hpn.reproduction.results import CaseResult, Section

MOST_RANGE = 2.0
FEWEST_POINTS = 3
WEIGHTS = (1e-4, 1e3)
BEST_THRESHOLDS = (0.2, 0.3)
FALLING = -0.9


def extractors_govern(section: Section) -> Finding | None:
    """Whether AM over the grid varies with the number of extractors more than with the dimension."""
    cases = _sweep(section, "num_extractors", "dim")
    effect, forgetting = _effect(cases, "am"), _effect(cases, "fm")
    if effect is None:
        return None
    numbers = _effect_text("AM", effect)
    if forgetting is not None:
        numbers += f" {_effect_text('FM', forgetting, signed=True)}"
    rises = effect.most.mean > effect.fewest.mean
    return decide(section, effect.by_extractors > effect.by_dim and rises, numbers)


class _Effect(NamedTuple):
    """Shares of the variance over a grid, and the score with the fewest and the most extractors."""

    by_extractors: float
    by_dim: float
    ends: tuple[float, float]
    fewest: Summary
    most: Summary


def _effect(cases: Mapping[tuple[float, ...], CaseResult], metric: str) -> _Effect | None:
    """``None`` unless the grid is full, with at least two rows and columns."""
    rows, columns = {key[0] for key in cases}, {key[1] for key in cases}
    scores = {key: read(case, metric) for key, case in cases.items()}
    grid = {key: score for key, score in scores.items() if score is not None}
    if min(len(rows), len(columns)) < 2 or len(grid) < len(rows) * len(columns):
        return None
    ends = min(rows), max(rows)
    fewest, most = (average([score for key, score in grid.items() if key[0] == end]) for end in ends)
    if fewest is None or most is None:
        return None
    means = {key: score.mean for key, score in grid.items()}
    return _Effect(_share(means, 0), _share(means, 1), ends, fewest, most)


def _share(means: Mapping[tuple[float, ...], float], axis: int) -> float:
    """Share of the sum of squares over the grid that the mean of each row (or column) accounts for."""
    center = _mean([*means.values()])
    total = math.fsum((mean - center) ** 2 for mean in means.values())
    lines = [_mean([mean for other, mean in means.items() if other[axis] == key[axis]]) for key in means]
    return math.fsum((line - center) ** 2 for line in lines) / total if total else 0.0


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _effect_text(metric: str, effect: _Effect, *, signed: bool = False) -> str:
    fewest, most = (f"{end:g} extractors" for end in effect.ends)
    return (
        f"{metric}: {decimal(100 * effect.by_extractors, 0)} % of its variance over the grid goes with the "
        f"number of extractors, {decimal(100 * effect.by_dim, 0)} % with the dimension; "
        f"{spread(effect.fewest, signed=signed)} with {fewest}, {spread(effect.most, signed=signed)} with "
        f"{most}."
    )


def weights_matter_little(section: Section) -> Finding | None:
    """Whether AM hardly changes with the weights α and β of the losses, each from 0.0001 to 1,000."""
    cases = _sweep(section, "alpha", "beta")
    ranges, texts = [], []
    for axis, name in enumerate("αβ"):
        line = {key[axis]: case for key, case in cases.items() if key[1 - axis] == 1}
        found = _range(line, "am", name)
        if found is None or min(line) > WEIGHTS[0] or max(line) < WEIGHTS[1]:
            return None
        ranges.append(found[0])
        texts.append(f"AM over {name} {found[1]}{_forgetting_range(line, name)}")
    return decide(section, max(ranges) <= MOST_RANGE, f"{'; '.join(texts)}.")


def threshold_matters_little(section: Section) -> Finding | None:
    """Whether AM hardly changes with the threshold of atomic prototypes."""
    line = _thresholds(section)
    found = _range(line, "am", "t_A")
    if found is None:
        return None
    return decide(section, found[0] <= MOST_RANGE, f"AM {found[1]}{_forgetting_range(line, 't_A')}.")


def threshold_is_best_between(section: Section) -> Finding | None:
    """Whether the highest AM of all thresholds is reached between 0.2 and 0.3."""
    line = _thresholds(section)
    scores = {threshold: read(case, "am") for threshold, case in line.items()}
    known = {threshold: am for threshold, am in scores.items() if am}
    low, high = BEST_THRESHOLDS
    inside = {threshold: am for threshold, am in known.items() if low <= threshold <= high}
    outside = {threshold: am for threshold, am in known.items() if threshold not in inside}
    if len(known) < len(scores) or not inside or not outside:
        return None
    (here, best), (there, rest) = (max(part.items(), key=_by_mean) for part in (inside, outside))
    numbers = (
        f"The highest AM between {low:g} and {high:g} is {spread(best)} at t_A = {here:g}, "
        f"outside {spread(rest)} at {there:g}; {decimal(best.mean - rest.mean, 2, signed=True)}."
    )
    return decide(section, best.mean >= rest.mean, numbers)


def _by_mean(item: tuple[float, Summary]) -> float:
    return item[1].mean


def prototypes_fall(section: Section) -> Finding | None:
    """Whether a higher threshold leads to fewer atomic prototypes, by rank correlation."""
    from scipy.stats import spearmanr

    line = dict(sorted(_thresholds(section).items()))
    found = [(case.prototypes or {}).get("atomic") for case in line.values()]
    counts = [number for number in found if is_number(number)]
    if len(counts) < FEWEST_POINTS or len(counts) < len(line):
        return None
    # Where the number never changes, ranks have no correlation: it does not fall.
    rank = float(spearmanr([*line], counts).statistic) if len({*counts}) > 1 else 0.0
    numbers = (
        f"Rank correlation {decimal(rank, 2)}: {count(counts[0])} atomic prototypes at t_A = {min(line):g}, "
        f"{count(counts[-1])} at {max(line):g}."
    )
    return decide(section, rank <= FALLING, numbers)


def _thresholds(section: Section) -> dict[float, CaseResult]:
    return {key[0]: case for key, case in _sweep(section, "threshold_atomic").items()}


def _sweep(section: Section, *names: str) -> dict[tuple[float, ...], CaseResult]:
    """Cases by the values of hyper-parameters; none if one of them failed."""
    cases = [case for case in section.cases if all(is_number(case.label.get(name)) for name in names)]
    if any(case.error for case in cases):
        return {}
    return {tuple(case.label[name] for name in names): case for case in cases}


def _range(line: Mapping[float, CaseResult], metric: str, name: str) -> tuple[float, str] | None:
    """How far apart the means along a sweep lie, in number and words; ``None`` if a point is missing."""
    scores = {value: read(case, metric) for value, case in line.items()}
    known = {value: score for value, score in scores.items() if score}
    if len(known) < FEWEST_POINTS or len(known) < len(scores):
        return None
    (least, low), (most, high) = (choose(known.items(), key=_by_mean) for choose in (min, max))
    width = high.mean - low.mean
    signed = METRICS[metric].is_signed
    text = (
        f"ranges over {decimal(width, 2)} points, from {spread(low, signed=signed)} at {name} = {least:g} "
        f"to {spread(high, signed=signed)} at {most:g}"
    )
    return width, text


def _forgetting_range(line: Mapping[float, CaseResult], name: str) -> str:
    found = _range(line, "fm", name)
    if found is None:
        return ""
    place = "within" if found[0] <= MOST_RANGE else "beyond"
    return f", and FM {found[1]} ({place} the limit of {MOST_RANGE:g})"
