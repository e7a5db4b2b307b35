"""The trials of a search, kept on disk as soon as they are known."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpn.datasets import Graph
from hpn.errors import ConfigError, RunFolderError
from hpn.experiment.compare.runs import CellRun
from hpn.experiment.execute.jobs import Batch, Executor, JobEnd, WorkerError
from hpn.experiment.run.result import RunResult
from hpn.experiment.run.runner import Job
from hpn.experiment.tune.plan import TunePlan
from hpn.experiment.tune.search import Settings, next_settings, settings_key
from hpn.experiment.watch import TrialsProgress, Watcher


class TrialBook:
    """Ends of trials by settings and seed in a file: one JSON object per line.

    Args:
        path: The file; what a crash left of its last line is dropped.

    Raises:
        RunFolderError: If the file is damaged elsewhere.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[tuple[str, int], JobEnd] = {}
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                entry = json.loads(line)
                end = JobEnd(entry["error"], entry["seconds"], entry["am"])
                self._known[settings_key(entry["settings"]), entry["seed"]] = end
            except (ValueError, KeyError, TypeError) as error:
                raise RunFolderError(
                    f"{path}, line {number} cannot be read; "
                    "use --fresh to start over, or choose another --out"
                ) from error
        if len(whole) < len(content):
            os.truncate(path, len(whole))

    def get(self, settings: Mapping[str, Any], seed: int) -> JobEnd | None:
        """What is known of these settings with this seed."""
        return self._known.get((settings_key(settings), seed))

    def add(self, settings: Mapping[str, Any], seed: int, end: JobEnd, *, trial: int) -> None:
        """Keep an end, even if the power fails right after."""
        end = replace(end, seconds=round(end.seconds, 3))
        what = {"trial": trial, "seed": seed, "settings": settings}
        entry = {**what, "am": end.value, "error": end.error, "seconds": end.seconds}
        with self._path.open("ab") as file:
            file.write(json.dumps(entry, ensure_ascii=False, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._known[settings_key(settings), seed] = end

    def value(self, settings: Mapping[str, Any], seeds: Sequence[int]) -> float | None:
        """Mean over seeds, ``-inf`` if one of them failed, ``None`` if one is missing."""
        known = [end for seed in seeds if (end := self.get(settings, seed))]
        if len(known) < len(seeds):
            return None
        numbers = [-math.inf if end.value is None else end.value for end in known]
        return sum(numbers) / len(numbers)


class Search:
    """The trials in order; what the book knows is not evaluated again.

    Args:
        plan: What is searched and how.
        book: Keeps their ends.
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
            errors = [end.error for end in self.ends(0) if end.error]
            raise ConfigError(f"every trial failed, the first with {errors[0]}")
        return best if values[best] - values[0] > self.plan.noise(values[best]) else 0

    def measure(self, trial: int, graph: Graph, folder: Path) -> RunResult:
        """Run the settings of a trial as ``hpn run`` does, evaluating on test nodes.

        Raises:
            WorkerError: If a seed fails.
        """
        config = self.plan.config.with_params(self.settings[trial])
        out, seeds = folder / f"final-{config.short_hash()}", range(self._final_seeds)
        cell = CellRun(config, out, seeds, self._job.data_root, graph, device=self._job.device)
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

    def ends(self, trial: int) -> list[JobEnd]:
        """What a trial gave with each seed."""
        return [end for seed in self.plan.seeds if (end := self._book.get(self.settings[trial], seed))]

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
            self._book.add(self.settings[jobs[job]], job.seed, end, trial=jobs[job])

        self._batch.run(list(jobs), keep)

    def _progress(self) -> TrialsProgress:
        best = max(self.values, default=-math.inf)
        return TrialsProgress(
            tried=len(self.values),
            total=self._most,
            best=best if math.isfinite(best) else None,
            is_chosen=self._is_chosen,
        )
