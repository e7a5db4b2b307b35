"""Runs killed with SIGKILL at random moments end with the numbers of an undisturbed run."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from hpn.experiment.run.runner import run

# What a run imports, the last two only when it has begun to learn.
IMPORTED = ["hpn.experiment.run.runner", "torch._dynamo", "torch_geometric.nn"]
NOT_COMPARED = {"seconds", "peak_rss_mb", "out"}


def fork(function: Callable[..., Any], *args: Any, **choices: Any) -> ForkServerProcess:
    """A process that has done its imports already, so that a kill hits the run itself."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=function, args=args, kwargs=choices)
    process.start()
    return process


def kill_and_compare(folder: Path, kills: int, dataset: str, *, seed: int = 0, **choices: Any) -> None:
    rng = random.Random(seed)
    fork(os.getpid).join()  # imports are not measured

    def start(out: Path) -> ForkServerProcess:
        return fork(run, dataset, **{"method": "finetune", "seeds": 2, "out": out, **choices})

    def finish(out: Path) -> dict[str, Any]:
        process = start(out)
        process.join()
        assert process.exitcode == 0
        result: dict[str, Any] = json.loads((out / "result.json").read_text())
        return {key: value for key, value in result.items() if key not in NOT_COMPARED}

    def is_killed(process: ForkServerProcess) -> bool:
        """Kill a run at some moment; false if it was done before."""
        time.sleep(rng.uniform(0, whole))
        process.kill()
        process.join()
        return process.exitcode == -signal.SIGKILL

    begin = time.perf_counter()
    expected = finish(folder / "whole")
    whole = time.perf_counter() - begin
    done, number = 0, 0
    while done < kills:
        out = folder / f"killed-{number}"
        while done < kills and is_killed(start(out)):
            done += 1
        assert finish(out) == expected
        number += 1


def test_a_few_kills(tmp_path: Path) -> None:
    settings = {"epochs": 20, "data.num_nodes": 200, "data.num_links": 800, "data.num_classes": 4}
    kill_and_compare(tmp_path, 2, "synthetic", settings=settings)


@pytest.mark.slow
def test_fifteen_kills_on_digits(tmp_path: Path) -> None:
    kill_and_compare(tmp_path, 15, "digits", settings={"epochs": 30})


@pytest.mark.slow
def test_fifteen_kills_on_cora(tmp_path: Path, data_root: Path) -> None:
    kill_and_compare(tmp_path, 15, "cora", data_root=data_root, seed=1)
