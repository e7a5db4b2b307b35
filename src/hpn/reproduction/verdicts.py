"""Measured numbers beside the paper's: within its spread, better or worse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from hpn.experiment.published import Cell, published_ablation, published_cell, published_matrix
from hpn.experiment.run.result import Rows
from hpn.metrics import METRICS, Summary, summarize
from hpn.reproduction.results import CaseResult, Content, Section

Verdict = Literal["within", "better", "worse"]

NUM_DEVIATIONS = 2.0
_SLACK = 1e-9  # a difference of exactly two deviations is within, whatever floating point makes of it


@dataclass(frozen=True)
class Judged:
    """A measured number beside the paper's.

    Args:
        experiment: Name of the experiment.
        dataset: Name of the data set.
        case: What tells the case apart from the others of the experiment.
        metric: ``am``, ``fm``, or an entry of the accuracy matrix, such as ``task 1 after task 3``.
        ours: What was measured.
        paper_mean: What the paper prints.
        paper_std: Its standard deviation; ``None`` for a single run.
        difference: Ours − paper.
        verdict: What to make of it.
    """

    experiment: str
    dataset: str
    case: dict[str, Any]
    metric: str
    ours: Summary
    paper_mean: float
    paper_std: float | None
    difference: float
    verdict: Verdict


def judge(ours: float, paper: float, deviation: float) -> Verdict:
    """Compare a mean with the paper's; more is better, of AM, FM and accuracies alike.

    It is ``within`` if it differs by at most two standard deviations; otherwise the sign decides. The
    deviation is the paper's, which tells how far its own repetitions lie apart. Of the accuracies on single
    tasks it prints one run: there its deviation of the method's AM counts, or ours where that is larger.

    Args:
        ours: What was measured.
        paper: What the paper prints.
        deviation: The standard deviation that counts.

    Example:
        >>> judge(91.0, 93.7, 1.5), judge(91.0, 93.7, 0.2)
        ('within', 'worse')
    """
    difference = ours - paper
    if abs(difference) <= NUM_DEVIATIONS * deviation + _SLACK:
        return "within"
    return "better" if difference > 0 else "worse"


def judge_section(experiment: str, section: Section) -> list[Judged]:
    """Judge every number of a data set that the paper has one for.

    None if the tasks are not the paper's. A case that failed is left out, and so are accuracies of single
    tasks with one seed: nothing tells how far two single runs may lie apart.

    Args:
        experiment: Name of the experiment.
        section: Its results on a data set.
    """
    if not section.is_paper_protocol:
        return []
    return [
        Judged(
            experiment,
            section.dataset,
            dict(case.label),
            metric,
            ours,
            paper_mean,
            paper_std,
            ours.mean - paper_mean,
            judge(ours.mean, paper_mean, _deviation(section.dataset, case, ours, paper_std)),
        )
        for case in section.measured
        for metric, ours, paper_mean, paper_std in _pairs(experiment, section, case)
    ]


def judge_all(contents: Mapping[str, Content]) -> dict[str, list[Judged]]:
    """Judge every number of every experiment.

    Args:
        contents: The JSON of each experiment, by its name.
    """
    return {
        name: [one for section in content.sections for one in judge_section(name, section)]
        for name, content in contents.items()
    }


def count_verdicts(judged: Iterable[Judged]) -> dict[Verdict, int]:
    """How many of each verdict there are.

    Example:
        >>> count_verdicts([])
        {'within': 0, 'better': 0, 'worse': 0}
    """
    counts: dict[Verdict, int] = dict.fromkeys(get_args(Verdict), 0)
    for one in judged:
        counts[one.verdict] += 1
    return counts


def is_hpn(judged: Judged, preset: str | None = None) -> bool:
    """Whether a number is of HPN, and of the preset if one is named; the ablations are of nothing else."""
    if judged.case.get("method", "hpn") != "hpn":
        return False
    return preset is None or judged.case.get("preset") == preset


def published(experiment: str, section: Section, case: CaseResult) -> Cell | None:
    """AM and FM that the paper reports for a case, also where it failed here."""
    if not section.is_paper_protocol:
        return None
    if experiment == "ablation-levels":
        return published_ablation("levels", section.dataset, case.label["levels"])
    if experiment == "ablation-losses":
        return published_ablation("losses", section.dataset, case.label["losses"])
    if experiment == "comparison":
        return published_cell(section.dataset, case.method, case.backbone)
    return None


def _deviation(dataset: str, case: CaseResult, ours: Summary, paper_std: float | None) -> float:
    if paper_std is not None:
        return paper_std
    cell = published_cell(dataset, case.method, case.backbone)
    return max(ours.std, cell.am.std if cell else 0.0)


_Pair = tuple[str, Summary, float, float | None]


def _pairs(experiment: str, section: Section, case: CaseResult) -> Iterator[_Pair]:
    """Each metric with our summary and the paper's mean and standard deviation."""
    if experiment == "accuracy-matrices":
        yield from _entries(case.matrices, published_matrix(section.dataset, case.method, case.backbone))
    cell = published(experiment, section, case)
    for name in METRICS:
        ours, paper = case.metrics.get(name), getattr(cell, name, None)
        if ours is not None and paper is not None:
            yield name, ours, paper.mean, paper.std


def _entries(ours: list[Rows] | None, paper: Rows | None) -> Iterator[_Pair]:
    if not ours or paper is None or len(ours) < 2 or any(len(matrix) != len(paper) for matrix in ours):
        return
    for after, row in enumerate(paper):
        for task, accuracy in enumerate(row):
            summary = summarize([matrix[after][task] for matrix in ours])
            assert summary is not None  # noqa: S101  (there are matrices)
            yield f"task {task + 1} after task {after + 1}", summary, accuracy, None
