"""Figures of the preset `paper` next to the authors' code, whose speed was measured elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.rows import Row, find_store
from hpn.datasets import load_dataset
from hpn.datasets.store import open_store
from hpn.learners import Learner, Observer, Progress
from hpn.learners.hpn import PaperHPN
from hpn.streams import TaskStream

REFERENCE_LOOP = 0.90
"""Seconds of the calibration loop where the authors' code was measured: an estimate, see :func:`authors`."""

AUTHORS_SECONDS = {"cora": 5.6, "citeseer": 6.8, "actor": 28.0}
AUTHORS_SETTINGS: dict[str, dict[str, Any]] = {"actor": {"drawn": "1", "dim": 8}}
AUTHORS_TASKS = {"actor": [(2, 3), (0, 4)]}
AUTHORS_SPEED = {"first": 10_600.0, "last": 8_900.0}
"""Training nodes per second at batch 100, at first and when prototypes have accumulated."""

ARXIV: dict[str, Any] = {"num_extractors": 64, "dim": 4, "drawn": "1", "epochs": 10, "lr_refine": 0.3}
"""The packaged recipe for arxiv-like, batch size aside."""


class Epochs(Observer):
    """Notes the CPU time at the end of each epoch."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        """Note the time."""
        self.ends.append(time.process_time())


def calibrate() -> float:
    """CPU seconds of 3,000 small operations with their backward passes."""
    a, w = torch.randn(100, 16), torch.randn(16, 16, requires_grad=True)
    start = time.process_time()
    for _ in range(3000):
        F.normalize(a @ w, dim=1).square().sum().backward()  # type: ignore[no-untyped-call]
        w.grad = None
    return time.process_time() - start


def train(stream: TaskStream, learner: Learner) -> float:
    """CPU seconds of learning all tasks, without cutting their views."""
    seconds = 0.0
    for index in range(len(stream)):
        task, start = stream.step(index), time.process_time()
        learner.fit_task(task)
        seconds += time.process_time() - start
    return seconds


def authors(work: Path) -> Iterator[Row]:  # noqa: ARG001
    """Training next to the authors' code: one thread, CPU time, medians of 3 seeds.

    The authors' code takes 5.6, 6.8 and 28 s per seed for training alone (measured elsewhere). The settings
    are theirs: on Cora and Citeseer our defaults (5 and 7 neighbours, dimension 16, 90 epochs, batches of
    100); on Actor 1 neighbour, dimension 8 and other tasks.

    Their seconds are scaled by a calibration loop, 3,000 small operations with backward passes, that runs
    before each seed: authors' seconds × loop here / loop there. The loop there, 0.90 s, is an estimate, not a
    measurement: our previous implementation took 1.65, 2.0 and 14.7 s there, next to the authors' code, and
    1.92, 2.5 and 13.9 loops on the machine where the preset `large` was measured (`products`); the quotients,
    0.86, 0.80 and 1.06 s, have the geometric mean 0.90 s.
    """
    torch.set_num_threads(1)
    train(TaskStream(load_dataset("digits")), PaperHPN(epochs=2, warmup_epochs=1))  # imports what is needed
    calibrate()
    for name, elsewhere in AUTHORS_SECONDS.items():
        graph, settings = load_dataset(name), AUTHORS_SETTINGS.get(name, {})
        ours, loops, ratios = [], [], []
        for seed in range(3):
            stream = TaskStream(graph, tasks=AUTHORS_TASKS.get(name), seed=seed)
            loops.append(calibrate())
            ours.append(train(stream, PaperHPN(seed=seed, **settings)))
            ratios.append(elsewhere * loops[-1] / REFERENCE_LOOP / ours[-1])
        chosen = "".join(f" {key}={value}" for key, value in settings.items())
        tasks = "".join(f"({first},{second})" for first, second in stream.classes)
        times = f"{median(ours):.2f} s, loop {median(loops):.2f} s"
        yield Row(f"{name}{chosen}, tasks {tasks}: authors' training / ours ({times})", median(ratios), least=4)


def arxiv(work: Path) -> Iterator[Row]:
    """Training nodes per second on arxiv-like at batch 100, next to the authors' code: one thread, CPU time.

    The settings are those of the packaged recipe (64 extractors, 1 neighbour, dimension 4, 10 epochs,
    prototypes from the start) but for the batch size. Medians of the first three and of the last three of 20
    tasks, without the first epoch of each. The authors' 10,600 nodes per second at first and 8,900 at last
    were measured elsewhere and are scaled by the calibration loop, which runs before each task.
    """
    torch.set_num_threads(1)
    stream = TaskStream(open_store(find_store(work, "arxiv-like"), verify=False))
    learner, loops, speeds = PaperHPN(warmup_epochs=0, batch_size=100, **ARXIV), [], []
    calibrate()
    for index in range(len(stream)):
        task, epochs = stream.step(index), Epochs()
        loops.append(calibrate())
        learner.fit_task(task, epochs)
        num_trained = len(task.train) * (len(epochs.ends) - 1)
        speeds.append(num_trained / (epochs.ends[-1] - epochs.ends[0]))
    for when, part in {"first": speeds[:3], "last": speeds[-3:]}.items():
        elsewhere = AUTHORS_SPEED[when] * REFERENCE_LOOP / median(loops)
        what = f"arxiv-like, {when} tasks, nodes per second: ours ({median(part):,.0f}) / authors'"
        yield Row(what, median(part) / elsewhere, least=1.5)
