"""Tasks one after another, each with classes of its own: the stream of the paper."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hpn.datasets import Graph, Masks
from hpn.errors import ConfigError, nearest
from hpn.streams.splits import split_nodes
from hpn.streams.stream import StepPlan, Stream, StreamPlan
from hpn.streams.views import Classes, Edges, Scenario

TaskList = str | Sequence[Sequence[int]] | None
MIN_LABELLED = 3  # one node each to train, to validate and to test


def plan_tasks(graph: Graph, tasks: TaskList = None, classes_per_task: int | None = None) -> StreamPlan:
    """Group the classes of a graph into tasks.

    Args:
        graph: The graph.
        tasks: ``None`` (the class order of the data set, which is the paper's where it has one, else by size),
            ``"paper"`` (that order, or an error), ``"size"`` (largest class first), ``"shuffle"`` or
            ``"shuffle:SEED"``, a list such as ``"0,1;2,3"``, or the same as nested sequences. Class names may be
            used instead of numbers.
        classes_per_task: Classes in each task (default 2), unless ``tasks`` lists them. The last task may be smaller.
            A single remaining class is left out, since a query with one possible answer measures nothing. Request
            one-class tasks by ``classes_per_task=1`` or by a list.

    Raises:
        ConfigError: If a class is unknown, listed twice, or has too few labelled nodes.
    """
    if classes_per_task is not None and classes_per_task < 1:
        raise ConfigError(f"classes per task must be at least 1, got {classes_per_task}")
    order = _class_order(graph, tasks)
    if order is None:
        if classes_per_task is not None:
            raise ConfigError("give either a task list or classes per task, not both")
        listed = _parse(graph, tasks) if isinstance(tasks, str) else tasks or ()
        plan = tuple(tuple(map(int, task)) for task in listed)
    else:
        size = classes_per_task or 2
        plan = tuple(tuple(order[at : at + size]) for at in range(0, len(order), size))
        if size > 1 and len(plan) > 1 and len(plan[-1]) == 1:
            plan = plan[:-1]
    _check(graph, plan)
    steps = tuple(StepPlan(",".join(map(str, task)), task) for task in plan)
    return StreamPlan(steps, tuple(c for c in range(graph.num_classes) if not any(c in task for task in plan)))


def _class_order(graph: Graph, tasks: TaskList) -> list[int] | None:
    """Order of all eligible classes, or ``None`` if ``tasks`` lists the tasks themselves."""
    sizes, own = graph.class_sizes(), graph.class_order
    eligible = [c for c in range(graph.num_classes) if sizes[c] > 0] if own is None else list(own)
    word, _, argument = tasks.strip().partition(":") if isinstance(tasks, str) else ("", "", "")
    if word == "shuffle":
        if not re.fullmatch(r"\d*", argument):
            raise ConfigError(f"tasks {tasks!r}: expected shuffle:SEED with a whole number")
        return [int(label) for label in np.random.default_rng(int(argument or 0)).permutation(sorted(eligible))]
    if argument or (tasks is not None and word not in {"paper", "size"}):
        return None
    if word == "paper" and own is None:
        raise ConfigError(f"{graph.name} has no class order of its own; use size, shuffle or a list")
    if word == "size" or own is None:
        return sorted(eligible, key=lambda label: (-sizes[label], label))
    return eligible


def _parse(graph: Graph, text: str) -> list[list[int]]:
    numbers = {name: label for label, name in enumerate(graph.class_names)}

    def number(word: str) -> int:
        # A number is a number even if a class has it as its name, so that lists mean the same everywhere.
        if re.fullmatch(r"\d+", word):
            return int(word)
        if word in numbers:
            return numbers[word]
        if not word:
            raise ConfigError(
                f"tasks {text!r}: a task is empty or a comma is superfluous; "
                "write classes as 0,1;2,3, or one of paper, size, shuffle, shuffle:SEED"
            )
        raise _unknown_class(graph, repr(word), nearest(word, numbers))

    return [[number(word.strip()) for word in part.split(",")] for part in text.split(";")]


def _unknown_class(graph: Graph, word: str, hint: str = "") -> ConfigError:
    known = f"classes are numbered 0 to {graph.num_classes - 1}"
    return ConfigError(f"tasks: {graph.name} has no class {word}; {hint}{known}")


def _check(graph: Graph, plan: tuple[Classes, ...]) -> None:
    if not plan:
        raise ConfigError(f"{graph.name}: no tasks; list some classes, such as 0,1;2,3")
    sizes = graph.class_sizes()
    owner: dict[int, int] = {}
    for index, task in enumerate(plan):
        if not task:
            raise ConfigError(f"tasks: task {index} has no classes")
        for label in task:
            if not 0 <= label < graph.num_classes:
                raise _unknown_class(graph, str(label))
            if label in owner:
                where = "twice" if owner[label] == index else f"also in task {owner[label]}"
                raise ConfigError(f"tasks: task {index} lists class {label} {where}; a class belongs to one task")
            owner[label] = index
            if sizes[label] < MIN_LABELLED:
                raise ConfigError(
                    f"{graph.name}: class {label} ({graph.class_names[label]!r}) of task {index} has "
                    f"{sizes[label]} labelled nodes, at least {MIN_LABELLED} are needed; "
                    "label more or leave it out with --tasks"
                )


class TaskStream(Stream):
    """Tasks cut from one graph: a step brings the nodes of some classes that no other step has.

    Unlabelled nodes, and nodes of classes in no task, are in no view.

    Args:
        graph: The graph that the tasks are cut from.
        plan: The tasks; by default :func:`plan_tasks` makes them from ``tasks`` and ``classes_per_task``.
        scenario: ``task`` or ``class``; carried by every step.
        edges: ``within`` or ``seen``; see :class:`Stream`.
        seed: Draws seeded splits and the order of nodes in views.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> stream = TaskStream(load_dataset("digits"), seed=0)
        >>> stream.classes
        ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
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

    @classmethod
    def make_plan(  # type: ignore[override]
        cls, graph: Graph, *, tasks: TaskList = None, classes_per_task: int | None = None
    ) -> StreamPlan:
        """Group the classes of a graph into tasks; see :func:`plan_tasks`."""
        return plan_tasks(graph, tasks, classes_per_task)

    def _assign_nodes(self) -> tuple[Tensor, Masks]:
        owner = torch.full((self._graph.num_classes + 1,), -1)  # the last entry is for the label −1
        for index, task in enumerate(self.classes):
            owner[torch.tensor(task)] = index
        return owner[self._graph.y], split_nodes(self._graph, self.classes, self.seed)
