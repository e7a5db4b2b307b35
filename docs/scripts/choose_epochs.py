"""Validation AM of `joint` over epochs and learning rates, mean over 5 seeds. Test nodes are never evaluated.

python docs/scripts/choose_epochs.py [DATASET ...]
"""

from __future__ import annotations

import sys
from itertools import product
from statistics import mean

import torch

from hpn.datasets import Graph, load_dataset
from hpn.evaluation import evaluate
from hpn.learners import Joint
from hpn.streams import TaskStream

DATASETS = ("digits", "cora", "citeseer", "actor")
EPOCHS, RATES, SEEDS = (50, 100, 200), (0.01, 0.02), range(5)


def validation_am(graph: Graph, seed: int, epochs: int, lr: float) -> float:
    stream = TaskStream(graph, seed=seed)
    last = len(stream) - 1
    learner = Joint(epochs=epochs, lr=lr, seed=seed)
    for index in range(last):  # joint training starts anew with every task: only the last one counts
        learner.epochs = 1
        learner.fit_task(stream.step(index, with_past=True))
    learner.epochs = epochs
    learner.fit_task(stream.step(last, with_past=True))
    return mean(evaluate(learner, stream, after=last, mode="oracle", part="val").accuracy)


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'data set':10}" + "".join(f"{e:6d} x {lr:<5}" for e, lr in product(EPOCHS, RATES)))
    for name in sys.argv[1:] or DATASETS:
        graph = load_dataset(name)
        cells = (
            mean(validation_am(graph, seed, epochs, lr) for seed in SEEDS) for epochs, lr in product(EPOCHS, RATES)
        )
        print(f"{name:10}" + "".join(f"{cell:14.2f}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
