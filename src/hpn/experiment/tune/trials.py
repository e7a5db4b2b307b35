"""The trials of a search, kept on disk as soon as they are known."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hpn.errors import ConfigError, RunFolderError
from hpn.experiment.compare.runs import CellRun
from hpn.experiment.execute.jobs import Batch, Executor, JobEnd, WorkerError
from hpn.experiment.run.result import RunResult
from hpn.experiment.run.runner import Job
from hpn.experiment.tune.plan import TunePlan
from hpn.experiment.tune.search import Settings, next_settings, settings_key
from hpn.experiment.watch import TrialsProgress, Watcher


@dataclass(frozen=True)
class Evaluation:
    """Accuracy mean on validation nodes, or why there is none, and how long it took."""

    am: float | None
    error: str | None
    seconds: float


class TrialBook:
    """Evaluations by settings and seed in a file: one JSON object per line.

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
        """Keep an evaluation, even if the power fails right after."""
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


class Search:
    """The trials in order; what the book knows is not evaluated again.

    Args:
        plan: What is searched and how.
        book: Keeps evaluations.
        executor: Where jobs run.
        watcher: Is told how far it is.
        job: What all jobs have in common.
        trials: Settings to try.
        final_seeds: Seeds of the run with the chosen settings.

    Attributes:
        settings: Settings tried so far.
    """

    def __init__(
        self,
        plan: TunePlan,
        book: TrialBook,
        executor: Executor,
        watcher: Watcher,
        job: Job,
        *,
        trials: int,
        final_seeds: int,
    ) -> None:
        self.plan = plan
        self.settings: list[Settings] = []
        self._book = book
        self._job = job
        self._most = trials
        self._final_seeds = final_seeds
        self._is_chosen = False
        total = trials * len(plan.seeds) + final_seeds
        self._batch = Batch(executor, watcher, total, self._progress)

    @property
    def values(self) -> list[float]:
        """Validation AM of the settings tried so far, ``-inf`` where they failed, as far as it is known."""
        found = [self._book.value(settings, self.plan.seeds) for settings in self.settings]
        return [value for value in found if value is not None]

    def run(self) -> None:
        """Try settings, one generation after another, until there are enough or nothing is left."""
        space, defaults = self.plan.space, self.plan.defaults
        while found := next_settings(space, self.settings, self.values, defaults=defaults, most=self._most):
            first = len(self.settings)
            self.settings += found
            self._evaluate(range(first, len(self.settings)))
        self._most = len(self.settings)
        self._batch.total = self._most * len(self.plan.seeds) + self._final_seeds

    def best(self) -> int:
        """The trial with the highest validation AM; the first of equal ones.

        The defaults, if it does not beat them by more than the standard error.

        Raises:
            ConfigError: If every trial failed.
        """
        values = self.values
        best = max(range(len(values)), key=lambda trial: (values[trial], -trial))
        if values[best] == -math.inf:
            errors = [found.error for found in self.evaluations(0) if found.error]
            raise ConfigError(f"every trial failed, the first with {errors[0]}")
        return best if values[best] - values[0] > self.plan.noise(values[best]) else 0

    def measure(self, trial: int, folder: Path) -> RunResult:
        """Run the settings of a trial as ``hpn run`` does, evaluating on test nodes.

        Raises:
            WorkerError: If a seed fails.
        """
        config = self.plan.config.with_params(self.settings[trial])
        job = self._job
        if job.graph is None:
            raise ValueError("the run needs its data")
        out = folder / f"final-{config.short_hash()}"
        seeds = range(self._final_seeds)
        cell = CellRun(config, out, seeds, job.data_root, job.graph, device=job.device)
        try:
            cell.open(fresh=False)
            self._batch.done += self._final_seeds - len(cell.missing)
            self._is_chosen = True
            self._batch.run(list(cell.missing), cell.job_ended)
        finally:
            cell.close()
        if cell.result is None:
            raise WorkerError(f"the run with the chosen settings failed: {cell.error}")
        return cell.result

    def evaluations(self, trial: int) -> list[Evaluation]:
        """What a trial gave with each seed."""
        found = [self._book.get(self.settings[trial], seed) for seed in self.plan.seeds]
        return [evaluation for evaluation in found if evaluation is not None]

    def _evaluate(self, trials: Sequence[int]) -> None:
        jobs: dict[Job, int] = {}
        for trial in trials:
            config = self.plan.config.with_params(self.settings[trial])
            for seed in self.plan.seeds:
                if self._book.get(self.settings[trial], seed) is None:
                    jobs[replace(self._job, config=config, seed=seed)] = trial
        self._batch.done += len(trials) * len(self.plan.seeds) - len(jobs)

        def keep(job: Job, end: JobEnd) -> None:
            if end.error is not None and not end.is_numerical:
                raise WorkerError(f"trial {jobs[job]}, seed {job.seed} failed: {end.error}")
            evaluation = Evaluation(end.value, end.error, round(end.seconds, 3))
            self._book.add(self.settings[jobs[job]], job.seed, evaluation, trial=jobs[job])

        self._batch.run(list(jobs), keep)

    def _progress(self) -> TrialsProgress:
        best = max(self.values, default=-math.inf)
        return TrialsProgress(
            tried=len(self.values),
            total=self._most,
            best=best if math.isfinite(best) else None,
            is_chosen=self._is_chosen,
        )
