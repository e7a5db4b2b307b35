"""A graph that arrives step by step, and the queries after each step.

A kind of stream is one file: a subclass of :class:`Stream` that states which node arrives with which step. Learners,
runs, metrics and reports depend on nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from hpn.datasets import Graph, Masks
from hpn.streams.cutting import ViewCutter
from hpn.streams.views import Classes, Edges, Evaluate, Query, Scenario, Step

Part = Literal["val", "test"]


@dataclass(frozen=True)
class StepPlan:
    """The name of a step, and the classes of the nodes that arrive with it."""

    name: str
    classes: Classes


@dataclass(frozen=True)
class StreamPlan:
    """The steps of a stream, and the classes that are in none of them."""

    steps: tuple[StepPlan, ...]
    left_out: Classes = ()

    @property
    def classes(self) -> tuple[Classes, ...]:
        """Classes of each step."""
        return tuple(step.classes for step in self.steps)


@dataclass(frozen=True, slots=True, eq=False)
class AnswerKey:
    """The correct answers to a query, which learners never see.

    Args:
        y: Class number of each node of the query.
        step: The step that each of them arrived with.
        node: Its number in the graph of the stream.
    """

    y: Tensor
    step: Tensor
    node: Tensor


class Stream(ABC):
    """Steps cut from one graph, provided one after another.

    A learner receives only :class:`Step` and :class:`Query` objects, never the stream. Nodes in no step are in no view.

    Args:
        graph: The graph that the steps are cut from.
        plan: The steps; by default made from the options.
        scenario: ``task`` or ``class``; carried by every step. By default the first of ``scenarios``.
        edges: ``within`` (a view has the nodes of its step and the edges among them) or ``seen`` (also all nodes of
            earlier steps and the edges to and among them). By default the first of ``edge_modes``.
        seed: Draws seeded splits and the order of nodes in views.
        options: Those of :meth:`make_plan`.

    Attributes:
        classes: Classes of each step.
    """

    kind: ClassVar[str]
    """Its name for ``--stream``."""
    scenarios: ClassVar[tuple[Scenario, ...]]
    """The scenarios it allows, the default first."""
    edge_modes: ClassVar[tuple[Edges, ...]]
    """Which edges may be in view, the default first."""
    has_tasks: ClassVar[bool]
    """Whether every step has classes of its own, so that queries can name it."""
    copies_views: ClassVar[bool] = False
    """Whether views of features in memory are copies, however large they are."""
    num_ahead: ClassVar[int] = 0
    """How many later steps are evaluated after each step, unless more are requested."""

    def __init__(
        self,
        graph: Graph,
        plan: StreamPlan | None = None,
        *,
        scenario: Scenario | None = None,
        edges: Edges | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.plan = plan or self.make_plan(graph, **options)
        self.classes, self.left_out = self.plan.classes, self.plan.left_out
        self.scenario, self.edges = scenario or self.scenarios[0], edges or self.edge_modes[0]
        self.seed, self._graph = seed, graph
        self._step_of, self._split = self._assign_nodes()
        self._cutter = ViewCutter(graph, self._step_of, len(self), self.edges, seed, copies=self.copies_views)

    @classmethod
    @abstractmethod
    def make_plan(cls, graph: Graph, **options: Any) -> StreamPlan:
        """Group the nodes of a graph into steps; the keyword arguments are the options of the kind.

        Raises:
            ConfigError: If an option cannot be used.
        """

    @abstractmethod
    def _assign_nodes(self) -> tuple[Tensor, Masks]:
        """The step of each node, -1 for none ``[num_nodes]``, and which nodes train, validate and test."""

    def _labels(self, nodes: Tensor, after: int) -> Tensor:
        """Class numbers of nodes of the graph, as they are known after a step."""
        return self._graph.y[nodes]

    def __len__(self) -> int:
        return len(self.classes)

    def step(self, index: int, *, with_past: bool = False) -> Step:
        """What a learner sees at step ``index``; ``with_past`` adds the earlier steps (joint training)."""
        view, nodes = self._cutter.view(self._in_view(index))
        own = self._step_of[nodes] == index
        train, val = (torch.nonzero(part[nodes] & own).flatten() for part in self._split[:2])
        return Step(
            index=index,
            classes=self.classes[index],
            scenario=self.scenario,
            graph=view,
            train=train,
            train_y=self._labels(nodes[train], index),
            val=val,
            val_y=self._labels(nodes[val], index),
            past=tuple(self.step(past) for past in range(index)) if with_past else (),
            edges=self.edges,
            is_task=self.has_tasks,
        )

    def query(
        self, *, step: int | None, after: int, evaluate: Evaluate, part: Part = "test"
    ) -> tuple[Query, AnswerKey]:
        """The query about ``step`` (all steps so far if ``None``) after step ``after`` was learned.

        ``oracle`` shows the graph as it was when the task arrived and names the task. ``global`` and ``grouped`` show
        every node that has arrived by ``after``, and by ``step`` if that is later.
        """
        if evaluate == "oracle":
            if step is None or not self.has_tasks:
                raise ValueError("an oracle query is about one task")
            in_view, classes = self._in_view(step), self.classes[step]
        else:
            in_view = tuple(range(max(after, step or 0) + 1))
            classes = tuple(dict.fromkeys(c for seen in self.classes[: after + 1] for c in seen))
        view, nodes = self._cutter.view(in_view)
        chosen = getattr(self._split, part)[nodes]
        if step is not None:
            chosen &= self._step_of[nodes] == step
        rows = torch.nonzero(chosen).flatten()
        queried = nodes[rows]
        query = Query(view, rows, classes, step if evaluate == "oracle" else None, grouped=evaluate == "grouped")
        return query, AnswerKey(self._labels(queried, after), self._step_of[queried], queried)

    def queries(
        self, *, after: int, evaluate: Evaluate, part: Part = "test", ahead: int = 0
    ) -> Iterator[tuple[Query, AnswerKey]]:
        """All queries after step ``after``: about the steps so far, and about the next ``ahead`` steps."""
        so_far: list[int | None] = [None] if evaluate == "global" else list(range(after + 1))
        for step in [*so_far, *range(after + 1, min(after + ahead + 1, len(self)))]:
            yield self.query(step=step, after=after, evaluate=evaluate, part=part)

    def describe(self) -> dict[str, Any]:
        """The steps as plain data: classes, sizes and splits, and the classes in no step."""
        names = self._graph.class_names

        def classes(labels: Classes, sizes: Sequence[int]) -> list[dict[str, Any]]:
            return [{"id": c, "name": names[c], "size": sizes[c]} for c in labels]

        steps = []
        for index, plan in enumerate(self.plan.steps):
            step, own = self.step(index), self._step_of == index
            arrived = self._labels(torch.nonzero(own).flatten(), index)
            sizes = torch.bincount(arrived[arrived >= 0], minlength=len(names)).tolist()
            described = {"index": index, "name": plan.name, "classes": classes(plan.classes, sizes)}
            described |= {"nodes": step.graph.num_nodes, "edges": step.graph.num_edges, "train": len(step.train)}
            steps.append(described | {"val": len(step.val), "test": int((self._split.test & own).sum())})
        return {"tasks": steps, "left_out": classes(self.left_out, self._graph.class_sizes())}

    def _in_view(self, index: int) -> tuple[int, ...]:
        return (index,) if self.edges == "within" else tuple(range(index + 1))
