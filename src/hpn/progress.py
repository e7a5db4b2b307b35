"""How far a command is, on standard error: bars in a terminal, lines in logs and pipes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from hpn.experiment.tune.progress import TuneProgress, TuneWatcher
from hpn.experiment.watch import BatchProgress, BatchWatcher, Watcher

if TYPE_CHECKING:
    from typing_extensions import Self

    from hpn.evaluation import Row
    from hpn.learners import Progress as LearnerProgress

PLAIN_SECONDS = 5.0
"""Between two signs of life in a log."""


class PlainProgress(Watcher):
    """One line a task, and now and then one for the epochs, for logs and pipes."""

    def __init__(self) -> None:
        self._tasks = 0
        self._said = time.monotonic()

    def run_started(self, out: Path | None, num_seeds: int, num_tasks: int) -> None:
        """Remember how much there is to do."""
        self._tasks = num_tasks
        folder = f"run folder: {out}; " if out else ""
        self._say(f"{folder}{num_seeds} seed(s), {num_tasks} task(s)")

    def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
        """Say where an interrupted seed goes on."""
        if first_task or first_epoch:
            self._say(f"seed {seed}: going on at task {first_task + 1}, after epoch {first_epoch}")

    def epoch_finished(self, seed: int, progress: LearnerProgress) -> None:
        """Show a sign of life every few seconds."""
        if time.monotonic() - self._said > PLAIN_SECONDS:
            task = f"task {progress.task + 1}/{self._tasks}"
            self._say(f"seed {seed}: {task}, epoch {progress.done}/{progress.total}")

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        """Show the mean accuracy over the tasks so far."""
        mean = sum(row.accuracy) / len(row.accuracy)
        self._say(f"seed {seed}: task {task + 1}/{self._tasks} learned, AM so far {mean:.1f} %")

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        """Say that a seed had been finished before."""
        if reused:
            self._say(f"seed {seed}: finished before, result reused (--fresh runs it again)")

    def _say(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self._said = time.monotonic()


class LiveProgress(Watcher):
    """Bars for seeds, tasks and epochs; use as a context manager."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
            console=Console(stderr=True),
            transient=True,
        )
        self._seeds = self._bars.add_task("seeds ", total=None, note="")
        self._tasks = self._bars.add_task("tasks ", total=None, note="")
        self._epochs = self._bars.add_task("epochs", total=None, note="")

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def run_started(self, out: Path | None, num_seeds: int, num_tasks: int) -> None:
        """Size the bars."""
        self._bars.update(self._seeds, total=num_seeds, note=str(out or ""))
        self._bars.update(self._tasks, total=num_tasks)

    def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
        """Start the seed's bars where it starts or goes on."""
        note = "going on" if first_task or first_epoch else ""
        self._bars.update(self._tasks, completed=first_task, note=note)
        self._bars.reset(self._epochs, completed=first_epoch, total=None, note="")

    def epoch_finished(self, seed: int, progress: LearnerProgress) -> None:
        """Move the epoch bar."""
        note = "  ".join(f"{name} {value:.3f}" for name, value in progress.metrics.items())
        self._bars.update(self._epochs, completed=progress.done, total=progress.total, note=note)

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        """Move the task bar."""
        mean = sum(row.accuracy) / len(row.accuracy)
        self._bars.update(self._tasks, completed=task + 1, note=f"AM so far {mean:.1f} %")

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        """Move the seed bar."""
        self._bars.advance(self._seeds)


class SilentImport:
    """Says nothing."""

    def begin(self, total: int) -> Callable[[int], None]:
        """Take the number of bytes to read; gives what takes those that were."""
        return lambda _: None


class PlainImport(SilentImport):
    """A line now and then, for logs and pipes."""

    def begin(self, total: int) -> Callable[[int], None]:
        """Say every few seconds how much was read."""
        done, said = 0, time.monotonic()

        def advance(count: int) -> None:
            nonlocal done, said
            done += count
            if time.monotonic() - said > PLAIN_SECONDS:
                said = time.monotonic()
                sys.stderr.write(f"{100 * done / max(1, total):.0f} % of {total / 1e6:,.0f} MB read\n")
                sys.stderr.flush()

        return advance


class LiveImport(SilentImport):
    """A bar of the bytes read; use as a context manager."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("reading"),
            BarColumn(),
            DownloadColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def __enter__(self) -> LiveImport:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, total: int) -> Callable[[int], None]:
        """Move the bar."""
        bar = self._bars.add_task("reading", total=total)
        return lambda count: self._bars.advance(bar, count)


class PlainComparison(BatchWatcher):
    """One line a job, for logs and pipes."""

    def moved(self, progress: BatchProgress) -> None:
        """Say what has ended and how much is left."""
        line = f"{progress.done}/{progress.total}: "
        if progress.last is None:
            line += f"{progress.done} finished before" if progress.done else "nothing finished before"
        else:
            line += f"{progress.last} {f'failed ({progress.error})' if progress.error else 'done'}"
        if progress.running and progress.remaining:
            line += f", {_duration(progress.remaining)} left"
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class _OneBar:
    """A bar with a note; use as a context manager."""

    counted: str

    def __init__(self) -> None:
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # a long note is cut, not the numbers
        self._bars = Progress(
            TextColumn(self.counted),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False, table_column=rest),
            console=Console(stderr=True),
            transient=True,
            expand=True,
        )
        self._bar = self._bars.add_task("", total=None, note="loading")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def _move(self, done: int, total: int, note: str) -> None:
        self._bars.update(self._bar, completed=done, total=total, note=note)


class LiveComparison(_OneBar, BatchWatcher):
    """A bar for the jobs of a comparison, with what runs."""

    counted = "cells × seeds"

    def moved(self, progress: BatchProgress) -> None:
        """Move the bar; failures stay on the screen above it."""
        if progress.error:
            self._bars.console.print(Text(f"{progress.last} failed: {progress.error}", style="red"))
        left = f"{_duration(progress.remaining)} left · " if progress.remaining else ""
        note = f"{left}{', '.join(progress.running)}" if progress.running else ""
        self._move(progress.done, progress.total, note)


class LiveReproduction(LiveComparison):
    """A bar for the runs of all experiments, with what runs."""

    counted = "runs × seeds"


class PlainTuning(TuneWatcher):
    """A line every few seconds, for logs and pipes."""

    def __init__(self) -> None:
        self._said = -PLAIN_SECONDS

    def moved(self, progress: TuneProgress) -> None:
        """Say how far it is, unless that was said a moment ago."""
        if time.monotonic() - self._said > PLAIN_SECONDS or progress.done == progress.total:
            sys.stderr.write(_tuning_words(progress) + "\n")
            sys.stderr.flush()
            self._said = time.monotonic()


class LiveTuning(_OneBar, TuneWatcher):
    """A bar for the evaluations of a search."""

    counted = "trials × seeds"

    def moved(self, progress: TuneProgress) -> None:
        """Move the bar."""
        self._move(progress.done, progress.total, _tuning_words(progress))


def _tuning_words(progress: TuneProgress) -> str:
    words = f"{progress.trials}/{progress.most_trials} trials"
    if progress.best is not None:
        words += f", best validation AM {progress.best:.1f} %"
    if progress.is_chosen:
        words += ", testing the chosen settings"
    if progress.remaining:
        words += f", {_duration(progress.remaining)} left"
    return words


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes} min" if minutes < 60 else f"about {minutes // 60} h {minutes % 60:02d} min"
