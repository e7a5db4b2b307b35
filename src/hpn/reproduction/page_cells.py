"""Cases as cells of a table: what they are called, and ours beside the paper's with the verdict."""

from __future__ import annotations

import json

from hpn.experiment.published import Spread
from hpn.metrics import METRICS
from hpn.report.format import MISSING, decimal, metric_text, plain_markdown, spread
from hpn.report.results import method_name
from hpn.report.scales import plain
from hpn.reproduction.results import CaseResult, Label, Section
from hpn.reproduction.verdicts import Judged, judge_section, published

VERDICTS = {"within": "within 2 sd", "better": "better", "worse": "worse"}


def case_label(label: Label) -> str:
    """Name a case by what distinguishes it.

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
    method = method_name(label.get("method", "hpn"), label.get("backbone"))
    name = label.get("levels") or label.get("losses") or method
    return f"{name} ({label['preset']})" if label.get("preset") else str(name)


def safe_label(case: CaseResult) -> str:
    """The name of a case, in Markdown."""
    return plain_markdown(case_label(case.label))


def failure(case: CaseResult) -> str:
    """What stands in place of the numbers of a case that failed, in Markdown."""
    return f"failed: {plain_markdown(case.error)}"


class Verdicts:
    """The paper's numbers for the cases of a section, and how ours compare.

    Args:
        experiment: Name of the experiment.
        section: Its results on a data set.
    """

    def __init__(self, experiment: str, section: Section) -> None:
        self.experiment = experiment
        self.section = section
        self.judged = judge_section(experiment, section)
        self._by_case = {(_key(one.case), one.metric): one for one in self.judged}

    def find(self, case: CaseResult, metric: str) -> Judged | None:
        """The verdict on a number, if the paper has one for it."""
        return self._by_case.get((_key(case.label), metric))

    def paper(self, case: CaseResult, metric: str) -> Spread | None:
        """What the paper reports, also where the case failed here."""
        found: Spread | None = getattr(published(self.experiment, self.section, case), metric, None)
        return found

    def has_paper(self, metric: str) -> bool:
        """Whether the paper reports this of any case."""
        return any(self.paper(case, metric) for case in self.section.cases)

    def cells(self, case: CaseResult, metric: str) -> list[str]:
        """The paper's number, the difference and the verdict, if the paper has this metric at all."""
        if not self.has_paper(metric):
            return []
        paper = metric_text(METRICS[metric], self.paper(case, metric))
        return [paper, *verdict_texts(self.find(case, metric))]


def metric_head(metric: str) -> str:
    """A metric with its unit, as the head of a column.

    Example:
        >>> metric_head("am"), metric_head("fm")
        ('AM (%)', 'FM (points)')
    """
    return f"{METRICS[metric].label} ({METRICS[metric].unit})"


def ours(case: CaseResult, metric: str) -> str:
    """What was measured: mean ± standard deviation, that it failed, or that there is none."""
    return failure(case) if case.error else metric_text(METRICS[metric], case.metrics.get(metric))


def verdict_texts(judged: Judged | None) -> list[str]:
    """The difference, ours − paper, and the verdict."""
    if judged is None:
        return [MISSING, MISSING]
    return [decimal(judged.difference, signed=True), VERDICTS[judged.verdict]]


def judged_texts(one: Judged) -> list[str]:
    """A number that was judged: ours, the paper's, difference, verdict."""
    digits = 1 if one.paper_std is not None else 2  # as the paper prints them
    signed = one.metric in METRICS and METRICS[one.metric].is_signed
    paper = decimal(one.paper_mean, digits, signed=signed)
    deviation = "" if one.paper_std is None else f" ± {decimal(one.paper_std)}"
    return [spread(one.ours, signed=signed), paper + deviation, *verdict_texts(one)]


def metric_name(metric: str) -> str:
    """What a metric is called in a text.

    Example:
        >>> metric_name("am"), metric_name("task 1 after task 3")
        ('AM', 'task 1 after task 3')
    """
    return METRICS[metric].label if metric in METRICS else metric


def _key(label: Label) -> str:
    return json.dumps(dict(label), sort_keys=True)
