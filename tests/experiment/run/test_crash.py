"""Runs killed with SIGKILL at random moments end with the numbers of an undisturbed run."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from hpn.experiment.run.runner import run

IMPORTED = ["hpn.experiment", "torch._dynamo", "torch_geometric"]
"""What a run imports, the last two only when it has begun to learn."""
NOT_COMPARED = {"seconds", "peak_rss_mb", "out"}


def fork(function: Callable[..., Any], *args: Any, **choices: Any) -> ForkServerProcess:
    """A process that has done its imports already, so that a kill hits what it was started for."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    process = context.Process(target=function, args=args, kwargs=choices)
    process.start()
    return process


def start(out: Path, dataset: str, choices: Mapping[str, Any]) -> ForkServerProcess:
    return fork(run, dataset, method="finetune", seeds=2, out=out, **choices)


def finish(out: Path, dataset: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    process = start(out, dataset, choices)
    process.join()
    assert process.exitcode == 0
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    return {key: value for key, value in result.items() if key not in NOT_COMPARED}


def kill_at_random(process: ForkServerProcess, rng: random.Random, whole: float) -> bool:
    """Kill a run at some moment; false if it was done before."""
    time.sleep(rng.uniform(0, whole))
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def kill_and_compare(dataset: str, kills: int, tmp_path: Path, *, seed: int = 0, **choices: Any) -> None:
    rng = random.Random(seed)
    fork(os.getpid).join()  # the imports are not to be measured
    begin = time.perf_counter()
    expected = finish(tmp_path / "whole", dataset, choices)
    whole = time.perf_counter() - begin
    done, number = 0, 0
    while done < kills:
        out = tmp_path / f"killed-{number}"
        while done < kills and kill_at_random(start(out, dataset, choices), rng, whole):
            done += 1
        assert finish(out, dataset, choices) == expected
        number += 1


def test_a_few_kills(tmp_path: Path) -> None:
    kill_and_compare("synthetic", 2, tmp_path, settings={"epochs": 40, "data.num_nodes": 400, "data.num_links": 2000})


@pytest.mark.slow
def test_fifteen_kills_on_digits(tmp_path: Path) -> None:
    kill_and_compare("digits", 15, tmp_path, settings={"epochs": 30})


@pytest.mark.slow
def test_fifteen_kills_on_cora(tmp_path: Path, data_root: Path) -> None:
    kill_and_compare("cora", 15, tmp_path, data_root=data_root, seed=1)
