"""Tables on standard output: results, comparisons, recipes and data sets in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from hpn.display.console import open_console
from hpn.report.comparison_table import (
    best_rows,
    failures,
    paper_note,
    row_cells,
    row_label,
    table_columns,
)
from hpn.report.wording import WITHIN_GIVES_AWAY, gives_task_away

MOST_TASKS_IN_MATRIX = 12
LEAST_NEEDED = (("paper", "OGB-Products"), ("parameters", ""), ("paper", "FM"), ("ARS", "%"), ("Δ", "AM"))
"""Columns that a comparison does without, one after another, in a terminal too narrow for it."""


def print_result(result: dict[str, Any]) -> None:
    """Print a finished run: what was asked, AM, FM and ARS, and the accuracy matrix."""
    console = open_console()
    words = [result["method"], result["backbone"], "on", result["dataset"]]
    title = " ".join(word for word in words if word)
    asked = f"{result['scenario']}-incremental, {result['edges']} edges, asked {result['evaluate']}"
    console.print(Text(title, style="bold"), Text(f"· {asked} · seeds {_seeds(result)}"))
    summary = Table(box=None, pad_edge=False, show_header=False)
    for name, key in (("AM", "am"), ("FM", "fm"), ("ARS", "ars")):
        summary.add_row(name, _spread(result[key]), style="bold" if key == "am" else "")
    summary.add_row("class-balanced AM", _spread(result["balanced"]["am"]))
    summary.add_row("parameters", f"{result['parameters']:,}")
    if result.get("stored"):
        summary.add_row("kept between tasks", f"{result['stored']:,} numbers")
    if result.get("prototypes"):
        counts = ", ".join(f"{num:g} {level}" for level, num in result["prototypes"].items())
        summary.add_row("prototypes", counts)
    seconds = result["seconds"]
    cost = f"{seconds['fit']:.1f} s fit, {seconds['predict']:.1f} s predict"
    if result["peak_rss_mb"] is not None:
        cost += f", {result['peak_rss_mb']:,.0f} MB at the peak"
    summary.add_row("cost", cost)
    if result.get("recipe"):
        summary.add_row("recipe", result["recipe"])
    console.print(summary)
    console.print(_matrix_table(result))
    _print_leak(console, result)
    console.print(Text(f"run folder: {result['out']}", style="dim"))


def print_comparison(comparison: dict[str, Any]) -> None:
    """Print a comparison as one table, in as many columns as there is room for."""
    console = open_console(width=200)
    asked = (
        f"{comparison['scenario']}-incremental, {comparison['edges']} edges, asked {comparison['evaluate']}"
    )
    console.print(Text(comparison["dataset"], style="bold"), Text(f"· {asked} · seeds {_seeds(comparison)}"))
    left_out: set[tuple[str, str]] = set()
    for column in (None, *LEAST_NEEDED):
        left_out |= {column} if column else set()
        table = _comparison_table(comparison, left_out)
        if Measurement.get(console, console.options, table).maximum < console.width:
            break
    console.print(table)
    _print_leak(console, comparison)
    for line in failures(comparison):
        console.print(Text(line, style="red"))
    console.print(Text(paper_note(comparison), style="dim"))
    console.print(Text(f"comparison.md, .html, .csv and .json in {comparison['out']}", style="dim"))


def _comparison_table(comparison: dict[str, Any], left_out: set[tuple[str, str]]) -> Table:
    columns = [column for column in table_columns(comparison) if (column.head, column.unit) not in left_out]
    best = best_rows(comparison)
    table = Table(box=None, pad_edge=False)
    table.add_column("method")
    for column in columns:
        table.add_column(f"{column.head}\n{column.unit}".rstrip(), justify="right")
    for number, row in enumerate(comparison["rows"]):
        style = "bold" if number in best else ""
        table.add_row(Text(row_label(row)), *row_cells(row, columns), style=style)
    return table


def _print_leak(console: Console, asked: dict[str, Any]) -> None:
    if gives_task_away(asked):
        console.print(Text(WITHIN_GIVES_AWAY, style="yellow"))


def print_tuned(tuned: dict[str, Any]) -> None:
    """Print what tuning chose, by what, and what it gives on test nodes."""
    console = open_console()
    words = [tuned["method"], tuned["backbone"], "on", tuned["dataset"]]
    title = " ".join(word for word in words if word)
    asked = f"{tuned['scenario']}-incremental, {tuned['edges']} edges, asked {tuned['evaluate']}"
    console.print(Text(title, style="bold"), Text(f"· {asked}"))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("chosen", Text(_pairs(tuned["settings"]) or "the defaults; there is nothing to search"))
    trials = f"best of {len(tuned['trials'])} trials, number {tuned['best']}, seeds {_seeds(tuned)}"
    if tuned["best"] == 0 and len(tuned["trials"]) > 1:
        trials += f"; none beats the defaults by more than the standard error of {tuned['noise']:.1f}"
    table.add_row("validation AM", f"{_spread(tuned['validation_am'])}  ({trials})")
    default = tuned["trials"][0]["am"]
    table.add_row("with defaults", _spread(default))
    result, published = tuned["result"], tuned["published"] or {}
    for name, key in (("test AM", "am"), ("test FM", "fm")):
        paper = f"  (paper {_spread(published[key])})" if published.get(key) else ""
        table.add_row(name, _spread(result[key]) + paper, style="bold" if key == "am" else "")
    console.print(table)
    console.print(Text(f"recipe: {tuned['recipe']}", style="dim"))


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
        ours, paper = (_spread(recipe[key]["am"]) if recipe[key] else "–" for key in ("ours", "published"))
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
        counts = [_count(row[key]) for key in ("nodes", "edges", "features", "classes")]
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


def _pairs(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _spread(summary: dict[str, Any] | None) -> str:
    return "–" if summary is None else f"{summary['mean']:.1f} ± {summary['std']:.1f} %"


def _seeds(result: dict[str, Any]) -> str:
    return ",".join(str(seed) for seed in result["seeds"])


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"
