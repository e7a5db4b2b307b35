"""Runs killed with SIGKILL at random moments end with the numbers of an undisturbed run."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

NOT_COMPARED = {"seconds", "peak_rss_mb", "out"}


def command(dataset: str, out: Path, *more: str) -> list[str]:
    words = ["run", dataset, "--method", "finetune", "--seeds", "2", "--quiet", "--json", "--out", str(out)]
    return [sys.executable, "-m", "hpn", *words, *more]


def finish(words: list[str]) -> dict[str, Any]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return {key: value for key, value in result.items() if key not in NOT_COMPARED}


def kill_at_random(words: list[str], rng: random.Random, whole: float) -> bool:
    """Start a run and kill it at some moment; false if it was done before."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(rng.uniform(0.4 * whole, whole))  # the first part is spent on imports
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def kill_and_compare(dataset: str, kills: int, tmp_path: Path, *more: str, seed: int = 0) -> None:
    rng = random.Random(seed)
    start = time.perf_counter()
    expected = finish(command(dataset, tmp_path / "whole", *more))
    whole = time.perf_counter() - start
    done, run = 0, 0
    while done < kills:
        words = command(dataset, tmp_path / f"killed-{run}", *more)
        while done < kills and kill_at_random(words, rng, whole):
            done += 1
        assert finish(words) == expected
        run += 1


def test_a_few_kills(tmp_path: Path) -> None:
    small = ("--set", "epochs=40", "--set", "data.num_nodes=400", "--set", "data.num_links=2000")
    kill_and_compare("synthetic", 2, tmp_path, *small)


@pytest.mark.slow
def test_fifteen_kills_on_digits(tmp_path: Path) -> None:
    kill_and_compare("digits", 15, tmp_path)


@pytest.mark.slow
def test_fifteen_kills_on_cora(tmp_path: Path, data_root: Path) -> None:
    kill_and_compare("cora", 15, tmp_path, "--data-root", str(data_root), seed=1)
