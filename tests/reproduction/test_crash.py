"""Killed with SIGKILL at random moments, ``hpn reproduce`` ends with the pages of an undisturbed call."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NUM_KILLS = 3


def start(folder: Path, graph: Path) -> subprocess.Popen[bytes]:
    words = ["-m", "hpn", "reproduce", "ablation-levels", "visualization", "--datasets", str(graph)]
    words += ["--seeds", "2", "--workers", "2", "--quiet", "--runs", str(folder / "runs")]
    return subprocess.Popen([sys.executable, *words, "--out", str(folder / "out")], stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path, write_graph: Any, results_of: Any) -> None:
    graph = write_graph(tmp_path / "graph.npz", 240, 6, 0.5)
    assert start(tmp_path / "once", graph).wait(timeout=300) == 0
    draw = random.Random(0)
    for _ in range(NUM_KILLS):
        process = start(tmp_path / "killed", graph)
        try:
            process.wait(timeout=draw.uniform(4.0, 10.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    assert start(tmp_path / "killed", graph).wait(timeout=300) == 0
    assert results_of(tmp_path / "killed" / "out") == results_of(tmp_path / "once" / "out")
    assert {*results_of(tmp_path / "once" / "out")} == {"ablation-levels.json", "visualization.json"}
