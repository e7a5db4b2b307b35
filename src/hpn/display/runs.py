"""Tables on standard output: results, comparisons, recipes and data sets in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from hpn.display.console import open_console
from hpn.report.comparison_table import (
    compared_metrics,
    failures,
    paper_note,
    row_cells,
    row_label,
    table_columns,
)
from hpn.report.format import count, metric_text, quantity, spread
from hpn.report.results import metric_of, shown_metrics, step_noun
from hpn.report.wording import NOT_MEASURED, WITHIN_GIVES_AWAY, gives_task_away, plural

if TYPE_CHECKING:
    from hpn.experiment.compare.result import Comparison
    from hpn.experiment.published import Spread
    from hpn.experiment.run.result import RunResult
    from hpn.experiment.tune.result import TuneResult
    from hpn.metrics import Summary

MOST_STEPS_IN_MATRIX = 12
NEEDED = (("AM", "%"), ("paper", "AM, %"), ("FM", "points"), ("stored", "numbers"), ("seconds", "per seed"))
"""Columns that a comparison always has; the others are left out one after another, the last first, in a
terminal too narrow for them."""


def print_result(result: RunResult) -> None:
    """Print a finished run: the protocol, every metric and what it means, costs and the accuracy matrix."""
    console = open_console()
    _print_head(console, result)
    if result.is_trivial:
        console.print(Text(NOT_MEASURED, style="bold"))
    table = _plain_table()
    for metric in shown_metrics([result]):
        value = f"{metric_text(metric, metric_of(result, metric))} {metric.unit}"
        table.add_row(metric.title, value, style="bold" if metric.name == "am" else "")
    if table.row_count:
        console.print(table)
    table = _plain_table()  # of its own: long texts would take the width from what metrics mean
    table.add_row("parameters", count(result.parameters))
    if result.stored:
        table.add_row(f"kept between {step_noun(result)}s", f"{count(result.stored)} numbers")
    if result.prototypes:
        table.add_row("prototypes", ", ".join(f"{num:g} {level}" for level, num in result.prototypes.items()))
    if result.seconds is not None:
        cost = f"{result.seconds.fit:.1f} s fit, {result.seconds.predict:.1f} s predict"
        memory = "" if result.peak_rss_mb is None else f", {quantity(result.peak_rss_mb)} MB at the peak"
        table.add_row("cost", cost + memory)
    if result.recipe:
        table.add_row("recipe", result.recipe)
    console.print(table)
    if not result.is_trivial:
        console.print(_matrix_table(result))
    _print_leak(console, result)
    console.print(Text(f"run folder: {result.out}", style="dim"))


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison as one table, in as many columns as there is room for."""
    console = open_console(width=200)
    _print_head(console, comparison)
    columns = table_columns(comparison)
    while True:
        table = Table(box=None, pad_edge=False)
        table.add_column("method")
        for column in columns:
            table.add_column(f"{column.head}\n{column.unit}".rstrip(), justify="right")
        for number, row in enumerate(comparison.rows):
            cells = zip(row_cells(row, columns), columns, strict=True)
            styled = [Text(text, style="bold" if number in column.best else "") for text, column in cells]
            table.add_row(Text(row_label(row)), *styled)
        spare = [column for column in columns if (column.head, column.unit) not in NEEDED]
        if not spare or Measurement.get(console, console.options, table).maximum < console.width:
            break
        columns.remove(spare[-1])
    console.print(table)
    _print_leak(console, comparison)
    for line in failures(comparison):
        console.print(Text(line, style="red"))
    for metric in compared_metrics(comparison):
        console.print(Text(metric.title, style="dim"))
    console.print(Text(paper_note(comparison), style="dim"))
    console.print(Text(f"comparison.md, .html, .csv and .json in {comparison.out}", style="dim"))


def print_tuned(tuned: TuneResult) -> None:
    """Print what tuning chose, by what, and what it gives on test nodes."""
    console = open_console()
    _print_head(console, tuned)
    table = _plain_table()
    table.add_row("chosen", Text(_pairs(tuned.settings) or "the defaults; there is nothing to search"))
    trials = f"best of {plural(len(tuned.trials), 'trial')}, number {tuned.best}"
    if tuned.best == 0 and len(tuned.trials) > 1:
        trials += f"; none beats the defaults by more than the standard error of {tuned.noise:.1f}"
    table.add_row("validation AM", f"{_percent(tuned.validation_am)}  ({trials})")
    table.add_row("with defaults", _percent(tuned.trials[0].am))
    for metric in shown_metrics([tuned.result]):
        paper: Spread | None = getattr(tuned.published, metric.name, None)
        beside = f"  (paper {metric_text(metric, paper)} {metric.unit})" if paper else ""
        value = f"{metric_text(metric, metric_of(tuned.result, metric))} {metric.unit}"
        table.add_row(f"test {metric.title}", value + beside, style="bold" if metric.name == "am" else "")
    console.print(table)
    console.print(Text(f"recipe: {tuned.recipe}", style="dim"))


def print_recipes(recipes: list[dict[str, Any]]) -> None:
    """Print the packaged recipes with what they give and what the paper reports."""
    console = open_console()
    if not recipes:
        console.print("There are no packaged recipes; `hpn tune` makes one.", highlight=False)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("data set", "method", "scenario", "settings", "test AM", "paper AM"):
        table.add_column(heading)
    for recipe in recipes:
        method = " ".join(word for word in (recipe["method"], recipe["backbone"]) if word)
        ours, paper = (_spread(recipe[key]) for key in ("ours", "published"))
        settings = Text(_pairs(recipe["settings"]))
        table.add_row(recipe["dataset"], method, recipe["scenario"], settings, ours, paper)
    console.print(table)


