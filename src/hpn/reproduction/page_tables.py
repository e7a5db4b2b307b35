"""Tables of the experiments, one data set at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from hpn.experiment.published import published_matrix
from hpn.learners import LEARNERS
from hpn.metrics import METRICS, Summary, summarize
from hpn.report.format import MISSING, count, decimal, plain_markdown, quantity, spread
from hpn.report.results import best_value
from hpn.report.scales import plain
from hpn.reproduction.page_cells import (
    Verdicts,
    failure,
    metric_head,
    metric_name,
    ours,
    safe_label,
    verdict_texts,
)
from hpn.reproduction.page_parts import table
from hpn.reproduction.results import CaseResult, Section, Separation
from hpn.theory.memory import LEVELS

_PAPER_HEADS = ["the paper", "Δ", "verdict"]


def comparison_table(verdicts: Verdicts) -> str:
    """AM and FM of every method beside the paper's, and what they cost; the best AM is bold."""
    metrics, cases = ("am", "fm"), verdicts.section.cases
    heads = ["method"]
    for metric in metrics:
        heads.append(metric_head(metric))
        heads += _PAPER_HEADS if verdicts.has_paper(metric) else []
    heads += [metric_head("ars"), "stored (numbers)", "seconds (a seed)"]
    scores = {
        number: am
        for number, case in enumerate(cases)
        if not sees_past(case) and (am := case.metrics.get("am"))
    }
    best = best_value(METRICS["am"], scores.values())
    rows = []
    for number, case in enumerate(cases):
        row = [safe_label(case)]
        for metric in metrics:
            mine = MISSING if case.error and metric == "fm" else ours(case, metric)
            is_best = metric == "am" and number in scores and scores[number].mean == best
            row += [f"**{mine}**" if is_best else mine, *verdicts.cells(case, metric)]
        rows.append([*row, spread(case.metrics.get("ars")), count(case.stored), _seconds(case)])
    return table(heads, rows)


def sees_past(case: CaseResult) -> bool:
    """Whether the method is shown earlier tasks again."""
    return bool(getattr(LEARNERS.get(case.method), "sees_past", False))


def _seconds(case: CaseResult) -> str:
    return quantity(case.seconds.fit + case.seconds.predict) if case.seconds else MISSING


def matrix_table(verdicts: Verdicts, case: CaseResult) -> str:
    """Accuracy on each task, a row for the moment after each task, the paper's beside ours."""
    section = verdicts.section
    matrix = section.result(case).mean_matrix()
    paper = None
    if section.is_paper_protocol:
        paper = published_matrix(section.dataset, case.method, case.backbone)
    if paper is not None and len(paper) != len(matrix):
        paper = None
    heads = ["after task"]
    for task in range(len(matrix)):
        heads += [f"task {task + 1}", *(_PAPER_HEADS if paper else ())]
    rows = []
    for after, accuracies in enumerate(matrix):
        row = [str(after + 1)]
        for task in range(len(matrix)):
            known = task <= after
            row.append(spread(accuracies[task]) if known else "")
            if paper:
                judged = verdicts.find(case, f"task {task + 1} after task {after + 1}")
                row.append(decimal(paper[after][task], 2) if known else "")
                row += verdict_texts(judged) if known else ["", ""]
        rows.append(row)
    return table(heads, rows)


def metrics_table(section: Section) -> str:
    """AM, FM and ARS of every case."""
    metrics = ("am", "fm", "ars")
    heads = ["method", *map(metric_head, metrics)]
    return _case_table(section, heads, lambda case: [ours(case, metric) for metric in metrics])


def ablation_table(verdicts: Verdicts, metric: str) -> str:
    """One metric by what was left in, the paper's beside ours."""
    key = _ablated(verdicts.section)
    heads = [metric_name(metric), "ours", *(_PAPER_HEADS if verdicts.has_paper(metric) else ())]
    rows = [
        [plain_markdown(case.label[key]), ours(case, metric), *verdicts.cells(case, metric)]
        for case in verdicts.section.cases
    ]
    return table(heads, rows)


