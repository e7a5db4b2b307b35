"""Run the suite, or what is left of it, and write the page.

    python -m benchmarks.scale [--quick] [--only NAME] [--threads N] [--work DIR] [--out DIR] [--fresh]

Results of finished cells are kept in the work folder: the same command goes on where it was stopped, and
writes the page again from what is there. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks.scale.plan import Setup, plan_cells
from benchmarks.scale.suite import ROOT, run_cells, say

INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--work", type=Path, default=Path(".bench"), help="data and finished cells (%(default)s)"
    )
    parser.add_argument("--out", type=Path, help="where the page goes (docs/benchmarks; quick: into --work)")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="cells whose names begin so; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="list the cells and end")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: try the suite, measure nothing")
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept")
    parser.add_argument("--threads", type=int, default=2, help="threads of a process (%(default)s)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds a cell may take (%(default)s)")
    given = parser.parse_args()
    cells = plan_cells(given.quick)
    if given.list:
        print("\n".join(cell.name for cell in cells))
        return 0
    unknown = [name for name in given.only if not any(cell.name.startswith(name) for cell in cells)]
    if unknown or given.threads < 1:
        parser.error(
            f"--only {unknown[0]}: no such cell; --list shows them" if unknown else "--threads: 1 or more"
        )
    work = (given.work / "quick" if given.quick else given.work).resolve()
    setup = Setup(work, threads=given.threads, quick=given.quick)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        outcomes = run_cells(cells, setup, fresh=given.fresh, limit=given.limit, wanted=given.only)
    except KeyboardInterrupt:
        say("\ninterrupted; the same command goes on from here")
        return INTERRUPTED
    from benchmarks.scale.page import write_page

    out = given.out or (work / "page" if given.quick else ROOT / "docs" / "benchmarks")
    write_page(out, setup, outcomes)
    say(f"wrote {out / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
