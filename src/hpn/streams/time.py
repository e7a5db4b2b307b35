"""A graph as it grew: a step brings the nodes of one time, whatever their classes."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.datasets.graph import UNLABELLED
from hpn.errors import ConfigError, DataError
from hpn.streams.splits import split_nodes_by_time
from hpn.streams.stream import StepPlan, Stream, StreamPlan
from hpn.streams.views import Edges, Scenario


class TimeStream(Stream):
    """Steps by the time at which nodes arrived; classes come again.

    A view holds the nodes up to its time and the edges among them; later ones are not in it. After each step,
    the nodes of the next one are asked about before they are learned, among the classes seen so far.

    Args:
        graph: A graph with ``node_time``.
        plan: The times; by default all of the graph.
        seed: Draws seeded splits and the numbering of nodes in views.

    Raises:
        ConfigError: If the graph has no times, or a single one.
        DataError: If a time has no training or no test nodes.
    """

    kind: ClassVar[str] = "time"
    scenarios: ClassVar[tuple[Scenario, ...]] = ("class",)
    edge_modes: ClassVar[tuple[Edges, ...]] = ("seen",)
    has_tasks: ClassVar[bool] = False
    num_ahead: ClassVar[int] = 1

    def __init__(self, graph: Graph, *, plan: StreamPlan | None = None, seed: int = 0) -> None:
        plan = plan or self.make_plan(graph)
        times = _times(graph)
        step_of = torch.searchsorted(torch.unique(times), times)
        step_of[first_labels(graph) == UNLABELLED] = -1
        split = split_nodes_by_time(graph, step_of, first_labels(graph), seed)
        super().__init__(graph, plan, step_of, split, scenario="class", edges="seen", seed=seed)

    @classmethod
    def make(
        cls, graph: Graph, plan: StreamPlan, *, scenario: Scenario, edges: Edges, seed: int
    ) -> TimeStream:
        """The stream of a plan."""
        return cls(graph, plan=plan, seed=seed)

    @classmethod
    def make_plan(cls, graph: Graph) -> StreamPlan:  # type: ignore[override]
        """One step per time.

        Raises:
            ConfigError: If the graph has no times, or a single one.
        """
        times, labels = _times(graph), first_labels(graph)
        steps = []
        for time in torch.unique(times).tolist():
            classes = torch.unique(labels[(times == time) & (labels != UNLABELLED)]).tolist()
            if not classes:
                raise DataError(f"{graph.name}: no node of time {time} has a label")
            steps.append(StepPlan(f"time {time}", tuple(classes)))
        if len(steps) < 2:
            raise ConfigError(f"{graph.name}: all nodes have the same time, so there is only one step")
        return StreamPlan(tuple(steps))

    def _labels(self, nodes: Tensor, after: int) -> Tensor:
        labels = self._graph.y_by_time
        return self._graph.y[nodes] if labels is None else labels[after][nodes]


def first_labels(graph: Graph) -> Tensor:
    """The label that each node had when it arrived ``[num_nodes]``."""
    if graph.y_by_time is None:
        return graph.y
    times = _times(graph)
    step_of = torch.searchsorted(torch.unique(times), times)
    return graph.y_by_time[step_of, torch.arange(graph.num_nodes)]


def _times(graph: Graph) -> Tensor:
    if graph.node_time is None:
        raise ConfigError(
            f"{graph.name} has no times; --stream time needs node_time, a whole number per node, in the data"
        )
    return graph.node_time
