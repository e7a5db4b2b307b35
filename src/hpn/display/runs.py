"""Tables on standard output: results, comparisons, recipes, reproductions and data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from hpn.display.tables import make_table, open_console
from hpn.report.comparison import compared_metrics, failures, paper_note, row_cells, row_label, table_columns
from hpn.report.format import count, metric_text, pairs, plural, quantity, spread
from hpn.report.results import shown_metrics, step_noun
from hpn.report.wording import NOT_MEASURED, WITHIN_GIVES_AWAY, gives_task_away

if TYPE_CHECKING:
    from hpn.experiment.compare.result import Comparison
    from hpn.experiment.recipes import Published
    from hpn.experiment.run.result import RunResult
    from hpn.experiment.tune.tuning import TuneResult

MOST_STEPS_IN_MATRIX = 12
NEEDED = (("AM", "%"), ("paper", "AM, %"), ("FM", "points"), ("stored", "numbers"), ("seconds", "per seed"))
"""Columns that a comparison always has; in a narrow terminal the others are left out, the last first."""
SIZES = ("nodes", "edges", "features", "classes")


def print_result(result: RunResult) -> None:
    """Print a finished run: the protocol, every metric and what it means, costs and the accuracy matrix."""
    console, noun = _open_for(result), step_noun(result)
    if result.is_trivial:
        console.print(NOT_MEASURED, style="bold")
    table = make_table()
    _add_metrics(table, result)
    if table.row_count:
        console.print(table)
    table = make_table()  # a separate one: long texts would narrow the column of metrics
    table.add_row("parameters", count(result.parameters))
    if result.stored:
        table.add_row(f"stored between {noun}s", f"{count(round(result.stored))} numbers")
    if result.prototypes:
        table.add_row("prototypes", ", ".join(f"{num:g} {level}" for level, num in result.prototypes.items()))
    if result.seconds is not None:
        memory = "" if result.peak_rss_mb is None else f", {quantity(result.peak_rss_mb)} MB at the peak"
        cost = f"{result.seconds.fit:.1f} s fit, {result.seconds.predict:.1f} s predict"
        table.add_row("cost", cost + memory)
    if result.recipe:
        table.add_row("recipe", result.recipe)
    console.print(table)
    if not result.is_trivial:
        console.print(_matrix_table(result))
        if result.trivial_steps:
            listed = ", ".join(str(step + 1) for step in result.trivial_steps)
            console.print(f"{noun} {listed}: a single class to choose from, so 100 % when it is learned")
    if result.left_out:
        console.print(f"in no task: {', '.join(result.left_out)}", style="dim")
    _print_leak(console, result)
    console.print(f"run folder: {result.out}", style="dim")


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison as one table, in as many columns as there is room for."""
    console = _open_for(comparison, width=200)
    columns = table_columns(comparison)
    spare, left_out = [column for column in columns if (column.label, column.unit) not in NEEDED], list[str]()
    while True:
        table = make_table("method", *(f"{column.label}\n{column.unit}".rstrip() for column in columns))
        for number, row in enumerate(comparison.rows):
            cells = zip(row_cells(row, columns), columns, strict=True)
            styled = [Text(text, style="bold" if number in column.best else "") for text, column in cells]
            table.add_row(row_label(row), *styled)
        if not spare or Measurement.get(console, console.options, table).maximum < console.width:
            break
        left_out.insert(0, spare[-1].label)
        columns.remove(spare.pop())
    console.print(table)
    _print_leak(console, comparison)
    for line in failures(comparison):
        console.print(line, style="red")
    metrics = compared_metrics(comparison)
    if not metrics and any(row.error is None for row in comparison.rows):
        console.print(NOT_MEASURED, style="bold")
    labels = {column.label for column in columns}
    notes = [metric.describe(step_noun(comparison)) for metric in metrics if metric.label in labels]
    if left_out:
        notes.append(f"left out for the width of the terminal: {', '.join(left_out)}")
    for line in (*notes, paper_note(comparison), f"comparison.md, .html, .csv and .json in {comparison.out}"):
        console.print(line, style="dim")


