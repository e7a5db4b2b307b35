"""What learners receive: complete, renumbered, and closed to anything else."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hpn.datasets import Graph
from hpn.datasets.sparse import stack_rows, to_csr
from hpn.streams import GraphView, TaskStream, stack_graphs
from hpn.streams.views import FeatureRows, find_hashes, fingerprint, hash_ids, hash_nodes

Trace = Any


def test_only_learners_that_declare_it_see_the_past(tagged: Graph) -> None:
    stream = TaskStream(tagged)
    assert stream.step(2).past == ()
    assert [task.index for task in stream.step(2, with_past=True).past] == [0, 1]


def test_views_cannot_be_given_new_attributes(tagged: Graph) -> None:
    stream = TaskStream(tagged)
    query, _ = stream.query(step=0, after=0, evaluate="oracle")
    for thing in (query, query.graph, stream.step(0)):
        with pytest.raises((AttributeError, TypeError)):
            object.__setattr__(thing, "smuggled", 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.task = 0  # type: ignore[misc]


def test_stacking_graphs_keeps_the_parts_apart() -> None:
    x, nodes = torch.arange(8.0).view(4, 2), torch.tensor([3, 1])
    copied = GraphView(x[nodes], torch.tensor([[0, 1], [1, 0]]))
    fetched = GraphView.compressed(FeatureRows(x, nodes), torch.tensor([0, 1, 2]), torch.tensor([1, 0]).int())
    for one in (copied, fetched):
        both, starts = stack_graphs([one, one])
        assert starts == [0, 2]
        assert both.edge_index.tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]
        assert torch.equal(both.x, stack_rows([one.x, one.x]))
        assert stack_graphs([one]) == (one, [0])


def test_fetched_features_give_nothing_but_the_rows_in_view() -> None:
    rows = FeatureRows(torch.arange(9.0).unsqueeze(1), torch.tensor([7, 2, 5]))
    for out_of_view in (3, 7, -4):
        with pytest.raises(IndexError):
            rows.take(torch.tensor([0, out_of_view]))
    assert [name for name in dir(rows) if not name.startswith("_")] == ["shape", "take"]
    with pytest.raises(AttributeError):
        rows.smuggled = 1  # type: ignore[attr-defined]


KINDS = ("dense", "sparse", "fetched")


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_is_the_same_however_its_features_are_kept(kind: str) -> None:
    x = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0], [5.0, 0.0, 0.0]])
    nodes, edge_index = torch.tensor([2, 0, 3]), torch.tensor([[2, 0, 1, 0], [0, 2, 0, 1]])
    kept: dict[str, Tensor | FeatureRows] = {
        "dense": x[nodes], "sparse": x[nodes].to_sparse_csr(), "fetched": FeatureRows(x, nodes)
    }  # fmt: skip
    view = GraphView.compressed(kept[kind], torch.tensor([0, 2, 3, 4]), torch.tensor([1, 2, 0, 0]).int())
    assert (view.num_nodes, view.num_features, view.num_edges) == (3, 3, 2)
    assert view.is_sparse == (kind == "sparse")
    assert view.ids.tolist() == [0, 1, 2]
    assert view.edge_index.dtype == torch.int64
    assert view.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert torch.equal(view.edge_index, GraphView(x[nodes], edge_index).edge_index), "given in any order"

    def dense(part: Tensor) -> Tensor:
        return part.to_dense() if kind == "sparse" else part

    assert torch.equal(dense(view.x), x[nodes])
    assert torch.equal(dense(view.take(torch.tensor([2, 2, 0]))), x[[3, 3, 2]])
    assert view.num_numbers == 8 + (9 if kind != "sparse" else 4 + 4 + 4)  # values, columns, starts of rows
    if kind != "sparse":
        for out_of_view in (3, -4):
            with pytest.raises(IndexError):
                view.take(torch.tensor([out_of_view]))


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
