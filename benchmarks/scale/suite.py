"""Running cells: each in a child process, one after another, and what is finished is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.scale.plan import Cell, Setup

ROOT = Path(__file__).resolve().parents[2]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
PATIENCE = 10.0
"""Seconds that a child has to end when it is told to."""


@dataclass(frozen=True)
class Outcome:
    """What became of a cell.

    Args:
        values: What it measured; empty if it did not.
        note: Why it did not.
    """

    values: dict[str, Any]
    note: str = ""


def run_cells(
    cells: Sequence[Cell], setup: Setup, *, fresh: bool, limit: float, wanted: Sequence[str] = ()
) -> dict[str, Outcome]:
    """Run what is wanted and not kept from before.

    Args:
        cells: All cells, each after those it needs.
        setup: What holds for all.
        fresh: Measure again what is kept; preparations stay.
        limit: Seconds a cell may take.
        wanted: Names of cells, or their beginnings; empty for all.

    Returns:
        The outcome of every cell that ran or was kept, by name.
    """
    chosen = {cell.name for cell in cells if not wanted or any(cell.name.startswith(w) for w in wanted)}
    for cell in reversed(cells):  # those needed come earlier
        if cell.name in chosen and (fresh or not kept(cell, setup)):
            chosen.update(cell.needs)
    outcomes: dict[str, Outcome] = {}
    for number, cell in enumerate(cells, start=1):
        before = kept(cell, setup)
        is_due = cell.name in chosen and (before is None or (fresh and cell.is_shown))
        if not is_due:
            if before is not None:
                outcomes[cell.name] = Outcome(before)
            continue
        missing = [name for name in cell.needs if not outcomes.get(name, Outcome({})).values]
        say(f"[{number}/{len(cells)}] {cell.name} … ", end="")
        start = time.perf_counter()
        if missing:
            reason = outcomes[missing[0]].note if missing[0] in outcomes else "it did not run"
            outcome = Outcome({}, f"{missing[0]}: {reason}")
        else:
            outcome = _run(cell, setup, limit)
        outcomes[cell.name] = outcome
        say(outcome.note or f"{time.perf_counter() - start:.1f} s")
    return outcomes


def kept(cell: Cell, setup: Setup) -> dict[str, Any] | None:
    """What an earlier suite measured of the same cell in the same way."""
    try:
        content = json.loads(_file(cell, setup).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = content.get("key") == json.loads(json.dumps(cell.key(setup)))
    values: dict[str, Any] = content["values"]
    there = all(Path(path).exists() for path in values.get("makes", []))
    return values if same and there else None


def say(words: str, end: str = "\n") -> None:
    """Tell how far it is."""
    print(words, end=end, file=sys.stderr, flush=True)


def _file(cell: Cell, setup: Setup) -> Path:
    return setup.work / "results" / f"{cell.name.replace('/', '--')}.json"


def _run(cell: Cell, setup: Setup, limit: float) -> Outcome:
    threads = cell.threads or setup.threads
    task = {
        "call": cell.call,
        "options": cell.options,
        "work": str(setup.work),
        "threads": threads,
        "quick": setup.quick,
    }
    log = setup.work / "logs" / f"{cell.name.replace('/', '--')}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "OUTDATED_IGNORE": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    with log.open("w", encoding="utf-8") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale.child", json.dumps(task)],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
            start_new_session=True,  # so that it can be ended with all that it has started
        )
        try:
            output, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return Outcome({}, f"not finished within {limit:.0f} s")
        finally:
            _end(child)
    return _keep(cell, setup, output, child.returncode, log)


def _end(child: subprocess.Popen[str]) -> None:
    """Leave no process behind, whatever happened."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(PATIENCE)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    if child.stdout is not None:
        child.stdout.close()


def _keep(cell: Cell, setup: Setup, output: str, code: int, log: Path) -> Outcome:
    try:
        values = json.loads(output.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = next(
            (row for row in reversed(log.read_text(encoding="utf-8").splitlines()) if row.strip()), ""
        )
        return Outcome({}, f"failed (exit code {code}): {last.strip()[:200]}")
    if "skipped" in values:
        return Outcome({}, f"skipped: {values['skipped']}")
    file = _file(cell, setup)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"key": cell.key(setup), "values": values}, indent=1), encoding="utf-8")
    part.replace(file)
    return Outcome(values)
