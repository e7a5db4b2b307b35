"""Our numbers compared with the paper's, reasons for differences (``notes.yaml``), and claims (``claims.yaml``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from hpn.experiment.published import PublishedResult, published_ablation, published_cell, published_matrix
from hpn.experiment.run.result import Rows
from hpn.metrics import METRICS, Summary
from hpn.reproduction.content import CaseResult, Content, Section
from hpn.reproduction.experiments import EXPERIMENTS, Entry, read_yaml
from hpn.reproduction.rules import RULES, Finding

Verdict = Literal["within", "better", "worse"]
ClaimVerdict = Literal["holds", "does not hold", "holds on some", "not tested here"]

PRESET = "paper"
NUM_DEVIATIONS = 2.0
_SLACK = 1e-9  # a difference of exactly two deviations is within, despite rounding errors


@dataclass(frozen=True)
class Judged:
    """A measured number and the paper's."""

    experiment: str
    dataset: str
    case: dict[str, Any]  # the label of the case
    metric: str  # am, fm, or an entry of the accuracy matrix, such as "task 1 after task 3"
    ours: Summary
    paper_mean: float
    paper_std: float | None  # None for a single run
    verdict: Verdict

    @property
    def difference(self) -> float:
        """Ours − the paper's."""
        return self.ours.mean - self.paper_mean


def judge(ours: float, paper: float, deviation: float) -> Verdict:
    """Compare a mean with the paper's; higher is better for AM, FM and accuracies alike.

    It is ``within`` if it differs by at most two standard deviations; otherwise the sign decides. The deviation is the
    paper's, which shows how much its own repetitions vary. For the accuracies on single tasks it prints one run: there
    the paper's deviation of the method's AM is used, or ours where that is larger.
    """
    difference = ours - paper
    if abs(difference) <= NUM_DEVIATIONS * deviation + _SLACK:
        return "within"
    return "better" if difference > 0 else "worse"


def judge_section(experiment: str, section: Section) -> list[Judged]:
    """Judge every number of a data set that the paper has one for; none if the tasks are not the paper's.

    Accuracies of single tasks with one seed are left out: nothing shows how much two single runs may differ.
    """
    judged = []
    for case in section.measured if section.is_paper_protocol else ():
        paper = published_cell(section.dataset, case.method, case.backbone)
        for metric, ours, mean, std in _pairs(experiment, section, case):
            deviation = max(ours.std, paper.am.std if paper else 0.0) if std is None else std
            verdict = judge(ours.mean, mean, deviation)
            judged.append(Judged(experiment, section.dataset, dict(case.label), metric, ours, mean, std, verdict))
    return judged


def judge_all(contents: Mapping[str, Content]) -> dict[str, list[Judged]]:
    """Judge every number of every experiment, by its name."""
    return {
        name: [one for section in content.sections for one in judge_section(name, section)]
        for name, content in contents.items()
    }


def count_verdicts(judged: Iterable[Judged]) -> dict[Verdict, int]:
    """The number of each verdict."""
    found = [one.verdict for one in judged]
    return {verdict: found.count(verdict) for verdict in get_args(Verdict)}


def is_hpn(judged: Judged, preset: str | None = None) -> bool:
    """Whether a number belongs to HPN, and to the preset if one is named; ablations are of HPN only."""
    if judged.case.get("method", "hpn") != "hpn":
        return False
    return preset is None or judged.case.get("preset") == preset


def published(experiment: str, section: Section, case: CaseResult) -> PublishedResult | None:
    """AM and FM that the paper reports for a case, also where it failed here."""
    table = EXPERIMENTS[experiment].published
    if table is None or table == "matrices" or not section.is_paper_protocol:
        return None
    if table == "cells":
        return published_cell(section.dataset, case.method, case.backbone)
    return published_ablation(table, section.dataset, case.label[table])


def paper_matrix(experiment: str, section: Section, case: CaseResult) -> Rows | None:
    """The accuracies that the paper prints for a case, if they are of as many tasks."""
    if EXPERIMENTS[experiment].published != "matrices" or not section.is_paper_protocol:
        return None
    found = published_matrix(section.dataset, case.method, case.backbone)
    return found if found and len(found) == len(section.tasks) else None


