"""Cells that measure growth: with the nodes of a task, the tasks seen, and the prototypes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from benchmarks.scale.internals import fill_book
from benchmarks.scale.plan import Setup
from benchmarks.scale.speeds import Laps
from hpn.datasets import Graph, load_dataset
from hpn.learners.hpn import PaperHPN
from hpn.nn.snapping import unit
from hpn.streams import TaskStream

NUM_FEATURES, DEGREE = 100, 20
TRAIN_SHARE = 0.6
EFFORT = 4_000_000
"""Training nodes to go over at each size: small tasks get more epochs, so that their least is as sure."""
NUM_TASKS, TASK_NODES, REPEATS = 32, 40_000, 3
MATCHED, MATCH_DIM = 4000, 16
THRESHOLDS = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


def measure_nodes(setup: Setup, *, num_train: int, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The shortest of several epochs of one task, whose degree and features are the same at all sizes."""
    torch.set_num_threads(setup.threads)
    num_nodes = int(num_train / TRAIN_SHARE) - 5
    task = TaskStream(
        load_dataset(
            "synthetic",
            num_nodes=num_nodes,
            num_links=num_nodes * DEGREE // 2,
            num_features=NUM_FEATURES,
            num_classes=2,
        )
    ).task(0)
    laps, epochs = Laps(), max(8, min(60, EFFORT // num_train))
    PaperHPN(**{**settings, "epochs": epochs}).fit_task(task, laps)
    return {"nodes": len(task.train), "seconds": min(laps.epochs[0]), "epochs": epochs}


def measure_equal_tasks(setup: Setup, *, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The shortest of several times that each of many equal tasks took, from its arrival to its end."""
    torch.set_num_threads(setup.threads)
    num_tasks, size = (6, 500) if setup.quick else (NUM_TASKS, TASK_NODES)
    stream = TaskStream(_equal_classes(2 * num_tasks, size // 2))
    tasks = [stream.task(index) for index in range(num_tasks)]
    PaperHPN(**settings).fit_task(tasks[0])  # the first fit of a process takes longer
    repeats = []
    for _ in range(REPEATS):
        learner, seconds = PaperHPN(**settings), []
        for task in tasks:
            start = time.perf_counter()
            learner.fit_task(task)
            seconds.append(time.perf_counter() - start)
        repeats.append(seconds)
    least = [min(laps) for laps in zip(*repeats, strict=True)]
    return {
        "train": len(tasks[0].train),
        "by_task": least,
        "ratio": sum(least[-3:]) / sum(least[:3]),
        "prototypes": learner.prototype_counts,
    }


def measure_matching(setup: Setup) -> dict[str, Any]:
    """Find the nearest prototype of every embedding of a batch, in books of growing size."""
    torch.set_num_threads(setup.threads)
    sizes = (10, 100, 1000) if setup.quick else (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    embeddings = unit(torch.randn(MATCHED, MATCH_DIM))
    least = []
    for size in sizes:
        book, laps = fill_book(unit(torch.randn(size, MATCH_DIM))), []
        for _ in range(max(5, min(100, 300_000 // size))):
            start = time.perf_counter()
            book.match(embeddings)
            laps.append(time.perf_counter() - start)
        least.append(min(laps))
    return {"prototypes": list(sizes), "seconds": least, "embeddings": MATCHED, "dim": MATCH_DIM}


def measure_steps(setup: Setup, *, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A step of the prototype phase where smaller thresholds and more dimensions make more prototypes."""
    torch.set_num_threads(setup.threads)
    task = TaskStream(_equal_classes(2, 500 if setup.quick else TASK_NODES // 2)).task(0)
    counts, least = [], []
    for threshold in THRESHOLDS[:2] if setup.quick else THRESHOLDS:
        names = ("threshold_atomic", "threshold_node", "threshold_class")
        learner = PaperHPN(**{**settings, "dim": 3, "epochs": 6, **dict.fromkeys(names, threshold)})
        laps = Laps()
        learner.fit_task(task, laps)
        steps = -(-len(task.train) // learner.settings().batch_size)
        counts.append(sum(learner.prototype_counts.values()))
        least.append(min(laps.epochs[0]) / steps)
    return {"prototypes": counts, "seconds": least}


def _equal_classes(num_classes: int, size: int) -> Graph:
    """Classes of one size, with links that stay within a class four times out of five."""
    rng = np.random.default_rng(0)
    count = num_classes * size
    y = np.repeat(np.arange(num_classes), size)
    means = rng.standard_normal((num_classes, NUM_FEATURES), dtype=np.float32)
    x = rng.standard_normal((count, NUM_FEATURES), dtype=np.float32)
    x += means[y] / np.linalg.norm(means, axis=1, keepdims=True)[y]
    source = rng.integers(0, count, count * DEGREE // 2)
    near = source // size * size + rng.integers(0, size, len(source))
    target = np.where(rng.random(len(source)) < 0.8, near, rng.integers(0, count, len(source)))
    links = torch.from_numpy(np.stack([source, target]).astype(np.int32))
    return Graph.build("equal tasks", x=torch.from_numpy(x), links=links, y=torch.from_numpy(y))
