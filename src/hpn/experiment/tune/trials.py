"""A search for hyper-parameters: what is searched, and its trials, kept on disk as soon as they end."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hpn.datasets import Graph
from hpn.errors import ConfigError, RunFolderError
from hpn.experiment.compare.runs import CellRun
from hpn.experiment.execute import Batch
from hpn.experiment.execute.jobs import JobEnd, WorkerError
from hpn.experiment.run.config import DATA_PREFIX, RunConfig, resolve_config, setting_words, short_hash
from hpn.experiment.run.folder import START_OVER, append_json
from hpn.experiment.run.result import Part, RunResult
from hpn.experiment.run.runner import Job
from hpn.experiment.tune.search import GENERATION, RANDOM_TRIALS, Settings, Space, next_settings, settings_key
from hpn.experiment.watch import TrialsProgress
from hpn.metrics import Summary, summarize
from hpn.params import check_space


@dataclass(frozen=True)
class TunePlan:
    """A search, whatever its number of trials."""

    config: RunConfig  # the run with the learner's defaults and the fixed settings
    space: Space
    fixed: dict[str, Any]  # settings that are given and not searched, options of the data set included
    seeds: tuple[int, ...]  # that a trial is averaged over
    num_val: int  # validation nodes of all tasks

    @property
    def defaults(self) -> Settings:
        """The settings of the first trial."""
        effective = self.config.effective_params()
        return {name: effective[name] for name in self.space}

    def noise(self, am: float) -> float:
        """Standard error of a validation AM, as if nodes were independent and all tasks of one size."""
        return math.sqrt(am * (100 - am) / self.num_val)

    def describe_space(self) -> dict[str, Any]:
        """The search space as plain data."""
        return {name: choice.describe() for name, choice in self.space.items()}

    def to_json(self) -> dict[str, Any]:
        """The content of ``config.json``."""
        content = self.config.to_json()
        content["versions"]["optuna"] = version("optuna")
        return {
            **content,
            "kind": "tune",
            "tuned_for": self.config.learner.tuned_for,
            "space": self.describe_space(),
            "seeds": list(self.seeds),
            "search": {"generation": GENERATION, "random": RANDOM_TRIALS},
        }

    def default_folder(self) -> Path:
        """The folder of the search unless one is given: ``runs/tune-DATASET-METHOD-…-HASH``."""
        return self.config.default_folder("tune", short_hash(self.to_json()))

    def command(self, trials: int, final_seeds: int) -> str:
        """The command line that repeats the search."""
        counts = {"--trials": trials, "--seeds": len(self.seeds), "--final-seeds": final_seeds}
        words = [word for name, count in counts.items() for word in (name, str(count))]
        protocol = [self.config.dataset, *self.config.protocol_words()]
        return shlex.join(["hpn", "tune", *protocol, *words, *setting_words(self.fixed)])


def make_plan(
    dataset: str, *, seeds: int, choices: Mapping[str, Any], data_root: Path | None
) -> tuple[TunePlan, Graph]:
    """Check every argument, load the data, and write out the defaults."""
    config, graph = resolve_config(dataset, data_root=data_root, recipe=None, **choices)
    resolved = {**config.params, **{DATA_PREFIX + name: value for name, value in config.data_options.items()}}
    fixed = {name: resolved[name] for name in choices.get("settings") or {} if name != "backbone"}
    learner = config.learner.variant(config.params)
    check_space(learner)
    space = {name: choice for name, choice in learner.search_space.items() if name not in fixed}
    for name, choice in space.items():
        try:
            learner(**{**config.params, name: choice.values[0]})
        except ConfigError as error:
            raise ConfigError(f"hpn tune searches {name} of {config.method}, but {error}") from None
    is_single = config.evaluate == "oracle" and all(len(task) == 1 for task in config.tasks)
    if is_single or len({label for task in config.tasks for label in task}) == 1:
        raise ConfigError("there is a single class to choose from, so there is nothing to tune by")
    stream = config.make_stream(graph, 0)
    counts = [len(stream.step(index).val) for index in range(len(stream))]
    if 0 in counts:
        where = f"step {counts.index(0)} of {dataset}"
        raise ConfigError(f"{where} has no validation nodes, and tuning chooses by them")
    return TunePlan(config, space, fixed, tuple(range(seeds)), sum(counts)), graph


class Trial(Part):
    """Settings that were tried."""

    trial: int
    settings: dict[str, Any]
    am: Summary | None  # validation AM over the seeds, unless a seed failed
    error: str | None  # why the first such seed failed
    seconds: float


class TrialLog:
    """Ends of trials by settings and seed in a file: one JSON object per line.

    A last line that a crash cut off is dropped.
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
                raise RunFolderError(f"{path}, line {number} cannot be read; {START_OVER}") from error
        if len(whole) < len(content):
            os.truncate(path, len(whole))

    def get(self, settings: Mapping[str, Any], seed: int) -> JobEnd | None:
        """The end of the trial of these settings with this seed, if it is known."""
        return self._known.get((settings_key(settings), seed))

    def add(self, settings: Mapping[str, Any], seed: int, end: JobEnd, *, trial: int) -> None:
        """Keep an end, on disk when this returns."""
        end = replace(end, seconds=round(end.seconds, 3))
        what = {"trial": trial, "seed": seed, "settings": settings}
        append_json(self._path, {**what, "am": end.value, "error": end.error, "seconds": end.seconds}, sync=True)
        self._known[settings_key(settings), seed] = end


