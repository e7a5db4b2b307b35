"""Why numbers differ from the paper's, from ``notes.yaml``, and why claims fail, from ``remarks.yaml``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, field_validator

from hpn.errors import ConfigError, nearest
from hpn.reproduction.experiments import EXPERIMENTS
from hpn.reproduction.verdicts import Judged

_Names = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


class Note(BaseModel):
    """A reason, and which numbers it is the reason for. What is left out may be anything.

    Args:
        experiment: Name of an experiment, or several.
        dataset: Name of a data set, or several.
        case: What the case must have, a value or a list of values a key.
        metric: ``am``, ``fm``, or an entry such as ``task 1 after task 3``.
        verdict: ``better`` or ``worse``; a number within the paper's spread needs no reason.
        text: The reason, in Markdown, without numbers: those come from the results.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    experiment: _Names
    dataset: _Names | None = None
    case: dict[str, Any] = {}
    metric: str | None = None
    verdict: Literal["better", "worse"] | None = None
    text: str

    @field_validator("experiment")
    @classmethod
    def _known_experiments(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in EXPERIMENTS:
                raise ValueError(
                    f"unknown {name!r}; {nearest(name, EXPERIMENTS)}known: {', '.join(EXPERIMENTS)}"
                )
        return names

    @field_validator("text")
    @classmethod
    def _one_line(cls, text: str) -> str:
        line = " ".join(text.split())
        if not line:
            raise ValueError("expected a reason, got nothing")
        if "|" in line:
            raise ValueError("a reason stands in tables too and cannot hold |")
        return line

    def applies(self, judged: Judged) -> bool:
        """Whether it is a reason for this number."""
        return (
            judged.verdict != "within"
            and judged.experiment in self.experiment
            and (self.dataset is None or judged.dataset in self.dataset)
            and all(judged.case.get(key) in _choices(value) for key, value in self.case.items())
            and self.metric in {None, judged.metric}
            and self.verdict in {None, judged.verdict}
        )


def find_notes(judged: Judged, notes: Sequence[Note] | None = None) -> list[str]:
    """The reasons known for a number that is not within the paper's spread.

    Args:
        judged: The number.
        notes: Where to look; by default what comes with the package.
    """
    return [note.text for note in (packaged_notes() if notes is None else notes) if note.applies(judged)]


def find_remark(claim: str, verdict: str) -> str | None:
    """What we make of a claim that does not hold, or not everywhere.

    Args:
        claim: Its name.
        verdict: What became of it.
    """
    return _remarks().get(claim) if verdict in {"does not hold", "holds on some"} else None


@cache
def _remarks() -> dict[str, str]:
    text = (files("hpn.reproduction") / "remarks.yaml").read_text(encoding="utf-8")
    return {claim: " ".join(remark.split()) for claim, remark in yaml.safe_load(text).items()}


@cache
def packaged_notes() -> tuple[Note, ...]:
    """The reasons that come with the package."""
    return read_notes(Path(str(files("hpn.reproduction"))) / "notes.yaml")


def read_notes(path: Path) -> tuple[Note, ...]:
    """Read and check a file of reasons.

    Raises:
        ConfigError: If it is not a list of reasons that this version can use.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"notes {path} are not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, list):
        raise ConfigError(f"notes {path} must be a list of experiment, text and what they apply to")
    notes = []
    for number, entry in enumerate(content, 1):
        try:
            notes.append(Note.model_validate(entry))
        except ValidationError as error:
            fault = error.errors()[0]
            place = ".".join(map(str, fault["loc"])) or "entry"
            raise ConfigError(f"notes {path}, entry {number}: {place}: {fault['msg']}") from error
    return tuple(notes)


def _choices(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