def steps_table(verdicts: Verdicts) -> str:
    """What each step adds: differences seed by seed, mean ± standard error; the paper's between its means."""
    section, key = verdicts.section, _ablated(verdicts.section)
    metrics = [metric for metric in ("am", "fm") if verdicts.has_paper(metric)]
    heads = ["step", "AM, ours", "FM, ours", *(f"{metric_name(metric)}, the paper" for metric in metrics)]
    cases = {case.label[key]: case for case in section.cases}
    rows = []
    for before, after in _steps([*cases]):
        ends = cases[before], cases[after]
        row = [f"{plain_markdown(before)} → {plain_markdown(after)}"]
        row += [paired_difference(*(case.metrics.get(metric) for case in ends)) for metric in ("am", "fm")]
        for metric in metrics:
            low, high = (verdicts.paper(case, metric) for case in ends)
            row.append(decimal(high.mean - low.mean, signed=True) if low and high else MISSING)
        rows.append(row)
    return table(heads, rows)


def paired_difference(before: Summary | None, after: Summary | None) -> str:
    """After − before, seed by seed: mean ± standard error, which one seed does not have.

    Example:
        >>> paired_difference(summarize([90.0, 92.0]), summarize([91.0, 95.0]))
        '+2.0 ± 1.0'
    """
    if before is None or after is None or len(before.values) != len(after.values):
        return MISSING
    steps = summarize([b - a for a, b in zip(before.values, after.values, strict=True)])
    if steps is None:
        return MISSING
    mean, num = decimal(steps.mean, signed=True), len(steps.values)
    return f"{mean} ± {decimal(steps.std / math.sqrt(num))}" if num > 1 else mean


def _ablated(section: Section) -> str:
    return "levels" if "levels" in section.cases[0].label else "losses"


def _steps(confs: Sequence[str]) -> list[tuple[str, str]]:
    """Levels are added one after the other; losses to the first alone, and to each other."""
    if not any("+" in conf for conf in confs):
        return list(pairwise(confs)) + ([(confs[0], confs[-1])] if len(confs) > 2 else [])
    terms = {conf: set(conf.split("+")) for conf in confs}
    return [(a, b) for a in confs for b in confs if terms[a] < terms[b]]


def dynamics_table(section: Section) -> str:
    """ARS after the second, the middle and the last task, and what is left at the end."""
    num_tasks = len(section.tasks)
    shown = [task for task in sorted({2, num_tasks // 2 + 1, num_tasks}) if 2 <= task <= num_tasks]
    heads = [
        "method",
        *(f"ARS after task {task} (%)" for task in shown),
        metric_head("am"),
        metric_head("fm"),
    ]

    def cells(case: CaseResult) -> list[str]:
        curve = section.result(case).curve(METRICS["ars"])
        return [*(spread(curve[task - 1]) for task in shown), ours(case, "am"), ours(case, "fm")]

    return _case_table(section, heads, cells)


def sweep_table(section: Section, settings: dict[str, str]) -> str:
    """AM, FM, prototypes and parameters over settings, which are columns of their own.

    Args:
        section: Results on a data set.
        settings: Heads of the settings' columns, by their names.
    """
    heads = [*settings.values(), metric_head("am"), metric_head("fm"), *LEVELS, "parameters"]
    rows = []
    for case in section.cases:
        places = [plain(case.label[name]) for name in settings]
        if case.error:
            rows.append([*places, failure(case), *[MISSING] * (len(heads) - len(places) - 1)])
            continue
        prototypes = [count((case.prototypes or {}).get(level)) for level in LEVELS]
        rows.append([*places, ours(case, "am"), ours(case, "fm"), *prototypes, count(case.parameters)])
    return table(heads, rows, align="")


def separation_table(section: Section) -> str:
    """How far the classes are apart after each task."""
    cases = [case for case in section.measured if case.separation]
    heads = ["after task"]
    for case in cases:
        heads += [f"{safe_label(case)} silhouette", "neighbours (%)", "within a task (%)"]
    rows = []
    for after in sorted({step.after for case in cases for step in case.separation or []}):
        row = [str(after + 1)]
        for case in cases:
            step = next(
                (step for step in case.separation or [] if step.after == after), Separation(after=after)
            )
            row += [spread(step.silhouette, 2), spread(step.neighbors), spread(step.neighbors_within)]
        rows.append(row)
    return table(heads, rows)


def _case_table(section: Section, heads: Sequence[str], cells: Callable[[CaseResult], Iterable[str]]) -> str:
    """A row a case; what follows its name is that it failed, or ``cells``."""
    rows = []
    for case in section.cases:
        failed = [failure(case), *[MISSING] * (len(heads) - 2)]
        rows.append([safe_label(case), *(failed if case.error else cells(case))])
    return table(heads, rows)