@dataclass
class Search:
    """The trials in order; those in the log are not evaluated again."""

    plan: TunePlan
    log: TrialLog
    job: Job  # whose configuration and seed are replaced
    most: int  # settings to try
    final_seeds: int  # of the run with the chosen settings
    batch: Batch
    settings: list[Settings] = field(default_factory=list)  # tried so far
    is_chosen: bool = False

    def __post_init__(self) -> None:
        self.batch.total, self.batch.trials = self._total(), self._progress

    @property
    def trials(self) -> list[Trial]:
        """The settings of which all seeds have ended."""
        found = []
        for number, settings in enumerate(self.settings):
            ends = [end for seed in self.plan.seeds if (end := self.log.get(settings, seed))]
            if len(ends) == len(self.plan.seeds):
                error = next((end.error for end in ends if end.error), None)
                am = None if error else summarize([end.value for end in ends])
                seconds = sum(end.seconds for end in ends)
                found.append(Trial(trial=number, settings=settings, am=am, error=error, seconds=seconds))
        return found

    @property
    def values(self) -> list[float]:
        """Validation AM of these trials, ``-inf`` where they failed."""
        found = [trial.am.values if trial.am else [-math.inf] for trial in self.trials]
        return [sum(values) / len(values) for values in found]

    def run(self) -> None:
        """Try settings, one generation after another, until there are enough or nothing is left."""
        space, defaults = self.plan.space, self.plan.defaults
        while found := next_settings(space, self.settings, self.values, defaults=defaults, most=self.most):
            first = len(self.settings)
            self.settings += found
            self._evaluate(range(first, len(self.settings)))
        self.most = len(self.settings)
        self.batch.total = self._total()

    def best(self) -> int:
        """The trial with the highest validation AM, or the defaults if it is within their standard error."""
        values = self.values
        best = values.index(max(values))
        if values[best] == -math.inf:
            raise ConfigError(f"every trial failed, the first with {self.trials[0].error}")
        return best if values[best] - values[0] > self.plan.noise(values[best]) else 0

    def measure(self, trial: int, folder: Path) -> RunResult:
        """Run the settings of a trial as ``hpn run`` does, with evaluation on test nodes."""
        config, job = self.plan.config.with_params(self.settings[trial]), self.job
        out, seeds = folder / f"final-{config.short_hash()}", range(self.final_seeds)
        assert job.graph is not None  # noqa: S101  (it was loaded for the plan)
        cell = CellRun(config, out, seeds, job.data_root, job.graph, device=job.device)
        with contextlib.closing(cell):
            cell.open(fresh=False)
            self.batch.done += self.final_seeds - len(cell.missing)
            self.is_chosen = True
            self.batch.run(list(cell.missing), cell.job_ended)
        if cell.result is None:
            raise WorkerError(f"the run with the chosen settings failed: {cell.error}")
        return cell.result

    def _evaluate(self, trials: Sequence[int]) -> None:
        jobs: dict[Job, int] = {}
        for trial in trials:
            config = self.plan.config.with_params(self.settings[trial])
            for seed in self.plan.seeds:
                if self.log.get(self.settings[trial], seed) is None:
                    jobs[replace(self.job, config=config, seed=seed)] = trial
        self.batch.done += len(trials) * len(self.plan.seeds) - len(jobs)

        def keep(job: Job, end: JobEnd) -> None:
            if end.error is not None and not end.is_numerical:
                raise WorkerError(f"trial {jobs[job]}, seed {job.seed} failed: {end.error}")
            self.log.add(self.settings[jobs[job]], job.seed, end, trial=jobs[job])

        self.batch.run(list(jobs), keep)

    def _total(self) -> int:
        return self.most * len(self.plan.seeds) + self.final_seeds

    def _progress(self) -> TrialsProgress:
        values = self.values
        best = max((value for value in values if math.isfinite(value)), default=None)
        return TrialsProgress(len(values), self.most, best, self.is_chosen)
