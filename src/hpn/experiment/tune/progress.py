"""How far tuning is, for whoever shows it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TuneProgress:
    """How far tuning is.

    Args:
        trials: Settings tried so far.
        most_trials: Settings to try.
        done: Evaluations done: each seed of a trial is one, and each final seed.
        total: Evaluations in all.
        best: Best validation AM so far.
        is_chosen: Whether the choice is made, and the final seeds are under way.
        remaining: Seconds left, estimated.
    """

    trials: int
    most_trials: int
    done: int
    total: int
    best: float | None = None
    is_chosen: bool = False
    remaining: float | None = None


class TuneWatcher:
    """Does nothing; a progress display overrides it."""

    def moved(self, progress: TuneProgress) -> None:
        """Tuning begins, or another evaluation is done."""


class Meter:
    """Counts evaluations and tells a watcher.

    Args:
        watcher: Whom to tell.
        trials: Settings to try.
        seeds: Evaluations a trial takes.
        final_seeds: Evaluations after the choice.
    """

    def __init__(self, watcher: TuneWatcher, *, trials: int, seeds: int, final_seeds: int) -> None:
        self._watcher = watcher
        self._trials = trials
        self._seeds = seeds
        self._final_seeds = final_seeds
        self._done = 0
        self._num_new = 0
        self._start = time.monotonic()

    def add_known(self, count: int) -> None:
        """Count evaluations that an earlier call made."""
        self._done += count

    def end_trials(self, trials: int) -> None:
        """There are no more settings to try than these."""
        self._trials = trials

    def add(self, values: Sequence[float | None], *, is_chosen: bool = False) -> None:
        """Count one evaluation and tell."""
        self._done += 1
        self._num_new += 1
        self.show(values, is_chosen=is_chosen)

    def show(self, values: Sequence[float | None], *, is_chosen: bool = False) -> None:
        """Tell how far it is, given the value of each trial as far as it is known."""
        total = self._trials * self._seeds + self._final_seeds
        known = [value for value in values if value is not None]
        best = max(known, default=-math.inf)
        pace = (time.monotonic() - self._start) / self._num_new if self._num_new else None
        self._watcher.moved(
            TuneProgress(
                trials=len(known),
                most_trials=self._trials,
                done=self._done,
                total=total,
                best=best if math.isfinite(best) else None,
                is_chosen=is_chosen,
                remaining=None if pace is None else pace * (total - self._done),
            )
        )
