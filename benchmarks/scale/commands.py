"""Cells that measure whole commands, from their start to their end.

The peak memory is that of the commands. A process starts out with the peak of the one that started it, so
nothing here imports PyTorch.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.scale.child import peak_mb
from benchmarks.scale.plan import Setup, find_real
from benchmarks.scale.stores import hpn_command


def measure_import(setup: Setup, *, dataset: str) -> dict[str, Any]:
    """``hpn import`` from tables (from its own file, if the data set is real) into a store."""
    tables = setup.tables(dataset)
    source = tables if tables.exists() else find_real(dataset)
    store = setup.work / "imported" / dataset
    shutil.rmtree(store, ignore_errors=True)
    store.parent.mkdir(parents=True, exist_ok=True)
    told, seconds = _call(hpn_command("import", source, store, "--json", "--quiet"))
    shutil.rmtree(store)
    return {
        "seconds": seconds,
        "edges": told["links"],
        "edges_per_second": told["links"] / seconds,
        "source": "tables" if source == tables else "npz",
        "peak_mb": peak_mb(resource.RUSAGE_CHILDREN),
    }


def measure_run(setup: Setup, *, dataset: str, settings: Mapping[str, Any], seeds: int = 1) -> dict[str, Any]:
    """``hpn run``: all tasks, with evaluation after each."""
    told, seconds = _run(setup, hpn_command(), dataset, settings, seeds)
    return {
        "seconds": seconds,
        "fit_seconds": told["seconds"]["fit"],
        "predict_seconds": told["seconds"]["predict"],
        "total_seconds": told["seconds"]["total"],
        "tasks": len(told["tasks"]),
        "am": told["am"],
        "prototypes": told["prototypes"],
        "peak_mb": peak_mb(resource.RUSAGE_CHILDREN),
    }


def _run(
    setup: Setup,
    command: list[str],
    dataset: str,
    settings: Mapping[str, Any],
    seeds: int,
) -> tuple[dict[str, Any], float]:
    out = setup.work / "runs" / f"{dataset}-{os.getpid()}"
    shutil.rmtree(out, ignore_errors=True)
    choices = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    seeds = min(seeds, 2) if setup.quick else seeds
    words = ["run", str(setup.store(dataset)), "--seeds", str(seeds), "--out", str(out), *choices]
    told, seconds = _call([*command, *words, "--json", "--quiet"])
    shutil.rmtree(out, ignore_errors=True)
    return told, seconds


def _call(command: list[str]) -> tuple[dict[str, Any], float]:
    """The JSON object that a command prints last, and the seconds it takes.

    Raises:
        RuntimeError: If the command fails, with the line in which it tells why.
    """
    start = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    sys.stderr.write(done.stderr)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        reasons = [line for line in lines if "error" in line.lower()] or lines[-1:]
        raise RuntimeError(f"exit code {done.returncode}; {' '.join(reasons[:1])}")
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told, seconds