def print_tuned(tuned: TuneResult) -> None:
    """Print the settings that tuning chose, and their metrics on validation and test nodes."""
    console = _open_for(tuned)
    table = make_table()
    table.add_row("chosen", pairs(tuned.settings, "=", ", ") or "the defaults; there is nothing to search")
    trials = f"best of {plural(len(tuned.trials), 'trial')}, number {tuned.best}"
    if tuned.best == 0 and len(tuned.trials) > 1:
        trials += f"; none beats the defaults by more than the standard error of {tuned.noise:.1f}"
    table.add_row("validation AM", f"{spread(tuned.validation_am)} %  ({trials})")
    table.add_row("with defaults", f"{spread(tuned.trials[0].am)} %")
    _add_metrics(table, tuned.result, "test ", tuned.published)
    console.print(table)
    console.print(f"recipe: {tuned.recipe}", style="dim")


def print_recipes(recipes: list[dict[str, Any]]) -> None:
    """Print the packaged recipes with their accuracy and the paper's."""
    if not recipes:
        open_console().print("There are no packaged recipes; `hpn tune` creates one.")
        return
    heads = ("data set", "method", "scenario", "settings", "test AM", "paper AM")
    table = make_table(*heads, text=heads)
    for recipe in recipes:
        method = " ".join(filter(None, (recipe["method"], recipe["backbone"])))
        found = (recipe[key] and recipe[key]["am"] for key in ("ours", "published"))
        values = [f"{am['mean']:.1f} ± {am['std']:.1f} %" if am else "–" for am in found]
        table.add_row(recipe["dataset"], method, recipe["scenario"], pairs(recipe["settings"], "=", ", "), *values)
    open_console().print(table)


def print_experiments(rows: list[dict[str, Any]]) -> None:
    """Print the experiments that can be repeated."""
    console = open_console()
    heads = ("experiment", "in the paper", "runs on")
    table = make_table(*heads, text=heads)
    for row in rows:
        table.add_row(Text(row["name"], style="bold"), row["paper"], ", ".join(row["datasets"]))
    console.print(table)
    console.print("data sets that are not on disk are left out; --datasets names others", style="dim")


def print_reproduction(done: dict[str, Any]) -> None:
    """Print how the cells compare with the paper's, which claims hold, and the path of the pages."""
    console = open_console()
    cells = make_table("next to the paper", "within 2 sd", "better", "worse")
    for name, counts in done["cells"].items():
        cells.add_row(name, *(str(counts[verdict]) for verdict in ("within", "better", "worse")))
    if any(sum(counts.values()) for counts in done["cells"].values()):
        console.print(cells)
    claims = make_table("claim", "here", text=("claim", "here"))
    for claim in done["claims"]:
        if claim["verdict"] != "not tested here":
            claims.add_row(claim["statement"], claim["verdict"])
    if claims.row_count:
        console.print(claims)
    for failed in done["failed"]:
        console.print(f"{failed['run']} failed: {failed['error']}", style="red")
    for name, missing in done["absent"].items():
        console.print(f"{name}: left out, not on disk: {', '.join(missing)}", style="dim")
    console.print(f"pages: {Path(done['out']) / 'README.md'}", style="dim")


def print_datasets(rows: list[dict[str, Any]], root: Path) -> None:
    """Print the catalog."""
    table = make_table("name", *SIZES, "on disk", "what it is", text=("name", "on disk", "what it is"))
    table.title = "Data sets"
    for row in rows:
        counts = [count(row[size]) for size in SIZES]
        table.add_row(Text(row["name"], style="bold"), *counts, row["on_disk"], row["about"])
    console = open_console()
    console.print(table)
    console.print(f"Counts as published. Data root: {root}", style="dim", soft_wrap=True)
    console.print("Your own: hpn run FILE.npz, or a folder with nodes.csv and edges.csv", style="dim")


