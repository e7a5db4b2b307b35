"""Measure speed and memory, and print one row per figure: what, measured, target, met or not.

Each figure is measured in a process of its own. Data that takes long to make (stores, tables, runs of
baselines) is kept in the work folder.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.figures import FIGURES, measure
from benchmarks.page import HEADS, table_line, write_page


def main() -> int:
    """Measure the figures that are named, or all; returns 1 if one could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures to measure; default all")
    parser.add_argument("--list", action="store_true", help="list the names and exit")
    parser.add_argument("--work", type=Path, default=Path(".bench"), help="folder for data (%(default)s)")
    parser.add_argument("--data", type=Path, help="folder with the data sets; default HPN_DATA")
    parser.add_argument("--page", type=Path, help="write the table here as well; other figures in it are kept")
    words = parser.parse_args()
    if words.list:
        print(*FIGURES, sep="\n")
        return 0
    unknown = [name for name in words.names if name not in FIGURES]
    if unknown:
        parser.error(f"unknown figure {unknown[0]!r}; known: {', '.join(FIGURES)}")
    if words.data:
        os.environ["HPN_DATA"] = str(words.data.resolve())
    names, lines = words.names or list(FIGURES), {}
    print(table_line(HEADS), table_line(["---"] * len(HEADS)), sep="\n", flush=True)
    for name in names:
        try:
            rows = measure(name, words.work.resolve())
        except Exception as error:  # the other figures are still worth measuring
            print(f"{name}: not measured ({type(error).__name__}: {error})", file=sys.stderr)
            continue
        lines[name] = [table_line([f"`{name}`", *row.cells]) for row in rows]
        print(*lines[name], sep="\n", flush=True)
    if words.page:
        write_page(words.page, lines)
    return int(len(lines) < len(names))


if __name__ == "__main__":
    sys.exit(main())
