"""A graph as a sequence of tasks, and the questions asked about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.datasets.sparse import is_sparse, select_rows
from hpn.streams.ordering import plan_tasks
from hpn.streams.splits import split_nodes
from hpn.streams.views import Classes, Edges, Evaluate, GraphView, Query, Scenario, Task

Part = Literal["val", "test"]


@dataclass(frozen=True, slots=True, eq=False)
class AnswerKey:
    """The right answers to a query. It stays with the examiner.

    Args:
        y: Class number of each node asked about.
        task: Task each of them belongs to.
    """

    y: Tensor
    task: Tensor


class TaskStream:
    """Tasks cut from one graph, handed out one after another.

    A learner gets only :class:`Task` and :class:`Query` objects, never the stream. Unlabelled nodes
    and nodes of classes in no task are in no view.

    Args:
        graph: Where the tasks come from.
        tasks: Classes of each task; see :func:`plan_tasks`.
        classes_per_task: Classes a task, unless ``tasks`` lists them.
        scenario: ``task`` or ``class``; carried by every task.
        edges: ``within`` (a task's view has its own nodes and the edges among them) or ``seen`` (also
            all nodes of earlier tasks and the edges to and among them).
        seed: Draws seeded splits and the numbering of nodes in views.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> stream = TaskStream(load_dataset("digits"), seed=0)
        >>> len(stream), stream.classes
        (5, ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9)))
        >>> task = stream.task(0)
        >>> task.classes, len(task.train), len(task.val)
        ((0, 1), 215, 72)
        >>> query, key = stream.query(task=0, after=0, evaluate="oracle")
        >>> query.task, len(query.nodes), hasattr(query, "y")
        (0, 73, False)
    """

    def __init__(
        self,
        graph: Graph,
        *,
        tasks: str | Sequence[Sequence[int]] | None = None,
        classes_per_task: int | None = None,
        scenario: Scenario = "task",
        edges: Edges = "within",
        seed: int = 0,
    ) -> None:
        plan = plan_tasks(graph, tasks, classes_per_task)
        self.classes = plan.tasks
        self.left_out = plan.left_out
        self.scenario = scenario
        self.edges = edges
        self.seed = seed
        self._graph = graph
        self._split = split_nodes(graph, plan.tasks, seed)
        self._task_of = _task_of_node(graph, plan.tasks)
        generator = torch.Generator().manual_seed(seed)
        self._rank = torch.randperm(graph.num_nodes, generator=generator)
        self._ids = torch.randint(2**62, (graph.num_nodes,), generator=generator)
        self._views: dict[tuple[int, ...], tuple[GraphView, Tensor]] = {}

    def __len__(self) -> int:
        return len(self.classes)

    def task(self, index: int, *, with_past: bool = False) -> Task:
        """What a learner sees of task ``index``; ``with_past`` adds the earlier tasks (joint training)."""
        view, nodes = self._view(self._tasks_in_view(index))
        own = self._task_of[nodes] == index
        train = torch.nonzero(self._split.train[nodes] & own).flatten()
        val = torch.nonzero(self._split.val[nodes] & own).flatten()
        return Task(
            index=index,
            classes=self.classes[index],
            scenario=self.scenario,
            graph=view,
            train=train,
            train_y=self._graph.y[nodes[train]],
            val=val,
            val_y=self._graph.y[nodes[val]],
            past=tuple(self.task(past) for past in range(index)) if with_past else (),
        )

    def query(
        self, *, task: int | None, after: int, evaluate: Evaluate, part: Part = "test"
    ) -> tuple[Query, AnswerKey]:
        """A question about ``task`` (all tasks so far if ``None``) after task ``after`` was learned.

        ``oracle`` shows the graph as it stood when the task arrived and names the task. ``global``
        and ``grouped`` show every node that has arrived by ``after``, with the stream's edges.
        """
        if evaluate == "oracle":
            if task is None:
                raise ValueError("an oracle query is about one task")
            in_view, classes = self._tasks_in_view(task), self.classes[task]
        else:
            in_view = tuple(range(after + 1))
            classes = tuple(c for seen in self.classes[: after + 1] for c in seen)
        view, nodes = self._view(in_view)
        chosen = self._split.test[nodes] if part == "test" else self._split.val[nodes]
        if task is not None:
            chosen = chosen & (self._task_of[nodes] == task)
        asked = torch.nonzero(chosen).flatten()
        query = Query(
            graph=view,
            nodes=asked,
            classes=classes,
            task=task if evaluate == "oracle" else None,
            grouped=evaluate == "grouped",
        )
        return query, AnswerKey(self._graph.y[nodes[asked]], self._task_of[nodes[asked]])

    def describe(self) -> dict[str, Any]:
        """The task sequence as plain data: classes, sizes and splits, and the classes in no task."""
        sizes, names = self._graph.class_sizes(), self._graph.class_names

        def classes(labels: Classes) -> list[dict[str, Any]]:
            return [{"id": c, "name": names[c], "size": sizes[c]} for c in labels]

        tasks = []
        for index, labels in enumerate(self.classes):
            task = self.task(index)
            query, _ = self.query(task=index, after=index, evaluate="oracle")
            tasks.append(
                {
                    "index": index,
                    "classes": classes(labels),
                    "nodes": task.graph.num_nodes,
                    "edges": task.graph.edge_index.shape[1] // 2,
                    "train": len(task.train),
                    "val": len(task.val),
                    "test": len(query.nodes),
                }
            )
        return {"tasks": tasks, "left_out": classes(self.left_out)}

    def _tasks_in_view(self, index: int) -> tuple[int, ...]:
        return (index,) if self.edges == "within" else tuple(range(index + 1))

    def _view(self, tasks: tuple[int, ...]) -> tuple[GraphView, Tensor]:
        """Nodes of ``tasks`` in stream order with the edges that the stream allows among them."""
        if tasks not in self._views:
            # One-task views together are one copy of the graph; the growing ones would be many.
            self._views = {key: kept for key, kept in self._views.items() if len(key) == 1}
            self._views[tasks] = self._cut(tasks)
        return self._views[tasks]

    def _cut(self, tasks: tuple[int, ...]) -> tuple[GraphView, Tensor]:
        nodes = torch.nonzero(torch.isin(self._task_of, torch.tensor(tasks))).flatten()
        nodes = nodes[torch.argsort(self._rank[nodes])]
        local = torch.full((self._graph.num_nodes,), -1)
        local[nodes] = torch.arange(len(nodes))
        source, target = self._graph.neighbors(nodes)
        keep = local[target] >= 0
        if self.edges == "within" and len(tasks) > 1:
            keep &= self._task_of[nodes][source] == self._task_of[target]
        source, target = source[keep], local[target[keep]]
        # Sorted by source and target, so that no order of edges survives from the full graph.
        order = torch.argsort(source * len(nodes) + target)
        edge_index = torch.stack([source[order], target[order]])
        ids = self._ids[nodes] if self.edges == "seen" else None
        x = select_rows(self._graph.x, nodes)
        return GraphView(x if is_sparse(x) else x.float(), edge_index, ids), nodes


def _task_of_node(graph: Graph, tasks: tuple[Classes, ...]) -> Tensor:
    owner = torch.full((graph.num_classes + 1,), -1)  # the last entry serves the label −1
    for index, task in enumerate(tasks):
        owner[torch.tensor(task)] = index
    return owner[graph.y]
