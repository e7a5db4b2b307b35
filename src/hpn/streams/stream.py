"""A graph as a sequence of tasks, and the questions asked about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.datasets.sparse import is_sparse, select_rows
from hpn.streams.ordering import plan_tasks
from hpn.streams.splits import split_nodes
from hpn.streams.views import Classes, Edges, Evaluate, FeatureRows, GraphView, Query, Scenario, Task

Part = Literal["val", "test"]
COPIED = 1 << 22
"""Dense features of a view are copied up to so many numbers, and fetched when needed beyond."""
KEPT = 1 << 29
"""Entries of edges in the views that are kept to be used again."""
EDGES_AT_ONCE = 1 << 20
"""Edges looked at at once while a view is cut, which bounds the memory."""


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
        rank = torch.randperm(graph.num_nodes, generator=generator)
        by_rank = torch.empty_like(rank).scatter_(0, rank, torch.arange(len(rank)))
        self._nodes = _nodes_of_tasks(self._task_of, by_rank, len(plan.tasks))
        self._index_type = np.int32 if len(rank) < 2**31 else np.int64
        self._rank = rank
        self._ids = torch.randint(2**62, rank.shape, generator=generator)
        self._views: dict[tuple[int, ...], tuple[GraphView, Tensor]] = {}
        self._asked: dict[tuple[tuple[int, ...], Part], tuple[Tensor, AnswerKey]] = {}

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
            edges=self.edges,
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
        asked, key = self._ask(in_view, nodes, task, part)
        query = Query(
            graph=view,
            nodes=asked,
            classes=classes,
            task=task if evaluate == "oracle" else None,
            grouped=evaluate == "grouped",
        )
        return query, key

    def _ask(
        self, in_view: tuple[int, ...], nodes: Tensor, task: int | None, part: Part
    ) -> tuple[Tensor, AnswerKey]:
        """Whom to ask about in a view of ``nodes``, and the right answers; those of single tasks are kept."""
        if (in_view, part) in self._asked:
            return self._asked[in_view, part]
        chosen = self._split.test[nodes] if part == "test" else self._split.val[nodes]
        if task is not None:
            chosen = chosen & (self._task_of[nodes] == task)
        asked = torch.nonzero(chosen).flatten()
        found = asked, AnswerKey(self._graph.y[nodes[asked]], self._task_of[nodes[asked]])
        if len(in_view) == 1:  # the task asked about is then the one in view, or none is named
            self._asked[in_view, part] = found
        return found

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
                    "edges": task.graph.num_edges,
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
        kept = self._views.pop(tasks, None)
        if kept is None:
            kept = self._cut(tasks)
            # One-task views together are as large as the graph's edges; the growing ones would be many.
            self._views = {key: view for key, view in self._views.items() if len(key) == 1}
        self._views[tasks] = kept  # the last is the one used last
        spare = sum(len(view.indices) for view, _ in self._views.values()) - KEPT
        for key in list(self._views)[:-1]:
            if spare <= 0:
                break
            spare -= len(self._views.pop(key)[0].indices)
        return kept

    def _cut(self, tasks: tuple[int, ...]) -> tuple[GraphView, Tensor]:
        """An index set of a large graph: which nodes, and the edges among them; of a small one, a copy."""
        nodes = self._nodes[tasks[0]] if len(tasks) == 1 else self._merge(tasks)
        indptr, indices = self._edges_among(nodes, are_mixed=len(tasks) > 1)
        x: Tensor | FeatureRows
        if is_sparse(self._graph.x):
            x = select_rows(self._graph.x, nodes)
        else:
            x = FeatureRows(self._graph.x, nodes)
            x = x.take() if len(nodes) * self._graph.num_features <= COPIED else x
        return GraphView.compressed(x, indptr, indices, self._ids[nodes]), nodes

    def _merge(self, tasks: tuple[int, ...]) -> Tensor:
        nodes = torch.cat([self._nodes[task] for task in tasks])
        return nodes[torch.argsort(self._rank[nodes])]

    def _edges_among(self, nodes: Tensor, *, are_mixed: bool) -> tuple[Tensor, Tensor]:
        """The edges among some nodes that the stream allows, compressed; nodes by their position."""
        rows, indptr = nodes.numpy(), self._graph.indptr.numpy()
        local = np.full(self._graph.num_nodes, -1, dtype=self._index_type)
        local[rows] = np.arange(len(rows), dtype=local.dtype)
        owner = self._task_of.numpy() if are_mixed and self.edges == "within" else None
        first = indptr[rows]
        count = indptr[rows + 1] - first

        def look_at(part: slice) -> tuple[np.ndarray, np.ndarray]:
            """How many edges each node of a part has in view, and where they lead."""
            ends = np.cumsum(count[part])
            # Entry e of a node sits at its start + (e - the entries of the nodes before it).
            entry = np.repeat(first[part] - ends + count[part], count[part])
            entry += np.arange(len(entry))
            target = _take(self._graph.indices, entry)
            place = local.take(target)
            keep = place >= 0
            if owner is not None:
                keep &= np.repeat(owner[rows[part]], count[part]) == owner.take(target)
            kept = np.append(np.cumsum(keep, dtype=np.int32), np.int32(0))[
                ends - 1
            ]  # no end is before the first
            kept = np.diff(kept, prepend=0)
            return kept, _sort_rows(kept, place[keep])

        found = [look_at(part) for part in _cut_evenly(count, EDGES_AT_ONCE)]
        kept = np.concatenate([part for part, _ in found])
        indices = np.concatenate([part for _, part in found])
        return torch.from_numpy(np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])), torch.from_numpy(
            indices
        )


def _nodes_of_tasks(task_of: Tensor, by_rank: Tensor, num_tasks: int) -> list[Tensor]:
    """The nodes of each task, in the order of the stream."""
    owner = task_of[by_rank]
    order = torch.argsort(owner, stable=True)
    sizes = torch.bincount(owner + 1, minlength=num_tasks + 1)  # the first are in no task
    return list(torch.split(by_rank[order], sizes.tolist())[1:])


def _take(values: Tensor, at: np.ndarray) -> np.ndarray:
    # NumPy's take is twice as fast; values that are spread over files have their own.
    found = values.numpy().take(at) if isinstance(values, Tensor) else values[torch.from_numpy(at)].numpy()
    return np.asarray(found)


def _cut_evenly(count: np.ndarray, most: int) -> list[slice]:
    """Cut a list of nodes so that each part has about ``most`` edges."""
    share = np.maximum(np.cumsum(count) - 1, 0) // most
    cuts = [0, *(np.flatnonzero(np.diff(share)) + 1).tolist(), len(count)]
    return [slice(*pair) for pair in pairwise(cuts)]


def _sort_rows(count: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Sort the neighbours of each node, so that no order of edges survives from the full graph."""
    row = np.repeat(np.arange(len(count)), count)
    if target.dtype == np.int64:
        return np.asarray(target[np.lexsort((target, row))])
    key = row << 32
    key |= target
    key.sort()
    return key.astype(np.int32)  # the lower half


def _task_of_node(graph: Graph, tasks: tuple[Classes, ...]) -> Tensor:
    owner = torch.full((graph.num_classes + 1,), -1)  # the last entry serves the label −1
    for index, task in enumerate(tasks):
        owner[torch.tensor(task)] = index
    return owner[graph.y]
