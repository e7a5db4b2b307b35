"""Results of the theory in a terminal: bounds, choices, checks and retention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding

from hpn.display.tables import make_table, open_console
from hpn.report.format import count, plural
from hpn.theory.memory import NO_BOUND, describe_bound

if TYPE_CHECKING:
    from hpn.experiment.bound_check import BoundCheck
    from hpn.experiment.retention import RetentionResult
    from hpn.theory.theorem_two import TheoremTwo

SYMBOLS = {"atomic": "n_A", "node": "n_N", "class": "n_C"}
MOST_ROWS = 40
"""Rows of a table of tasks; the JSON has all."""


def print_bound(bound: dict[str, Any]) -> None:
    """Print Theorem 1 for one choice of dimension, distances and extractors."""
    distances = " / ".join(f"{level['distance']:g}" for level in bound["levels"].values())
    num = bound["extractors"]
    console = open_console(f"dimension {bound['dim']}, cosine distance {distances}")
    console.print(f"{num} node and {num} structure extractors")
    table = make_table("", "level", "at most", "one code", "by the bound")
    for name, level in bound["levels"].items():
        by = level["name"] + (" (exact)" if level["is_exact"] else "")
        table.add_row(SYMBOLS[name], name, describe_bound(level["bound"]), describe_bound(level["code"]), by)
    console.print(table)
    what = "prototypes and extractors" if bound["features"] else "prototypes"
    more = "" if bound["features"] else " (--features F adds the extractors)"
    console.print(f"{what} at most: {_size(bound)}{more}")
    one = bound["one_set"]
    most = describe_bound(one["prototypes"]["atomic"])
    console.print(f"kept as one code, as hpn keeps them, n_A ≤ {most}: {_size(one)}")


def print_choices(chosen: dict[str, Any]) -> None:
    """Print the dimensions and distances that fit a budget."""
    console = open_console(f"smallest cosine distance that never exceeds {chosen['budget']:,} bytes")
    table = make_table("dimension", "Theorem 1", "prototypes", "bytes", "one code", "prototypes", "bytes")
    for row in chosen["choices"]:
        cells = []
        for part in (row["theorem"], row["one_set"]):
            if part is None:
                cells += ["none", "–", "–"]
            else:
                total = sum(part["prototypes"].values())
                cells += [f"{part['threshold']:g}", count(total), count(part["bytes"])]
        table.add_row(str(row["dim"]), *cells)
    console.print(table)
    num, features = chosen["extractors"], chosen["features"]
    counted = "prototypes and extractors" if features else "prototypes; --features F counts extractors too"
    console.print(f"{num} extractors of each kind; {counted}", style="dim")
    console.print("one code: as hpn keeps the atomic prototypes of all extractors", style="dim")
    console.print(
        "validation nodes decide which learns best: hpn run DATASET --set preset=paper --set dim=D", style="dim"
    )


def print_check(check: BoundCheck) -> None:
    """Print the counts of a run, task by task, under their bounds."""
    console, levels = open_console(check.run, f"· {check.dataset}"), list(check.bounds)
    table = make_table("", *(f"{SYMBOLS[level]} {level}" for level in levels))
    tasks = sorted({row.task for row in check.growth})
    for task in tasks[:MOST_ROWS]:
        rows = [row.prototypes for row in check.growth if row.task == task]
        table.add_row(f"after task {task + 1}", *(count(max(row[level] for row in rows)) for level in levels))
    if len(tasks) > MOST_ROWS:
        table.add_row(f"… {len(tasks) - MOST_ROWS} more", *("" for _ in levels))
    table.add_row("one code", *(describe_bound(check.one_set[level]) for level in levels), style="dim")
    table.add_row("Theorem 1", *(describe_bound(check.bounds[level]) for level in levels), style="bold")
    console.print(table)
    num_seeds = len({row.seed for row in check.growth})
    names = ", ".join(dict.fromkeys(check.names.values()))
    console.print(f"the most of {plural(num_seeds, 'seed')}; codes by {names}", style="dim")
    if check.codes:
        good = sum(code.holds for code in check.codes)
        console.print(f"saved states: {good} of {len(check.codes)} levels are codes of their distance")
    if check.certificates:
        good = sum(one.holds for one in check.certificates)
        console.print(f"certificates: {good} of {len(check.certificates)} hold")
    for line in check.violations:
        console.print(line, style="red")
    if check.holds:
        console.print("every bound is kept", style="green")


def print_retention(study: RetentionResult) -> None:
    """Print Theorem 2, the changes of earlier tasks, and the proofs."""
    report = study.report
    protocol = f"· {report.retention} retention, {study.edges} edges, seed {study.seed}"
    console = open_console(f"hpn on {study.dataset}", protocol)
    if report.theorem is None:
        from hpn.theory.retention import NO_THEOREM

        console.print(NO_THEOREM)
    else:
        _print_theorem(console, report.theorem)
    table = make_table(
        "nodes of", "after", "nodes", "touched", "other prototypes", "other class", "sharing", "predictions"
    )
    proofs = {(proof.task, proof.after): proof for proof in report.proofs}
    for row in report.changes[:MOST_ROWS]:
        proof = proofs[row.task, row.after]
        answers = "same" if proof.before == proof.now else "changed"
        if proof.holds:
            answers = f"proved same: {proof.now[:12]}"
        counts = (row.nodes, row.touched, row.rematched, row.relabelled, row.shared)
        table.add_row(f"task {row.task + 1}", f"task {row.after + 1}", *map(count, counts), answers)
    if len(report.changes) > MOST_ROWS:
        table.caption = f"the first {MOST_ROWS} of {len(report.changes)} pairs; --json has all"
    console.print(table)
    if report.is_proved:
        console.print("no earlier prediction has changed in any bit, and none can", style="green")
    elif report.retention == "certified":
        console.print("a proof failed: an earlier prediction has changed", style="red")


def _print_theorem(console: Console, theorems: Sequence[TheoremTwo]) -> None:
    table = make_table("Theorem 2", "distance", "λ_min", "t_A", "< √(λ(l_r+1))·dist", "printed: λ(l_r+1)·dist", "holds")
    for number, row in enumerate(theorems[:MOST_ROWS]):
        numbers = (row.distance, row.eigenvalue, row.threshold, row.right_proved, row.right_printed)
        verdict = "yes" if row.is_satisfied else "no"
        table.add_row(f"tasks {number + 1}, {number + 2}", *(f"{value:.4g}" for value in numbers), verdict)
    console.print(table)
    for reason in dict.fromkeys(reason for row in theorems for reason in row.reasons):
        console.print(Padding(reason, (0, 0, 0, 2)))


def _size(part: dict[str, Any]) -> str:
    if part["bytes"] >= NO_BOUND:
        return describe_bound(NO_BOUND)
    return f"{describe_bound(part['parameters'])} numbers, {describe_bound(part['bytes'])} bytes"
