"""One run: the loop over steps, and what makes it repeatable and safe from crashes."""

from __future__ import annotations

import contextlib
import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hpn.datasets import Graph, data_files
from hpn.errors import ConfigError, RunFolderError, describe_disk_full, disk_full
from hpn.evaluation import evaluate
from hpn.experiment.exploration import explore_run
from hpn.experiment.recipes import find_file
from hpn.experiment.run.config import RunConfig, check_choices, check_seeds, resolve_config
from hpn.experiment.run.environment import deterministic
from hpn.experiment.run.finished import keep_request
from hpn.experiment.run.folder import EXPLORER, RESULT, START_OVER, VIEWS, open_run_folder, read_json, write_json
from hpn.experiment.run.result import RunResult, SeedResult, check_reference, combine_seeds, load_result, parse_result
from hpn.experiment.run.seed import SeedRun, load_learner
from hpn.experiment.run.views import check_views, combine_views, make_view
from hpn.experiment.track import Tracker
from hpn.experiment.watch import Watcher
from hpn.learners import Learner, Observer
from hpn.learners.hpn import SolvedHPN
from hpn.nn.device import choose_device
from hpn.streams import Stream


def run(
    dataset: str,
    *,
    seeds: int | Sequence[int] = 1,
    out: Path | str | None = None,
    data_root: Path | str | None = None,
    views: bool = False,
    reference: Path | str | None = None,
    fresh: bool = False,
    device: str = "auto",
    ray: str | None = None,
    track: str | None = None,
    watcher: Watcher | None = None,
    **choices: Any,
) -> RunResult:
    """Learn a stream step by step, evaluate after each step, and return the result.

    The same call again resumes an interrupted run, and returns the result of a finished one.

    Args:
        dataset: Name or path.
        seeds: How many seeds (0, 1, …), or which.
        out: Run folder; by default ``runs/`` and a name made from the configuration.
        data_root: Folder with the data.
        views: Also draw the test nodes after each step (t-SNE), into ``views.json``; for ``hpn``.
        reference: A finished run with the same data and protocol, such as joint training, for intransigence.
        fresh: Delete an earlier run in the folder.
        device: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for the best available.
        ray: Address of a Ray cluster that computes the sums of ``hpn`` with the preset ``best``; ``local``
            for a new one on this machine. The result is the same, bit for bit.
        track: ``tensorboard`` or ``mlflow``: also send metrics per step and run there.
        watcher: Receives the progress.
        choices: ``method`` (a name, ``MODULE:CLASS`` or a class), ``backbone``, ``scenario``, ``edges``,
            ``evaluate``, ``stream``, ``evaluate_ahead``, ``tasks``, ``classes_per_task``, ``settings`` and
            ``recipe``, as :func:`~hpn.experiment.run.config.resolve_config` takes them.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = run("digits", method="ncm", out=folder)
        >>> result.am.mean > 90
        True
    """
    check_choices("hpn.run", choices)
    chosen, watcher = check_seeds(seeds), watcher or Watcher()
    watcher = Tracker(track, watcher) if track else watcher
    root = Path(data_root) if data_root else None
    device = str(choose_device(device))
    start, since = time.perf_counter(), time.time_ns()
    config, graph = resolve_config(dataset, data_root=root, **choices)
    if ray is not None and not getattr(config.make_learner(0), "folds", False):
        raise ConfigError(
            "hpn run --ray computes the sums of --method hpn with the preset best; for many runs on a "
            "cluster there are hpn compare --ray and hpn tune --ray"
        )
    if views:
        check_views(config)
    best = load_result(Path(reference)) if reference else None
    if best:
        check_reference(best, config, chosen)
    planned = PlannedRun(
        config, Path(out) if out else config.default_folder(), chosen, root, graph, None, views, device
    )
    jobs = planned.jobs
    is_done = not fresh and all(job.is_finished() for job in jobs)
    if not is_done:
        # States what is wrong with the split before anything is written.
        jobs[0].stream = config.make_stream(graph, chosen[0])
    load_seconds, folder = time.perf_counter() - start, planned.folder
    with contextlib.ExitStack() as stack:
        stack.enter_context(open_run_folder(folder, config.to_json(), fresh=fresh))
        stack.enter_context(deterministic(graph, device))
        if ray is not None and not is_done:
            from hpn.experiment.execute.ray_fold import fold_on  # which imports this module

            stack.enter_context(fold_on(ray))
        watcher.run_started(folder, len(chosen), len(config.plan.steps))
        stack.push(lambda kind, *_: watcher.run_stopped() if kind else None)
        for job in jobs:
            job.run(graph, watcher)
        if views:
            combine_views(folder, chosen)
            _write_exploration(jobs[0], graph)
        result = planned.combine(best, reference, load_seconds)
        write_json(folder / RESULT, result.to_json())
        request = {"dataset": dataset, "seeds": seeds, "views": views, "data_root": data_root, **choices}
        inputs = [*data_files(dataset, root), *([find_file(config.recipe)] if config.recipe else [])]
        inputs += [Path(reference)] if reference else []
        if config.learner_code is None:  # code outside this package may change unnoticed
            keep_request(folder, {**request, "reference": reference}, inputs, since=since)
    watcher.run_finished(result)
    return result


