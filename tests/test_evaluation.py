from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.evaluation import evaluate
from hpn.streams import Query, TaskStream


class Oracle:
    """Answers right for the classes it knows and with the first class of the query otherwise."""

    def __init__(self, graph: Graph, known: set[int]) -> None:
        self.truth = {round(float(x[0]), 4): int(y) for x, y in zip(graph.x, graph.y, strict=True)}
        self.known = known
        self.queries: list[Query] = []

    def predict(self, query: Query) -> Tensor:
        self.queries.append(query)
        right = [self.truth[round(float(query.graph.x[node, 0]), 4)] for node in query.nodes]
        return torch.tensor([label if label in self.known else query.classes[0] for label in right])


def evaluated(graph: Graph, known: set[int], mode: Any, **extra: Any) -> tuple[Any, Oracle, TaskStream]:
    stream = TaskStream(graph, tasks="0,1;2,3;4,5", scenario="task" if mode == "oracle" else "class")
    learner = Oracle(graph, known)
    return evaluate(learner, stream, after=1, mode=mode, **extra), learner, stream  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["oracle", "global", "grouped"])
def test_accuracy_by_task_and_by_class(graph: Graph, mode: Any) -> None:
    row, learner, stream = evaluated(graph, {0, 1, 2}, mode)
    assert row.accuracy[0] == row.balanced[0] == 100
    _, key = stream.query(step=1, after=1, evaluate="oracle")
    # In oracle, "otherwise" is class 2 itself, so that all of class 3 is wrong; elsewhere it is class 0.
    assert row.accuracy[1] == pytest.approx(100 * float((key.y == 2).float().mean()))
    assert row.balanced[1] == 50
    assert len(learner.queries) == (1 if mode == "global" else 2), "every query is answered once"


def test_it_asks_about_test_nodes_unless_told(graph: Graph) -> None:
    _, on_test, stream = evaluated(graph, {0}, "oracle")
    _, on_val, _ = evaluated(graph, {0}, "oracle", part="val")
    task = stream.step(0)
    assert set(on_val.queries[0].nodes.tolist()) == set(task.val.tolist())
    assert not set(on_test.queries[0].nodes.tolist()) & {*task.val.tolist(), *task.train.tolist()}
