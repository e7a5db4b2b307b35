"""What the experiments measured, as it stands in the JSON behind their pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from hpn.experiment.compare.result import CellCosts
from hpn.experiment.run.result import (
    Counts,
    Growth,
    Number,
    Part,
    Rows,
    RunResult,
    StepResult,
    View,
    WithMetrics,
)
from hpn.metrics import METRICS, Summary

SCHEMA = 1

Label = Mapping[str, Any]


class Separation(Part):
    """How far classes are apart after a task, over seeds; see :class:`hpn.experiment.run.result.View`."""

    after: int
    silhouette: Summary | None = None
    neighbors: Summary | None = None
    neighbors_within: Summary | None = None


class Again(Part):
    """How a row was run that is of a later call than the others of its section."""

    command: str
    versions: dict[str, str]


class CaseResult(WithMetrics):
    """A case of an experiment on a data set.

    Args:
        label: What distinguishes it from the other cases of the experiment.
        seconds: Per seed.
        views: Those of the first seed.
        error: Why there is no result.
    """

    label: Label = Field(alias="case")
    method: str
    backbone: str | None = None
    matrices: list[Rows] | None = None
    parameters: Number | None = None
    stored: Number | None = None
    prototypes: Counts | None = None
    bounds: Mapping[str, int | None] | None = None
    parameter_bound: int | None = None
    growth: list[Growth] | None = None
    params: dict[str, Any] | None = None
    seconds: CellCosts | None = None
    views: list[View] | None = None
    separation: list[Separation] | None = None
    command: str
    error: str | None = None
    again: Again | None = None

    @property
    def preset(self) -> str | None:
        """The preset of HPN that it is of."""
        found: str | None = self.label.get("preset")
        return found

    def to_json(self) -> dict[str, Any]:
        """The case as it is written; metrics that it was not measured with are left out."""
        content = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        first = ("case", "method", "backbone")
        kept = {name: value for name, value in content.items() if name not in METRICS or name in self.metrics}
        return {**{name: content[name] for name in first}, **kept}


class Section(Part):
    """An experiment on one data set.

    Args:
        classes: Names of the classes.
        is_paper_protocol: Whether data and tasks are the paper's, so that its numbers stand beside ours.
    """

    dataset: str
    nodes: int
    classes: dict[str, str]
    tasks: list[list[int]]
    seeds: list[int]
    is_paper_protocol: bool
    command: str
    versions: dict[str, str]
    cases: list[CaseResult]

    @property
    def measured(self) -> list[CaseResult]:
        """The cases that did not fail."""
        return [case for case in self.cases if not case.error]

    def result(self, case: CaseResult) -> RunResult:
        """A case as the result of a run, as far as matrices and curves need it."""
        return RunResult(
            dataset=self.dataset,
            method=case.method,
            backbone=case.backbone,
            scenario="task",
            evaluate="oracle",
            edges="within",
            steps=[StepResult(name=str(task).strip("[]"), classes=task) for task in self.tasks],
            seeds=self.seeds,
            metrics=case.metrics,
            matrices=case.matrices or [],
        )


class Content(Part):
    """All that is known of an experiment, data set by data set."""

    version: Literal[1] = Field(default=1, alias="schema")
    experiment: str
    sections: list[Section]
