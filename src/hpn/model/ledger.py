"""Which nodes a model has learned, with which class, and in which graph; ids are hashed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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

    graphs: tuple[LearnedGraph, ...] = ()
    parts: tuple[np.ndarray, ...] = ()  # hashes of ids, classes and positions in graphs, one array [n, 3] per fit

    @cached_property
    def rows(self) -> np.ndarray:
        """Everything, sorted ``[n, 3]``."""
        rows = np.concatenate([NO_ROWS, *self.parts])
        return np.asarray(rows[np.lexsort(rows.T[::-1])])

    def add(self, view: GraphView, nodes: np.ndarray, classes: np.ndarray) -> Ledger:
        """A ledger that also has some nodes of a graph; the cost depends on these only."""
        graph = describe(view)
        graphs = self.graphs if graph in self.graphs else (*self.graphs, graph)
        place = np.full_like(classes, graphs.index(graph))
        return Ledger(graphs, (*self.parts, np.stack([hash_nodes(view, nodes), classes, place], axis=1)))

    def keep(self, mask: np.ndarray) -> Ledger:
        """A ledger with some of the :attr:`rows` only."""
        rows = self.rows[mask]
        used = np.unique(rows[:, 2])
        rows = np.column_stack([rows[:, :2], np.searchsorted(used, rows[:, 2])])
        return Ledger(tuple(self.graphs[at] for at in used), (rows,))

    def locate(self, view: GraphView, nodes: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Mask of the :attr:`rows` that are these nodes, learned in this graph; one row per node."""
        here = [at for at, graph in enumerate(self.graphs) if graph == describe(view)]
        candidates = np.flatnonzero(np.isin(self.rows[:, 2], here))
        places = dict(zip(map(tuple, self.rows[candidates, :2].tolist()), candidates, strict=True))
        try:
            keys = zip(hash_nodes(view, nodes).tolist(), classes.tolist(), strict=True)
            found = [places[key] for key in keys]
        except KeyError:
            raise DataError(
                "unlearn: these nodes were not learned with these labels in this graph; give the graph "
                "as it was at the time of the fit, or call refresh with the nodes to keep"
            ) from None
        mask = np.zeros(len(self.rows), bool)
        mask[found] = True
        return mask

    def merge(self, other: Ledger) -> Ledger:
        """A ledger with the rows of both."""
        graphs = tuple(dict.fromkeys((*self.graphs, *other.graphs)))
        place = np.array([graphs.index(graph) for graph in other.graphs], dtype=np.int64)
        moved = np.column_stack([other.rows[:, :2], place[other.rows[:, 2]]])
        return Ledger(graphs, (*self.parts, moved))

    def find(self, view: GraphView) -> np.ndarray:
        """The nodes of a graph that are :attr:`rows`, -1 where they are not in it ``[n]``."""
        return find_hashes(view, self.rows[:, 0])

    def is_about(self, view: GraphView) -> bool:
        """Whether everything was learned in this very graph."""
        return set(self.graphs) <= {describe(view)}

    def counts(self) -> list[tuple[LearnedGraph, int]]:
        """Nodes learned in each graph, the smallest graph first."""
        counts = np.bincount(self.rows[:, 2], minlength=len(self.graphs)).tolist()
        return sorted(zip(self.graphs, counts, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle one array, so that a copy does not grow with the number of fits."""
        return Ledger, (self.graphs, (self.rows,))

    def state(self) -> dict[str, Any]:
        """As tensors and text, the same for every order of learning."""
        order = sorted(range(len(self.graphs)), key=self.graphs.__getitem__)
        place = np.argsort(order)
        rows = np.column_stack([self.rows[:, :2], place[self.rows[:, 2]] if order else self.rows[:, 2]])
        rows = rows[np.lexsort(rows.T[::-1])]
        return {"graphs": [list(self.graphs[at]) for at in order], "nodes": torch.from_numpy(rows.copy())}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Ledger:
        """The ledger whose :meth:`state` this is."""
        graphs = tuple(LearnedGraph(int(n), int(m), str(name)) for n, m, name in state["graphs"])
        rows = state["nodes"].numpy().copy()
        if rows.shape[1:] != (3,) or (len(rows) and not 0 <= rows[:, 2].min() <= rows[:, 2].max() < len(graphs)):
            raise ValueError("nodes and graphs do not fit each other")
        return cls(graphs, (rows,))
