"""The result of a search for hyper-parameters: what ``hpn tune`` writes and prints."""

from __future__ import annotations

from typing import Any

from hpn.experiment.recipes import Published
from hpn.experiment.run.result import Part, ProtocolFields, RunResult
from hpn.metrics import Summary


class Trial(Part):
    """Settings that were tried."""

    trial: int
    settings: dict[str, Any]
    am: Summary | None  # validation AM over the seeds, unless a seed failed
    error: str | None  # why the first such seed failed
    seconds: float


class TuneResult(ProtocolFields):
    """The search space, the trials and the choice."""

    method: str
    backbone: str | None
    tasks: list[list[int]]
    seeds: list[int]  # that a trial is averaged over
    space: dict[str, Any]
    best: int  # number of the chosen trial
    settings: dict[str, Any]  # the chosen hyper-parameters, those that were given included
    validation_am: Summary | None
    noise: float  # standard error of a validation AM
    trials: list[Trial]
    result: RunResult  # the run with the chosen settings on test nodes
    published: Published | None
    recipe: str  # the file with the settings
    command: str
    out: str
