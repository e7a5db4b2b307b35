"""Cells that measure nodes a second: sampling, fitting beside a pure gather, answering."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.scale.internals import draw_neighbors, find_rows, make_sampler
from benchmarks.scale.plan import ASKED_NODES, QUICK_TASKS, Setup
from hpn.datasets.store import open_store
from hpn.learners import FineTune, Learner, Observer, Progress
from hpn.learners.hpn import PaperHPN
from hpn.streams import Query, Task, TaskStream

REPEATS = 5


class Laps(Observer):
    """Times the epochs of each task but the first, which also makes ready what all of them use.

    Args:
        between: Called after each epoch that will be followed by another, with its task; timed for itself.
    """

    def __init__(self, between: Callable[[], None] | None = None) -> None:
        self.epochs: dict[int, list[float]] = {}
        self.others: dict[int, list[float]] = {}
        self._between = between
        self._resumed = 0.0

    def after_step(self, learner: Learner, progress: Progress) -> None:
        """End a lap, do the other thing, begin a lap."""
        now = time.perf_counter()
        laps = self.epochs.setdefault(progress.task, [])
        if progress.done > 1:
            laps.append(now - self._resumed)
        if self._between is not None and progress.done < progress.total:
            start = time.perf_counter()
            self._between()
            self.others.setdefault(progress.task, []).append(time.perf_counter() - start)
        self._resumed = time.perf_counter()


def open_stream(setup: Setup, dataset: str, num_tasks: int | None = None) -> tuple[TaskStream, range]:
    """The tasks of a data set, and the numbers of the first so many (all if ``None``)."""
    torch.set_num_threads(setup.threads)
    stream = TaskStream(open_store(setup.store(dataset), verify=False), seed=0)
    return stream, range(QUICK_TASKS if setup.quick else num_tasks or len(stream))


def measure_sample(setup: Setup, *, dataset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Draw one neighbour for every training node of the first task."""
    task = open_stream(setup, dataset)[0].task(0)
    start = time.perf_counter()
    sampler = make_sampler(task, PaperHPN(**settings))
    ready = time.perf_counter() - start
    laps = []
    for turn in range(REPEATS):
        start = time.perf_counter()
        draw_neighbors(sampler, task.train, turn)
        laps.append(time.perf_counter() - start)
    nodes = len(task.train)
    return {
        "nodes": nodes,
        "seconds": min(laps),
        "ready_seconds": ready,
        "nodes_per_second": nodes / min(laps),
    }


def measure_fit(
    setup: Setup, *, dataset: str, settings: Mapping[str, Any], num_tasks: int | None
) -> dict[str, Any]:
    """The prototype phase and, after each of its epochs, gathers of the rows that it looks at."""
    stream, tasks = open_stream(setup, dataset, num_tasks)
    learner = PaperHPN(**settings)
    nodes = all_nodes = 0
    fit = gather = indexing = whole = 0.0
    pairs: list[float] = []
    for task in map(stream.task, tasks):
        gathers = _make_gathers(task, learner)
        laps = Laps(gathers.alternate)
        start = time.perf_counter()
        learner.fit_task(task, laps)
        others = laps.others[task.index]
        whole += time.perf_counter() - start - sum(others)
        all_nodes += len(task.train) * learner.settings().epochs
        nodes += len(task.train) * len(others)
        fit += sum(laps.epochs[task.index])
        gather += gathers.seconds["gather"]
        indexing += gathers.seconds["indexing"]
        pairs += [g / f for g, f in zip(gathers.laps, laps.epochs[task.index], strict=True)]
    return {
        "nodes": nodes,
        "seconds": fit,
        "nodes_per_second": nodes / fit,
        "gather_per_second": nodes / gather,
        "ratio": gather / fit,
        "indexing_per_second": nodes / indexing,
        "indexing_ratio": indexing / fit,
        "ratio_range": [min(pairs), max(pairs)],
        "whole_nodes": all_nodes,
        "whole_seconds": whole,
        "prototypes": learner.prototype_counts,
    }


