"""How accurate a model is on labelled nodes that it has not learned from."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpn.datasets import Graph
from hpn.errors import DataError
from hpn.model.core import ClassifierCore

ONE_IN = 5
"""Of so many labelled nodes of a class one is held out, if the graph has no split of its own."""


def measure(model: ClassifierCore, graph: Graph, seed: int) -> tuple[dict[str, Any], str]:
    """Fit a model to a part of the labelled nodes of a graph, and measure it on the others.

    Args:
        model: A new model; it has learned the part afterwards, if anything could be held out.
        graph: The graph. Where it has masks, training nodes are learned and test nodes predicted.
        seed: Draws the held-out nodes otherwise: a fifth of each class.

    Returns:
        The ``accuracy`` in per cent and the split ``held_out``, both ``None`` if nothing could be held out;
        and the same in words.

    Raises:
        DataError: If no node has a label.
    """
    y = graph.y.numpy()
    is_labelled = y >= 0
    if not is_labelled.any():
        raise DataError(f"{graph.name}: no node has a label; give some of them one to learn from")
    if graph.masks is not None:
        is_train, is_test = graph.masks.train.numpy(), graph.masks.test.numpy()
        split: dict[str, Any] = {"split": "given", "seed": None}
        words, none = "the test nodes of the graph's own split", "the graph's own split has none"
    else:
        is_test = _draw(y, seed)
        is_train, split = ~is_test, {"split": "seeded", "seed": seed}
        words, none = f"a fifth of each class, seed {seed}", f"no class has {ONE_IN} labels"
    train, test = (np.flatnonzero(mask & is_labelled) for mask in (is_train, is_test))
    if len(np.unique(y[is_labelled])) < 2:
        why = "the labelled nodes are all of one class"
    elif len(train) == 0 or len(test) == 0:
        why = f"there are too few labels to hold any out ({none})"
    else:
        model.partial_fit(graph, train)
        accuracy = 100 * model.score(graph, test)
        held_out = {**split, "train": len(train), "test": len(test)}
        line = f"accuracy: {accuracy:.1f} % of {len(test):,} held-out nodes ({words})"
        return {"held_out": held_out, "accuracy": accuracy}, line
    return {"held_out": None, "accuracy": None}, f"accuracy: not measured, as {why}"


def _draw(y: np.ndarray, seed: int) -> np.ndarray:
    """Mark a fifth of the nodes of each class."""
    order = np.random.default_rng(seed).permutation(np.flatnonzero(y >= 0))
    is_test = np.zeros(len(y), bool)
    for label in np.unique(y[order]):
        members = order[y[order] == label]
        is_test[members[: len(members) // ONE_IN]] = True
    return is_test
