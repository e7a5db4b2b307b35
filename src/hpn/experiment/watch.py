"""What a front end may watch of a run, or of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from hpn.evaluation import Row
    from hpn.learners import Progress


class Watcher:
    """Does nothing; a progress display overrides what it wants to show."""

    def run_started(self, out: Path | None, num_seeds: int, num_tasks: int) -> None:
        """The folder, if there is one, is open."""

    def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
        """A seed begins, or goes on at ``first_task`` after ``first_epoch`` steps of it."""

    def epoch_finished(self, seed: int, progress: Progress) -> None:
        """An epoch, or whatever the learner counts, is done."""

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        """A task is learned and the questions are answered."""

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        """A seed is done; ``reused`` if it had been before."""


@dataclass(frozen=True)
class BatchProgress:
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


class BatchWatcher:
    """Does nothing; a progress display overrides it."""

    def moved(self, progress: BatchProgress) -> None:
        """A comparison begins, or one of its jobs has ended."""
