"""Whether a run satisfies what was proved: counts within their bounds, prototypes apart, certificates intact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hpn.errors import RunFolderError
from hpn.experiment.run.checkpoint import load_checkpoint
from hpn.experiment.run.folder import RESULT, read_config, read_json
from hpn.learners import HPN, LEARNERS
from hpn.learners.hpn import PaperHPN, SolvedHPN
from hpn.theory.memory import cap_bound

# Of a cosine between two vectors in single precision.
ROUNDING = 1e-6


@dataclass(frozen=True)
class CountAfterTask:
    """Prototypes of each level after a task of a seed."""

    seed: int
    task: int
    prototypes: Mapping[str, int]


@dataclass(frozen=True)
class CodeCheck:
    """Whether the prototypes of a level are a code: the largest cosine of two must be below the limit."""

    seed: int
    level: str
    closest: float
    limit: float
    holds: bool


@dataclass(frozen=True)
class CertificateCheck:
    """Whether everything that the predictions for a task depend on is as it was when the task was learned."""

    seed: int
    task: int
    holds: bool


@dataclass(frozen=True)
class BoundCheck:
    """The prototypes of a run, and what Theorem 1 allows."""

    run: str
    dataset: str
    bounds: Mapping[str, int | None]  # the theorem's bound of each level
    one_set: Mapping[str, int | None]  # the bound of each level for a single code
    names: Mapping[str, str]  # which bound on codes it is
    growth: Sequence[CountAfterTask]
    codes: Sequence[CodeCheck]
    certificates: Sequence[CertificateCheck]  # none if retention is ``paper``
    violations: Sequence[str]  # one sentence each

    @property
    def holds(self) -> bool:
        """Whether everything is as proved."""
        return not self.violations

    def to_json(self) -> dict[str, Any]:
        """The fields of ``hpn theory check --json``."""
        return {**asdict(self), "holds": self.holds}


def check_run(run: Path | str) -> BoundCheck:
    """Check a run folder, finished or not, against Theorem 1.

    Three things are checked: after every task, the number of prototypes of each level against the
    theorem's bound and against that for a single code; if states were kept, whether the prototypes
    of each level really are a code; and unless retention is ``paper``, whether everything that the
    predictions for each task depend on is as it was when the task was learned.

    Args:
        run: The folder of a run of ``hpn``.

    Raises:
        RunFolderError: If there is no such run, or it has no prototypes.
    """
    folder = Path(run)
    config = read_config(folder)
    if LEARNERS.get(config.get("method", "")) is not HPN:
        raise RunFolderError(f"{folder} is a run of {config.get('method')}, which has no prototypes to count")
    growth: list[CountAfterTask] = []
    codes: list[CodeCheck] = []
    certificates: list[CertificateCheck] = []
    for seed in sorted(int(path.name.removeprefix("seed-")) for path in folder.glob("seed-*")):
        part = folder / f"seed-{seed}"
        saved = load_checkpoint(part) or {}
        grown = saved.get("growth") or (read_json(part / RESULT) or {}).get("growth") or []
        counts = [step.get("prototypes") for step in grown]
        growth += [CountAfterTask(seed, task, count) for task, count in enumerate(counts) if count]
        if saved:
            fitted = _make({**config["params"], "seed": seed})
            fitted.load_state_dict(saved["learner"])
            for level, codebook in fitted.codebooks.items():
                closest, limit = codebook.closest_cosine(), 1 - codebook.threshold
                codes.append(CodeCheck(seed, level, closest, limit, holds=closest < limit + ROUNDING))
            if isinstance(fitted, SolvedHPN) or fitted.retention == "certified":
                tasks = range(len(fitted.certificates_))
                certificates += [CertificateCheck(seed, task, fitted.is_certified(task)) for task in tasks]
    if not growth:
        raise RunFolderError(f"{folder} has learned no task yet; there is nothing to check")
    learner = _make(config["params"])
    bounds, one_set = learner.prototype_bounds, replace(learner.memory_bound, in_one_set=True)
    violations = [*_too_many(growth, bounds, "Theorem 1 allows")]
    violations += _too_many(growth, one_set.prototypes, "one code can have")
    violations += [
        f"seed {code.seed}: two {code.level} prototypes are closer than the threshold "
        f"(cosine {code.closest:.6f}, allowed below {code.limit:g})"
        for code in codes
        if not code.holds
    ]
    violations += [
        f"seed {one.seed}: what task {one.task + 1} is answered from is not what it was"
        for one in certificates
        if not one.holds
    ]
    caps = {level: cap_bound(one_set.prototypes[level]) for level in bounds}
    names = {level: one_set.codes[level].name for level in bounds}
    return BoundCheck(str(folder), config["dataset"], bounds, caps, names, growth, codes, certificates, violations)


def _make(params: Mapping[str, Any]) -> PaperHPN | SolvedHPN:
    learner = LEARNERS["hpn"](**params)
    assert isinstance(learner, PaperHPN | SolvedHPN)  # noqa: S101  (every preset is one of them)
    return learner


def _too_many(growth: Sequence[CountAfterTask], bounds: Mapping[str, int | None], whose: str) -> Iterator[str]:
    for row in growth:
        for level, count in row.prototypes.items():
            bound = bounds[level]
            if bound is not None and count > bound:
                found = f"{count:,} {level} prototypes after task {row.task + 1}"
                yield f"seed {row.seed}: {found}, where {whose} {bound:,}"
