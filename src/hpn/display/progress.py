"""Progress of a command on standard error: bars in a terminal, lines in logs and pipes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from hpn.experiment.watch import JobsProgress, TrialsProgress, Watcher
from hpn.report.format import plural

if TYPE_CHECKING:
    from hpn.evaluation import Row
    from hpn.learners import Progress as LearnerProgress

PLAIN_SECONDS = 5.0
"""Seconds between two lines about epochs, trials or bytes in a log."""


class PlainProgress(Watcher):
    """One line per step or job, and every few seconds one for epochs, trials or bytes."""

    def __init__(self) -> None:
        self._num_tasks = 0
        self._written = time.monotonic()

    def run_started(self, out: Path | None, num_seeds: int, num_tasks: int) -> None:
        """Print the folder and the numbers of seeds and tasks."""
        self._num_tasks = num_tasks
        folder = f"run folder: {out}; " if out else ""
        self._write(f"{folder}{plural(num_seeds, 'seed')}, {plural(num_tasks, 'task')}")

    def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
        """Print where an interrupted seed resumes."""
        if first_task or first_epoch:
            self._write(f"seed {seed}: resuming at task {first_task + 1}, after epoch {first_epoch}")

    def epoch_finished(self, seed: int, progress: LearnerProgress) -> None:
        """Print the epoch every few seconds."""
        if self._is_due():
            task = f"task {progress.task + 1}/{self._num_tasks}"
            self._write(f"seed {seed}: {task}, epoch {progress.done}/{progress.total}")

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        """Print the mean accuracy over the tasks so far."""
        self._write(f"seed {seed}: task {task + 1}/{self._num_tasks} learned, {_mean_so_far(task, row)}")

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        """Print that a seed had been finished before."""
        if reused:
            self._write(f"seed {seed}: finished before, result reused (--fresh runs it again)")

    def jobs_moved(self, progress: JobsProgress) -> None:
        """Print which job has ended, or every few seconds the progress of tuning, and the time left."""
        if progress.trials:
            if not (self._is_due() or progress.done in {0, progress.total}):
                return
            line = _trials_line(progress.trials)
        elif progress.last is None:
            line = f"{progress.done}/{progress.total}: {progress.done or 'nothing'} finished before"
        else:
            end = f"failed ({progress.error})" if progress.error else "done"
            line = f"{progress.done}/{progress.total}: {progress.last} {end}"
        left = f", {_duration(progress.remaining)} left" if progress.running and progress.remaining else ""
        self._write(line + left)

    def reading(self, total: int) -> Callable[[int], None]:
        """Print every few seconds how much was read."""
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            if self._is_due():
                self._write(f"{100 * done / max(1, total):.0f} % of {total / 1e6:,.0f} MB read")

        return advance

    def _is_due(self) -> bool:
        return time.monotonic() - self._written > PLAIN_SECONDS

    def _write(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
        self._written = time.monotonic()


class LiveProgress(Watcher):
    """A bar for each quantity that is counted; use as a context manager."""

    def __init__(self) -> None:
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # a long note is cut, not the numbers
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False, table_column=rest),
            console=Console(stderr=True),
            transient=True,
            expand=True,
        )
        self._ids: dict[str, TaskID] = {}
        self._loading: TaskID | None = self._bars.add_task("loading", total=None, note="")

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def run_started(self, out: Path | None, num_seeds: int, num_tasks: int) -> None:
        """Size the bars."""
        self._move("seeds", total=num_seeds, note=str(out or ""))
        self._move("tasks", total=num_tasks)
        self._move("epochs")

    def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
        """Start the seed's bars where it starts or resumes."""
        note = "resuming" if first_task or first_epoch else ""
        self._move("tasks", completed=first_task, note=note)
        self._bars.reset(self._ids["epochs"], completed=first_epoch, total=None, note="")

    def epoch_finished(self, seed: int, progress: LearnerProgress) -> None:
        """Move the epoch bar."""
        note = "  ".join(f"{name} {value:.3f}" for name, value in progress.metrics.items())
        self._move("epochs", completed=progress.done, total=progress.total, note=note)

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        """Move the task bar."""
        self._move("tasks", completed=task + 1, note=_mean_so_far(task, row))

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        """Move the seed bar."""
        self._move("seeds", advance=1)

    def jobs_moved(self, progress: JobsProgress) -> None:
        """Move the bar; failures stay on the screen above it."""
        if progress.error:
            self._bars.console.print(Text(f"{progress.last} failed: {progress.error}", style="red"))
        notes = [f"{_duration(progress.remaining)} left"] if progress.remaining else []
        notes.append(_trials_line(progress.trials) if progress.trials else ", ".join(progress.running))
        self._move("jobs", completed=progress.done, total=progress.total, note=" · ".join(filter(None, notes)))

    def reading(self, total: int) -> Callable[[int], None]:
        """Move the bar."""
        self._move("MB read", total=total / 1e6)
        return lambda count: self._move("MB read", advance=count / 1e6)

    def _move(self, name: str, **values: Any) -> None:
        if self._loading is not None:
            self._bars.remove_task(self._loading)
            self._loading = None
        if name not in self._ids:
            self._ids[name] = self._bars.add_task(name, total=None, note="")
        self._bars.update(self._ids[name], **values)


def _mean_so_far(task: int, row: Row) -> str:
    learned = row.accuracy[: task + 1]
    return f"AM so far {sum(learned) / len(learned):.1f} %"


def _trials_line(trials: TrialsProgress) -> str:
    line = f"{trials.tried}/{trials.total} trials"
    if trials.best is not None:
        line += f", best validation AM {trials.best:.1f} %"
    return line + (", testing the chosen settings" if trials.is_chosen else "")


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes} min" if minutes < 60 else f"about {minutes // 60} h {minutes % 60:02d} min"
