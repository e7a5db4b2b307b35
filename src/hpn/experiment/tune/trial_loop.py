"""The trials of a search, and the run with the settings that were chosen, which alone sees test nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpn.datasets import Graph
from hpn.errors import ConfigError
from hpn.experiment.execute.cluster import Cluster
from hpn.experiment.execute.local import Workers
from hpn.experiment.run.folder import RESULT, open_run_folder, read_json, write_json
from hpn.experiment.run.runner import combine_finished
from hpn.experiment.tune.plan import TunePlan
from hpn.experiment.tune.progress import Meter
from hpn.experiment.tune.search import Settings, next_settings
from hpn.experiment.tune.trials import Evaluation, Job, TrialBook, evaluate_job, run_job


class Search:
    """The trials in order; what the book knows is not evaluated again.

    Args:
        plan: What is searched and how.
        book: Remembers evaluations.
        pool: Who makes them.
        meter: Counts them.
        job: What all jobs have in common.

    Attributes:
        settings: Settings tried so far.
        values: Validation AM of each, ``-inf`` if it failed.
    """

    def __init__(
        self, plan: TunePlan, book: TrialBook, pool: Workers | Cluster, meter: Meter, job: Job
    ) -> None:
        self.plan = plan
        self.settings: list[Settings] = []
        self.values: list[float] = []
        self._book = book
        self._pool = pool
        self._meter = meter
        self._job = job

    def run(self, most: int) -> None:
        """Try settings, one generation after another, until there are ``most`` or nothing is left."""
        self._meter.show([])
        while batch := next_settings(
            self.plan.space, self.settings, self.values, defaults=self.plan.defaults, most=most
        ):
            self._evaluate(batch)
            self.settings += batch
            self.values += [value for value in self._values(batch) if value is not None]
        self._meter.end_trials(len(self.settings))

    def best(self) -> int:
        """The trial with the highest validation AM; the first of equal ones.

        The defaults, if it does not beat them by more than the standard error.
        """
        best = max(range(len(self.values)), key=lambda trial: (self.values[trial], -trial))
        if self.values[best] == -math.inf:
            errors = [found.error for found in self.evaluations(0) if found.error]
            raise ConfigError(f"every trial failed, the first with {errors[0]}")
        gain = self.values[best] - self.values[0]
        return best if gain > self.plan.noise(self.values[best]) else 0

    def measure(self, trial: int, num_seeds: int, graph: Graph, folder: Path) -> dict[str, Any]:
        """Run the settings of a trial as ``hpn run`` does, evaluating on test nodes."""
        config = self.plan.with_settings(self.settings[trial])
        out = folder / f"final-{config.short_hash()}"
        seeds = range(num_seeds)
        with open_run_folder(out, config):
            missing = [seed for seed in seeds if read_json(out / f"seed-{seed}" / RESULT) is None]
            self._meter.add_known(num_seeds - len(missing))
            self._meter.show(self.values, is_chosen=True)
            jobs = [
                replace(self._job, config=config, seed=seed, folder=out / f"seed-{seed}") for seed in missing
            ]
            self._pool.run(run_job, jobs, on_done=lambda *_: self._meter.add(self.values, is_chosen=True))
            result = combine_finished(config, graph, seeds, out, data_root=self._job.data_root)
            write_json(out / RESULT, result)
        return result

    def evaluations(self, trial: int) -> list[Evaluation]:
        """What a trial gave with each seed."""
        found = [self._book.get(self.settings[trial], seed) for seed in self.plan.seeds]
        return [evaluation for evaluation in found if evaluation is not None]

    def _evaluate(self, batch: Sequence[Settings]) -> None:
        pairs = [(trial, seed) for trial in range(len(batch)) for seed in self.plan.seeds]
        missing = [(trial, seed) for trial, seed in pairs if self._book.get(batch[trial], seed) is None]
        self._meter.add_known(len(pairs) - len(missing))

        def keep(index: int, evaluation: Evaluation) -> None:
            trial, seed = missing[index]
            self._book.add(batch[trial], seed, evaluation, trial=len(self.settings) + trial)
            self._meter.add([*self.values, *self._values(batch)])

        jobs = [
            replace(self._job, config=self.plan.with_settings(batch[trial]), seed=seed)
            for trial, seed in missing
        ]
        self._pool.run(evaluate_job, jobs, on_done=keep)

    def _values(self, batch: Sequence[Settings]) -> list[float | None]:
        return [self._book.value(settings, self.plan.seeds) for settings in batch]
