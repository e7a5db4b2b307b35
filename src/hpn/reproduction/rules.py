"""The rules of ``claims.yaml``: what the results on a data set mean for a claim of the paper.

A rule takes a section and the arguments of the claim. It returns ``None`` if the results lack the numbers. The cases of
a section were run with the same seeds, so two of them are compared seed by seed: a difference is the mean of the
differences of the pairs, and its standard error is theirs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hpn.metrics import METRICS, Summary, summarize
from hpn.report.format import count, decimal, is_number, plural, spread
from hpn.report.results import method_name
from hpn.reproduction.content import CaseResult, Section

Outcome = Literal["holds", "does not hold", "not tested here"]


@dataclass(frozen=True)
class Finding:
    """What the results on a data set mean for a claim, and the numbers that decide, in one sentence."""

    dataset: str  # with the preset in brackets if it is not the paper's
    verdict: Outcome
    numbers: str
    counts: bool = True  # whether it enters the verdict on the claim


def difference(more: Summary | None, less: Summary | None) -> Summary | None:
    """The difference of two summaries, seed by seed; ``None`` if their seeds do not pair."""
    if more is None or less is None or len(more.values) != len(less.values):
        return None
    return summarize([high - low for high, low in zip(more.values, less.values, strict=True)])


def standard_error(summary: Summary) -> float:
    """Standard error of the mean over seeds."""
    return summary.std / math.sqrt(len(summary.values))


def _decide(section: Section, holds: bool | None, numbers: str) -> Finding:
    """A finding on the data set of a section; ``None`` if it remains open."""
    verdict: Outcome = "not tested here" if holds is None else "holds" if holds else "does not hold"
    return Finding(section.dataset, verdict, numbers)


def _decide_gain(section: Section, gain: Summary, errors: float, numbers: str, *, holds: bool = True) -> Finding:
    """Whether a difference exceeds so many standard errors, which one seed does not have."""
    if len(gain.values) < 2:
        return _decide(section, None, "One seed does not decide: its differences have no standard error.")
    return _decide(section, holds and gain.mean > errors * standard_error(gain), numbers)


def _gain_text(gain: Summary) -> str:
    return f"{decimal(gain.mean, 2, signed=True)} (standard error {decimal(standard_error(gain), 2)})"


def _metric(case: CaseResult | None, metric: str = "am") -> Summary | None:
    return case.metrics.get(metric) if case else None


def _cases(section: Section, methods: Sequence[str], backbones: Sequence[str]) -> dict[str, CaseResult | None]:
    """Every method on every backbone, ``None`` if there is no result."""
    pairs = itertools.product(methods, backbones)
    return {method_name(*pair): section.find(method=pair[0], backbone=pair[1]) for pair in pairs}


def _known(cases: Mapping[Any, CaseResult | None], metric: str = "am") -> dict[Any, Summary]:
    """The values of a metric, without cases that have none."""
    return {key: value for key, case in cases.items() if (value := _metric(case, metric))}


def _best(scores: Mapping[Any, Summary]) -> tuple[Any, Summary]:
    """The highest mean, and whose it is."""
    return max(scores.items(), key=lambda item: item[1].mean)


def beats_baselines(section: Section, baselines: list[str], backbones: list[str]) -> Finding | None:
    """Whether the AM of HPN is above that of every baseline; one without a result leaves it open."""
    ours, cases = _metric(section.find(method="hpn")), _cases(section, baselines, backbones)
    known = _known(cases)
    if ours is None or not known:
        return None
    above = [f"{label} {spread(am)}" for label, am in known.items() if am.mean >= ours.mean]
    missing = [label for label in cases if label not in known]
    top, best = _best(known)
    numbers = f"AM: hpn {spread(ours)}, the best baseline {top} {spread(best)}; at or above hpn: "
    numbers += f"{', '.join(above) or 'none'}." + (f" No result of {', '.join(missing)}." if missing else "")
    return _decide(section, None if missing and not above else not above, numbers)


def matches_joint(section: Section, joint: str, backbones: list[str], nodes: int, points: float) -> Finding | None:
    """Whether HPN comes near the best joint training on a small graph, or exceeds it."""
    ours, cases = _metric(section.find(method="hpn")), _cases(section, [joint], backbones)
    known = _known(cases)
    if ours is None or len(known) < len(cases) or section.nodes >= nodes:
        return None
    top, best = _best(known)
    gap = ours.mean - best.mean
    numbers = f"AM: hpn {spread(ours)}, the best joint training {top} {spread(best)}; hpn − joint "
    return _decide(section, gap >= -points, f"{numbers}{decimal(gap, 2, signed=True)}.")


def steps_help(section: Section, part: str, steps: list[tuple[str, str]], errors: float) -> Finding | None:
    """Whether AM rises with each step of an ablation, and clearly from the first to the last."""
    names = dict.fromkeys(name for step in steps for name in step)
    scores = _known({name: section.find(**{part: name}) for name in names})
    first, last = steps[0][0], steps[-1][1]
    total = difference(scores.get(last), scores.get(first))
    if total is None or len(scores) < len(names):
        return None
    gains = {f"{a} to {b}": scores[b].mean - scores[a].mean for a, b in steps}
    numbers = (
        f"AM: {', '.join(f'{name} {spread(score)}' for name, score in scores.items())}; "
        f"{', '.join(f'{step} {decimal(gain, 2, signed=True)}' for step, gain in gains.items())}, "
        f"{first} to {last} {_gain_text(total)}."
    )
    return _decide_gain(section, total, errors, numbers, holds=min(gains.values()) > 0)


def _retained(section: Section, case: CaseResult | None, tasks: int) -> list[Summary]:
    """ARS after each task from the second on, in percent; empty for a short stream."""
    if case is None or not case.matrices or len(section.tasks) < tasks:
        return []
    return [ars for ars in section.result(case).curve(METRICS["ars"]) if ars is not None]


def retains_where_other_forgets(
    section: Section, other: tuple[str, str], tasks: int, points: float, errors: float
) -> Finding | None:
    """Whether the ARS of HPN stays flat over a long stream and that of another method falls."""
    ours = _retained(section, section.find(method="hpn"), tasks)
    theirs = _retained(section, section.find(method=other[0], backbone=other[1]), tasks)
    if not ours or not theirs:
        return None
    change, fall = difference(ours[-1], ours[0]), difference(theirs[-1], theirs[0])
    gain = difference(change, fall)
    if change is None or fall is None or gain is None:
        return None
    name = method_name(*other)
    numbers = (
        f"ARS after task 2 and after task {len(section.tasks)}: "
        f"hpn {spread(ours[0])} and {spread(ours[-1])}, a change of {spread(change, signed=True)}; "
        f"{name} {spread(theirs[0])} and {spread(theirs[-1])}, a change of {spread(fall, signed=True)}; "
        f"hpn − {name} {_gain_text(gain)}."
    )
    return _decide_gain(section, gain, errors, numbers, holds=change.mean >= -points and fall.mean < 0)


def retains_more(
    section: Section, more: tuple[str, str], less: tuple[str, str], tasks: int, errors: float
) -> Finding | None:
    """Whether one method ends a long stream with a clearly higher ARS than another."""
    high, low = (_retained(section, section.find(method=one[0], backbone=one[1]), tasks) for one in (more, less))
    gain = difference(high[-1], low[-1]) if high and low else None
    if gain is None:
        return None
    numbers = (
        f"ARS after task {len(section.tasks)}: {method_name(*less)} {spread(low[-1])}, "
        f"{method_name(*more)} {spread(high[-1])}, difference {_gain_text(gain)}."
    )
    return _decide_gain(section, gain, errors, numbers)


def _sweep(section: Section, *names: str) -> dict[tuple[float, ...], CaseResult]:
    """Cases by the values of hyper-parameters; none if one of them failed."""
    cases = [case for case in section.cases if all(is_number(case.label.get(name)) for name in names)]
    if any(case.error for case in cases):
        return {}
    return {tuple(case.label[name] for name in names): case for case in cases}


def extractors_govern(section: Section) -> Finding | None:
    """Whether AM over the grid varies with the number of extractors more than with the dimension."""
    cases = _sweep(section, "num_extractors", "dim")
    nums, dims = (sorted({key[axis] for key in cases}) for axis in (0, 1))
    texts, holds = [], None
    for metric in (METRICS["am"], METRICS["fm"]):
        grid = _known(cases, metric.name)
        if min(len(nums), len(dims)) < 2 or len(grid) < len(nums) * len(dims):
            continue
        values = np.array([[grid[num, dim].values for dim in dims] for num in nums])  # [nums, dims, seeds]
        means = values.mean(axis=2)
        by_extractors, by_dim = (means.mean(axis=axis).var() / (means.var() or 1.0) for axis in (1, 0))
        ends = []
        for num, row in (nums[0], values[0]), (nums[-1], values[-1]):
            score = summarize(row.mean(axis=0).tolist())
            ends.append(f"{spread(score, signed=metric.is_signed)} with {plural(int(num), 'extractor')}")
        texts.append(
            f"{metric.label}: {decimal(100 * by_extractors, 0)} % of its variance over the grid is explained by the "
            f"number of extractors, {decimal(100 * by_dim, 0)} % by the dimension; {', '.join(ends)}."
        )
        if metric.name == "am":
            holds = bool(by_extractors > by_dim and means[-1].mean() > means[0].mean())
    return None if holds is None else _decide(section, holds, " ".join(texts))


def _range(line: Mapping[float, CaseResult], metric: str, symbol: str, fewest: int) -> tuple[float, str] | None:
    """The range of the means along a sweep, as a number and in words; ``None`` if a point is missing."""
    known = _known(line, metric)
    if len(known) < max(fewest, len(line)):
        return None
    (most, high), (least, low) = _best(known), min(known.items(), key=lambda item: item[1].mean)
    width, signed = high.mean - low.mean, METRICS[metric].is_signed
    return width, (
        f"ranges over {decimal(width, 2)} points, from {spread(low, signed=signed)} at {symbol} = {least:g} "
        f"to {spread(high, signed=signed)} at {most:g}"
    )


def varies_little(
    section: Section,
    over: dict[str, str],
    points: float,
    fewest: int,
    fixed: float | None = None,
    low: float = math.inf,
    high: float = -math.inf,
) -> Finding | None:
    """Whether AM hardly changes with each of several settings, all others fixed; FM is shown as well."""
    cases = _sweep(section, *over)
    widths, texts = [], []
    for axis, symbol in enumerate(over.values()):
        line = {
            key[axis]: case
            for key, case in cases.items()
            if all(value == fixed for other, value in enumerate(key) if other != axis)
        }
        found, forgetting = (_range(line, metric, symbol, fewest) for metric in ("am", "fm"))
        if found is None or min(line) > low or max(line) < high:
            return None
        widths.append(found[0])
        text = f"AM {f'over {symbol} ' if len(over) > 1 else ''}{found[1]}"
        if forgetting:
            place = "within" if forgetting[0] <= points else "beyond"
            text += f", and FM {forgetting[1]} ({place} the limit of {points:g})"
        texts.append(text)
    return _decide(section, max(widths) <= points, f"{'; '.join(texts)}.")


def threshold_is_best_between(section: Section, low: float, high: float) -> Finding | None:
    """Whether the highest AM of all thresholds is reached between two of them."""
    cases = {key[0]: case for key, case in _sweep(section, "threshold_atomic").items()}
    known = _known(cases)
    inside = {threshold: am for threshold, am in known.items() if low <= threshold <= high}
    outside = {threshold: am for threshold, am in known.items() if threshold not in inside}
    if len(known) < len(cases) or not inside or not outside:
        return None
    (here, best), (there, rest) = map(_best, (inside, outside))
    numbers = (
        f"The highest AM between {low:g} and {high:g} is {spread(best)} at t_A = {here:g}, "
        f"outside {spread(rest)} at {there:g}; {decimal(best.mean - rest.mean, 2, signed=True)}."
    )
    return _decide(section, best.mean >= rest.mean, numbers)


def prototypes_fall(section: Section, correlation: float, fewest: int) -> Finding | None:
    """Whether a higher threshold leads to fewer atomic prototypes, by rank correlation."""
    from scipy.stats import spearmanr

    line = {key[0]: case for key, case in sorted(_sweep(section, "threshold_atomic").items())}
    found = [(case.prototypes or {}).get("atomic") for case in line.values()]
    counts = [number for number in found if is_number(number)]
    if len(counts) < max(fewest, len(line)):
        return None
    # Where the number never changes, ranks have no correlation: it does not fall.
    rank = float(spearmanr([*line], counts).statistic) if len({*counts}) > 1 else 0.0
    numbers = (
        f"Rank correlation {decimal(rank, 2)}: {count(counts[0])} atomic prototypes at t_A = {min(line):g}, "
        f"{count(counts[-1])} at {max(line):g}."
    )
    return _decide(section, rank <= correlation, numbers)


def memory_is_bounded(section: Section) -> Finding | None:
    """Whether no HPN ever has more prototypes of a level, or more parameters, than its bound."""
    texts, holds = [], True
    for case in section.measured:
        parts = sorted(case.bounded(), key=lambda part: part.name != "parameters")
        if not case.bounds or len(parts) < len(case.bounds) + (case.parameter_bound is not None):
            continue
        held = [
            f"{count(max(part.values))} of {count(part.bound)} "
            f"{part.name}{'' if part.name == 'parameters' else ' prototypes'}"
            for part in parts
        ]
        texts.append(f"{case.preset} {', '.join(held)}")
        holds &= all(max(part.values) <= part.bound for part in parts)
    if not texts:
        return None
    return _decide(section, holds, f"The most after any task, of the bound: {'; '.join(texts)}.")


def keeps_less(section: Section, baselines: list[str], backbones: list[str]) -> Finding | None:
    """Whether HPN keeps fewer numbers than most baselines; those without a result may leave it open."""
    ours, cases = section.find(method="hpn"), _cases(section, baselines, backbones)
    stored, parameters = (
        {label: value for label, case in cases.items() if case and (value := getattr(case, name)) is not None}
        for name in ("stored", "parameters")
    )
    if not stored or ours is None or ours.stored is None:
        return None
    num_heavier, num_missing = sum(value > ours.stored for value in stored.values()), len(cases) - len(stored)
    least = min(stored, key=lambda label: stored[label])
    numbers = (
        f"Numbers kept: hpn {count(ours.stored)}, more in {num_heavier} of {len(cases)} baselines, "
        f"the least {count(stored[least])} in {least}"
    )
    if parameters:
        least = min(parameters, key=lambda label: parameters[label])
        numbers += f"; parameters alone: hpn {count(ours.parameters)}, the least {count(parameters[least])} in {least}"
    numbers += f". No result of {num_missing} of them." if num_missing else "."
    is_open = num_heavier <= len(cases) / 2 < num_heavier + num_missing
    return _decide(section, None if is_open else num_heavier > len(cases) / 2, numbers)


def stays_separated(section: Section, neighbors: float, silhouette: float) -> Finding | None:
    """Whether test nodes are still among nodes of their own class after the last task."""
    case = section.find(method="hpn")
    steps = (case and case.separation) or []
    known = [(step.neighbors, step.silhouette) for step in steps if step.neighbors and step.silhouette]
    if not steps or steps[-1].after != len(section.tasks) - 1 or len(known) < len(steps):
        return None
    texts = [
        f"{spread(share)} % and {spread(width, 2)} after task {step.after + 1}"
        for step, (share, width) in zip(steps, known, strict=True)
    ]
    numbers = f"Nodes among their own class and silhouette: {', '.join(texts)}."
    if within := steps[-1].neighbors_within:
        numbers += f" With others of their own task only, {spread(within)} % after the last."
    share, width = known[-1]
    return _decide(section, share.mean >= neighbors and width.mean > silhouette, numbers)


RULES: dict[str, Callable[..., Finding | None]] = {
    rule.__name__: rule
    for rule in (
        *(beats_baselines, matches_joint, steps_help, retains_where_other_forgets, retains_more),
        *(extractors_govern, prototypes_fall, varies_little, threshold_is_best_between),
        *(memory_is_bounded, keeps_less, stays_separated),
    )
}
