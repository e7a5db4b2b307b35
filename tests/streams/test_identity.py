"""Nodes and graphs that are known again."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets.sparse import to_csr
from hpn.streams import GraphView
from hpn.streams.identity import find_hashes, fingerprint, hash_ids, hash_nodes

BITS = 2**64 - 1


def naive_hash(number: int) -> int:
    """The finaliser of SplitMix64, in whole numbers of Python; as signed 64 bits."""
    number &= BITS
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & BITS
    number ^= number >> 31
    return number - 2**64 if number >= 2**63 else number


def make_view(num_nodes: int = 6, *, first: int = 100, links: int = 2, sparse: bool = False) -> GraphView:
    x = torch.arange(2.0 * num_nodes).reshape(num_nodes, 2)
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])[:, : 2 * (links // 2)]
    features = to_csr(sp.csr_matrix(x.numpy())) if sparse else x
    return GraphView(features, edges, torch.arange(num_nodes) + first)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_hashes(ids: list[int]) -> None:
    hashes = hash_ids(np.array(ids))
    assert hashes.tolist() == [naive_hash(number) for number in ids]
    assert len(set(hashes.tolist())) == len(set(ids))


def test_nodes_are_found_by_their_hashes() -> None:
    view = make_view()
    assert find_hashes(view, hash_ids(np.array([105, 99, 100]))).tolist() == [5, -1, 0]
    assert hash_nodes(view, np.array([5, 0])).tolist() == hash_ids(np.array([105, 100])).tolist()


def test_a_fingerprint_is_about_all_that_is_encoded() -> None:
    changed = make_view()
    changed.x[0, 0] += 1
    others = [make_view(7), make_view(first=101), make_view(links=4), make_view(sparse=True), changed]
    assert fingerprint(make_view()) == fingerprint(make_view())
    assert len({fingerprint(view) for view in (make_view(), *others)}) == 6
