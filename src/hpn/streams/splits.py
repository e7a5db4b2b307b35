"""Which nodes train, validate and test."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from hpn.datasets import Graph, Masks
from hpn.errors import DataError
from hpn.streams.views import Classes

TRAIN, VAL = 0.6, 0.2


def split_nodes(graph: Graph, tasks: tuple[Classes, ...], seed: int) -> Masks:
    """Split the nodes of the classes in ``tasks`` by the rule of the graph.

    ``given`` masks are used as they are; if they contain no validation nodes, a quarter of the training nodes of each
    class (seeded) becomes validation. ``index`` takes the first 60 % of each class for training, the next 20 % for
    validation and the rest for testing. ``seeded`` does the same after a shuffle drawn with ``seed``.

    Raises:
        DataError: If a class has no training nodes or a task no test nodes.
    """
    by_class = _group(graph.y.numpy())
    split = _split_groups(
        graph, {(label,): by_class[label] for task in tasks for label in task if label in by_class}, seed
    )
    num_train, num_test = (
        torch.bincount(graph.y[part], minlength=graph.num_classes) for part in (split.train, split.test)
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
    return split


def split_nodes_by_time(graph: Graph, step_of: Tensor, labels: Tensor, seed: int) -> Masks:
    """Split the nodes of every step by the rule of the graph, class by class; see :func:`split_nodes`.

    A class with a single node at a step has a training node, one with two nodes also a test node. Unlabelled nodes are
    in no part.

    Args:
        graph: The graph.
        step_of: The step of each node ``[num_nodes]``.
        labels: The class of each node when it arrived, -1 if unknown ``[num_nodes]``.
        seed: Draws seeded splits.

    Raises:
        DataError: If a step has no training or no test nodes.
    """
    num = graph.num_classes
    groups = _group(torch.where(labels >= 0, step_of * num + labels, -1).numpy())
    split = _split_groups(graph, {(key % num, key // num): members for key, members in groups.items()}, seed)
    for part, what in ((split.train, "training"), (split.test, "test")):
        count = torch.bincount(step_of[part], minlength=int(step_of.max()) + 1)
        if bool((count == 0).any()):
            raise DataError(
                f"{graph.name}: no {what} nodes arrive with step {int(count.argmin())}; "
                "every time needs labelled nodes to train and to test"
            )
    return split


def _group(keys: np.ndarray) -> dict[int, np.ndarray]:
    """The nodes of each key, in order; those of -1 are in no group."""
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    groups = dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True))
    groups.pop(-1, None)
    return groups


def _split_groups(graph: Graph, groups: Mapping[tuple[int, ...], np.ndarray], seed: int) -> Masks:
    """Split each group of nodes by the rule of the graph; the key of a group is part of its seed."""
    parts = torch.zeros(3, graph.num_nodes, dtype=torch.bool)
    for key, members in groups.items():
        rng = np.random.default_rng([seed, *key])
        if graph.masks is not None:
            parts[:, members] = torch.stack([mask[members] for mask in graph.masks])
            if not bool(graph.masks.val.any()):
                train = rng.permutation(members[parts[0, members].numpy()])
                chosen = train[: len(train) // 4]
                parts[0, chosen], parts[1, chosen] = False, True
            continue
        ordered = rng.permutation(members) if graph.split_rule == "seeded" else members
        for part, chosen in zip(parts, np.split(ordered, _cuts(len(ordered))), strict=True):
            part[chosen] = True
    return Masks(*parts)


def _cuts(count: int) -> tuple[int, int]:
    """Where training and validation end; every part has at least one of three or more nodes."""
    if count < 3:
        return 1, 1
    first = min(max(int(TRAIN * count), 1), count - 2)
    return first, min(max(int((TRAIN + VAL) * count), first + 1), count - 1)
