"""Which nodes a model has learned, with which class, and in which graph; ids are hashed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import torch

from hpn.errors import DataError
from hpn.streams import GraphView
from hpn.streams.views import find_hashes, fingerprint, hash_nodes

NO_ROWS = np.zeros((0, 3), np.int64)


class LearnedGraph(NamedTuple):
    """A graph in which nodes were learned."""

    num_nodes: int
    num_edges: int
    fingerprint: str  # hash of everything that its nodes are encoded from: ids, features and edges


def describe(view: GraphView) -> LearnedGraph:
    """Sizes and fingerprint of a graph."""
    return LearnedGraph(view.num_nodes, view.num_edges, fingerprint(view))


@dataclass(frozen=True, eq=False)
class Ledger:
    """The nodes that were learned; replaced as a whole, so that an interrupted fit changes nothing."""

    parts: tuple[tuple[LearnedGraph, np.ndarray], ...] = ()  # hashes of ids, and classes [n, 2], one part per fit

    @cached_property
    def graphs(self) -> list[LearnedGraph]:
        """The graphs in which nodes were learned, the smallest first."""
        return sorted({graph for graph, _ in self.parts})

    @cached_property
    def rows(self) -> np.ndarray:
        """Hashes of ids, classes and positions in :attr:`graphs`, sorted ``[n, 3]``."""
        parts = [np.insert(part, 2, self.graphs.index(graph), axis=1) for graph, part in self.parts]
        rows = np.concatenate([NO_ROWS, *parts])
        return np.asarray(rows[np.lexsort(rows.T[::-1])])

    def add(self, view: GraphView, nodes: np.ndarray, classes: np.ndarray) -> Ledger:
        """A ledger that also has some nodes of a graph; the cost depends on these only."""
        return Ledger((*self.parts, (describe(view), np.stack([hash_nodes(view, nodes), classes], axis=1))))

    def merge(self, other: Ledger) -> Ledger:
        """A ledger with the nodes of both."""
        return Ledger(self.parts + other.parts)

    def keep(self, mask: np.ndarray) -> Ledger:
        """A ledger with some of the :attr:`rows` only."""
        return Ledger.restore({"graphs": self.graphs, "nodes": torch.from_numpy(self.rows[mask])})

    def locate(self, view: GraphView, nodes: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Mask of the :attr:`rows` that are these nodes, learned in this graph; one row per node."""
        graph, places = describe(view), {tuple(row): at for at, row in enumerate(self.rows.tolist())}
        place = self.graphs.index(graph) if graph in self.graphs else -1
        wanted = zip(hash_nodes(view, nodes).tolist(), classes.tolist(), repeat(place))
        found = [places.get(row, -1) for row in wanted]
        if -1 in found:
            raise DataError(
                "unlearn: these nodes were not learned with these labels in this graph; give the graph "
                "as it was at the time of the fit, or call refresh with the nodes to keep"
            )
        mask = np.zeros(len(self.rows), bool)
        mask[found] = True
        return mask

    def find(self, view: GraphView) -> np.ndarray:
        """The nodes of a graph that are :attr:`rows`, -1 where they are not in it ``[n]``."""
        return find_hashes(view, self.rows[:, 0])

    def is_about(self, view: GraphView) -> bool:
        """Whether everything was learned in this very graph."""
        return set(self.graphs) <= {describe(view)}

    def counts(self) -> list[tuple[LearnedGraph, int]]:
        """Nodes learned in each graph, the smallest graph first."""
        return list(zip(self.graphs, np.bincount(self.rows[:, 2]).tolist(), strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle one array, so that a copy does not grow with the number of fits."""
        return Ledger.restore, (self.state(),)

    def state(self) -> dict[str, Any]:
        """As tensors and text, the same for every order of learning."""
        return {"graphs": [list(graph) for graph in self.graphs], "nodes": torch.from_numpy(self.rows.copy())}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Ledger:
        """The ledger whose :meth:`state` this is."""
        rows, graphs = state["nodes"].numpy().copy(), [LearnedGraph(*graph) for graph in state["graphs"]]
        parts = [(graph, rows[rows[:, 2] == at, :2]) for at, graph in enumerate(graphs)]
        return cls(tuple((graph, part) for graph, part in parts if len(part)))
