"""Changes of a model: which labels of a graph are new or have changed, what was done, and what cannot be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hpn.errors import DataError
from hpn.learners.hpn.evidence import Extractors
from hpn.learners.hpn.memory import Memory
from hpn.learners.hpn.partitions import Labelled
from hpn.learners.hpn.solved import Name, SolvedNetwork
from hpn.model.ledger import Ledger
from hpn.streams import GraphView
from hpn.streams.views import hash_nodes


@dataclass(frozen=True)
class Encoding:
    """Nodes that were encoded again, and how many seconds that took."""

    nodes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Update:
    """What :meth:`hpn.HPNClassifier.update` did.

    Args:
        new: Nodes that were learned for the first time.
        changed: Nodes that were learned with another label before.
        unlabelled: Nodes that were learned before and have no label in the graph now. They are kept, unless
            the model was refreshed.
        encoded_again: What else had to be encoded.
        new_classes: Classes that were not known before.
        dropped_tasks: Tasks that had learned from labels that have changed.
    """

    new: int = 0
    changed: int = 0
    unlabelled: int = 0
    encoded_again: Encoding = Encoding()
    new_classes: tuple[Any, ...] = ()
    dropped_tasks: tuple[Name, ...] = ()


@dataclass(frozen=True)
class Forgotten:
    """What :meth:`hpn.HPNClassifier.forget` did.

    Args:
        nodes: Nodes that were forgotten.
        not_learned: Nodes that had not been learned.
        encoded_again: What had to be encoded, because the graph has changed since it was learned.
        classes: Classes of which no node is left.
        dropped_tasks: Tasks that had learned from these nodes.
    """

    nodes: int = 0
    not_learned: int = 0
    encoded_again: Encoding = Encoding()
    classes: tuple[Any, ...] = ()
    dropped_tasks: tuple[Name, ...] = ()


class Changes(NamedTuple):
    """How the labels of a graph differ from those that were learned."""

    is_fresh: np.ndarray  # which labelled nodes of the graph are to be learned
    is_stale: np.ndarray  # which rows of the ledger have another label in the graph
    stale_validation: np.ndarray  # remembered validation nodes that have another label in the graph [n, 3]
    counts: Update


def find_changes(ledger: Ledger, memory: Memory, view: GraphView, labelled: Labelled) -> Changes:
    """Compare the labels of a graph with those that were learned."""
    hashes, classes = hash_nodes(view, labelled[0]), labelled[1]
    order = np.argsort(hashes)
    validation = memory.kept.remembered[memory.kept.remembered[:, 2] == 0]
    known = np.concatenate([ledger.rows[:, :2], validation[:, :2]])
    place, has_label = np.zeros(len(known), np.int64), np.zeros(len(known), bool)
    if len(hashes):
        place = order[np.searchsorted(hashes[order], known[:, 0]).clip(max=len(hashes) - 1)]
        has_label = hashes[place] == known[:, 0]
    is_same = has_label.copy()
    is_same[has_label] = classes[place[has_label]] == known[has_label, 1]
    is_fresh = np.ones(len(hashes), bool)
    is_fresh[place[is_same]] = False
    is_stale = has_label & ~is_same
    counts = Update(
        new=int((~np.isin(hashes, known[:, 0])).sum()),
        changed=len(np.unique(known[is_stale, 0])),
        unlabelled=len(np.unique(known[~has_label, 0])),
    )
    num_rows = len(ledger.rows)
    return Changes(is_fresh, is_stale[:num_rows], validation[is_stale[num_rows:]], counts)


def drop_tasks(network: SolvedNetwork, classes: set[int]) -> tuple[Name, ...]:
    """Drop the tasks that may have learned from forgotten nodes of some classes, and return their names."""

    def has_learned(name: Name) -> bool:
        part = network.tasks[name]
        if isinstance(part.extractor, Extractors):  # solved from all nodes that there were
            return bool(classes)
        of_it = classes.intersection(part.classes)
        return bool(of_it if part.extractor is not None else of_it.difference(network.memory.counts))

    dropped = tuple(filter(has_learned, network.tasks))
    network.tasks = {name: part for name, part in network.tasks.items() if name not in dropped}
    return dropped


def refuse_missing(nodes: np.ndarray, which: str) -> None:
    """Refuse a change if one of the nodes is -1, which stands for a node that is not in the graph."""
    num_missing = int((nodes < 0).sum())
    if num_missing:
        raise DataError(
            f"the graph lacks {num_missing} of the {len(nodes)} nodes {which} and must have them; give the graph "
            "with them, or update with refresh (hpn update --refresh), which learns this graph and nothing else"
        )
