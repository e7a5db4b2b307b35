"""Tables of the experiments, one data set at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hpn.experiment.published import published_matrix
from hpn.learners import LEARNERS
from hpn.metrics import Summary, summarize
from hpn.report.comparison_table import best_rows
from hpn.report.format import MISSING, count, decimal, plain_markdown, quantity, spread
from hpn.report.results import mean_matrix, retaining_curve
from hpn.report.scales import plain
from hpn.reproduction.page_cells import (
    Case,
    Section,
    Verdicts,
    failure,
    measured,
    metric_name,
    ours,
    paper_text,
    safe_label,
    verdict_texts,
)
from hpn.reproduction.page_parts import table
from hpn.theory.memory import LEVELS


def comparison_table(verdicts: Verdicts) -> str:
    """AM and FM of every method beside the paper's, and what they cost; the best AM is bold."""
    section = verdicts.section
    cases = section["cases"]
    units = {"am": "AM (%)", "fm": "FM (points)"}
    heads = ["method"]
    for metric, head in units.items():
        heads += [head, "the paper", "Δ", "verdict"] if verdicts.has_paper(metric) else [head]
    heads += ["ARS (%)", "stored (numbers)", "seconds (a seed)"]
    best = best_rows({"rows": [{"am": case["am"], "sees_past": sees_past(case)} for case in cases]})
    rows = []
    for number, case in enumerate(cases):
        row = [safe_label(case)]
        for metric in units:
            mine = MISSING if case["error"] and metric == "fm" else ours(case, metric)
            row.append(f"**{mine}**" if metric == "am" and number in best else mine)
            if verdicts.has_paper(metric):
                row.append(paper_text(verdicts.paper(case, metric), metric))
                row += verdict_texts(verdicts.find(case, metric))
        rows.append([*row, spread(case["ars"]), count(case["stored"]), _seconds(case)])
    return table(heads, rows)


def sees_past(case: Case) -> bool:
    """Whether the method is shown earlier tasks again."""
    return bool(getattr(LEARNERS.get(case["method"]), "sees_past", False))


def _seconds(case: Case) -> str:
    seconds = case["seconds"]
    return quantity(seconds["fit"] + seconds["predict"]) if seconds else MISSING


def matrix_table(verdicts: Verdicts, case: Case) -> str:
    """Accuracy on each task, a row for the moment after each task, the paper's beside ours."""
    section = verdicts.section
    matrix = mean_matrix(as_result(section, case))
    paper = None
    if section["is_paper_protocol"]:
        paper = published_matrix(section["dataset"], case["method"], case["backbone"])
    if paper is not None and len(paper) != len(matrix):
        paper = None
    heads = ["after task"]
    for task in range(len(matrix)):
        heads += [f"task {task + 1}", "the paper", "Δ", "verdict"] if paper else [f"task {task + 1}"]
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


def as_result(section: Section, case: Case) -> dict[str, Any]:
    """A case in the form of a run's result, as far as curves and matrices need it."""
    fields = {key: case[key] for key in ("method", "backbone", "matrices", "ars")}
    return {"dataset": section["dataset"], "tasks": section["tasks"], **fields}


def metrics_table(section: Section) -> str:
    """AM, FM and ARS of every case."""
    return _case_table(
        section,
        ["method", "AM (%)", "FM (points)", "ARS (%)"],
        lambda case: [ours(case, metric) for metric in ("am", "fm", "ars")],
    )


def ablation_table(verdicts: Verdicts, metric: str) -> str:
    """One metric by what was left in, the paper's beside ours."""
    key, has_paper = _ablated(verdicts.section), verdicts.has_paper(metric)
    heads = [metric_name(metric), "ours", *(["the paper", "Δ", "verdict"] if has_paper else [])]
    rows = []
    for case in verdicts.section["cases"]:
        row = [plain_markdown(case["case"][key]), ours(case, metric)]
        if has_paper:
            row.append(paper_text(verdicts.paper(case, metric), metric))
            row += verdict_texts(verdicts.find(case, metric))
        rows.append(row)
    return table(heads, rows)


