"""What a front end may watch of a command."""

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
    """How far tuning is.

    Args:
        tried: Settings tried so far.
        total: Settings to try.
        best: Best validation AM so far.
        is_chosen: Whether the choice is made, and the final seeds are under way.
    """

    tried: int
    total: int
    best: float | None = None
    is_chosen: bool = False


@dataclass(frozen=True)
class JobsProgress:
    """How far many jobs are.

    Args:
        done: Ended, before or now.
        total: All.
        running: Names of those under way.
        last: Name of the one that ended last.
        error: Why that one failed.
        remaining: Seconds left, estimated.
        trials: What they are for, if it is tuning.
    """

    done: int
    total: int
    running: tuple[str, ...] = ()
    last: str | None = None
    error: str | None = None
    remaining: float | None = None
    trials: TrialsProgress | None = None


class Watcher:
    """Does nothing; a progress display overrides what it shows."""

    def run_started(self, out: Path | None, num_seeds: int, num_tasks: int) -> None:
        """The folder, if there is one, is open."""

    def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
        """A seed begins, or resumes at ``first_task`` after ``first_epoch`` epochs of it."""

    def epoch_finished(self, seed: int, progress: Progress) -> None:
        """An epoch, or whatever the learner counts, is done."""

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        """A step is learned and evaluated."""

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        """A seed is done; ``reused`` if it had been before."""

    def run_finished(self, result: RunResult) -> None:
        """All seeds are done, and the result is written."""

    def jobs_moved(self, progress: JobsProgress) -> None:
        """Many jobs begin, or one of them has ended."""

    def reading(self, total: int) -> Callable[[int], None]:
        """So many bytes will be read; gives what is called with the number of those that were."""
        return lambda _: None