def _pairs(experiment: str, section: Section, case: CaseResult) -> Iterator[tuple[str, Summary, float, float | None]]:
    """Each metric with our summary and the paper's mean and standard deviation."""
    cell = published(experiment, section, case)
    for name in METRICS:
        ours, paper = case.metrics.get(name), getattr(cell, name, None)
        if ours is not None and paper is not None:
            yield name, ours, paper.mean, paper.std
    matrix = paper_matrix(experiment, section, case) if len(case.matrices or []) > 1 else None
    means = section.result(case).mean_matrix() if matrix else []
    for after, row in enumerate(matrix or []):
        for task, accuracy in enumerate(row):
            if ours := means[after][task]:
                yield f"task {task + 1} after task {after + 1}", ours, accuracy, None


class Note(Entry):
    """A reason, and the numbers that it explains; ``notes.yaml`` explains the fields."""

    experiment: list[str]
    dataset: list[str] | None = None
    case: dict[str, list[Any]] = Field(default_factory=dict)
    metric: str | None = None
    verdict: Literal["better", "worse"] | None = None
    text: str

    def applies(self, judged: Judged) -> bool:
        """Whether it explains this number."""
        return (
            judged.verdict != "within"
            and judged.experiment in self.experiment
            and (self.dataset is None or judged.dataset in self.dataset)
            and all(judged.case.get(key) in values for key, values in self.case.items())
            and self.metric in {None, judged.metric}
            and self.verdict in {None, judged.verdict}
        )


class Claim(Entry):
    """A claim of the paper about its results; ``claims.yaml`` explains the fields."""

    name: str
    statement: str
    where: str
    experiment: str
    criterion: str
    rule: str
    args: dict[str, Any] = Field(default_factory=dict)
    by_preset: bool = True
    remark: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _format(cls, content: dict[str, Any]) -> dict[str, Any]:
        words = {name: _word(value) for name, value in content.get("args", {}).items()}
        return content | {key: content[key].format(**words) for key in ("name", "statement", "criterion")}

    def findings(self, section: Section) -> Iterator[Finding]:
        """What is found on a data set; other presets than the paper's do not count."""
        others = dict.fromkeys(case.preset for case in section.cases if case.preset not in {None, PRESET})
        for preset in (PRESET, *others) if self.by_preset else (None,):
            cases = [case for case in section.cases if preset is None or case.preset in {preset, None}]
            found = RULES[self.rule](section.model_copy(update={"cases": cases}), **self.args)
            if found and preset in {None, PRESET}:
                yield found
            elif found:
                yield replace(found, dataset=f"{found.dataset} ({preset})", counts=False)


def _word(value: Any) -> str:
    """An argument in a text: 20,000, −0.9, gcn, gat, gin."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}".replace("-", "−")
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


NOTES = [Note(**entry) for entry in read_yaml("notes.yaml")]
CLAIMS = [Claim(**entry) for entry in read_yaml("claims.yaml")]


def find_notes(judged: Judged) -> tuple[str, ...]:
    """The reasons for a number that is not within the paper's spread."""
    return tuple(note.text for note in NOTES if note.applies(judged))


@dataclass(frozen=True)
class ClaimResult:
    """A claim with what was found on each data set."""

    claim: Claim
    findings: tuple[Finding, ...]

    @property
    def counted(self) -> list[Finding]:
        """The findings that decide."""
        return [finding for finding in self.findings if finding.counts]

    @property
    def verdict(self) -> ClaimVerdict:
        """The verdict over all data sets."""
        verdicts = {finding.verdict for finding in self.counted} - {"not tested here"}
        if len(verdicts) > 1:
            return "holds on some"
        return verdicts.pop() if verdicts else "not tested here"

    @property
    def remark(self) -> str | None:
        """The explanation, if the claim does not hold, or not everywhere."""
        return self.claim.remark if self.verdict in {"does not hold", "holds on some"} else None


def weigh_claims(pages: Mapping[str, Content]) -> list[ClaimResult]:
    """Test every claim on all data sets that there are results for; not all experiments need be there."""
    return [
        ClaimResult(
            claim,
            tuple(
                finding
                for section in (pages[claim.experiment].sections if claim.experiment in pages else ())
                for finding in claim.findings(section)
            ),
        )
        for claim in CLAIMS
    ]
