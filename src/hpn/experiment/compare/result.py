"""The table of a comparison: what ``hpn compare`` writes, and what reports read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from hpn.experiment.published import PublishedResult
from hpn.experiment.run.result import Counts, Number, Part, ProtocolFields, WithMetrics, parse_result, read_object

FILE_NAME = "comparison.json"


class CellCosts(Part):
    """Seconds per seed."""

    fit: float
    predict: float


class ComparisonRow(WithMetrics):
    """A method on a data set, or why there is no result."""

    name: str  # method and backbone, as tables and recipes name them
    method: str
    backbone: str | None = None
    sees_past: bool = False  # whether it sees earlier steps again
    parameters: Number | None = None
    stored: Number | None = None
    prototypes: Counts | None = None
    seconds: CellCosts | None = None
    recipe: str | None = None
    published: PublishedResult | None = None
    difference: float | None = None  # AM minus the paper's
    run: str  # the run folder
    command: str
    error: str | None = None


class PublishedParameters(Part):
    """Final numbers of parameters that the paper reports, by row, and the data set they are for."""

    dataset: str
    values: dict[str, int]


class Comparison(ProtocolFields):
    """Many methods under one protocol."""

    data_options: dict[str, Any] = Field(default_factory=dict)
    tasks: list[list[int]]
    seeds: list[int]
    rows: list[ComparisonRow]
    published_source: str
    published_parameters: PublishedParameters
    note: str | None = None  # why the paper's numbers are not comparable, if they are not
    versions: dict[str, str] = Field(default_factory=dict)
    command: str
    out: str


def load_comparison(folder: Path) -> Comparison:
    """Read the table in the folder of a comparison."""
    file = folder / FILE_NAME
    return parse_result(Comparison, read_object(file), file)
