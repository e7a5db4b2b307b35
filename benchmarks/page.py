"""The page: the table of all figures, and how each is measured."""

from __future__ import annotations

import inspect
import os
import platform
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.figures import FIGURES, find_figure

HEADS = ("figure", "what", "measured", "target", "")
PAGE = """# Speed and memory

This page is written by `python -m benchmarks --page docs/explanation/benchmarks.md`. `make bench` prints the table
for your machine, and `python -m benchmarks NAME` a part of it (`--list` lists the names). Both sides of a ratio are
measured in the same run, in turn, unless the notes below state otherwise.

Machine: {machine}; last changed on {day}.

{table}

## How it is measured

{notes}
"""


def table_line(cells: Iterable[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def write_page(page: Path, lines: Mapping[str, list[str]]) -> None:
    """Write the rows of some figures; rows of others that are on the page stay there."""
    kept: dict[str, list[str]] = {}
    for line in page.read_text(encoding="utf-8").splitlines() if page.exists() else []:
        name = re.match(r"\| `(\w+)` \|", line)
        if name:
            kept.setdefault(name[1], []).append(line)
    shown = {**kept, **lines}
    names = [name for name in FIGURES if name in shown]
    heads = [table_line(HEADS), table_line(["---"] * len(HEADS))]
    python, system = f"Python {platform.python_version()}", f"{platform.system()}, {platform.machine()}"
    text = PAGE.format(
        machine=f"{os.cpu_count()} cores ({system}), {python}",
        day=datetime.now(tz=timezone.utc).date(),
        table="\n".join([*heads, *(line for name in names for line in shown[name])]),
        notes="\n\n".join(f"**`{name}`.** {inspect.getdoc(find_figure(name))}" for name in names),
    )
    page.write_text(text, encoding="utf-8")
