"""Trials of a search: what one is worth on validation nodes, and the file that remembers it."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpn.datasets import Graph
from hpn.errors import RunFolderError
from hpn.evaluation import evaluate
from hpn.experiment.execute.devices import device_here
from hpn.experiment.execute.graphs import load_once
from hpn.experiment.run.config import RunConfig
from hpn.experiment.run.environment import deterministic
from hpn.experiment.run.runner import learn_tasks, run_seed
from hpn.experiment.tune.search import settings_key
from hpn.experiment.watch import Watcher


@dataclass(frozen=True)
class Job:
    """One seed of one configuration; ``folder`` is where a run goes, if it is one."""

    config: RunConfig
    seed: int
    data_root: Path | None
    folder: Path | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class Evaluation:
    """Accuracy mean on validation nodes, or why there is none, and what it took."""

    am: float | None
    error: str | None
    seconds: float


def evaluate_job(job: Job) -> Evaluation:
    """Learn all tasks, then ask about their validation nodes; test nodes are not looked at."""
    start = time.perf_counter()
    am, error = None, None
    try:
        am = _validation_am(job, load_once(job.config, job.data_root))
    except (ArithmeticError, RuntimeError, ValueError) as failure:
        if not _is_numerical(failure):
            raise
        error = " ".join(f"{type(failure).__name__}: {failure}".split())
    return Evaluation(am, error, round(time.perf_counter() - start, 3))


def run_job(job: Job) -> None:
    """Run, or finish, one seed of a run."""
    if job.folder is None:
        raise ValueError("a run needs a folder")
    graph, device = load_once(job.config, job.data_root), device_here(job.device)
    with deterministic(graph, device):
        run_seed(job.config, graph, job.seed, job.folder, Watcher(), device=device)


class TrialBook:
    """Evaluations by settings and seed, on disk as soon as they are known: one JSON object a line.

    Args:
        path: The file; what a crash left of its last line is dropped.

    Raises:
        RunFolderError: If the file is damaged elsewhere.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[tuple[str, int], Evaluation] = {}
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                entry = json.loads(line)
                evaluation = Evaluation(entry["am"], entry["error"], entry["seconds"])
                self._known[settings_key(entry["settings"]), entry["seed"]] = evaluation
            except (ValueError, KeyError, TypeError) as error:
                raise RunFolderError(
                    f"{path}, line {number} cannot be read; "
                    "use --fresh to start over, or choose another --out"
                ) from error
        if len(whole) < len(content):
            os.truncate(path, len(whole))

    def get(self, settings: Mapping[str, Any], seed: int) -> Evaluation | None:
        """What is known of these settings with this seed."""
        return self._known.get((settings_key(settings), seed))

    def add(self, settings: Mapping[str, Any], seed: int, evaluation: Evaluation, *, trial: int) -> None:
        """Remember an evaluation, even if the power goes right after."""
        entry = {"trial": trial, "seed": seed, "settings": settings, **asdict(evaluation)}
        with self._path.open("ab") as file:
            file.write(json.dumps(entry, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._known[settings_key(settings), seed] = evaluation

    def value(self, settings: Mapping[str, Any], seeds: Sequence[int]) -> float | None:
        """Mean over seeds, ``-inf`` if one of them failed, ``None`` if one is missing."""
        found = [self.get(settings, seed) for seed in seeds]
        known = [evaluation for evaluation in found if evaluation is not None]
        if len(known) < len(found):
            return None
        numbers = [-math.inf if evaluation.am is None else evaluation.am for evaluation in known]
        return sum(numbers) / len(numbers)


def _validation_am(job: Job, graph: Graph) -> float:
    device = device_here(job.device)
    with deterministic(graph, device):
        stream = job.config.make_stream(graph, job.seed)
        learner = job.config.make_learner(job.seed).to(device)
        learned = []
        for index in learn_tasks(learner, stream):
            if _has_nan(learner.state_dict()):
                raise FloatingPointError("what was learned is not a number")
            if learner.tuned_for == "learning" or index == len(stream) - 1:
                row = evaluate(learner, stream, after=index, mode=job.config.evaluate, part="val")
                learned.append(row.accuracy[-1])
    accuracies = learned if learner.tuned_for == "learning" else row.accuracy
    return math.fsum(accuracies) / len(accuracies)


def _has_nan(state: Any) -> bool:
    if isinstance(state, Mapping):
        return any(_has_nan(value) for value in state.values())
    return isinstance(state, torch.Tensor) and state.is_floating_point() and bool(state.isnan().any())


def _is_numerical(error: Exception) -> bool:
    kinds = (ArithmeticError, np.linalg.LinAlgError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
    words = ("nan", "inf", "infinite", "finite", "non-finite", "infinity")
    said = str(error).lower().replace(",", " ").replace(".", " ").split()
    return isinstance(error, kinds) or any(word in said for word in words)
