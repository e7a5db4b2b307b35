"""What the estimator and the preset `best` promise about speed, as ratios within one run.

python benchmarks/estimator.py            # digits, Cora and Citeseer if they are on disk, arxiv-like
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median, stdev

import numpy as np

import hpn
from hpn.errors import DataError
from hpn.streams.given import default_nodes

ROUNDS = 7


def seconds(function: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median time of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return median(times)


def many_fits() -> None:
    """Prediction after a thousand fits next to prediction after one, and whether the answers are the same."""
    digits = hpn.load_dataset("digits")
    y = digits.y.numpy()
    train, test = np.flatnonzero(np.arange(len(y)) % 3 > 0), np.flatnonzero(np.arange(len(y)) % 3 == 0)
    one = hpn.HPNClassifier().fit(digits, train, y[train])
    parts = np.array_split(np.random.default_rng(0).permutation(train), 1000)
    many = hpn.HPNClassifier()
    start = time.perf_counter()
    for part in parts:
        many.partial_fit(digits, part, y[part])
    fitting = time.perf_counter() - start
    same = np.array_equal(one.predict_proba(digits, test), many.predict_proba(digits, test))
    first = seconds(lambda: one.predict(digits, test))
    last = seconds(lambda: many.predict(digits, test))
    print(f"digits: the same probabilities after 1 fit and 1,000: {same}")
    print(f"digits: predict after 1,000 fits takes {last / first:.2f} x as long as after 1")
    print(f"digits: 1,000 fits take {fitting / last:.0f} x as long as predicting {len(test)} nodes once")


def public_split(name: str) -> None:
    """Accuracy of one fit on the public split, 5 seeds, and its time next to importing torch."""
    try:
        graph = hpn.load_dataset(name)
    except DataError as error:
        print(f"{name}: left out ({error})")
        return
    importing = seconds(lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True), 3)
    train = default_nodes(graph, "train_mask")
    alone, weighed, times = [], [], []
    for seed in range(5):
        start = time.perf_counter()
        model = hpn.HPNClassifier(random_state=seed).fit(graph, train)
        alone.append(100 * model.score(graph))
        times.append(time.perf_counter() - start)
        weighed.append(100 * hpn.HPNClassifier(random_state=seed).fit(graph).score(graph))
    print(f"{name}: test accuracy {mean(alone):.1f} ± {stdev(alone):.1f} from the training labels alone")
    print(f"{name}: test accuracy {mean(weighed):.1f} ± {stdev(weighed):.1f} with validation nodes to weigh")
    taken = median(times)
    print(f"{name}: fit and predict {taken:.1f} s, {taken / importing:.1f} x importing torch")


def arxiv_like() -> None:
    """Whole runs of 20 tasks, with evaluation after each: `hpn` next to `ridge`."""
    times = {}
    for method in ("ridge", "hpn"):
        out = Path(".bench") / f"arxiv-like-{method}"
        start = time.perf_counter()
        result = hpn.run("arxiv-like", method=method, seeds=[0], out=out, fresh=True)
        times[method] = time.perf_counter() - start
        print(f"arxiv-like: {method} {times[method]:.0f} s, AM {result['am']['mean']:.2f}")
    print(f"arxiv-like: ridge takes {times['ridge'] / times['hpn']:.2f} x as long as hpn")


if __name__ == "__main__":
    many_fits()
    public_split("cora")
    public_split("citeseer")
    arxiv_like()
