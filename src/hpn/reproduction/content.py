"""What the experiments measured: the JSON behind the pages, typed, read, merged and written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from hpn.errors import DataError
from hpn.experiment.compare.result import CellCosts
from hpn.experiment.run.folder import write_atomic
from hpn.experiment.run.result import (
    Part,
    Rows,
    RunResult,
    Sizes,
    StepResult,
    View,
    WithMetrics,
    parse_result,
    read_object,
)
from hpn.metrics import METRICS, Summary
from hpn.report.format import plain
from hpn.report.results import method_name
from hpn.reproduction.experiments import EXPERIMENTS

SCHEMA = 1
MEASURED = ("matrices", "parameters", "stored", "prototypes", "bounds", "parameter_bound", "growth", "params")
"""Fields of a case that the result of its run has too."""

Label = Mapping[str, Any]


class Separation(Part):
    """How well classes are separated after a task, over seeds; see :class:`hpn.experiment.run.result.View`."""

    after: int
    silhouette: Summary | None = None
    neighbors: Summary | None = None
    neighbors_within: Summary | None = None


class Again(Part):
    """How a row was run that a later call replaced."""

    command: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Bounded:
    """Prototypes of a level, or parameters, and their bound."""

    name: str
    values: Sequence[float]  # after each task: the most prototypes of any seed, or the mean number of parameters
    bound: int

    def share(self, value: float) -> Fraction:
        """The share of the bound that is reached; bounds may be larger than any float."""
        return Fraction(value) / self.bound


class CaseResult(WithMetrics, Sizes):
    """The results of a case of an experiment on a data set."""

    label: Label = Field(alias="case")
    method: str
    backbone: str | None = None
    matrices: list[Rows] | None = None
    params: dict[str, Any] | None = None
    seconds: CellCosts | None = None  # type: ignore[assignment]  # per seed, without a total
    views: list[View] | None = None  # of the first seed
    separation: list[Separation] | None = None
    command: str
    error: str | None = None
    again: Again | None = None

    @property
    def preset(self) -> str | None:
        """Its preset of HPN."""
        return self.label.get("preset")

    @property
    def name(self) -> str:
        """Its name on pages."""
        return case_name(self.label)

    def bounded(self) -> Iterator[Bounded]:
        """What has a bound, as far as it is known after every task."""
        growth = self.growth or []
        for level, bound in (self.bounds or {}).items():
            counts = [number for step in growth if (number := (step.most_prototypes or {}).get(level)) is not None]
            if bound and counts and len(counts) == len(growth):
                yield Bounded(level, counts, bound)
        if growth and self.parameter_bound:
            yield Bounded("parameters", [step.parameters for step in growth], self.parameter_bound)

    def to_json(self) -> dict[str, Any]:
        """The case as it is written; metrics that it was not measured with are left out."""
        content = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        known = ("case", "method", "backbone", *self.metrics, *MEASURED)
        first = {name: content.pop(name) for name in known if name in content}
        return first | {name: value for name, value in content.items() if name not in METRICS}


def case_name(label: Label) -> str:
    """Name a case by what distinguishes it: ``ewc · gat``, ``hpn (best)``, ``AN (paper)``, ``α = 1, β = 0.001``."""
    if "num_extractors" in label:
        noun = "extractor" if label["num_extractors"] == 1 else "extractors"
        return f"{label['num_extractors']} {noun}, dimension {label['dim']}"
    symbols = {"threshold_atomic": "t_A", "alpha": "α", "beta": "β"}
    if swept := [f"{symbol} = {plain(label[key])}" for key, symbol in symbols.items() if key in label]:
        return ", ".join(swept)
    method = method_name(label.get("method", "hpn"), label.get("backbone"))
    name = label.get("levels") or label.get("losses") or method
    return f"{name} ({label['preset']})" if label.get("preset") else str(name)


class Section(Part):
    """The results of an experiment on one data set."""

    dataset: str
    nodes: int
    classes: dict[str, str]
    tasks: list[list[int]]
    seeds: list[int]
    is_paper_protocol: bool  # whether data and tasks are the paper's, so that its numbers can be compared
    command: str
    versions: dict[str, str]
    cases: list[CaseResult]

    @property
    def measured(self) -> list[CaseResult]:
        """The cases that did not fail."""
        return [case for case in self.cases if not case.error]

    @property
    def commands(self) -> list[str]:
        """The command of the section, and those of rows that were run again."""
        return list(dict.fromkeys([self.command, *(case.again.command for case in self.cases if case.again)]))

    def find(self, **wanted: Any) -> CaseResult | None:
        """The first case that did not fail and has this method, backbone or label."""
        for case in self.measured:
            known = {"method": case.method, "backbone": case.backbone, **case.label}
            if all(known.get(key) == value for key, value in wanted.items()):
                return case
        return None

    def result(self, case: CaseResult) -> RunResult:
        """A case as the result of a run; its hyper-parameters include its label."""
        same = {name: getattr(case, name) for name in ("method", "backbone", "metrics", "command", *MEASURED)}
        same |= {"matrices": case.matrices or [], "params": {**(case.params or {}), **case.label}}
        return RunResult(
            dataset=self.dataset,
            scenario="task",
            evaluate="oracle",
            edges="within",
            steps=[StepResult(name=str(task).strip("[]"), classes=task) for task in self.tasks],
            seeds=self.seeds,
            class_names=self.classes,
            **same,
        )


class Content(Part):
    """The results of an experiment on every data set."""

    version: Literal[1] = Field(default=1, alias="schema")
    experiment: str
    sections: list[Section]

    def add(self, sections: Sequence[Section], *, rows_only: bool = False) -> Content:
        """Replace sections of the same data set, or only their rows of the same label, and keep the others."""
        kept = {section.dataset: section for section in self.sections}
        for section in sections:
            old = kept.get(section.dataset)
            kept[section.dataset] = _with_rows(old, section) if rows_only and old else section
        return self.model_copy(update={"sections": list(kept.values())})


def _with_rows(section: Section, rerun: Section) -> Section:
    """A section with rows of a later call, each with the command that it was run with."""
    again = Again(command=rerun.command, versions=rerun.versions)
    cases = {_compact(case.label): case for case in section.cases}
    cases |= {_compact(case.label): case.model_copy(update={"again": again}) for case in rerun.cases}
    return section.model_copy(update={"cases": list(cases.values())})


def read_contents(folder: Path) -> dict[str, Content]:
    """The results of earlier calls in a folder, by experiment.

    Raises:
        DataError: If a file cannot be read.
    """
    found = {}
    for file in (folder / f"{name}.json" for name in EXPERIMENTS):
        if file.exists():
            content = read_object(file)
            if content.get("schema") != SCHEMA:
                raise DataError(
                    f"{file} was not written by this version of hpn; move the file, or choose another --out"
                )
            found[file.stem] = parse_result(Content, content, file)
    return found


def write_content(folder: Path, content: Content) -> None:
    """Write the JSON of an experiment, one line per case."""
    parts = []
    for section in content.sections:
        head = section.model_dump(mode="json", exclude={"cases"})
        cases = ",\n".join(_compact(case.to_json()) for case in section.cases)
        parts.append(f'{_compact(head)[:-1]},"cases":[\n{cases}\n]}}')
    start = _compact({"schema": content.version, "experiment": content.experiment})[:-1]
    text = f'{start},"sections":[\n{",".join(parts)}\n]}}\n'
    write_atomic(folder / f"{content.experiment}.json", text.encode())


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
