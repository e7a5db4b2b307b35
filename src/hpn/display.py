"""What a run looks like in a terminal: progress on standard error, tables on standard output."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from hpn.evaluation import Row
from hpn.experiment import Watcher
from hpn.learners import Progress as LearnerProgress

PLAIN_SECONDS = 5.0
MOST_TASKS_IN_MATRIX = 12


class PlainProgress(Watcher):
    """One line a task, and now and then one for the epochs, for logs and pipes."""

    def __init__(self) -> None:
        self._tasks = 0
        self._said = time.monotonic()

    def run_started(self, out: Path, num_seeds: int, num_tasks: int) -> None:
        """Remember how much there is to do."""
        self._tasks = num_tasks
        self._say(f"run folder: {out}; {num_seeds} seed(s), {num_tasks} task(s)")

    def seed_started(self, seed: int, first_task: int, first_step: int) -> None:
        """Say where an interrupted seed goes on."""
        if first_task or first_step:
            self._say(f"seed {seed}: going on at task {first_task + 1}, after epoch {first_step}")

    def step_finished(self, seed: int, progress: LearnerProgress) -> None:
        """Show a sign of life every few seconds."""
        if time.monotonic() - self._said > PLAIN_SECONDS:
            task = f"task {progress.task + 1}/{self._tasks}"
            self._say(f"seed {seed}: {task}, epoch {progress.done}/{progress.total}")

    def task_finished(self, seed: int, task: int, row: Row) -> None:
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

    def run_started(self, out: Path, num_seeds: int, num_tasks: int) -> None:
        """Size the bars."""
        self._bars.update(self._seeds, total=num_seeds, note=str(out))
        self._bars.update(self._tasks, total=num_tasks)

    def seed_started(self, seed: int, first_task: int, first_step: int) -> None:
        """Start the seed's bars where it starts or goes on."""
        note = "going on" if first_task or first_step else ""
        self._bars.update(self._tasks, completed=first_task, note=note)
        self._bars.reset(self._epochs, completed=first_step, total=None, note="")

    def step_finished(self, seed: int, progress: LearnerProgress) -> None:
        """Move the epoch bar."""
        note = "  ".join(f"{name} {value:.3f}" for name, value in progress.metrics.items())
        self._bars.update(self._epochs, completed=progress.done, total=progress.total, note=note)

    def task_finished(self, seed: int, task: int, row: Row) -> None:
        """Move the task bar."""
        mean = sum(row.accuracy) / len(row.accuracy)
        self._bars.update(self._tasks, completed=task + 1, note=f"AM so far {mean:.1f} %")

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        """Move the seed bar."""
        self._bars.advance(self._seeds)


def print_result(result: dict[str, Any]) -> None:
    """Print a finished run: what was asked, AM, FM and ARS, and the accuracy matrix."""
    console = _console()
    words = [result["method"], result["backbone"], "on", result["dataset"]]
    title = " ".join(word for word in words if word)
    asked = f"{result['scenario']}-incremental, {result['edges']} edges, asked {result['evaluate']}"
    console.print(Text(title, style="bold"), Text(f"· {asked} · seeds {_seeds(result)}"))
    summary = Table(box=None, pad_edge=False, show_header=False)
    for name, key in (("AM", "am"), ("FM", "fm"), ("ARS", "ars")):
        summary.add_row(name, _spread(result[key]), style="bold" if key == "am" else "")
    summary.add_row("class-balanced AM", _spread(result["balanced"]["am"]))
    summary.add_row("parameters", f"{result['parameters']:,}")
    if result.get("prototypes"):
        counts = ", ".join(f"{num:g} {level}" for level, num in result["prototypes"].items())
        summary.add_row("prototypes", counts)
    seconds = result["seconds"]
    cost = f"{seconds['fit']:.1f} s fit, {seconds['predict']:.1f} s predict"
    if result["peak_rss_mb"] is not None:
        cost += f", {result['peak_rss_mb']:,.0f} MB at the peak"
    summary.add_row("cost", cost)
    console.print(summary)
    console.print(_matrix_table(result))
    console.print(Text(f"run folder: {result['out']}", style="dim"))


