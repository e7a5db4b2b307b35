"""Jobs of a comparison: one seed of one cell each, in this process or in several."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpn.errors import HPNError
from hpn.experiment.config import RunConfig
from hpn.experiment.graphs import load_once
from hpn.experiment.parallel import WorkerError, run_parallel
from hpn.experiment.runner import deterministic, run_seed
from hpn.experiment.watch import Watcher
from hpn.learners import LEARNERS

BACKBONE_EFFORT = {"gat": 4.0, "gin": 1.5}
"""How long an epoch takes next to one with GCN, roughly; decides only what runs first."""
EPOCHS = 50.0
"""Of a method that has none."""


@dataclass(frozen=True, eq=False)
class Job:
    """One seed of a cell; its result goes to ``folder``."""

    config: RunConfig
    seed: int
    folder: Path
    data_root: Path | None

    def __str__(self) -> str:
        words = (self.config.method, self.config.backbone, f"seed {self.seed}")
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class ComparisonProgress:
    """How far a comparison is, counted in seeds of cells.

    Args:
        done: Ended, before or now.
        total: All.
        running: Names of those under way.
        last: Name of the one that ended last.
        error: Why that one failed.
        remaining: Seconds left, estimated.
    """

    done: int
    total: int
    running: tuple[str, ...] = ()
    last: str | None = None
    error: str | None = None
    remaining: float | None = None


class ComparisonWatcher:
    """Does nothing; a progress display overrides it."""

    def moved(self, progress: ComparisonProgress) -> None:
        """A comparison begins, or one of its jobs has ended."""


class Batch:
    """Jobs that run one after another or side by side, long ones first.

    Args:
        jobs: The jobs.
        workers: How many processes.
        total: Seeds of cells in all, those included that need no job.
        watcher: Is told how far it is.
    """

    def __init__(self, jobs: Sequence[Job], *, workers: int, total: int, watcher: ComparisonWatcher) -> None:
        self._efforts = {job: effort(job.config) for job in jobs}
        self._jobs = sorted(jobs, key=lambda job: -self._efforts[job])
        self._workers = workers
        self._total = total
        self._watcher = watcher
        self._done: set[Job] = set()
        self._round: list[Job] = []
        self._start = time.monotonic()

    def run(self, on_done: Callable[[Job, str | None], None]) -> None:
        """Run all jobs; ``on_done`` is given each one with the reason if it failed.

        If a process is killed, what it worked on has failed. Which that was only it knew, so everything
        under way counts as failed; the others go on in new processes.
        """

        def ended(job: Job, error: str | None) -> None:
            self._done.add(job)
            on_done(job, error)
            self._show(job, error)

        self._begin_round()
        self._show()
        while self._round:
            jobs = self._round
            try:
                run_parallel(
                    run_job,
                    jobs,
                    workers=self._workers,
                    on_done=lambda index, error, jobs=jobs: ended(jobs[index], error),  # type: ignore[misc]
                )
            except WorkerError as error:
                for job in self._running():
                    ended(job, str(error))
            self._begin_round()

    def _begin_round(self) -> None:
        self._round = [job for job in self._jobs if job not in self._done]

    def _running(self) -> list[Job]:
        """Jobs go out in order: as many as have ended, and one more for each worker, have begun."""
        num_begun = sum(job in self._done for job in self._round) + self._workers
        return [job for job in self._round[:num_begun] if job not in self._done]

    def _show(self, last: Job | None = None, error: str | None = None) -> None:
        left = [job for job in self._jobs if job not in self._done]
        spent = sum(self._efforts[job] for job in self._done)
        pace = (time.monotonic() - self._start) / spent if spent else None
        self._watcher.moved(
            ComparisonProgress(
                done=self._total - len(left),
                total=self._total,
                running=tuple(map(str, self._running())),
                last=str(last) if last else None,
                error=error,
                remaining=pace * sum(self._efforts[job] for job in left) if pace else None,
            )
        )


def run_job(job: Job) -> str | None:
    """Run, or finish, one seed; gives one line that says why if that fails."""
    try:
        graph = load_once(job.config, job.data_root)
        with deterministic(graph):
            run_seed(job.config, graph, job.seed, job.folder, Watcher())
    except Exception as error:  # one cell that fails is not to take the others with it
        return reason(error)
    return None


def reason(error: Exception) -> str:
    """An error on one line; one that is not meant for people is named by its kind.

    Example:
        >>> reason(HPNError("no such file")), reason(KeyError("x"))
        ('no such file', "KeyError: 'x'")
    """
    said = str(error) if isinstance(error, HPNError) else f"{type(error).__name__}: {error}"
    # Names in a message may come from a file: no line breaks, no terminal control sequences.
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(said.split()))


def effort(config: RunConfig) -> float:
    """How long a seed takes next to others, roughly."""
    epochs = float(config.effective_params().get("epochs") or EPOCHS)
    # Joint training goes over 1, 2, … of the tasks, the others over one at a time.
    tasks_a_time = (len(config.tasks) + 1) / 2 if LEARNERS[config.method].sees_past else 1.0
    return epochs * tasks_a_time * BACKBONE_EFFORT.get(config.backbone or "", 1.0)
