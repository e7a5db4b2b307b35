"""The events of a command that a front end can follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hpn.evaluation import Row
    from hpn.experiment.run.result import RunResult
    from hpn.learners import Progress


@dataclass(frozen=True)
class TrialsProgress:
    """The progress of a search for hyper-parameters."""

    tried: int  # settings
    total: int
    best: float | None = None  # validation AM so far
    is_chosen: bool = False  # whether the final seeds are running


@dataclass(frozen=True)
class JobsProgress:
    """The progress of many jobs."""

    done: int
    total: int
    running: tuple[str, ...] = ()
    last: str | None = None  # name of the one that ended last
    error: str | None = None  # why that one failed
    remaining: float | None = None  # seconds, estimated
    trials: TrialsProgress | None = None


class Watcher:
    """Receives the events and does nothing; a progress display overrides what it shows."""

    def run_started(self, out: Path | None, num_seeds: int, num_tasks: int) -> None:
        """The folder, if there is one, is open."""

    def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
        """A seed begins, or resumes at ``first_task`` after ``first_epoch`` epochs of it."""

    def epoch_finished(self, seed: int, progress: Progress) -> None:
        """An epoch, or whatever the learner counts, is done."""

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        """A step is learned and evaluated."""

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        """A seed is done; ``reused`` if it was done before."""

    def run_stopped(self) -> None:
        """An interrupt or an error has stopped the run."""

    def run_finished(self, result: RunResult) -> None:
        """All seeds are done, and the result is written."""

    def jobs_moved(self, progress: JobsProgress) -> None:
        """Many jobs begin, or one of them has ended."""

    def reading(self, total: int) -> Callable[[int], None]:
        """``total`` bytes will be read; returns the function to call with the number read so far."""
        return lambda _: None
