from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets import edges
from hpn.datasets.edges import LinkSorter
from hpn.errors import DataError


def sort(links: np.ndarray, num_nodes: int, pieces: int = 1) -> tuple[LinkSorter, list[list[int]]]:
    parts = [(part[0], part[1]) for part in np.array_split(links, pieces, axis=1)]
    sorter = LinkSorter(num_nodes, links.shape[1], lambda: parts)
    indices = np.concatenate(list(sorter.rows()))
    return sorter, [sorter.indptr.tolist(), indices.tolist()]


@settings(deadline=None, max_examples=60)
@given(
    nodes=st.integers(1, 40),
    count=st.integers(0, 100),
    pieces=st.integers(1, 5),
    at_once=st.sampled_from([1, 7, 50, 1 << 23]),
    seed=st.integers(0, 2**32 - 1),
)
def test_links_become_undirected_simple_and_sorted(
    nodes: int, count: int, pieces: int, at_once: int, seed: int
) -> None:
    links = np.random.default_rng(seed).integers(0, nodes, (2, count))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edges, "SORTED_AT_ONCE", at_once)
        patch.setattr(edges, "_CHUNK", 3)
        sorter, (indptr, indices) = sort(links, nodes, pieces)
    pairs = {(a, b) for a, b in links.T.tolist() if a != b}
    both = sorted(pairs | {(b, a) for a, b in pairs})
    assert indices == [b for _, b in both]
    assert indptr == [sum(a < node for a, _ in both) for node in range(nodes + 1)]
    loops = sum(a == b for a, b in links.T.tolist())
    assert (sorter.num_loops, sorter.num_pairs, sorter.degree.sum()) == (loops, len(pairs), len(both))


def test_a_node_with_all_the_links_is_sorted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "SORTED_AT_ONCE", 64)
    _, (indptr, indices) = sort(np.stack([np.zeros(999, dtype=int), np.arange(1, 1000)]), 1000)
    assert indptr[:3] == [0, 999, 1000]
    assert indices[:999] == list(range(1, 1000))


def test_more_nodes_than_32_bits_can_number_are_refused() -> None:
    with pytest.raises(DataError, match="2,147,483,648 nodes are too many"):
        LinkSorter(1 << 31, 0, list)
