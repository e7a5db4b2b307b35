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
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from benchmarks.scale.child import peak_mb
from benchmarks.scale.plan import Setup, Skipped, find_real
from benchmarks.scale.stores import hpn_command

ROUNDS = 5
"""How often one process and two are compared, on a machine that others may be using as well."""
ONE, TWO, SIDE_BY_SIDE = "one process", "two processes", "two runs at the same time"


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


def measure_processes(setup: Setup, *, dataset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same run in one process, in two that share it, and twice at the same time; one thread each.

    In turn and several times; medians. How much longer two unrelated runs take that go on at the same time is
    what two cores of the machine take from each other.
    """
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "hpn",
    ]
    ways = {ONE: [hpn_command()], TWO: [launcher], SIDE_BY_SIDE: [hpn_command()] * 2}
    told: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for name, commands in list(ways.items()) * (1 if setup.quick else ROUNDS):
        try:
            with ThreadPoolExecutor(len(commands)) as pool:
                runs = list(
                    pool.map(
                        lambda number, words: _run(setup, words, dataset, settings, 1, number),
                        range(len(commands)),
                        commands,
                    )
                )
        except (RuntimeError, ValueError, IndexError) as error:
            raise Skipped(f"no run with {name}: {error}") from error
        result, wall = max(runs, key=lambda run: run[0]["seconds"]["total"])
        parts = {key: result["seconds"][key] for key in ("fit", "predict", "total")}
        told[name].append({**parts, "wall": wall, "am": result["am"]["mean"]})
    values: dict[str, Any] = {
        name: {key: median(run[key] for run in runs) for key in runs[0]} for name, runs in told.items()
    }
    one, two, side_by_side = values.values()
    keys = ("fit", "predict", "total", "wall")
    values["speedup"] = {key: one[key] / two[key] for key in keys}
    values["ceiling"] = {key: 2 * one[key] / side_by_side[key] for key in keys}
    pairs = zip(told[ONE], told[TWO], strict=True)
    values["pairs"] = sorted(alone["total"] / shared["total"] for alone, shared in pairs)
    return {**values, "peak_mb": peak_mb(resource.RUSAGE_CHILDREN)}


def _run(
    setup: Setup,
    command: list[str],
    dataset: str,
    settings: Mapping[str, Any],
    seeds: int,
    number: int = 0,
) -> tuple[dict[str, Any], float]:
    out = setup.work / "runs" / f"{dataset}-{os.getpid()}-{number}"
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