def steps_table(verdicts: Verdicts) -> str:
    """What each step adds: differences seed by seed, mean ± standard error; the paper's between its means."""
    section, key = verdicts.section, _ablated(verdicts.section)
    metrics = [metric for metric in ("am", "fm") if verdicts.has_paper(metric)]
    heads = ["step", "AM, ours", "FM, ours", *(f"{metric_name(metric)}, the paper" for metric in metrics)]
    cases = {case["case"][key]: case for case in section["cases"]}
    rows = []
    for before, after in _steps([*cases]):
        ends = cases[before], cases[after]
        row = [f"{plain_markdown(before)} → {plain_markdown(after)}"]
        row += [paired_difference(*(case[metric] for case in ends)) for metric in ("am", "fm")]
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
    return "levels" if "levels" in section["cases"][0]["case"] else "losses"


def _steps(confs: Sequence[str]) -> list[tuple[str, str]]:
    """Levels are added one after the other; losses to the first alone, and to each other."""
    if not any("+" in conf for conf in confs):
        return list(pairwise(confs)) + ([(confs[0], confs[-1])] if len(confs) > 2 else [])
    terms = {conf: set(conf.split("+")) for conf in confs}
    return [(a, b) for a in confs for b in confs if terms[a] < terms[b]]


def dynamics_table(section: Section) -> str:
    """ARS after the second, the middle and the last task, and what is left at the end."""
    num_tasks = len(section["tasks"])
    shown = [task for task in sorted({2, num_tasks // 2 + 1, num_tasks}) if 2 <= task <= num_tasks]
    heads = ["method", *(f"ARS after task {task} (%)" for task in shown), "AM (%)", "FM (points)"]

    def cells(case: Case) -> list[str]:
        curve = retaining_curve(as_result(section, case))
        return [*(spread(curve[task - 1]) for task in shown), ours(case, "am"), ours(case, "fm")]

    return _case_table(section, heads, cells)


def sweep_table(section: Section, settings: dict[str, str]) -> str:
    """AM, FM, prototypes and parameters over settings, which are columns of their own.

    Args:
        section: Results on a data set.
        settings: Heads of the settings' columns, by their names.
    """
    heads = [*settings.values(), "AM (%)", "FM (points)", *LEVELS, "parameters"]
    rows = []
    for case in section["cases"]:
        places = [plain(case["case"][name]) for name in settings]
        if case["error"]:
            rows.append([*places, failure(case), *[MISSING] * (len(heads) - len(places) - 1)])
            continue
        prototypes = [count((case["prototypes"] or {}).get(level)) for level in LEVELS]
        rows.append([*places, ours(case, "am"), ours(case, "fm"), *prototypes, count(case["parameters"])])
    return table(heads, rows, align="")


def separation_table(section: Section) -> str:
    """How far the classes are apart after each task."""
    cases = [case for case in measured(section) if case["separation"]]
    heads = ["after task"]
    for case in cases:
        heads += [f"{safe_label(case)} silhouette", "neighbours (%)", "within a task (%)"]
    rows = []
    for after in sorted({step["after"] for case in cases for step in case["separation"]}):
        row = [str(after + 1)]
        for case in cases:
            step = next((step for step in case["separation"] if step["after"] == after), None)
            row += _apart(step) if step else [MISSING] * 3
        rows.append(row)
    return table(heads, rows)


def _apart(step: Mapping[str, Any]) -> list[str]:
    return [
        two_digits(step["silhouette"]),
        spread(step["neighbors"]),
        spread(step.get("neighbors_within")),
    ]


def two_digits(summary: Summary | None) -> str:
    """Mean ± standard deviation of what lies between −1 and 1."""
    if summary is None:
        return MISSING
    mean = decimal(summary.mean, 2)
    return f"{mean} ± {decimal(summary.std, 2)}" if len(summary.values) > 1 else mean


def _case_table(section: Section, heads: Sequence[str], cells: Callable[[Case], Iterable[str]]) -> str:
    """A row a case; what follows its name is that it failed, or ``cells``."""
    rows = []
    for case in section["cases"]:
        failed = [failure(case), *[MISSING] * (len(heads) - 2)]
        rows.append([safe_label(case), *(failed if case["error"] else cells(case))])
    return table(heads, rows)