def measure_tasks(setup: Setup, *, dataset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nodes a second in the prototype phase, of each task."""
    stream, tasks = open_stream(setup, dataset)
    learner, laps, sizes = PaperHPN(**settings), Laps(), []
    for task in map(stream.task, tasks):
        sizes.append(len(task.train))
        learner.fit_task(task, laps)
    seconds = [sum(laps.epochs[index]) for index in tasks]
    nodes = [size * len(laps.epochs[index]) for index, size in zip(tasks, sizes, strict=True)]
    return {
        "nodes": sum(nodes),
        "seconds": sum(seconds),
        "nodes_per_second": sum(nodes) / sum(seconds),
        "by_task": [count / spent for count, spent in zip(nodes, seconds, strict=True)],
        "first": sum(nodes[:3]) / sum(seconds[:3]),
        "last": sum(nodes[-3:]) / sum(seconds[-3:]),
        "train": sizes,
        "prototypes": learner.prototype_counts,
    }


def measure_gcn(
    setup: Setup, *, dataset: str, settings: Mapping[str, Any], num_tasks: int | None
) -> dict[str, Any]:
    """Fine-tune a GCN: training nodes a second."""
    stream, tasks = open_stream(setup, dataset, num_tasks)
    learner, laps = FineTune(**settings), Laps()
    nodes, seconds = 0, 0.0
    for task in map(stream.task, tasks):
        learner.fit_task(task, laps)
        nodes += len(task.train) * len(laps.epochs[task.index])
        seconds += sum(laps.epochs[task.index])
    return {"nodes": nodes, "seconds": seconds, "nodes_per_second": nodes / seconds}


def measure_predict(setup: Setup, *, dataset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Answers of HPN after the last task. How long it learned makes no difference, so an epoch will do."""
    return _measure_answers(*open_stream(setup, dataset), PaperHPN(**{**settings, "epochs": 1}))


def measure_gcn_predict(
    setup: Setup, *, dataset: str, settings: Mapping[str, Any], num_tasks: int | None
) -> dict[str, Any]:
    """The same of a GCN, which answers for a whole graph at once."""
    learner = FineTune(**{**settings, "epochs": 1})
    return _measure_answers(*open_stream(setup, dataset, num_tasks), learner)


def _measure_answers(stream: TaskStream, tasks: range, learner: Learner) -> dict[str, Any]:
    for task in map(stream.task, tasks):
        learner.fit_task(task)
    queries = [stream.query(task=task, after=tasks[-1], evaluate="oracle")[0] for task in tasks]
    test_nodes, test_seconds = _answer(learner, queries)
    many_nodes, many_seconds = _answer(learner, list(_ask_about(queries, ASKED_NODES)))
    return {
        "nodes": test_nodes,
        "seconds": test_seconds,
        "nodes_per_second": test_nodes / test_seconds,
        "many_nodes": many_nodes,
        "many_seconds": many_seconds,
        "million_seconds": many_seconds * 1e6 / many_nodes,
    }


def _answer(learner: Learner, queries: list[Query]) -> tuple[int, float]:
    start = time.perf_counter()
    for query in queries:
        learner.predict(query)
    return sum(len(query.nodes) for query in queries), time.perf_counter() - start


def _ask_about(queries: list[Query], count: int) -> list[Query]:
    """The same queries about any nodes of their graphs, up to so many."""
    asked = []
    for query in queries:
        nodes = torch.arange(min(count, query.graph.num_nodes))
        count -= len(nodes)
        if len(nodes):
            asked.append(replace(query, nodes=nodes))
    return asked


class Gathers:
    """Copies the rows of batches and does nothing else.

    Args:
        x: The features.
        batches: Rows of the nodes of each batch, and of their neighbours.

    Attributes:
        seconds: By how: ``index_select`` is the faster, ``x[rows]`` what is usually written.
        laps: Of the faster.
    """

    def __init__(self, x: Tensor, batches: list[tuple[Tensor, Tensor]]) -> None:
        self.x = x
        self.batches = batches
        self.seconds = {"gather": 0.0, "indexing": 0.0}
        self.laps: list[float] = []

    def alternate(self) -> None:
        """A pass over all batches in either way."""
        ways = {"gather": lambda rows: self.x.index_select(0, rows), "indexing": lambda rows: self.x[rows]}
        for name, copy in ways.items():
            start = time.perf_counter()
            for own, others in self.batches:
                copy(own)
                copy(others)
            lap = time.perf_counter() - start
            self.seconds[name] += lap
            if name == "gather":
                self.laps.append(lap)


def _make_gathers(task: Task, learner: PaperHPN) -> Gathers:
    """Passes over the rows of all training nodes and of a neighbour of each, in batches that are drawn.

    Which rows these are is found out before: what is left is to copy them.
    """
    around = draw_neighbors(make_sampler(task, learner), task.train, 0)
    x, own_rows = find_rows(task, task.train)
    _, other_rows = find_rows(task, around)
    order = torch.randperm(len(task.train), generator=torch.Generator().manual_seed(0))
    size = learner.settings().batch_size
    return Gathers(x, [(own_rows[part], other_rows[part]) for part in torch.split(order, size)])
