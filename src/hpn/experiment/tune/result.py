"""The result of a search for hyper-parameters: what ``hpn tune`` writes and prints."""

from __future__ import annotations

from typing import Any

from hpn.experiment.recipes import Published
from hpn.experiment.run.result import Part, Protocol, RunResult
from hpn.metrics import Summary


class Trial(Part):
    """Settings that were tried.

    Args:
        am: Validation AM over the seeds; ``None`` if a seed failed.
        error: Why the first such seed failed.
    """

    trial: int
    settings: dict[str, Any]
    am: Summary | None
    error: str | None
    seconds: float


class TuneResult(Protocol):
    """What was searched, tried and chosen.

    Args:
        seeds: Seeds that a trial is averaged over.
        space: What was searched.
        best: Number of the chosen trial.
        settings: The chosen hyper-parameters, those that were given included.
        noise: Standard error of a validation AM.
        result: The run with the chosen settings on test nodes.
        recipe: The file with the settings.
    """

    method: str
    backbone: str | None
    tasks: list[list[int]]
    seeds: list[int]
    space: dict[str, Any]
    best: int
    settings: dict[str, Any]
    validation_am: Summary | None
    noise: float
    trials: list[Trial]
    result: RunResult
    published: Published | None
    recipe: str
    command: str
    out: str

    def to_json(self) -> dict[str, Any]:
        """The fields of ``hpn tune --json``."""
        content = self.model_dump(mode="json", by_alias=True)
        return {**content, "result": self.result.to_json()}
