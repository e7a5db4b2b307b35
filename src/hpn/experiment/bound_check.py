"""Whether a run kept to what was proved: counts under their bounds, prototypes apart, certificates intact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpn.errors import RunFolderError
from hpn.experiment.run.checkpoint import load_checkpoint
from hpn.experiment.run.folder import CONFIG, RESULT, read_json
from hpn.learners import HPN, LEARNERS
from hpn.learners.hpn import PaperHPN, SolvedHPN
from hpn.theory.memory import cap_bound

ROUNDING = 1e-6
"""Of a cosine between two vectors kept in single precision."""

Row = dict[str, Any]


def check_run(run: Path | str) -> dict[str, Any]:
    """Check a run folder, finished or not, against Theorem 1.

    Three things are looked at: after every task, the number of prototypes of each level against the
    theorem's bound and against that for a single code; as far as states were kept, whether the prototypes
    of each level really are a code; and unless retention is ``paper``, whether all that the predictions for
    each task depend on is as it was when the task was learned.

    Args:
        run: The folder of a run of ``hpn``.

    Returns:
        ``bounds`` and ``one_set``: both bounds by level; ``names``: which bound on codes it is; ``growth``: a
        row a seed and task; ``codes``: a row a seed and level; ``certificates``: a row a seed and task;
        ``violations``: a sentence for all that is not as it should be; ``holds``: whether there is none.

    Raises:
        RunFolderError: If there is no such run, or it has no prototypes.
    """
    folder = Path(run)
    config = read_json(folder / CONFIG)
    if config is None:
        raise RunFolderError(f"{folder} is no run folder: it has no {CONFIG}")
    if LEARNERS.get(config.get("method")) is not HPN:
        raise RunFolderError(f"{folder} is a run of {config.get('method')}, which has no prototypes to count")
    learner = _make(config["params"])
    seeds = sorted(int(path.name.removeprefix("seed-")) for path in folder.glob("seed-*"))
    growth, codes, certificates = [], [], []
    one_set = replace(learner.memory_bound, in_one_set=True)
    for seed in seeds:
        part = folder / f"seed-{seed}"
        saved = load_checkpoint(part) or {}
        growth += _counts(seed, saved.get("growth") or (read_json(part / RESULT) or {}).get("growth") or [])
        if saved:
            fitted = _make({**config["params"], "seed": seed})
            fitted.load_state_dict(saved["learner"])
            codes += list(_codes(seed, fitted))
            certificates += list(_certificates(seed, fitted))
    if not growth:
        raise RunFolderError(f"{folder} has learned no task yet; there is nothing to check")
    bounds = learner.prototype_bounds
    violations = [
        *_too_many(growth, bounds, "Theorem 1 allows"),
        *_too_many(growth, one_set.prototypes, "one code can have"),
        *(
            f"seed {row['seed']}: two {row['level']} prototypes are closer than the threshold "
            f"(cosine {row['closest']:.6f}, allowed below {row['limit']:g})"
            for row in codes
            if not row["holds"]
        ),
        *(
            f"seed {row['seed']}: what task {row['task'] + 1} is answered from is not what it was"
            for row in certificates
            if not row["holds"]
        ),
    ]
    return {
        "run": str(folder),
        "dataset": config["dataset"],
        "bounds": bounds,
        "one_set": {level: cap_bound(one_set.prototypes[level]) for level in bounds},
        "names": {level: one_set.codes[level].name for level in bounds},
        "growth": growth,
        "codes": codes,
        "certificates": certificates,
        "violations": violations,
        "holds": not violations,
    }


def _make(params: Row) -> PaperHPN | SolvedHPN:
    learner = LEARNERS["hpn"](**params)
    assert isinstance(learner, PaperHPN | SolvedHPN)  # noqa: S101  (every preset is one of them)
    return learner


def _counts(seed: int, steps: list[Row]) -> list[Row]:
    return [
        {"seed": seed, "task": task, "prototypes": step["prototypes"]}
        for task, step in enumerate(steps)
        if step.get("prototypes")
    ]


def _codes(seed: int, learner: PaperHPN | SolvedHPN) -> Iterator[Row]:
    for level, codebook in learner.codebooks.items():
        limit = 1 - codebook.threshold
        closest = codebook.closest_cosine()
        yield {
            "seed": seed,
            "level": level,
            "closest": closest,
            "limit": limit,
            "holds": closest < limit + ROUNDING,
        }


def _certificates(seed: int, learner: PaperHPN | SolvedHPN) -> Iterator[Row]:
    if isinstance(learner, SolvedHPN) or learner.retention == "certified":
        for task in range(len(learner.certificates_)):
            yield {"seed": seed, "task": task, "holds": learner.is_certified(task)}


def _too_many(growth: list[Row], bounds: dict[str, int], whose: str) -> Iterator[str]:
    for row in growth:
        for level, count in row["prototypes"].items():
            if count > bounds[level]:
                yield (
                    f"seed {row['seed']}: {count:,} {level} prototypes after task {row['task'] + 1}, "
                    f"where {whose} {bounds[level]:,}"
                )
