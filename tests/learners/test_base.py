from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hpn.errors import ConfigError
from hpn.learners import LEARNERS, Learner, Observer
from hpn.streams import GraphView, Query, Step, TaskStream


class Fixed(Learner):
    """Answers with scores it was given."""

    def _learn(self, step: Step, observer: Observer) -> None:
        self.drawn = torch.rand(3)

    def _scores(self, query: Query) -> Tensor:
        return self.scores


def make_query(classes: tuple[int, ...], *, num_nodes: int, grouped: bool) -> Query:
    graph = GraphView(torch.zeros(num_nodes, 12), torch.zeros(2, 0).long())
    return Query(graph, torch.arange(num_nodes), classes, grouped=grouped)


def test_a_group_gets_the_task_that_makes_it_likeliest(stream: TaskStream) -> None:
    learner = Fixed()
    for index in range(2):
        learner.fit_task(stream.step(index))
    first, second = stream.classes[:2]
    # Node by node two of three are best explained by task 0, but the third excludes it.
    probabilities = torch.tensor([[0.5, 0.1, 0.2, 0.2], [0.1, 0.5, 0.2, 0.2], [1e-6, 1e-6, 0.1, 0.9]])
    learner.scores = probabilities.log()
    alone = learner.predict(make_query((*first, *second), num_nodes=3, grouped=False))
    assert alone.tolist() == [first[0], first[1], second[1]]
    together = learner.predict(make_query((*first, *second), num_nodes=3, grouped=True))
    assert together.tolist() == [second[0], second[0], second[1]]


def test_seeds_draw_different_numbers(stream: TaskStream) -> None:
    drawn = [Fixed(seed=seed).fit_task(stream.step(0)).drawn for seed in (0, 0, 1)]  # type: ignore[attr-defined]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_a_shared_head_needs_the_task(stream: TaskStream) -> None:
    learner = LEARNERS["finetune"](epochs=1)  # type: ignore[call-arg]
    for index in range(2):
        learner.fit_task(stream.step(index))
    query, _ = stream.query(step=None, after=1, evaluate="global")
    with pytest.raises(ConfigError, match="shared by all tasks cannot answer"):
        learner.predict(query)


def test_where_to_compute_is_no_hyper_parameter() -> None:
    learner = Fixed()
    assert learner.to("cpu") is learner
    assert learner.device == torch.device("cpu")
    assert learner.get_params() == Fixed().get_params() == {"seed": 0}
    with pytest.raises(ConfigError, match=r"^unknown device"):
        learner.to("gpu")
