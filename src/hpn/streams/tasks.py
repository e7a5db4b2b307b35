"""Tasks one after another, each with classes of its own: the stream of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.streams.ordering import plan_tasks
from hpn.streams.splits import split_nodes
from hpn.streams.stream import Stream, StreamPlan
from hpn.streams.views import Classes, Edges, Scenario


class TaskStream(Stream):
    """Tasks cut from one graph: a step brings the nodes of some classes that no other step has.

    Unlabelled nodes, and nodes of classes in no task, are in no view.

    Args:
        graph: Where the tasks come from.
        tasks: Classes of each task, or a plan of them; see :func:`plan_tasks`.
        classes_per_task: Classes per task, unless ``tasks`` lists them.
        scenario: ``task`` or ``class``; carried by every step.
        edges: ``within`` (a task's view has its own nodes and the edges among them) or ``seen`` (also
            all nodes of earlier tasks and the edges to and among them).
        seed: Draws seeded splits and the numbering of nodes in views.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> stream = TaskStream(load_dataset("digits"), seed=0)
        >>> len(stream), stream.classes
        (5, ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9)))
        >>> step = stream.step(0)
        >>> step.classes, len(step.train), len(step.val)
        ((0, 1), 215, 72)
        >>> query, key = stream.query(step=0, after=0, evaluate="oracle")
        >>> query.task, len(query.nodes), hasattr(query, "y")
        (0, 73, False)
    """

    kind: ClassVar[str] = "tasks"
    scenarios: ClassVar[tuple[Scenario, ...]] = ("task", "class")
    edge_modes: ClassVar[tuple[Edges, ...]] = ("within", "seen")
    has_tasks: ClassVar[bool] = True

    def __init__(
        self,
        graph: Graph,
        *,
        tasks: str | Sequence[Sequence[int]] | StreamPlan | None = None,
        classes_per_task: int | None = None,
        scenario: Scenario = "task",
        edges: Edges = "within",
        seed: int = 0,
    ) -> None:
        plan = tasks if isinstance(tasks, StreamPlan) else plan_tasks(graph, tasks, classes_per_task)
        split = split_nodes(graph, plan.classes, seed)
        step_of = _task_of_node(graph, plan.classes)
        super().__init__(graph, plan, step_of, split, scenario=scenario, edges=edges, seed=seed)

    @classmethod
    def make(
        cls, graph: Graph, plan: StreamPlan, *, scenario: Scenario, edges: Edges, seed: int
    ) -> TaskStream:
        """The stream of a plan."""
        return cls(graph, tasks=plan, scenario=scenario, edges=edges, seed=seed)

    @classmethod
    def make_plan(  # type: ignore[override]
        cls,
        graph: Graph,
        *,
        tasks: str | Sequence[Sequence[int]] | None = None,
        classes_per_task: int | None = None,
    ) -> StreamPlan:
        """Group the classes of a graph into tasks; see :func:`plan_tasks`."""
        return plan_tasks(graph, tasks, classes_per_task)


def _task_of_node(graph: Graph, tasks: tuple[Classes, ...]) -> Tensor:
    owner = torch.full((graph.num_classes + 1,), -1)  # the last entry serves the label −1
    for index, task in enumerate(tasks):
        owner[torch.tensor(task)] = index
    return owner[graph.y]
