"""A kind of stream is one file: a new one is learned, evaluated and described like any other."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph, Masks, load_dataset
from hpn.evaluation import evaluate
from hpn.learners import NCM
from hpn.streams import STREAMS, StepPlan, Stream, StreamPlan, TaskStream
from hpn.streams.splits import split_nodes_by_time
from hpn.streams.views import Edges, Scenario


class DomainStream(Stream):
    """Steps by domain, here the sign of the first feature: each has all classes, and edges of its own."""

    kind: ClassVar[str] = "domain"
    scenarios: ClassVar[tuple[Scenario, ...]] = ("class",)
    edge_modes: ClassVar[tuple[Edges, ...]] = ("within",)
    has_tasks: ClassVar[bool] = False

    @classmethod
    def make_plan(cls, graph: Graph) -> StreamPlan:  # type: ignore[override]
        classes = tuple(range(graph.num_classes))
        return StreamPlan((StepPlan("negative", classes), StepPlan("positive", classes)))

    def _assign_nodes(self) -> tuple[Tensor, Masks]:
        domain = (self._graph.x[:, 0] > 0).long()
        return domain, split_nodes_by_time(self._graph, domain, self._graph.y, self.seed)


@pytest.fixture
def domains() -> DomainStream:
    graph = load_dataset("synthetic", num_nodes=300, num_links=1200, num_classes=3, noise=0.4)
    return DomainStream(graph)


def test_another_kind_of_stream_is_learned_and_described(domains: DomainStream) -> None:
    learner, accuracy = NCM(), []
    for index in range(2):
        step = domains.step(index)
        assert not step.is_task
        assert bool((step.graph.x[:, 0] > 0).all()) == (index == 1)
        learner.fit_task(step)
        accuracy.append(evaluate(learner, domains, after=index, mode="global", ahead=1).accuracy)
    assert [len(row) for row in accuracy] == [2, 2]
    assert min(min(row) for row in accuracy) > 60
    described: list[dict[str, Any]] = domains.describe()["tasks"]
    assert [step["name"] for step in described] == ["negative", "positive"]
    assert sum(step["nodes"] for step in described) == 300


def test_queries_after_a_step(domains: DomainStream) -> None:
    steps = [key.step.unique().tolist() for _, key in domains.queries(after=0, evaluate="global", ahead=5)]
    assert steps == [[0], [1]], "as far ahead as there are steps"
    with pytest.raises(ValueError, match="about one task"):
        domains.query(step=0, after=0, evaluate="oracle")


def test_later_tasks_can_be_evaluated(graph: Graph) -> None:
    stream = TaskStream(graph)
    for after in range(3):
        found = list(stream.queries(after=after, evaluate="oracle", ahead=1))
        assert [query.task for query, _ in found] == list(range(min(after + 2, 3)))
        assert all(set(key.y.tolist()) <= set(query.classes) for query, key in found)


def test_validation_nodes_have_queries_of_their_own(stream: TaskStream) -> None:
    (test, _), (val, key) = (
        stream.query(step=1, after=1, evaluate="oracle", part=part)  # type: ignore[arg-type]
        for part in ("test", "val")
    )
    assert not set(test.nodes.tolist()) & set(val.nodes.tolist())
    assert torch.equal(val.nodes, stream.step(1).val)
    assert torch.equal(key.y, stream.step(1).val_y)


def test_every_kind_has_its_name() -> None:
    assert {name: kind.kind for name, kind in STREAMS.items()} == {"tasks": "tasks", "time": "time"}
