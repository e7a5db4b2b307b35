"""Fits of a store on one and on two Ray workers of one thread each: the ratio of times, and equal bits.

``python -m benchmarks.fold STORE [--tasks N]``
"""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path
from typing import Any

import torch

from hpn.datasets.store import open_store
from hpn.experiment.cluster import Cluster
from hpn.experiment.ray_fold import RayParts
from hpn.learners import HPN
from hpn.nn.fold import using
from hpn.streams import TaskStream


def main() -> None:
    """Print one line for each number of workers, and one that compares them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--tasks", type=int, help="how many of the tasks; default all")
    words = parser.parse_args()
    graph = open_store(words.store)
    stream = TaskStream(graph)
    count = words.tasks or len(stream)
    found = {}
    for workers in (1, 2):
        with Cluster("local", num_cpus=workers) as cluster, using(RayParts(cluster)):
            fit(stream, 1)  # workers import what they need
            found[workers] = fit(stream, count)
        seconds, digest = found[workers]
        print(f"{workers} worker{'s' * (workers > 1)}: {seconds:.1f} s, {digest[:16]}")
    ratio, is_same = found[1][0] / found[2][0], found[1][1] == found[2][1]
    print(f"two against one: {ratio:.2f} times as fast, {'the same' if is_same else 'OTHER'} bits")


def fit(stream: TaskStream, count: int) -> tuple[float, str]:
    """Seconds in fits, and a hash of all that was learned."""
    learner, start = HPN(), time.perf_counter()
    torch.set_num_threads(1)
    for index in range(count):
        learner.fit_task(stream.task(index))
    seconds = time.perf_counter() - start
    return seconds, hashlib.sha256(b"".join(_bytes(learner.state_dict()))).hexdigest()


def _bytes(state: Any) -> list[bytes]:
    if isinstance(state, dict):
        return [part for key in sorted(state) for part in (str(key).encode(), *_bytes(state[key]))]
    if isinstance(state, list):
        return [part for entry in state for part in _bytes(entry)]
    return [state.numpy().tobytes() if isinstance(state, torch.Tensor) else repr(state).encode()]


if __name__ == "__main__":
    main()
