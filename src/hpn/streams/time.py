"""A graph as it grew: a step brings the nodes of one time, whatever their classes."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.datasets.graph import UNLABELLED
from hpn.errors import ConfigError, DataError
from hpn.streams.splits import Split, split_nodes_by_time
from hpn.streams.stream import StepPlan, Stream, StreamPlan
from hpn.streams.views import Edges, Scenario


class TimeStream(Stream):
    """Steps by the time at which nodes arrived; classes come again.

    A view holds the nodes up to its time and the edges among them; nothing later is in it. Unlabelled nodes
    are in view, because they are part of the graph, but are neither learned from nor evaluated. Where classes
    change with time (``y_by_time``), a node is learned with the class that it had when it arrived, and
    answers are judged by the class that it has at the time of the query. After each step, the nodes of the
    next one are evaluated before they are learned, among the classes seen so far.

    Args:
        graph: A graph with ``node_time``.
        plan: The times; by default all of the graph.
        seed: Draws seeded splits and the numbering of nodes in views.

    Raises:
        ConfigError: If the graph has no times, or a single one.
        DataError: If a time has no training or no test nodes.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> stream = TimeStream(load_dataset("synthetic", num_times=3))
        >>> [stream.step(index).graph.num_nodes for index in range(3)]
        [631, 1343, 2000]
        >>> query, key = stream.query(step=1, after=0, evaluate="global")
        >>> query.graph.num_nodes, key.step.unique().tolist()
        (1343, [1])
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
        (times, step_of), labels = _times(graph), first_labels(graph)
        if len(times) < 2:
            raise ConfigError(f"{graph.name}: all nodes have the same time, so there is only one step")
        is_used = labels != UNLABELLED
        if graph.masks is not None:
            is_used &= graph.masks.train
        pairs = torch.unique(torch.stack([step_of[is_used], labels[is_used]]), dim=1)
        classes = [tuple(pairs[1, pairs[0] == step].tolist()) for step in range(len(times))]
        for time, found in zip(times.tolist(), classes, strict=True):
            if not found:
                raise DataError(f"{graph.name}: no training node of time {time} has a label; leave the time out")
        names = (f"time {time}" for time in times.tolist())
        return StreamPlan(tuple(map(StepPlan, names, classes)))

    def _assign_nodes(self) -> tuple[Tensor, Split]:
        _, step_of = _times(self._graph)
        return step_of, split_nodes_by_time(self._graph, step_of, first_labels(self._graph), self.seed)

    def _labels(self, nodes: Tensor, after: int) -> Tensor:
        labels = self._graph.y_by_time
        if labels is None:
            return self._graph.y[nodes]
        # Nodes of a step to come are judged by the class that they arrive with.
        return labels[self._step_of[nodes].clamp(min=after), nodes]


def first_labels(graph: Graph) -> Tensor:
    """The label that each node had when it arrived ``[num_nodes]``."""
    if graph.y_by_time is None:
        return graph.y
    _, step_of = _times(graph)
    return graph.y_by_time[step_of, torch.arange(graph.num_nodes)]


def _times(graph: Graph) -> tuple[Tensor, Tensor]:
    """The distinct times, in order, and which of them is that of each node."""
    if graph.node_time is None:
        raise ConfigError(
            f"{graph.name} has no times; --stream time needs node_time, a whole number per node, in the data "
            "(of tables, name the column with --set data.time=COLUMN)"
        )
    times, step_of = torch.unique(graph.node_time, return_inverse=True)
    return times, step_of
