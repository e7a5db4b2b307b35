"""How accurate a model is on labelled nodes that it has not learned from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hpn.datasets import Graph
from hpn.errors import DataError
from hpn.model.core import ClassifierCore

ONE_IN = 5
"""Of so many labelled nodes of a class one is held out, if the graph has no split of its own."""


class HeldOut(NamedTuple):
    """What was measured.

    Args:
        accuracy: In per cent; ``None`` if nothing could be held out.
        split: Where the held-out nodes come from, and how many there are.
        line: The same for people.
    """

    accuracy: float | None
    split: dict[str, Any] | None
    line: str


def measure(model: ClassifierCore, graph: Graph, seed: int) -> HeldOut:
    """Fit a model to a part of the labelled nodes of a graph, and measure it on the others.

    Args:
        model: A new model; it has learned the part afterwards, if anything could be held out.
        graph: The graph. Where it has masks, training nodes are learned and test nodes predicted.
        seed: Draws the held-out nodes otherwise: a fifth of each class.

    Raises:
        DataError: If no node has a label.
    """
    y = graph.y.numpy()
    if not (y >= 0).any():
        raise DataError(f"{graph.name}: no node has a label; give some of them one to learn from")
    if len(np.unique(y[y >= 0])) < 2:
        return HeldOut(None, None, "accuracy: not measured, as the labelled nodes are all of one class")
    if graph.masks is not None:
        train, test = (
            np.flatnonzero(mask.numpy() & (y >= 0)) for mask in (graph.masks.train, graph.masks.test)
        )
        name, words = "given", "the test nodes of the graph's own split"
    else:
        train, test = _split(y, seed)
        name, words = "seeded", f"a fifth of each class, seed {seed}"
    if len(train) == 0 or len(test) == 0:
        why = f"no class has {ONE_IN} labels" if graph.masks is None else "the graph's own split has none"
        return HeldOut(
            None, None, f"accuracy: not measured, as there are too few labels to hold any out ({why})"
        )
    model.partial_fit(graph, train)
    accuracy = 100 * model.score(graph, test)
    split = {
        "split": name,
        "train": len(train),
        "test": len(test),
        "seed": seed if name == "seeded" else None,
    }
    return HeldOut(accuracy, split, f"accuracy: {accuracy:.1f} % of {len(test):,} held-out nodes ({words})")


def _split(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(np.flatnonzero(y >= 0))
    is_test = np.zeros(len(y), bool)
    for label in np.unique(y[order]):
        members = order[y[order] == label]
        is_test[members[: len(members) // ONE_IN]] = True
    return np.flatnonzero((y >= 0) & ~is_test), np.flatnonzero(is_test)
