from __future__ import annotations

import torch

from hpn.learners import NCM
from hpn.streams import GraphView, Query, Step


def test_means_by_hand() -> None:
    x = torch.tensor([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0], [0.0, 4.0], [0.1, 1.0]])
    graph = GraphView(x, torch.zeros(2, 0).long())
    train, y = torch.tensor([0, 1, 2, 3]), torch.tensor([7, 7, 5, 5])
    empty = torch.zeros(0).long()
    learner = NCM(max_hops=0).fit_task(Step(0, (7, 5), "task", graph, train, y, empty, empty))
    assert learner.means_.tolist() == [[2, 2], [0, 3]]  # type: ignore[attr-defined]
    assert learner.predict(Query(graph, torch.tensor([4, 0]), (7, 5), task=0)).tolist() == [5, 7]


def test_means_of_classes_that_come_again_are_those_of_all_their_nodes() -> None:
    x = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
    graph, empty = GraphView(x, torch.zeros(2, 0).long()), torch.zeros(0).long()
    learner, y = NCM(max_hops=0), torch.tensor([4, 4, 9, 4, 9, 4, 2, 9, 2, 2, 4, 2])
    for index, nodes in enumerate((torch.arange(5), torch.arange(5, 8), torch.arange(8, 12))):
        classes = tuple(torch.unique(y[nodes]).tolist())
        step = Step(index, classes, "class", graph, nodes, y[nodes], empty, empty, is_task=False)
        learner.fit_task(step)
    assert learner.classes_ == (4, 9, 2)
    assert learner.counts_ == [5, 3, 4]
    expected = torch.stack([x[y == label].mean(dim=0) for label in (4, 9, 2)])
    assert torch.allclose(learner.means_, expected, atol=1e-6)
