"""What a learner may see, as types: a task while fitting, a query while answering.

Neither refers to the graph it was cut from. Nodes are numbered anew in every view, in an order drawn
once for the stream, so that a number tells nothing about a node's class, split or arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hpn.datasets.sparse import count_entries, stack_rows

Scenario = Literal["task", "class"]
Evaluate = Literal["oracle", "global", "grouped"]
Edges = Literal["within", "seen"]
Classes = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GraphView:
    """Features and edges of the nodes in view; no labels.

    Args:
        x: Features.
        edge_index: Edges.
        ids: Names by which nodes are found again in later views, in streams where earlier nodes stay in view;
            drawn at random, so that they tell nothing else.

    Shapes:
        - ``x``: ``[num_nodes, num_features]``, dense or sparse CSR
        - ``edge_index``: ``[2, num_entries]``, both directions, no self-loops
        - ``ids``: ``[num_nodes]``
    """

    x: Tensor
    edge_index: Tensor
    ids: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes in view."""
        return self.x.shape[0]

    @property
    def num_numbers(self) -> int:
        """Numbers it takes to write down features and edges; sparse features by what they store."""
        return count_entries(self.x) + self.edge_index.numel()


def stack_graphs(graphs: Sequence[GraphView]) -> tuple[GraphView, list[int]]:
    """One graph of which the given ones are the unconnected parts, and where each part begins."""
    sizes = [graph.num_nodes for graph in graphs]
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    edges = [graph.edge_index + start for graph, start in zip(graphs, starts, strict=True)]
    x = stack_rows([graph.x for graph in graphs])
    return GraphView(x, torch.cat(edges, dim=1)), starts


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What a learner sees while it learns a task.

    Labels of training and validation nodes only: those of test nodes, and anything of a later task,
    are not in here.

    Args:
        index: Position in the stream.
        classes: Class numbers of the task.
        scenario: ``task`` (one head shared by all tasks) or ``class`` (a head that grows).
        graph: Nodes and edges in view.
        train: Training nodes, as rows of ``graph``.
        train_y: Their class numbers.
        val: Validation nodes.
        val_y: Their class numbers.
        past: Earlier tasks, for learners that declare ``sees_past``; empty for all others.
    """

    index: int
    classes: Classes
    scenario: Scenario
    graph: GraphView
    train: Tensor
    train_y: Tensor
    val: Tensor
    val_y: Tensor
    past: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What a learner sees while it answers: no label, and no task unless the evaluation is oracle.

    Args:
        graph: Nodes and edges in view.
        nodes: Nodes asked about, as rows of ``graph``, in random order.
        classes: Classes the answer must come from: the task's when it is given, else all seen.
        task: Index of the task in ``oracle`` evaluation, ``None`` otherwise.
        grouped: Whether the nodes are known to be of one, unnamed, task.
    """

    graph: GraphView
    nodes: Tensor
    classes: Classes
    task: int | None = None
    grouped: bool = False
