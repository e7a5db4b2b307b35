"""``hpn leaks``: what an evaluation reveals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hpn.cli.app import app, fail
from hpn.cli.options import (
    Backbone,
    ClassesPerTask,
    Dataset,
    Fresh,
    Method,
    Places,
    Runs,
    Seeds,
    Settings,
    Tasks,
    WatchedOutput,
    read_settings,
    with_options,
)

if TYPE_CHECKING:
    from hpn.experiment.leaks import Leaks


@app.command()
@with_options
def leaks(
    dataset: Dataset,
    *,
    method: Method = "hpn",
    backbone: Backbone = None,
    seeds: Seeds,
    tasks: Tasks = None,
    classes_per_task: ClassesPerTask = None,
    set_: Settings = None,
    runs: Runs = Path("runs"),
    fresh: Fresh = False,
    places: Places,
    output: WatchedOutput,
) -> None:
    """Evaluate a learner in three ways without a task, and show what each of them reveals.

    Runs are kept and shared with hpn run and hpn compare. The same command again resumes an interrupted one.
    """
    from hpn.experiment.leaks import find_leaks

    with output.watching() as watcher:
        found = find_leaks(
            dataset,
            method=method,
            backbone=backbone,
            seeds=seeds.choose(),
            tasks=tasks,
            classes_per_task=classes_per_task,
            settings=read_settings(set_),
            runs=runs,
            fresh=fresh,
            watcher=watcher,
            **places.choose(),
        )
    output.report(found, _print_leaks)
    if failed := [row for row in found.rows if row.error is not None]:
        raise typer.Exit(fail(f"{len(failed)} of {len(found.rows)} runs failed; the same command resumes them", 1))


def _print_leaks(leaks: Leaks) -> None:
    from hpn.display.tables import make_table, open_console
    from hpn.report.format import plural, spread

    method = " ".join(filter(None, (leaks.method, leaks.backbone)))
    console = open_console(f"{method} on {leaks.dataset}", f"no task is given; {plural(len(leaks.seeds), 'seed')}")
    heads = ("evaluate", "edges", "AM, %", "task found by a plain mean, %", "what it reveals")
    table = make_table(*heads, text=(heads[0], heads[1], heads[-1]))
    for row in leaks.rows:
        values = ["–" if value is None else spread(value) for value in (row.am, row.task_found)]
        table.add_row(row.evaluate, row.edges, *values, row.error or row.gives_away)
    console.print(table)