def _write_exploration(job: Job, graph: Graph) -> None:
    """Write the data of the node explorer from the checkpoint of a finished seed; for solved networks."""
    file = job.folder / EXPLORER
    if file.exists() or not isinstance(job.config.make_learner(job.seed), SolvedHPN):
        return
    learner: Any = load_learner(file.parent.parent, job.seed)
    stream = job.config.make_stream(graph, job.seed)
    write_json(file, explore_run(learner.network_, stream, graph, job.config.evaluate).to_json())


@dataclass(eq=False)
class PlannedRun:
    """A run in its folder: a job for each seed, and the result over all of them."""

    config: RunConfig
    folder: Path
    seeds: Sequence[int]
    data_root: Path | None
    graph: Graph
    name: str | None = None  # in progress displays; by default method and backbone
    views: bool = False  # whether the test nodes are drawn after each step as well
    device: str = "cpu"

    @property
    def jobs(self) -> list[Job]:
        """A job for each seed."""
        shared = {key: getattr(self, key) for key in ("views", "device", "data_root", "graph", "name")}
        return [Job(self.config, seed, self.folder / f"seed-{seed}", **shared) for seed in self.seeds]

    def combine(
        self, reference: RunResult | None = None, given_as: Path | str | None = None, load_seconds: float = 0.0
    ) -> RunResult:
        """Combine the finished seeds, measured against a reference run if there is one."""
        command = self.config.command(self.seeds, self.data_root)
        command += f" --reference {shlex.quote(str(given_as))}" if given_as else ""
        finished, names = [job.read() for job in self.jobs], self.graph.class_names
        return combine_seeds(self.config, names, finished, command, self.folder, reference, load_seconds)


@dataclass(eq=False)
class Job:
    """One seed of a run in a folder of its own; for a trial of a search, which keeps no files, see :meth:`validate`."""

    config: RunConfig
    seed: int
    folder: Path = Path()  # where its result and checkpoints go
    views: bool = False
    device: str = "cpu"
    stream: Stream | None = None  # if it is made already
    data_root: Path | None = None
    graph: Graph | None = None  # if this process has it
    name: str | None = None
    is_trial: bool = False

    def __str__(self) -> str:
        words = (self.config.method, self.config.backbone)
        return f"{self.name or ' '.join(word for word in words if word)} seed {self.seed}"

    def is_finished(self) -> bool:
        """Whether the folder holds all results."""
        return all((self.folder / name).exists() for name in ([RESULT, VIEWS] if self.views else [RESULT]))

    def read(self) -> SeedResult:
        """The result of a finished seed."""
        return parse_result(SeedResult, read_json(self.folder / RESULT), self.folder / RESULT, START_OVER)

    def run(self, graph: Graph, watcher: Watcher) -> None:
        """Run, or finish, the seed."""
        if self.is_finished():
            watcher.seed_finished(self.seed, reused=True)
            return
        stream = self.stream or self.config.make_stream(graph, self.seed)
        self.stream = None
        if not (self.folder / RESULT).exists():
            self._learn(stream, watcher)
        if not self.is_finished():  # it ran, in part at least, before views were requested
            learner = self.config.make_learner(self.seed).to(self.device)
            views = [make_view(learner, stream, index) for index in learn_steps(learner, stream)]
            write_json(self.folder / VIEWS, [view.model_dump() for view in views])

    def validate(self, graph: Graph) -> float:
        """The accuracy mean on validation nodes, by which tuning chooses; test nodes are not evaluated."""
        stream = self.config.make_stream(graph, self.seed)
        learner = self.config.make_learner(self.seed).to(self.device)
        is_for_learning = learner.tuned_for == "learning"
        found: list[float] = []
        for index in learn_steps(learner, stream):
            if has_nan(learner.state_dict()):
                raise FloatingPointError("what was learned is not a number")
            if is_for_learning or index == len(stream) - 1:
                row = evaluate(learner, stream, after=index, mode=self.config.evaluate, part="val")
                found += row.accuracy[-1:] if is_for_learning else row.accuracy
        return math.fsum(found) / len(found)

    def _learn(self, stream: Stream, watcher: Watcher) -> None:
        self.folder.mkdir(exist_ok=True)
        for half_written in self.folder.glob(".*.part"):
            half_written.unlink()
        learner = self.config.make_learner(self.seed).to(self.device)
        progress = SeedRun(self.folder, learner, self.seed, watcher)
        mode, ahead = self.config.evaluate, self.config.ahead
        try:
            for index in learn_steps(learner, stream, first=progress.next_step, observer=progress):
                progress.watch.lap("fit")
                row = evaluate(learner, stream, after=index, mode=mode, ahead=ahead)
                progress.watch.lap("predict")
                progress.finish_step(row, make_view(learner, stream, index) if self.views else None)
            progress.finish()
        except OSError as error:
            if not disk_full(error):
                raise
            kept = f"{progress.num_saved} of {len(stream)} steps of seed {self.seed} are kept"
            raise RunFolderError(describe_disk_full(self.folder, kept)) from error


def learn_steps(learner: Learner, stream: Stream, first: int = 0, observer: Observer | None = None) -> Iterator[int]:
    """Learn a stream step by step, and yield each step when it is learned."""
    for index in range(first, len(stream)):
        learner.fit_task(stream.step(index, with_past=learner.sees_past), observer)
        yield index


def has_nan(state: Any) -> bool:
    """Whether the state of a learner holds a value that is not a number."""
    if isinstance(state, Mapping | list):
        return any(map(has_nan, state.values() if isinstance(state, Mapping) else state))
    return isinstance(state, torch.Tensor) and state.is_floating_point() and bool(state.isnan().any())