def print_dataset(info: dict[str, Any]) -> None:
    """Print one data set: statistics, classes, tasks and splits."""
    console = open_console(info["name"], info["about"])
    console.print(
        f"{plural(info['nodes'], 'node')}, {plural(info['links'], 'edge record')}, "
        f"{plural(info['edges'], 'distinct edge')}, {plural(info['features'], 'feature')} ({info['storage']}), "
        f"{info['classes']:,} {'class' if info['classes'] == 1 else 'classes'}"
    )
    if info["note"]:
        console.print(info["note"], style="dim")
    sizes = ("nodes", "edges", "train", "val", "test")
    table = make_table("task", "classes", *sizes, text=("task", "classes"))
    for task in info["tasks"]:
        classes = "\n".join(f"{c['id']}  {c['name']}  ({c['size']:,})" for c in task["classes"])
        table.add_row(str(task["index"]), classes, *(f"{task[size]:,}" for size in sizes))
    console.print(table)
    if left := ", ".join(f"{c['id']} {c['name']} ({c['size']:,})" for c in info["left_out"]):
        console.print(f"in no task: {left}", style="dim")
    console.print(f"split: {info['split']}", style="dim")


def _open_for(result: RunResult | Comparison | TuneResult, width: int = 120) -> Console:
    """Print the method, the data set and the protocol, and return the console."""
    method, backbone = getattr(result, "method", None), getattr(result, "backbone", None)
    title = " ".join(filter(None, (method, backbone, "on" if method else None, result.dataset)))
    protocol = f"{result.scenario}-incremental, {result.edges} edges, {result.evaluate} evaluation"
    stream = getattr(result, "stream", "tasks")
    protocol += "" if stream == "tasks" else f", stream by {stream}"
    return open_console(title, f"· {protocol} · seeds {','.join(map(str, result.seeds))}", width=width)


def _add_metrics(table: Table, result: RunResult, part: str = "", paper: Published | None = None) -> None:
    """One row per metric: what it means and its value, and the paper's."""
    for metric in shown_metrics([result]):
        value = f"{metric_text(metric, result.metrics.get(metric.name))} {metric.unit}"
        if published := getattr(paper, metric.name, None):
            value += f"  (paper {metric_text(metric, published)} {metric.unit})"
        title = part + metric.describe(step_noun(result))
        table.add_row(title, value, style="bold" if metric.name == "am" else "")


def _print_leak(console: Console, result: RunResult | Comparison) -> None:
    if gives_task_away(result):
        console.print(WITHIN_GIVES_AWAY, style="yellow")


def _matrix_table(result: RunResult) -> Table:
    """Mean accuracies; for many steps only the first columns, after the last step."""
    matrix, noun = result.mean_matrix(), step_noun(result)
    num_shown, is_cut = min(len(matrix), MOST_STEPS_IN_MATRIX), len(matrix) > MOST_STEPS_IN_MATRIX
    names = [f"{noun} {i}" if noun == "task" else f"{i}: {step.name}" for i, step in enumerate(result.steps, 1)]
    table = make_table(f"after {noun}", *names[:num_shown])
    table.title = "accuracy on (%)"
    for after in [len(matrix) - 1] if is_cut else range(len(matrix)):
        accuracies = [(step, cell) for step, cell in enumerate(matrix[after][:num_shown]) if cell is not None]
        cells = [Text(f"{cell.mean:.1f}", style="dim italic" if step > after else "") for step, cell in accuracies]
        table.add_row(str(after + 1), *cells)
    notes = [f"the first {num_shown} of {len(matrix)} {noun}s; the report shows all"] if is_cut else []
    if len(matrix[0]) > 1:
        notes.append(f"right of the {noun} learned last: {noun}s still to come")
    table.caption = "\n".join(notes) or None
    return table
