"""Killed with SIGKILL at random moments, ``hpn reproduce`` ends with the pages of an undisturbed call."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NUM_KILLS = 3


def write_graph(path: Path, num_nodes: int = 240) -> Path:
    rng = np.random.default_rng(0)
    labels = np.arange(num_nodes) % 6
    np.savez(
        path,
        adj_indptr=np.arange(num_nodes + 1),
        adj_indices=(np.arange(num_nodes) + 6) % num_nodes,
        adj_shape=np.array([num_nodes, num_nodes]),
        attr_matrix=np.eye(6)[labels] + 0.5 * rng.normal(size=(num_nodes, 6)),
        labels=labels,
    )
    return path


def start(folder: Path, graph: Path) -> subprocess.Popen[bytes]:
    words = ["-m", "hpn", "reproduce", "ablation-levels", "visualization", "--datasets", str(graph)]
    words += ["--seeds", "2", "--workers", "2", "--quiet", "--runs", str(folder / "runs")]
    return subprocess.Popen([sys.executable, *words, "--out", str(folder / "out")], stdout=subprocess.DEVNULL)


def contents(folder: Path) -> dict[str, Any]:
    found = {path.name: json.loads(path.read_text()) for path in sorted((folder / "out").glob("*.json"))}
    for content in found.values():
        for section in content["sections"]:
            for case in section["cases"]:
                del case["seconds"]
    return found


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    graph = write_graph(tmp_path / "graph.npz")
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
    assert contents(tmp_path / "killed") == contents(tmp_path / "once")
    assert {*contents(tmp_path / "once")} == {"ablation-levels.json", "visualization.json"}