def print_datasets(rows: list[dict[str, Any]], root: Path) -> None:
    """Print the catalog."""
    table = Table(title="Data sets", title_justify="left", box=None, pad_edge=False)
    table.add_column("name", style="bold")
    for heading in ("nodes", "edges", "features", "classes"):
        table.add_column(heading, justify="right")
    table.add_column("on disk")
    table.add_column("what it is")
    for row in rows:
        counts = [_count(row[key]) for key in ("nodes", "edges", "features", "classes")]
        table.add_row(row["name"], *counts, row["on_disk"], row["about"])
    console = _console()
    console.print(table)
    console.print(Text(f"Counts as published. Data root: {root}", style="dim"), soft_wrap=True)
    console.print(Text("Your own: hpn run FILE.npz, or a folder with nodes.csv and edges.csv", style="dim"))


def print_dataset(info: dict[str, Any]) -> None:
    """Print one data set: statistics, classes, tasks and splits."""
    console = _console()
    console.print(Text(info["name"], style="bold"), Text(info["about"]))
    console.print(
        f"{info['nodes']:,} nodes, {info['links']:,} edge records, {info['edges']:,} distinct edges, "
        f"{info['features']:,} features ({info['storage']}), {info['classes']:,} classes",
        highlight=False,
    )
    if info["note"]:
        console.print(Text(info["note"], style="dim"))
    tasks = Table(box=None, pad_edge=False)
    for heading in ("task", "classes"):
        tasks.add_column(heading)
    for heading in ("nodes", "edges", "train", "val", "test"):
        tasks.add_column(heading, justify="right")
    for task in info["tasks"]:
        classes = "\n".join(f"{c['id']}  {c['name']}  ({c['size']:,})" for c in task["classes"])
        counts = [f"{task[key]:,}" for key in ("nodes", "edges", "train", "val", "test")]
        tasks.add_row(str(task["index"]), Text(classes), *counts)
    console.print(tasks)
    left = ", ".join(f"{c['id']} {c['name']} ({c['size']:,})" for c in info["left_out"])
    if left:
        console.print(Text(f"in no task: {left}", style="dim"))
    console.print(Text(f"split: {info['split']}", style="dim"))


def _console() -> Console:
    # Outside a terminal there is no width to fit into, and wrapped lines are a nuisance.
    return Console() if sys.stdout.isatty() else Console(width=120)


def _matrix_table(result: dict[str, Any]) -> Table:
    matrices = result["matrices"]
    num_tasks = len(result["tasks"])
    table = Table(title="accuracy on (%)", title_justify="left", box=None, pad_edge=False)
    shown = range(num_tasks) if num_tasks <= MOST_TASKS_IN_MATRIX else [num_tasks - 1]
    columns = range(num_tasks) if num_tasks <= MOST_TASKS_IN_MATRIX else range(MOST_TASKS_IN_MATRIX)
    table.add_column("after task")
    for column in columns:
        table.add_column(f"task {column + 1}", justify="right")
    for row in shown:
        means = [
            sum(matrix[row][column] for matrix in matrices) / len(matrices)
            for column in columns
            if column <= row
        ]
        table.add_row(str(row + 1), *[f"{mean:.1f}" for mean in means])
    if num_tasks > MOST_TASKS_IN_MATRIX:
        table.caption = f"the first {MOST_TASKS_IN_MATRIX} of {num_tasks} tasks; the report has all"
    return table


def _spread(summary: dict[str, Any] | None) -> str:
    return "–" if summary is None else f"{summary['mean']:.1f} ± {summary['std']:.1f} %"


def _seeds(result: dict[str, Any]) -> str:
    return ",".join(str(seed) for seed in result["seeds"])


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"
