"""What prototype networks cost: seconds of two presets, and whether later tasks take longer than earlier.

    python benchmarks/prototypes.py [--data DIR]

The seconds depend on the machine; the ratios at the end do not, or much less.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch

from hpn.datasets import Graph, load_dataset
from hpn.evaluation import evaluate
from hpn.learners import HPN
from hpn.streams import TaskStream

AUTHORS = {"cora": (5.6, 41.0), "citeseer": (6.8, 83.0), "actor": (28.0, 46.0)}
"""Seconds a seed of the authors' code on a CPU with two threads: training alone, and the whole run."""


def measure(graph: Graph, preset: str) -> tuple[float, float]:
    """Seconds of training, and of training and evaluation after each task."""
    stream = TaskStream(graph, seed=0)
    learner = HPN(preset=preset)  # type: ignore[arg-type]
    fit = total = 0.0
    for index in range(len(stream)):
        task = stream.task(index)
        start = time.perf_counter()
        learner.fit_task(task)
        fit += time.perf_counter() - start
        evaluate(learner, stream, after=index, mode="oracle")
        total += time.perf_counter() - start
    return fit, total


def measure_growth(num_tasks: int) -> list[float]:
    """Seconds of each of many tasks of the same size."""
    graph = load_dataset("synthetic", num_classes=2 * num_tasks, num_nodes=400 * num_tasks)
    stream = TaskStream(graph, seed=0)
    learner, seconds = HPN(preset="best"), []
    for index in range(len(stream)):
        task = stream.task(index)
        start = time.perf_counter()
        learner.fit_task(task)
        seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the data sets; else HPN_DATA or the cache")
    arguments = parser.parse_args()
    if arguments.data:
        os.environ["HPN_DATA"] = str(arguments.data)
    torch.set_num_threads(1)
    measure(load_dataset("digits"), "best")  # the first fit of a process pays for imports
    print("data set    preset  training  of authors'  whole run  of authors'")
    for name, (fit_then, total_then) in AUTHORS.items():
        start = time.perf_counter()
        graph = load_dataset(name)
        load = time.perf_counter() - start if name != "cora" else 0.0  # includes an import the first time
        for preset in ("paper", "best"):
            fit, total = measure(graph, preset)
            total += load
            training = f"{fit:7.2f} s {fit_then / fit:9.1f} x"
            print(f"{name:<11} {preset:<6} {training} {total:8.2f} s {total_then / total:9.1f} x")
    seconds = measure_growth(50)
    ratio = sum(seconds[-10:]) / sum(seconds[:10])
    print(f"50 synthetic tasks, preset best: the last ten take {ratio:.2f} times as long as the first ten")


if __name__ == "__main__":
    main()
