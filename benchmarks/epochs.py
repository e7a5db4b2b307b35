"""What an epoch costs around the arithmetic: our loop, with log and checkpoints, next to a bare one.

Both train the same GCN on the same task of Cora-sized sparse features; the ratio is the price of a run that
can be killed at any moment. Then one layer on those features, forward and backward: PyTorch's next to ours.

    python benchmarks/epochs.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpn.datasets import Graph
from hpn.experiment.seed_run import SeedRun
from hpn.experiment.watch import Watcher
from hpn.learners import FineTune
from hpn.nn import GCN
from hpn.nn.sparse_linear import SparseLinear
from hpn.streams import Task, TaskStream

EPOCHS, REPEATS = 200, 5


def cora_sized() -> Graph:
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(2708, 1433, generator=generator) < 0.0127).float().to_sparse_csr()
    links = torch.randint(2708, (2, 5429), generator=generator)
    y = torch.randint(2, (2708,), generator=generator)
    return Graph.build("cora-sized", x=x, links=links, y=y)


def bare(task: Task) -> float:
    network = GCN(task.graph.x.shape[1], 2)
    adjacency = network.prepare(task.graph.edge_index, task.graph.num_nodes)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=5e-4)
    target = (task.train_y == task.classes[1]).long()
    start = time.perf_counter()
    network.train()
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(task.graph.x, adjacency)[task.train], target)
        loss.backward()
        optimizer.step()
    return time.perf_counter() - start


def ours(task: Task) -> float:
    with tempfile.TemporaryDirectory() as folder:
        observer = SeedRun.resume(Path(folder), FineTune(epochs=EPOCHS), 0, Watcher())
        start = time.perf_counter()
        observer.learner.fit_task(task, observer)
        seconds = time.perf_counter() - start
        observer.log.close()
    return seconds


def layer(x: Tensor, module: nn.Module) -> float:
    start = time.perf_counter()
    for _ in range(EPOCHS):
        module.zero_grad()
        module(x).sum().backward()
    return time.perf_counter() - start


def main() -> None:
    torch.set_num_threads(1)
    task = TaskStream(cora_sized()).task(0)
    bare(task)
    pairs = [(bare(task), ours(task)) for _ in range(REPEATS)]
    plain, run = (1e3 * min(times) / EPOCHS for times in zip(*pairs, strict=True))
    print(f"an epoch: bare {plain:.2f} ms, with log and checkpoints {run:.2f} ms, ratio {run / plain:.2f}")
    linear = nn.Linear(task.graph.x.shape[1], GCN.HIDDEN, bias=False)
    sparse = SparseLinear(linear)
    pairs = [(layer(task.graph.x, linear), layer(task.graph.x, sparse)) for _ in range(REPEATS)]
    theirs, own = (1e3 * min(times) / EPOCHS for times in zip(*pairs, strict=True))
    print(f"a sparse layer: PyTorch's {theirs:.2f} ms, ours {own:.2f} ms, ratio {own / theirs:.2f}")


if __name__ == "__main__":
    main()
