"""Cases as cells of a table: what they are called, and ours beside the paper's with the verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hpn.experiment.published import Cell, Spread, published_ablation, published_cell
from hpn.metrics import Summary
from hpn.report.comparison_table import row_label
from hpn.report.format import MISSING, decimal, plain_markdown, spread
from hpn.report.scales import plain
from hpn.reproduction.verdicts import Judged, judge_section

Section = Mapping[str, Any]
Case = Mapping[str, Any]
Label = Mapping[str, Any]

VERDICTS = {"within": "within 2 sd", "better": "better", "worse": "worse"}
_SIGNED = {"fm"}


def case_label(label: Label) -> str:
    """Name a case by what tells it apart.

    Example:
        >>> case_label({"method": "ewc", "backbone": "gat", "preset": None})
        'ewc · gat'
        >>> case_label({"preset": "best"}), case_label({"preset": "paper", "levels": "AN"})
        ('hpn (best)', 'AN (paper)')
        >>> case_label({"alpha": 1.0, "beta": 0.001}), case_label({"num_extractors": 22, "dim": 2})
        ('α = 1, β = 0.001', '22 extractors, dimension 2')
    """
    if "alpha" in label:
        return f"α = {plain(label['alpha'])}, β = {plain(label['beta'])}"
    if "threshold_atomic" in label:
        return f"t_A = {plain(label['threshold_atomic'])}"
    if "num_extractors" in label:
        noun = "extractor" if label["num_extractors"] == 1 else "extractors"
        return f"{label['num_extractors']} {noun}, dimension {label['dim']}"
    name = (
        label.get("levels") or label.get("losses") or row_label({"method": "hpn", "backbone": None, **label})
    )
    return f"{name} ({label['preset']})" if label.get("preset") else str(name)


def safe_label(case: Case) -> str:
    """The name of a case, in Markdown."""
    return plain_markdown(case_label(case["case"]))


def measured(section: Section) -> list[Case]:
    """The cases that did not fail."""
    return [case for case in section["cases"] if not case["error"]]


def failure(case: Case) -> str:
    """What stands in place of the numbers of a case that failed, in Markdown."""
    return f"failed: {plain_markdown(case['error'])}"


class Verdicts:
    """The paper's numbers for the cases of a section, and what to make of ours.

    Args:
        experiment: Name of the experiment.
        section: Its results on a data set.
    """

    def __init__(self, experiment: str, section: Section) -> None:
        self.experiment = experiment
        self.section = section
        self.judged = judge_section(experiment, section)
        self._by_case = {(_key(one.case), one.metric): one for one in self.judged}

    def find(self, case: Case, metric: str) -> Judged | None:
        """The verdict on a number, if the paper has one for it."""
        return self._by_case.get((_key(case["case"]), metric))

    def paper(self, case: Case, metric: str) -> Spread | None:
        """What the paper reports, also where the case failed here."""
        cell = self._cell(case)
        found: Spread | None = getattr(cell, metric) if cell else None
        return found

    def has_paper(self, metric: str) -> bool:
        """Whether the paper reports this of any case."""
        return any(self.paper(case, metric) for case in self.section["cases"])

    def _cell(self, case: Case) -> Cell | None:
        if not self.section["is_paper_protocol"]:
            return None
        dataset, label = self.section["dataset"], case["case"]
        if self.experiment == "ablation-levels":
            return published_ablation("levels", dataset, label["levels"])
        if self.experiment == "ablation-losses":
            return published_ablation("losses", dataset, label["losses"])
        if self.experiment == "comparison":
            return published_cell(dataset, case["method"], case["backbone"])
        return None


def ours(case: Case | None, metric: str) -> str:
    """What was measured: mean ± standard deviation, that it failed, or that there is none."""
    if case is None:
        return MISSING
    return failure(case) if case["error"] else spread(case[metric], signed=metric in _SIGNED)


def paper_text(paper: Spread | None, metric: str) -> str:
    """The paper's mean ± standard deviation."""
    if paper is None:
        return MISSING
    return f"{decimal(paper.mean, signed=metric in _SIGNED)} ± {decimal(paper.std)}"


def verdict_texts(judged: Judged | None) -> list[str]:
    """The difference, ours − paper, and the verdict."""
    if judged is None:
        return [MISSING, MISSING]
    return [decimal(judged.difference, signed=True), VERDICTS[judged.verdict]]


def judged_texts(one: Judged) -> list[str]:
    """A number that was judged: ours, the paper's, difference, verdict."""
    digits = 1 if one.paper_std is not None else 2  # as the paper prints them
    signed = one.metric in _SIGNED
    paper = decimal(one.paper_mean, digits, signed=signed)
    deviation = "" if one.paper_std is None else f" ± {decimal(one.paper_std)}"
    return [spread(one.ours, signed=signed), paper + deviation, *verdict_texts(one)]


def metric_name(metric: str) -> str:
    """What a metric is called in a text.

    Example:
        >>> metric_name("am"), metric_name("task 1 after task 3")
        ('AM', 'task 1 after task 3')
    """
    return metric.upper() if metric in {"am", "fm", "ars"} else metric


def as_interval(paper: Spread | None) -> dict[str, float] | None:
    """The paper's number as charts take it."""
    return {"mean": paper.mean, "std": paper.std} if paper else None


def single(value: float | None) -> Summary | None:
    """A number that is known without its spread, as charts take it."""
    return None if value is None else {"mean": value, "std": 0.0, "values": [value]}


def _key(label: Label) -> str:
    return json.dumps(dict(label), sort_keys=True)
