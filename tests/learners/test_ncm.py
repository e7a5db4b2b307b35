from __future__ import annotations

import torch

from hpn.datasets import Graph
from hpn.evaluation import evaluate
from hpn.learners import NCM
from hpn.streams import GraphView, Query, Step, TaskStream


def test_means_by_hand() -> None:
    x = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0], [0.0, 4.0], [0.1, 1.0]])
    graph = GraphView(x, torch.zeros(2, 0).long())
    train, y = torch.tensor([0, 1, 2, 3]), torch.tensor([7, 7, 5, 5])
    empty = torch.zeros(0).long()
    learner = NCM(max_hops=0).fit_task(Step(0, (7, 5), "task", graph, train, y, empty, empty))
    expected = torch.nn.functional.normalize(torch.tensor([[2.0, 2.0], [0.0, 3.0]]), dim=1)
    assert torch.allclose(learner.means_, expected)  # type: ignore[attr-defined]
    assert learner.predict(Query(graph, torch.tensor([4, 0]), (7, 5), task=0)).tolist() == [5, 7]


def test_earlier_means_never_move(graph: Graph) -> None:
    stream = TaskStream(graph, scenario="class")
    learner = NCM()
    means, rows = [], []
    for index in range(3):
        learner.fit_task(stream.step(index))
        means.append(learner.means_.clone())
        rows.append(evaluate(learner, stream, after=index, mode="oracle").accuracy)
    assert torch.equal(means[2][:2], means[0])
    assert rows[2][0] == rows[0][0], "with the task given, nothing is forgotten"
    assert learner.num_parameters == 6 * graph.num_features
