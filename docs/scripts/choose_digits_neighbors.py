"""Choose the number of neighbours of the `digits` graph on validation nodes.

For each candidate: the class-incremental (`global`) validation accuracy after the last task of the nearest
class mean on smoothed features, and the task-incremental one of `probe`, mean over 5 seeds. Accuracy rises
slowly with the number of edges, which cost time, so the fewest neighbours within 0.3 points of the best are
chosen. Test nodes are never evaluated.

    python docs/scripts/choose_digits_neighbors.py
"""

from __future__ import annotations

from statistics import mean

from hpn.datasets import load_dataset
from hpn.evaluation import evaluate
from hpn.learners import NCM, Learner, Probe
from hpn.streams import TaskStream
from hpn.streams.views import Evaluate, Scenario

CANDIDATES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
SEEDS = range(5)
MARGIN = 0.3


def validation_am(learner: Learner, neighbors: int, scenario: Scenario, mode: Evaluate, seed: int) -> float:
    stream = TaskStream(load_dataset("digits", neighbors=neighbors), scenario=scenario, seed=seed)
    for index in range(len(stream)):
        learner.fit_task(stream.step(index))
    return mean(evaluate(learner, stream, after=len(stream) - 1, mode=mode, part="val").accuracy)


def main() -> None:
    print("neighbors  ncm, global  probe, oracle   mean")
    means = {}
    for neighbors in CANDIDATES:
        ncm = mean(validation_am(NCM(), neighbors, "class", "global", seed) for seed in SEEDS)
        probe = mean(validation_am(Probe(), neighbors, "task", "oracle", seed) for seed in SEEDS)
        means[neighbors] = (ncm + probe) / 2
        print(f"{neighbors:9d}  {ncm:11.2f}  {probe:13.2f}  {means[neighbors]:5.2f}", flush=True)
    best = max(means.values())
    print(f"chosen: {min(k for k, value in means.items() if value >= best - MARGIN)}")


if __name__ == "__main__":
    main()
