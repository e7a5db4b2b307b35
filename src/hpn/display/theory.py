"""What theory says, in a terminal: bounds, choices, checks and retention."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hpn.display.console import open_console
from hpn.theory.memory import NO_BOUND, describe_bound

SYMBOLS = {"atomic": "n_A", "node": "n_N", "class": "n_C"}
MOST_ROWS = 40
"""Of a table of tasks; what is beyond is in the JSON."""


def print_bound(bound: dict[str, Any]) -> None:
    """Print Theorem 1 for one choice of dimension, distances and extractors."""
    console = open_console()
    distances = " / ".join(f"{level['distance']:g}" for level in bound["levels"].values())
    num = bound["extractors"]
    console.print(Text(f"dimension {bound['dim']}, cosine distance {distances}", style="bold"))
    console.print(Text(f"{num} node and {num} structure extractors"))
    table = _table("", "level", "at most", "one code", "by the bound")
    for name, level in bound["levels"].items():
        by = level["name"] + (" (exact)" if level["is_exact"] else "")
        table.add_row(SYMBOLS[name], name, describe_bound(level["bound"]), describe_bound(level["code"]), by)
    console.print(table)
    what = "prototypes and extractors" if bound["features"] else "prototypes"
    more = "" if bound["features"] else " (--features F adds the extractors)"
    console.print(Text(f"{what} at most: {_size(bound)}{more}"))
    one = bound["one_set"]
    most = describe_bound(one["prototypes"]["atomic"])
    console.print(Text(f"kept as one code, as hpn keeps them, n_A ≤ {most}: {_size(one)}"))


def print_choices(chosen: dict[str, Any]) -> None:
    """Print which dimensions and distances fit into a budget."""
    console = open_console()
    console.print(
        Text(f"smallest cosine distance that fits {chosen['budget']:,} bytes for ever", style="bold")
    )
    table = _table("dimension", "Theorem 1", "prototypes", "bytes", "one code", "prototypes", "bytes")
    for row in chosen["choices"]:
        cells = []
        for part in (row["theorem"], row["one_set"]):
            if part is None:
                cells += ["none", "–", "–"]
            else:
                total = sum(part["prototypes"].values())
                cells += [f"{part['threshold']:g}", describe_bound(total), describe_bound(part["bytes"])]
        table.add_row(str(row["dim"]), *cells)
    console.print(table)
    num, features = chosen["extractors"], chosen["features"]
    counted = "prototypes and extractors" if features else "prototypes; --features F counts extractors too"
    console.print(Text(f"{num} extractors of each kind; {counted}", style="dim"))
    console.print(Text("one code: as hpn keeps the atomic prototypes of all extractors", style="dim"))
    console.print(
        Text(
            "which of these learns best is for validation nodes to say: hpn run DATASET --set dim=D",
            style="dim",
        )
    )


def print_check(check: dict[str, Any]) -> None:
    """Print the counts of a run, task by task, under their bounds."""
    console = open_console()
    levels = list(check["bounds"])
    console.print(Text(check["run"], style="bold"), Text(f"· {check['dataset']}"))
    table = _table("", *(f"{SYMBOLS[level]} {level}" for level in levels))
    most = _most_by_task(check["growth"])
    for task, counts in list(most.items())[:MOST_ROWS]:
        table.add_row(f"after task {task + 1}", *(describe_bound(counts[level]) for level in levels))
    if len(most) > MOST_ROWS:
        table.add_row(f"… {len(most) - MOST_ROWS} more", *("" for _ in levels))
    table.add_row("one code", *(describe_bound(check["one_set"][level]) for level in levels), style="dim")
    table.add_row("Theorem 1", *(describe_bound(check["bounds"][level]) for level in levels), style="bold")
    console.print(table)
    seeds = {row["seed"] for row in check["growth"]}
    console.print(Text(f"the most of {len(seeds)} seed(s); codes by {_names(check)}", style="dim"))
    if check["codes"]:
        good = sum(row["holds"] for row in check["codes"])
        console.print(
            Text(f"kept states: {good} of {len(check['codes'])} levels are codes of their distance")
        )
    if check["certificates"]:
        good = sum(row["holds"] for row in check["certificates"])
        console.print(Text(f"certificates: {good} of {len(check['certificates'])} hold"))
    for line in check["violations"]:
        console.print(Text(line, style="red"))
    if check["holds"]:
        console.print(Text("every bound is kept", style="green"))


def print_retention(study: dict[str, Any]) -> None:
    """Print Theorem 2, what changed for earlier tasks, and what is proved."""
    console = open_console()
    head = f"· {study['retention']} retention, {study['edges']} edges, seed {study['seed']}"
    console.print(Text(f"hpn on {study['dataset']}", style="bold"), Text(head))
    if study["theorem"] is None:
        console.print(Text(study["theorem_note"]))
    else:
        _print_theorem(console, study["theorem"])
    table = _table(
        "nodes of", "after", "nodes", "touched", "other prototypes", "other class", "sharing", "answers"
    )
    proofs = {(proof["task"], proof["after"]): proof for proof in study["proofs"]}
    for row in study["changes"][:MOST_ROWS]:
        proof = proofs[row["task"], row["after"]]
        same = proof["before"] == proof["now"]
        answers = "same" if same else "changed"
        if same and proof["is_certified"]:
            answers = f"proved same: {proof['now'][:12]}"
        counts = (row[key] for key in ("nodes", "touched", "rematched", "relabelled", "shared"))
        table.add_row(
            f"task {row['task'] + 1}", f"task {row['after'] + 1}", *map(describe_bound, counts), answers
        )
    if len(study["changes"]) > MOST_ROWS:
        table.caption = f"the first {MOST_ROWS} of {len(study['changes'])} pairs; --json has all"
    console.print(table)
    if study["is_proved"]:
        console.print(Text("no earlier answer has changed in any bit, and none can", style="green"))
    elif study["retention"] == "certified":
        console.print(Text("a proof failed: an earlier answer has changed", style="red"))


def _print_theorem(console: Console, theorems: list[dict[str, Any]]) -> None:
    table = _table(
        "Theorem 2", "distance", "λ_min", "t_A", "< √(λ(l_r+1))·dist", "printed: λ(l_r+1)·dist", "holds"
    )
    for number, row in enumerate(theorems[:MOST_ROWS]):
        numbers = (
            row[key] for key in ("distance", "eigenvalue", "threshold", "right_proved", "right_printed")
        )
        verdict = "yes" if row["is_satisfied"] else "no"
        table.add_row(f"tasks {number + 1}, {number + 2}", *(f"{value:.4g}" for value in numbers), verdict)
    console.print(table)
    reasons = dict.fromkeys(reason for row in theorems for reason in row["reasons"])
    for reason in reasons:
        console.print(Padding(Text(reason), (0, 0, 0, 2)))


def _most_by_task(growth: list[dict[str, Any]]) -> dict[int, dict[str, int]]:
    most: dict[int, dict[str, int]] = {}
    for row in growth:
        known = most.setdefault(row["task"], dict(row["prototypes"]))
        for level, count in row["prototypes"].items():
            known[level] = max(known[level], count)
    return dict(sorted(most.items()))


def _names(check: dict[str, Any]) -> str:
    return ", ".join(dict.fromkeys(check["names"].values()))


def _table(*heads: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left")
    return table


def _size(part: dict[str, Any]) -> str:
    if part["bytes"] >= NO_BOUND:
        return describe_bound(NO_BOUND)
    return f"{describe_bound(part['parameters'])} numbers, {describe_bound(part['bytes'])} bytes"
