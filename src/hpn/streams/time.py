"""A graph as it grew: a step brings the nodes of one time, whatever their classes."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from hpn.datasets import Graph, Masks
from hpn.datasets.graph import UNLABELLED
from hpn.errors import ConfigError, DataError
from hpn.streams.splits import split_nodes_by_time
from hpn.streams.stream import StepPlan, Stream, StreamPlan
from hpn.streams.views import Edges, Scenario


class TimeStream(Stream):
    """Steps by the time at which nodes arrived; classes recur.

    A view holds the nodes up to its time and the edges among them. Unlabelled nodes are in view, because they are part
    of the graph, but are neither learned nor evaluated. If classes change with time (``y_by_time``), a node is learned
    with the class that it had when it arrived, and evaluated with the class that it has at the time of the query.
    After each step, the nodes of the next one are evaluated before they are learned, among the classes seen so far.

    Args:
        graph: A graph with ``node_time``.
        plan: The times; by default all of the graph.
        seed: Draws seeded splits and the order of nodes in views.

    Raises:
        ConfigError: If the graph has no times, or a single one.
        DataError: If a time has no training or no test nodes.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> stream = TimeStream(load_dataset("synthetic", num_times=3))
        >>> [stream.step(index).graph.num_nodes for index in range(3)]
        [631, 1343, 2000]
    """

    kind: ClassVar[str] = "time"
    scenarios: ClassVar[tuple[Scenario, ...]] = ("class",)
    edge_modes: ClassVar[tuple[Edges, ...]] = ("seen",)
    has_tasks: ClassVar[bool] = False
    copies_views: ClassVar[bool] = True
    num_ahead: ClassVar[int] = 1

    @classmethod
    def make_plan(cls, graph: Graph) -> StreamPlan:  # type: ignore[override]
        """One step per time.

        Raises:
            ConfigError: If the graph has no times, or a single one.
        """
        times, step_of, labels = _arrivals(graph)
        if len(times) < 2:
            raise ConfigError(f"{graph.name}: all nodes have the same time, so there is only one step")
        is_used = labels != UNLABELLED
        if graph.masks is not None:
            is_used &= graph.masks.train
        steps = []
        for step, time in enumerate(times.tolist()):
            classes = torch.unique(labels[is_used & (step_of == step)]).tolist()
            if not classes:
                raise DataError(f"{graph.name}: no training node of time {time} has a label; leave the time out")
            steps.append(StepPlan(f"time {time}", tuple(classes)))
        return StreamPlan(tuple(steps))

    def _assign_nodes(self) -> tuple[Tensor, Masks]:
        _, step_of, labels = _arrivals(self._graph)
        return step_of, split_nodes_by_time(self._graph, step_of, labels, self.seed)

    def _labels(self, nodes: Tensor, after: int) -> Tensor:
        labels = self._graph.y_by_time
        if labels is None:
            return self._graph.y[nodes]
        # Nodes of a later step are evaluated with the class that they arrive with.
        return labels[self._step_of[nodes].clamp(min=after), nodes]


def _arrivals(graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct times, in order; which of them each node arrived at; and the label that it had then."""
    if graph.node_time is None:
        raise ConfigError(
            f"{graph.name} has no times; --stream time needs node_time, a whole number per node, in the data "
            "(of tables, name the column with --set data.time=COLUMN)"
        )
    times, step_of = torch.unique(graph.node_time, return_inverse=True)
    labels = graph.y if graph.y_by_time is None else graph.y_by_time[step_of, torch.arange(graph.num_nodes)]
    return times, step_of, labels