def print_experiments(rows: list[dict[str, Any]]) -> None:
    """Print the experiments that can be repeated."""
    console = open_console()
    table = Table(box=None, pad_edge=False)
    for head in ("experiment", "in the paper", "runs on"):
        table.add_column(head, overflow="fold", style="bold" if head == "experiment" else "")
    for row in rows:
        table.add_row(row["name"], Text(row["paper"]), Text(", ".join(row["datasets"])))
    console.print(table)
    console.print(Text("data sets that are not on disk are left out; --datasets names others", style="dim"))


def print_reproduction(done: dict[str, Any]) -> None:
    """Print how the cells compare with the paper's, which claims hold, and where the pages are."""
    console = open_console()
    cells = Table(box=None, pad_edge=False)
    for head in ("next to the paper", "within 2 sd", "better", "worse"):
        cells.add_column(head, justify="left" if head.startswith("next") else "right")
    for name, counts in done["cells"].items():
        cells.add_row(name, *(str(counts[verdict]) for verdict in ("within", "better", "worse")))
    if any(sum(counts.values()) for counts in done["cells"].values()):
        console.print(cells)
    claims = Table(box=None, pad_edge=False)
    claims.add_column("claim", overflow="fold")
    claims.add_column("here")
    for claim in done["claims"]:
        if claim["verdict"] != "not tested here":
            claims.add_row(Text(claim["statement"]), Text(claim["verdict"]))
    if claims.row_count:
        console.print(claims)
    for failed in done["failed"]:
        console.print(Text(f"{failed['run']} failed: {failed['error']}", style="red"))
    for name, missing in done["absent"].items():
        console.print(Text(f"{name}: left out, not on disk: {', '.join(missing)}", style="dim"))
    console.print(Text(f"pages: {Path(done['out']) / 'README.md'}", style="dim"))


def print_datasets(rows: list[dict[str, Any]], root: Path) -> None:
    """Print the catalog."""
    table = Table(title="Data sets", title_justify="left", box=None, pad_edge=False)
    table.add_column("name", style="bold")
    for heading in ("nodes", "edges", "features", "classes"):
        table.add_column(heading, justify="right")
    table.add_column("on disk")
    table.add_column("what it is")
    for row in rows:
        counts = [count(row[key]) for key in ("nodes", "edges", "features", "classes")]
        table.add_row(row["name"], *counts, row["on_disk"], row["about"])
    console = open_console()
    console.print(table)
    console.print(Text(f"Counts as published. Data root: {root}", style="dim"), soft_wrap=True)
    console.print(Text("Your own: hpn run FILE.npz, or a folder with nodes.csv and edges.csv", style="dim"))


def print_dataset(info: dict[str, Any]) -> None:
    """Print one data set: statistics, classes, tasks and splits."""
    console = open_console()
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


def _print_head(console: Console, result: RunResult | Comparison | TuneResult) -> None:
    """The method and the data set, and how they are evaluated."""
    method, backbone = getattr(result, "method", None), getattr(result, "backbone", None)
    title = " ".join(filter(None, (method, backbone, "on" if method else None, result.dataset)))
    protocol = f"{result.scenario}-incremental, {result.edges} edges, {result.evaluate} evaluation"
    seeds = ",".join(map(str, result.seeds))
    console.print(Text(title, style="bold"), Text(f"· {protocol} · seeds {seeds}"))


def _print_leak(console: Console, result: RunResult | Comparison) -> None:
    if gives_task_away(result):
        console.print(Text(WITHIN_GIVES_AWAY, style="yellow"))


def _matrix_table(result: RunResult) -> Table:
    """Mean accuracies; of many steps the first columns after the last step."""
    matrix, noun = result.mean_matrix(), step_noun(result)
    num_shown = min(len(matrix), MOST_STEPS_IN_MATRIX)
    table = Table(title="accuracy on (%)", title_justify="left", box=None, pad_edge=False)
    table.add_column(f"after {noun}")
    for step in range(num_shown):
        name = f"{noun} {step + 1}" if noun == "task" else f"{step + 1}: {result.steps[step].name}"
        table.add_column(Text(name), justify="right")
    for after in range(len(matrix)) if len(matrix) == num_shown else [len(matrix) - 1]:
        cells = [
            Text(f"{cell.mean:.1f}", style="dim italic" if step > after else "")
            for step, cell in enumerate(matrix[after][:num_shown])
            if cell is not None
        ]
        table.add_row(str(after + 1), *cells)
    notes = []
    if len(matrix) > num_shown:
        notes.append(f"the first {num_shown} of {len(matrix)} {noun}s; the report has all")
    if len(matrix[0]) > 1:
        notes.append(f"right of the {noun} learned last: {noun}s still to come")
    table.caption = "\n".join(notes) or None
    return table


def _plain_table() -> Table:
    return Table(box=None, pad_edge=False, show_header=False)


def _pairs(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _percent(summary: Summary | None) -> str:
    return f"{spread(summary)} %"


def _spread(found: dict[str, Any] | None) -> str:
    return f"{found['am']['mean']:.1f} ± {found['am']['std']:.1f} %" if found else "–"
