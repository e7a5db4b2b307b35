"""The streams of the package keep the contract, and one that breaks a rule is found out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph, Masks, load_dataset
from hpn.streams import Query, Step, Stream, StreamPlan, TaskStream, TimeStream
from hpn.testing import Check, check_stream, stream_checks

SIZE: dict[str, Any] = {"num_nodes": 120, "num_links": 400, "num_features": 4, "num_classes": 4}
GRAPH = load_dataset("synthetic", **SIZE)
GROWING = load_dataset("synthetic", **SIZE, num_times=3)


@pytest.mark.parametrize("check", stream_checks(TaskStream, GRAPH) + stream_checks(TimeStream, GROWING), ids=str)
def test_streams_of_the_package(check: Check) -> None:
    check()


class Unseeded(TaskStream):
    count = 0

    def step(self, index: int, *, with_past: bool = False) -> Step:
        Unseeded.count += 1
        step = super().step(index, with_past=with_past)
        return replace(step, train=step.train.roll(Unseeded.count))


class LooksAhead(TaskStream):
    def _in_view(self, index: int) -> tuple[int, ...]:
        return tuple(range(min(index + 2, len(self))))

    def query(self, **about: Any) -> Any:
        query, key = super().query(**about)
        return replace(query, graph=super().step(len(self) - 1).graph), key


class AddsEdges(TaskStream):
    def step(self, index: int, *, with_past: bool = False) -> Step:
        step = super().step(index, with_past=with_past)
        first, last = torch.tensor([0]), torch.tensor([step.graph.num_nodes - 1])
        edges = torch.cat([step.graph.edge_index, torch.stack([first, last]), torch.stack([last, first])], dim=1)
        return replace(step, graph=type(step.graph)(step.graph.x, edges))


class EvaluatesTrainingNodes(TaskStream):
    def _assign_nodes(self) -> tuple[Tensor, Masks]:
        step_of, split = super()._assign_nodes()
        return step_of, Masks(split.train, split.val, split.train)


class OtherClasses(TaskStream):
    @classmethod
    def make_plan(cls, graph: Graph, **options: Any) -> StreamPlan:
        plan = super().make_plan(graph, **options)
        return replace(plan, steps=tuple(replace(step, classes=(*step.classes, 9)) for step in plan.steps))

    def _assign_nodes(self) -> tuple[Tensor, Masks]:
        return TaskStream(self._graph)._assign_nodes()


class LabelsInQueries(TaskStream):
    def query(self, **about: Any) -> Any:
        query, key = super().query(**about)
        return replace(query, graph=replace_ids(query, key.y)), key


def replace_ids(query: Query, y: Tensor) -> Any:
    graph = query.graph
    return type(graph).compressed(graph.features, graph.indptr, graph.indices, y)


class NamesTheNextTask(TaskStream):
    def query(self, **about: Any) -> Any:
        query, key = super().query(**about)
        return replace(query, task=None), key


BROKEN: dict[str, tuple[type[Stream], str]] = {
    "same_seed_gives_the_same_steps": (Unseeded, "differs between two streams with the same seed"),
    "later_steps_are_out_of_reach": (LooksAhead, "nodes of later steps"),
    "edges_are_those_of_the_graph": (AddsEdges, "has 2 edges that the graph does not have"),
    "query_nodes_are_never_learned_from": (EvaluatesTrainingNodes, "test nodes are learned from as well"),
    "steps_have_the_classes_of_the_plan": (OtherClasses, "its training nodes"),
    "queries_carry_no_labels": (LabelsInQueries, "holds the labels of its nodes"),
    "oracle_queries_are_about_one_task": (NamesTheNextTask, "states another task"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_can_fail(name: str) -> None:
    stream, expected = BROKEN[name]
    verdicts = check_stream(stream, GRAPH)
    assert list(BROKEN) == list(verdicts)
    verdict = verdicts[name]
    assert verdict.outcome == "failed"
    assert expected in verdict.reason


def test_a_stream_without_tasks_has_no_oracle_queries() -> None:
    assert check_stream(TimeStream, GROWING)["oracle_queries_are_about_one_task"].outcome == "skipped"
