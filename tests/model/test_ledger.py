"""Which nodes were learned: independent of the order, by hash, and by graph."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from hpn.errors import DataError
from hpn.model.ledger import Ledger
from hpn.streams import GraphView
from hpn.streams.views import hash_ids


def make_view(count: int = 6, first: int = 100, *, sparse: bool = False, links: int = 2) -> GraphView:
    pairs = torch.tensor([[at, at + 1] for at in range(links)]).T.reshape(2, links)
    x = torch.arange(count * 2.0).reshape(count, 2)
    edges = torch.cat([pairs, pairs.flip(0)], dim=1)
    return GraphView(x.to_sparse_csr() if sparse else x, edges, torch.arange(count) + first)


def rows(*nodes: int) -> np.ndarray:
    return np.array(nodes, dtype=np.int64)


def state(ledger: Ledger) -> tuple[object, object]:
    kept = ledger.state()
    return kept["graphs"], kept["nodes"].tolist()


def test_what_was_learned_is_found_again() -> None:
    view = make_view()
    ledger = Ledger().add(view, rows(5, 0, 3), rows(7, 7, 8))
    assert sorted(ledger.rows[:, 0].tolist()) == sorted(hash_ids(np.array([105, 100, 103])).tolist())
    found = dict(zip(ledger.find(view).tolist(), ledger.rows[:, 1].tolist(), strict=True))
    assert found == {5: 7, 0: 7, 3: 8}
    assert sorted(ledger.find(make_view(4)).tolist()) == [-1, 0, 3], "node 105 is not in the smaller graph"
    assert ledger.find(make_view(first=1)).tolist() == [-1, -1, -1]


def test_order_and_grouping_do_not_matter() -> None:
    small, large = make_view(4), make_view(6)
    once = Ledger().add(small, rows(0, 1), rows(7, 8)).add(large, rows(4, 5), rows(7, 9))
    often = Ledger()
    for view, node, label in ((large, 5, 9), (small, 1, 8), (large, 4, 7), (small, 0, 7)):
        often = often.add(view, rows(node), rows(label))
    merged = Ledger().add(large, rows(4, 5), rows(7, 9)).merge(Ledger().add(small, rows(0, 1), rows(7, 8)))
    assert state(once) == state(often) == state(merged) == state(Ledger.restore(once.state()))
    assert state(pickle.loads(pickle.dumps(often))) == state(copy.deepcopy(once)) == state(once)
    assert [(graph.num_nodes, count) for graph, count in often.counts()] == [(4, 2), (6, 2)]


def test_rows_are_located_once_and_in_the_right_graph() -> None:
    small, large = make_view(4), make_view(6)
    ledger = Ledger().add(small, rows(0, 1), rows(7, 7)).add(large, rows(0, 0), rows(7, 7))
    for view, expected in (
        (small, Ledger().add(small, rows(1), rows(7)).add(large, rows(0, 0), rows(7, 7))),
        (large, Ledger().add(small, rows(0, 1), rows(7, 7)).add(large, rows(0), rows(7))),
    ):
        assert state(ledger.keep(~ledger.locate(view, rows(0), rows(7)))) == state(expected)
    for node, label in ((1, 7), (2, 7), (0, 8)):  # learned elsewhere, not at all, with another label
        with pytest.raises(DataError, match="were not learned with these labels in this graph"):
            ledger.locate(large, rows(node), rows(label))


def test_graphs_without_a_node_left_are_dropped() -> None:
    small, large = make_view(4), make_view(6)
    ledger = Ledger().add(small, rows(0), rows(7)).add(large, rows(1), rows(8))
    assert not ledger.is_about(large)
    left = ledger.keep(ledger.rows[:, 1] == 8)
    assert left.is_about(large)
    assert state(left) == state(Ledger().add(large, rows(1), rows(8)))
    assert Ledger().is_about(small)
