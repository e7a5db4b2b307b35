"""Which nodes train, validate and test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.errors import DataError
from hpn.streams.views import Classes

TRAIN, VAL = 0.6, 0.2


@dataclass(frozen=True, eq=False)
class Split:
    """One Boolean a node and part; a node is in one part at most."""

    train: Tensor
    val: Tensor
    test: Tensor


def split_nodes(graph: Graph, tasks: tuple[Classes, ...], seed: int) -> Split:
    """Split the nodes of the classes in ``tasks`` by the graph's own rule.

    ``given`` masks are taken as they are; if they hold no validation nodes at all, a quarter of each
    class's training nodes (seeded) becomes validation. ``index`` takes the first 60 % of each class
    for training, the next 20 % for validation and the rest for testing. ``seeded`` does the same
    after a shuffle drawn with ``seed``.

    Raises:
        DataError: If a class has no training nodes or a task no test nodes.
    """
    parts = torch.zeros(3, graph.num_nodes, dtype=torch.bool)
    labels = graph.y.numpy()
    if graph.masks is not None:
        in_tasks = torch.from_numpy(np.isin(labels, [c for task in tasks for c in task]))
        parts[0] = graph.masks.train & in_tasks
        parts[1] = graph.masks.val & in_tasks
        parts[2] = graph.masks.test & in_tasks
        if not bool(graph.masks.val.any()):
            _carve_validation(graph, parts, tasks, seed)
    else:
        by_class = _nodes_by_class(labels, graph.num_classes)
        for label in (c for task in tasks for c in task):
            members = by_class[label]
            if graph.split_rule == "seeded":
                members = np.random.default_rng([seed, label]).permutation(members)
            _assign(parts, members)
    _check(graph, tasks, parts)
    return Split(parts[0], parts[1], parts[2])


def split_nodes_by_time(graph: Graph, step_of: Tensor, labels: Tensor, seed: int) -> Split:
    """Split the nodes of every time by the graph's own rule, class by class; see :func:`split_nodes`.

    Classes with fewer than three nodes at a time give training nodes first, then test nodes.

    Args:
        graph: The graph.
        step_of: The step of each node, -1 for none ``[num_nodes]``.
        labels: The class of each node when it arrived ``[num_nodes]``.
        seed: Draws seeded splits.

    Raises:
        DataError: If a step has no training or no test nodes.
    """
    parts = torch.zeros(3, graph.num_nodes, dtype=torch.bool)
    if graph.masks is not None:
        for part, mask in enumerate((graph.masks.train, graph.masks.val, graph.masks.test)):
            parts[part] = mask & (step_of >= 0)
    else:
        steps = step_of.numpy()
        for label, of_class in enumerate(_nodes_by_class(labels.numpy(), graph.num_classes)):
            for step in np.unique(steps[of_class]):
                members = of_class[steps[of_class] == step]
                if graph.split_rule == "seeded":
                    members = np.random.default_rng([seed, label, step]).permutation(members)
                _assign(parts, members)
    for index in range(int(step_of.max()) + 1):
        for part, name in ((0, "training"), (2, "test")):
            if not bool((parts[part] & (step_of == index)).any()):
                raise DataError(f"{graph.name}: step {index} has no {name} nodes; add some to the masks")
    return Split(parts[0], parts[1], parts[2])


def _assign(parts: Tensor, members: np.ndarray) -> None:
    """Put nodes that are in order into the three parts."""
    for part, chosen in enumerate(np.split(members, _cuts(len(members)))):
        parts[part, torch.from_numpy(chosen)] = True


def _nodes_by_class(labels: np.ndarray, num_classes: int) -> list[np.ndarray]:
    """The nodes of each class, in order."""
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels + 1, minlength=num_classes + 1))  # the unlabelled come first
    return np.split(order, ends[:-1])[1:]


def _cuts(count: int) -> tuple[int, int]:
    """Where training and validation end; every part gets at least one of three or more nodes."""
    if count < 3:
        return 1, 1
    first = min(max(int(TRAIN * count), 1), count - 2)
    return first, min(max(int((TRAIN + VAL) * count), first + 1), count - 1)


def _carve_validation(graph: Graph, parts: Tensor, tasks: tuple[Classes, ...], seed: int) -> None:
    for label in (c for task in tasks for c in task):
        members = torch.nonzero(parts[0] & (graph.y == label)).flatten().numpy()
        members = np.random.default_rng([seed, label]).permutation(members)
        chosen = torch.from_numpy(members[: len(members) // 4])
        parts[0, chosen] = False
        parts[1, chosen] = True


def _check(graph: Graph, tasks: tuple[Classes, ...], parts: Tensor) -> None:
    num_train, num_test = (
        np.bincount(graph.y[part].numpy(), minlength=graph.num_classes) for part in (parts[0], parts[2])
    )
    for index, task in enumerate(tasks):
        for label in task:
            if num_train[label] == 0:
                raise DataError(
                    f"{graph.name}: class {label} ({graph.class_names[label]!r}) of task {index} has "
                    "no training nodes; add some to the train mask or leave the class out with --tasks"
                )
        if num_test[list(task)].sum() == 0:
            raise DataError(
                f"{graph.name}: task {index} (classes {','.join(map(str, task))}) has no test nodes; "
                "add some to the test mask or leave the task out with --tasks"
            )
