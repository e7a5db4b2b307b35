"""A row of the table, and how times and memory are taken.

Nothing here imports PyTorch: a process starts out with the peak memory of the one that started it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

HPN = (sys.executable, "-m", "hpn")
TORCH = (sys.executable, "-c", "import torch")
RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system counts resident memory."""


@dataclass(frozen=True)
class Row:
    """One figure and its target.

    Args:
        what: What was measured.
        value: The ratio, or another number with a ``unit``.
        unit: Unit of the value; empty for a ratio.
        least: The least that is required.
        most: The most that is required.
    """

    what: str
    value: float
    unit: str = ""
    least: float | None = None
    most: float | None = None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """What, measured, target, met or not."""
        shown, low, high = self._show(self.value), self.least, self.most
        if low is None and high is None:
            return self.what, shown, "", ""
        parts = [
            "" if low is None else f"at least {self._show(low)}",
            "" if high is None else f"at most {self._show(high)}",
        ]
        is_met = (low is None or self.value >= low) and (high is None or self.value <= high)
        return self.what, shown, ", ".join(filter(None, parts)), "met" if is_met else "not met"

    def _show(self, value: float) -> str:
        number = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        return f"{number} {self.unit}".strip()


@dataclass(frozen=True)
class Finished:
    """What a command printed as JSON, the seconds from its start to its end, and its peak memory."""

    result: dict[str, Any]
    seconds: float
    peak_gb: float


def run_hpn(*words: object) -> Finished:
    """Run a command of the package in a process of its own."""
    start = time.perf_counter()
    command = [*HPN, *map(str, words), "--json", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"hpn {' '.join(map(str, words))} ended with exit code {process.returncode}")
    return Finished(json.loads(printed), seconds, usage.ru_maxrss * RSS_UNIT / 1e9)


def find_store(work: Path, name: str) -> Path:
    """The store of a synthetic data set, which is made if it is not there."""
    work.mkdir(parents=True, exist_ok=True)
    if not (work / name).exists():
        run_hpn("import", name, work / name)
    return work / name


def run_store(work: Path, store: Path, *words: str, name: str, is_timed: bool = True) -> Finished:
    """``hpn run`` on a store; a finished run that is not timed is shown again, not repeated."""
    fresh = ["--fresh"] if is_timed else []
    return run_hpn("run", store, *words, "--out", work / "runs" / f"{store.name}-{name}", *fresh)


def wall_seconds(
    commands: Mapping[str, Sequence[str]], rounds: int = 5, folder: Path | None = None
) -> dict[str, float]:
    """Median wall time of each command, run in turn because a machine may be slower a minute later."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, words in commands.items():
            start = time.perf_counter()
            subprocess.run(words, check=True, capture_output=True, cwd=folder, env=environment)
            if number:  # the first round compiles modules
                times[name].append(time.perf_counter() - start)
    return {name: median(seconds) for name, seconds in times.items()}
