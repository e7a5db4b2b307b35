"""The page: what was asked for, what was measured, and how."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks.scale.asked import Results, list_asked
from benchmarks.scale.plan import (
    AUTHORS_BATCH,
    AUTHORS_FIRST,
    AUTHORS_LAST,
    DIMS,
    FEW_EPOCHS,
    FEW_TASKS,
    GCN,
    GCN_BATCHES,
    LARGE,
    SEEDS,
    Setup,
    hpn_settings,
    plan_cells,
)
from benchmarks.scale.plots import draw_all
from benchmarks.scale.suite import Outcome
from benchmarks.scale.tables import authors_table, data_table, speed_table, table
from hpn.report.format import count, decimal, plain_markdown

BATCH = LARGE["batch_size"]
CAPTIONS = {
    "speeds.svg": "Thousand training nodes a second",
    "memory.svg": "Peak memory of each process",
    "authors.svg": "Training nodes a second of each task of arxiv-like",
    "growth-nodes.svg": "Seconds an epoch over training nodes",
    "growth-tasks.svg": "Time of each of many equal tasks",
    "growth-prototypes.svg": "Time of a batch over the number of prototypes",
}


def write_page(out: Path, setup: Setup, outcomes: Mapping[str, Outcome]) -> None:
    """Write the page and its pictures, and remove pictures of the suite that no longer belong to it."""
    results = {name: outcome.values for name, outcome in outcomes.items() if outcome.values}
    pictures = draw_all(results, setup.quick)
    out.mkdir(parents=True, exist_ok=True)
    for name in CAPTIONS:
        if name in pictures:
            (out / name).write_text(pictures[name] + "\n", encoding="utf-8")
        else:
            (out / name).unlink(missing_ok=True)
    asked = [figure.row(results, setup.quick) for figure in list_asked(setup.threads, setup.quick)]
    parts = [
        _head(setup),
        "## What was asked for\n",
        table(("figure", "asked for", "measured", ""), asked),
        "## Speed and memory\n",
        data_table(results),
        _images(pictures, "speeds.svg", "memory.svg"),
        speed_table(results),
        "## Beside the authors’ code\n",
        _authors_words(results),
        authors_table(results),
        _images(pictures, "authors.svg"),
        "## Growth\n",
        _growth_words(results),
        _images(pictures, "growth-nodes.svg", "growth-tasks.svg", "growth-prototypes.svg"),
        _notes(outcomes, setup),
        _method(),
    ]
    (out / "README.md").write_text("\n".join(part for part in parts if part), encoding="utf-8")


def _head(setup: Setup) -> str:
    command = "python -m benchmarks.scale" + (" --quick" if setup.quick else "")
    command += "" if setup.threads == 2 else f" --threads {setup.threads}"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = f"{setup.threads} thread{'s' * (setup.threads > 1)}"
    system = f"{platform.system()}, {platform.machine()}"
    tools = f"Python {platform.python_version()}, PyTorch {version('torch')}, NumPy {version('numpy')}"
    warning = "\n**Tiny sizes: this page shows that the suite works, and measures nothing.**\n"
    return f"""# Benchmarks

Written by the suite; `make bench` runs it, or

```
{command}
```
{warning if setup.quick else ""}
Measured on {cores} cores with {memory:.0f} GiB of memory ({system}; {tools}),
{threads} unless a row says otherwise. Seconds are those of this machine; the ratios tell more.
"""


def _images(pictures: Mapping[str, str], *names: str) -> str:
    shown = [f"![{CAPTIONS[name]}]({name})" for name in names if name in pictures]
    return "\n".join(shown) + "\n" if shown else ""


def _authors_words(results: Results) -> str:
    then, later = count(AUTHORS_FIRST), count(AUTHORS_LAST)
    return f"""The authors’ code trains about {then} nodes a second in the prototype phase at batch
{AUTHORS_BATCH}, with two threads and debugging off, and slows to {later} as prototypes accumulate; these
two numbers were measured elsewhere. Ours are from arxiv-like: over all tasks, over the first three and over
the last three; AM over {SEEDS} seeds, at batch {AUTHORS_BATCH} also with the paper's learning rate.
{_sizes_words(results)}
"""


def _sizes_words(results: Results) -> str:
    found = results.get(f"tasks/batch-{AUTHORS_BATCH}")
    if not found:
        return ""
    first, last = sum(found["train"][:3]) / 3, sum(found["train"][-3:]) / 3
    return f"Later tasks are smaller: {count(first)} training nodes at first, {count(last)} at last."


def _growth_words(results: Results) -> str:
    lines = [
        "Training nodes: synthetic graphs of one task, the same degree and features at every size, the "
        "shortest of several epochs. Line: least squares in logarithms."
    ]
    if found := results.get("growth/tasks"):
        lines.append(
            f"Tasks seen: {len(found['by_task'])} tasks of {count(found['train'])} training nodes each, the "
            "shortest of three times from a task's arrival to its end; the last three take "
            f"{decimal(found['ratio'], 2)} times as long as the first three."
        )
    if found := results.get("growth/prototypes"):
        lines.append(
            f"Prototypes: the nearest of so many for each of {count(found['embeddings'])} embeddings, and a "
            "whole step of the prototype phase with thresholds that make more of them."
        )
    return "\n\n".join(lines) + "\n"


def _notes(outcomes: Mapping[str, Outcome], setup: Setup) -> str:
    """What is missing on the page, and why."""
    rows = []
    for cell in plan_cells(setup.quick):
        outcome = outcomes.get(cell.name, Outcome({}, "not run"))
        if cell.is_shown and not outcome.values:
            rows.append(f"- `{cell.name}`: {plain_markdown(outcome.note)}")
    return "## Not measured\n\n" + "\n".join(rows) + "\n" if rows else ""


def _method() -> str:
    settings = ", ".join(f"`{key}={value}`" for key, value in hpn_settings().items())
    dims = ", ".join(f"`dim={dim}` on {dataset}" for dataset, dim in DIMS.items())
    few = ", ".join(f"on {dataset} the first {num}" for dataset, num in FEW_TASKS.items())
    short = ", ".join(f"on {dataset} {num}" for dataset, num in FEW_EPOCHS.items())
    size, drawn = GCN_BATCHES["batch_size"], GCN_BATCHES["num_neighbors"]
    return f"""## How it was measured

- Every row comes from a process of its own, and so does its peak memory (resident, mapped files included).
  A command's seconds are from its start to its end, Python's start included.
- HPN has {settings}; {dims}.
  The prototype phase is timed from the end of a task's first epoch to the end of its last; the whole fit also
  has what comes before and after.
- *Gather alone* copies, in batches of {BATCH:,}, the features of the same training nodes and of a drawn
  neighbour of each into memory and does nothing else. It runs in the same process after each epoch, with as
  many threads.
- *GCN* is `finetune` with {GCN["epochs"]} epochs: in batches of {size:,} with {drawn} neighbours drawn for a
  node ({short} epochs), or in one step an epoch over the whole graph of a task. Ratios are to the former. It
  answers for whole graphs.
- HPN and GCN are fitted to all tasks; {few}. A node counts once an epoch.
- *Answers* come after the last task, the task given; what is asked is made ready before the clock starts.
  Where a graph has fewer than a million nodes, the time for a million is that for all of them, scaled.
- Tables to import from hold every edge once.
"""
