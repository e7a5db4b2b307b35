"""Figures of the preset `best` and of the estimator."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np
import torch

import hpn
from benchmarks.rows import TORCH, Row, find_store, run_store, wall_seconds
from hpn.datasets import Graph, load_dataset
from hpn.datasets.store import open_store
from hpn.learners.hpn import SolvedHPN
from hpn.model.inputs import default_nodes
from hpn.streams import TaskStream

WIDTH, DEGREE, NUM_FEATURES = 500, 20, 100
NODES = (100_000, 200_000, 400_000, 800_000, 1_600_000)
NUM_TASKS, TASK_NODES = 24, 20_000


def estimator(work: Path) -> Iterator[Row]:
    """Many fits of `HPNClassifier`, the public splits of Cora and Citeseer (5 seeds), runs of arxiv-like.

    Predictions after 1 and after 1,000 fits must be equal, bit for bit. Accuracies are from the training
    labels alone, and with validation nodes to weigh the evidence.
    """
    digits = load_dataset("digits")
    y, numbers = digits.y.numpy(), np.arange(digits.num_nodes)
    nodes, test = numbers[numbers % 3 > 0], numbers[numbers % 3 == 0]
    one, many = hpn.HPNClassifier().fit(digits, nodes, y[nodes]), hpn.HPNClassifier()
    for part in np.array_split(np.random.default_rng(0).permutation(nodes), 1000):
        many.partial_fit(digits, part, y[part])
    if not np.array_equal(one.predict_proba(digits, test), many.predict_proba(digits, test)):
        raise RuntimeError("the probabilities after 1 and after 1,000 fits differ")
    ratios = []
    for _ in range(7):
        start = time.perf_counter()
        one.predict(digits, test)
        middle = time.perf_counter()
        many.predict(digits, test)
        ratios.append((time.perf_counter() - middle) / (middle - start))
    yield Row("digits, predicting after 1,000 fits / after 1", median(ratios))
    importing = wall_seconds({"torch": TORCH}, rounds=3)["torch"]
    for name in ("cora", "citeseer"):
        graph, seconds, accuracies = load_dataset(name), [], []
        for seed in range(5):
            start = time.perf_counter()
            model = hpn.HPNClassifier(random_state=seed).fit(graph, default_nodes(graph, "train_mask"))
            alone = 100 * model.score(graph)
            seconds.append(time.perf_counter() - start)
            weighed = 100 * hpn.HPNClassifier(random_state=seed).fit(graph).score(graph)
            accuracies.append((alone, weighed))
        found = ", ".join(f"{mean(part):.1f} ± {stdev(part):.1f}" for part in zip(*accuracies, strict=True))
        what = f"{name} (accuracy {found}), fitting and predicting / import torch"
        yield Row(what, median(seconds) / importing)
    store = find_store(work, "arxiv-like")
    runs = {method: run_store(work, store, "--method", method, name=method) for method in ("ridge", "hpn")}
    what = f"arxiv-like, run of `ridge` / of `hpn` (AM {runs['hpn'].result['am']['mean']:.2f})"
    yield Row(what, runs["ridge"].seconds / runs["hpn"].seconds)


def growth(work: Path) -> Iterator[Row]:  # noqa: ARG001
    """How the time of fitting a task and predicting its nodes grows at width 500: degree 20, 100 features.

    With the nodes: one task of 100,000 to 1.6 million nodes, least squares in logarithms. With the number of
    tasks: the last five of 24 tasks of 20,000 nodes next to the first five, the least of 3 times each.
    """
    seconds = []
    for num_nodes in (NODES[0], *NODES):  # the first fit of a process takes longer
        (taken,) = fit_and_answer(TaskStream(equal_classes(2, num_nodes // 2)))
        seconds.append(taken)
    exponent = float(np.polyfit(np.log(NODES), np.log(seconds[1:]), 1)[0])
    yield Row("exponent of the time in nodes", exponent, least=0.9, most=1.1)
    stream = TaskStream(equal_classes(2 * NUM_TASKS, TASK_NODES // 2))
    least = np.min([fit_and_answer(stream) for _ in range(3)], axis=0)
    yield Row("time of the last tasks / of the first", float(least[-5:].sum() / least[:5].sum()), most=1.15)


def fit_and_answer(stream: TaskStream) -> list[float]:
    """Seconds of learning each task and predicting its test nodes, without cutting views."""
    learner, seconds = SolvedHPN(width=WIDTH), []
    for index in range(len(stream)):
        task, (query, _) = stream.step(index), stream.query(step=index, after=index, evaluate="oracle")
        start = time.perf_counter()
        learner.fit_task(task).predict(query)
        seconds.append(time.perf_counter() - start)
    return seconds


def equal_classes(num_classes: int, size: int) -> Graph:
    """Classes of one size, with links that stay within a class four times out of five."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(num_classes), size)
    x = rng.standard_normal((len(y), NUM_FEATURES), dtype=np.float32)
    x += rng.standard_normal((num_classes, NUM_FEATURES), dtype=np.float32)[y] / NUM_FEATURES**0.5
    source = rng.integers(0, len(y), len(y) * DEGREE // 2)
    near = source // size * size + rng.integers(0, size, len(source))
    target = np.where(rng.random(len(source)) < 0.8, near, rng.integers(0, len(y), len(source)))
    links = torch.from_numpy(np.stack([source, target]).astype(np.int32))
    return Graph.build("equal classes", x=torch.from_numpy(x), links=links, y=torch.from_numpy(y))


def ray(work: Path) -> Iterator[Row]:
    """Fitting products-like on 1 and on 2 Ray workers of one thread each; what they learn must be equal."""
    from hpn.experiment.execute.ray import RayExecutor
    from hpn.experiment.execute.ray_fold import RayParts
    from hpn.nn.fold import using

    torch.set_num_threads(1)
    stream = TaskStream(open_store(find_store(work, "products-like"), verify=False))
    seconds, digests = [], set()
    for num_workers in (1, 2):
        with RayExecutor("local", num_cpus=num_workers) as cluster, using(RayParts(cluster)):
            SolvedHPN().fit_task(stream.step(0))  # workers import what they need
            learner, start = SolvedHPN(), time.perf_counter()
            for index in range(len(stream)):
                learner.fit_task(stream.step(index))
            seconds.append(time.perf_counter() - start)
            digests.add(digest(learner.state_dict()))
    if len(digests) > 1:
        raise RuntimeError("one and two Ray workers learned different bits")
    yield Row("products-like, fitting on 1 Ray worker / on 2, equal bits", seconds[0] / seconds[1], least=1.6)


def digest(state: Any) -> str:
    """A hash of nested dictionaries and lists of tensors, numbers and text."""
    if isinstance(state, dict):
        parts = [f"{key}:{digest(state[key])}".encode() for key in sorted(state, key=str)]
    elif isinstance(state, (list, tuple)):
        parts = [digest(entry).encode() for entry in state]
    else:
        parts = [state.numpy().tobytes() if isinstance(state, torch.Tensor) else repr(state).encode()]
    return hashlib.sha256(b"".join(parts)).hexdigest()
