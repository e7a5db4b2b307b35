"""Jobs of a comparison or reproduction: one seed of one cell each, in one process, several, or a cluster."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from hpn.errors import HPNError
from hpn.experiment.execute.devices import device_here
from hpn.experiment.execute.graphs import load_once
from hpn.experiment.execute.local import WorkerError, run_parallel
from hpn.experiment.run.config import RunConfig
from hpn.experiment.run.environment import deterministic
from hpn.experiment.run.runner import run_seed
from hpn.experiment.watch import BatchProgress, BatchWatcher, Watcher
from hpn.learners import LEARNERS

BACKBONE_EFFORT = {"gat": 4.0, "gin": 1.5}
"""How long an epoch takes next to one with GCN, roughly; decides only what runs first."""
STEP_EFFORT = 1000.0
"""Nodes that take as long in an epoch as a step does by being one, roughly."""
EPOCHS = 50.0
"""Of a method that has none."""


@dataclass(frozen=True, eq=False)
class Job:
    """One seed of a cell.

    Args:
        config: The run.
        seed: The seed.
        folder: Where its result goes.
        data_root: Folder with the data.
        num_nodes: Size of the data.
        name: What to call the cell; by default method and backbone.
        views: Whether to draw the test nodes after each task as well.
        device: Where its learner computes.
    """

    config: RunConfig
    seed: int
    folder: Path
    data_root: Path | None
    num_nodes: int = 1
    name: str | None = None
    views: bool = False
    device: str = "cpu"

    def __str__(self) -> str:
        words = (self.config.method, self.config.backbone)
        return f"{self.name or ' '.join(word for word in words if word)} seed {self.seed}"


@dataclass(frozen=True)
class JobEnd:
    """How a job ended.

    Args:
        error: One line that says why, if it failed.
        seconds: How long it took.
    """

    error: str | None
    seconds: float


class Execute(Protocol):
    """Runs jobs somewhere; raises :class:`WorkerError` if a process ends without an answer."""

    def __call__(self, jobs: Sequence[Job], *, on_done: Callable[[int, JobEnd], None]) -> None:
        """Run all jobs, begun in order; ``on_done`` is given each one's index and end, in this process."""


class Batch:
    """Jobs that run one after another or side by side, long ones first.

    Args:
        jobs: The jobs.
        workers: How many processes.
        total: Seeds of cells in all, those included that need no job.
        watcher: Is told how far it is.
        execute: Where they run, if not in processes of this machine.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        workers: int,
        total: int,
        watcher: BatchWatcher,
        execute: Execute | None = None,
    ) -> None:
        self._execute = execute or partial(run_parallel, run_job, workers=workers)
        self._efforts = {job: effort(job.config) * job.num_nodes for job in jobs}
        self._jobs = sorted(jobs, key=lambda job: -self._efforts[job])
        self._workers = workers
        self._total = total
        self._watcher = watcher
        self._done: set[Job] = set()
        self._seconds: dict[str, list[float]] = defaultdict(list)
        self._round: list[Job] = []
        self._start = time.monotonic()

    def run(self, on_done: Callable[[Job, str | None], None]) -> None:
        """Run all jobs; ``on_done`` is given each one with the reason if it failed.

        If a process is killed, what it worked on has failed. Which that was only it knew, so everything
        under way counts as failed; the others go on in new processes.
        """

        def ended(job: Job, end: JobEnd) -> None:
            self._done.add(job)
            if end.error is None:
                self._seconds[job.config.short_hash()].append(end.seconds)
                self._seconds[_kind(job.config)].append(end.seconds)
            on_done(job, end.error)
            self._show(job, end.error)

        self._begin_round()
        self._show()
        while self._round:
            jobs = self._round
            try:
                self._execute(jobs, on_done=lambda index, end, jobs=jobs: ended(jobs[index], end))  # type: ignore[misc]
            except WorkerError as error:
                for job in self._running():
                    ended(job, JobEnd(str(error), 0.0))
            self._begin_round()

    def _begin_round(self) -> None:
        self._round = [job for job in self._jobs if job not in self._done]

    def _running(self) -> list[Job]:
        """Jobs go out in order: as many as have ended, and one more for each worker, have begun."""
        num_begun = sum(job in self._done for job in self._round) + self._workers
        return [job for job in self._round[:num_begun] if job not in self._done]

    def _show(self, last: Job | None = None, error: str | None = None) -> None:
        left = [job for job in self._jobs if job not in self._done]
        self._watcher.moved(
            BatchProgress(
                done=self._total - len(left),
                total=self._total,
                running=tuple(map(str, self._running())),
                last=str(last) if last else None,
                error=error,
                remaining=self._remaining(left),
            )
        )

    def _remaining(self, left: Sequence[Job]) -> float | None:
        """Seconds that the jobs left will take: as others of the cell or its kind did, or by their effort."""
        spent = sum(self._efforts[job] for job in self._done)
        if not spent:
            return None
        pace = (time.monotonic() - self._start) / spent  # side by side: less than the seconds of a job
        measured = {kind: sum(times) / len(times) for kind, times in self._seconds.items()}
        total = 0.0
        for job in left:
            seconds = measured.get(job.config.short_hash(), measured.get(_kind(job.config)))
            total += pace * self._efforts[job] if seconds is None else seconds / self._workers
        return total


def run_job(job: Job) -> JobEnd:
    """Run, or finish, one seed."""
    start, error = time.monotonic(), None
    try:
        graph = load_once(job.config, job.data_root)
        device = device_here(job.device)
        with deterministic(graph, device), _without_remarks():
            run_seed(job.config, graph, job.seed, job.folder, Watcher(), views=job.views, device=device)
    except Exception as failure:  # one cell that fails is not to take the others with it
        error = reason(failure)
    return JobEnd(error, time.monotonic() - start)


@contextlib.contextmanager
def _without_remarks() -> Iterator[None]:
    """No warnings of learners inside: side by side they would say of no run which one they are about."""
    logger = logging.getLogger("hpn")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def reason(error: Exception) -> str:
    """An error on one line; one that is not meant for people is named by its kind.

    Example:
        >>> reason(HPNError("no such file")), reason(KeyError("x"))
        ('no such file', "KeyError: 'x'")
    """
    said = str(error) if isinstance(error, HPNError) else f"{type(error).__name__}: {error}"
    # Names in a message may come from a file: no line breaks, no terminal control sequences.
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(said.split()))


def _kind(config: RunConfig) -> str:
    """What cells have in common that take about as long."""
    return f"{config.data_sha256} {config.method} {config.backbone} {config.params.get('preset')}"


def effort(config: RunConfig) -> float:
    """How long a seed takes next to others, roughly."""
    params = config.effective_params()
    epochs = float(params.get("epochs", EPOCHS))
    batches = 1 + STEP_EFFORT / params["batch_size"] if params.get("batch_size") else 1.0
    # Joint training goes over 1, 2, … of the tasks, the others over one at a time.
    tasks_a_time = (len(config.tasks) + 1) / 2 if LEARNERS[config.method].sees_past else 1.0
    return epochs * batches * tasks_a_time * BACKBONE_EFFORT.get(config.backbone or "", 1.0)
