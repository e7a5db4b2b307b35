from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hpn.nn import neighborhoods
from hpn.nn.neighborhoods import NeighborSampler
from hpn.streams import GraphView

relaxed = settings(deadline=None, max_examples=60)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Tensor, int]:
    num_nodes = draw(st.integers(1, 12))
    node = st.integers(0, num_nodes - 1)
    return undirected(draw(st.lists(st.tuples(node, node), max_size=20))), num_nodes


def undirected(pairs: list[tuple[int, int]]) -> Tensor:
    both = {edge for a, b in pairs if a != b for edge in ((a, b), (b, a))}
    return torch.tensor(sorted(both), dtype=torch.long).reshape(-1, 2).t()


def compress(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    view = GraphView(torch.zeros(num_nodes, 1), edge_index)
    return view.indptr, view.indices


def rings(edge_index: Tensor, start: int, hops: int) -> list[set[int]]:
    """Breadth first: the nodes at distance 1, 2, … of ``start``."""
    edges, seen, found = edge_index.t().tolist(), {start}, [{start}]
    for _ in range(hops):
        found.append({b for a, b in edges if a in found[-1]} - seen)
        seen |= found[-1]
    return found[1:]


def random_graph(num_nodes: int = 40, num_links: int = 70) -> Tensor:
    pairs = torch.randint(num_nodes, (num_links, 2), generator=torch.Generator().manual_seed(0))
    return undirected([(a, b) for a, b in pairs.tolist()])


def star(leaves: int) -> Tensor:
    return undirected([(0, leaf) for leaf in range(1, leaves + 1)])


def surprise(drawn: Tensor, num_outcomes: int) -> float:
    """Chi-square statistic of uniformity, less its mean, in standard deviations."""
    expected = len(drawn) / num_outcomes
    seen = torch.bincount(drawn, minlength=num_outcomes)
    assert len(seen) == num_outcomes
    freedom = num_outcomes - 1
    return (float(((seen - expected) ** 2 / expected).sum()) - freedom) / (2 * freedom) ** 0.5


@relaxed
@given(graphs(), st.integers(0, 3))
def test_draws_are_all_nodes_at_exactly_that_distance_and_the_node_itself_if_there_are_none(
    graph: tuple[Tensor, int], seed: int
) -> None:
    edge_index, num_nodes = graph
    drawn = NeighborSampler(*compress(edge_index, num_nodes), (1, 1, 1), seed).draw(
        torch.arange(num_nodes), rounds=400
    )
    for node in range(num_nodes):
        for hop, ring in enumerate(rings(edge_index, node, hops=3)):
            assert set(drawn[:, node, hop].tolist()) == (ring or {node})


@relaxed
@given(graphs(), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_slots_are_in_order_of_hops(graph: tuple[Tensor, int], counts: list[int]) -> None:
    edge_index, num_nodes = graph
    drawn = NeighborSampler(*compress(edge_index, num_nodes), counts).draw(torch.arange(num_nodes), rounds=2)
    assert drawn.shape == (2, num_nodes, sum(counts))
    for node in range(num_nodes):
        hops = drawn[:, node].split(counts, dim=1)
        for part, ring in zip(hops, rings(edge_index, node, len(counts)), strict=True):
            assert set(part.flatten().tolist()) <= (ring or {node})


def test_every_node_of_a_ring_is_as_likely_as_every_other() -> None:
    sampler = NeighborSampler(*compress(star(8), 9), counts=(3, 2))
    drawn = sampler.draw(torch.arange(9), rounds=8000)
    centre = drawn[:, 0, :3] - 1
    for slot in range(3):
        assert abs(surprise(centre[:, slot], 8)) < 4
    others = drawn[:, 1, 3:] - 2  # a leaf sees the seven others two hops away
    for slot in range(2):
        assert abs(surprise(others[:, slot], 7)) < 4


def test_slots_rounds_and_nodes_are_independent() -> None:
    drawn = NeighborSampler(*compress(star(8), 9), counts=(2, 1)).draw(torch.arange(9), rounds=16_000)
    centre, leaf = drawn[:, 0, :2] - 1, drawn[:, 1, 2] - 2
    between_slots = centre[:, 0] * 8 + centre[:, 1]
    between_rounds = centre[:-1, 0] * 8 + centre[1:, 0]
    assert abs(surprise(between_slots, 64)) < 4
    assert abs(surprise(between_rounds, 64)) < 4
    assert abs(surprise(centre[:, 0] * 7 + leaf, 56)) < 4


def test_a_draw_does_not_depend_on_what_else_is_asked() -> None:
    sampler = NeighborSampler(*compress(random_graph(), 40), counts=(3, 4), seed=1)
    every = sampler.draw(torch.arange(40), rounds=6)
    asked = torch.tensor([31, 2, 2, 17])
    assert torch.equal(sampler.draw(asked, rounds=6), every[:, asked])
    assert torch.equal(sampler.draw(torch.arange(40), rounds=2, first_round=3), every[3:5])
    assert not torch.equal(every[0], every[1])
    assert sampler.draw(asked[:0], rounds=2).shape == (2, 0, 7)


@pytest.mark.parametrize("walks", [1, 7, 60])
def test_chunks_change_nothing(walks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = NeighborSampler(*compress(random_graph(), 40), counts=(3, 4, 2))
    nodes = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    whole = sampler.draw(nodes, rounds=3)
    assert len(list(sampler._chunks(nodes.numpy()))) == 1
    monkeypatch.setattr(neighborhoods, "WALKS_AT_ONCE", walks)
    chunks = list(sampler._chunks(nodes.numpy()))
    assert len(chunks) > 5
    assert np.concatenate([np.arange(*chunk) for chunk in chunks]).tolist() == list(range(40))
    assert torch.equal(sampler.draw(nodes, rounds=3), whole)


def test_the_seed_decides() -> None:
    edge_index, nodes = random_graph(), torch.arange(40)
    draws = [
        NeighborSampler(*compress(edge_index, 40), (3, 4), seed).draw(nodes, rounds=2)
        for seed in (0, 0, 1, -1)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], draws[3])


def test_an_edge_given_twice_counts_once() -> None:
    edge_index, nodes = star(8), torch.arange(9)
    twice = torch.cat([edge_index, edge_index[:, :5]], dim=1)
    once, again = (
        NeighborSampler(*compress(edges, 9), (3, 3)).draw(nodes, rounds=20) for edges in (edge_index, twice)
    )
    assert torch.equal(once, again)


@relaxed
@given(graphs(), st.integers(1, 4), st.integers(0, 3))
def test_the_first_hop_alone_is_drawn_as_before_a_second(
    graph: tuple[Tensor, int], count: int, first_round: int
) -> None:
    """Rings need not be found out for it; who is drawn stays the same, isolated nodes included."""
    edge_index, num_nodes = graph
    edges, nodes = compress(edge_index, num_nodes), torch.arange(num_nodes).flip(0).repeat(2)
    general = NeighborSampler(*edges, (count, 1), seed=1).draw(nodes, 3, first_round)[:, :, :count]
    short = NeighborSampler(*edges, (count,), seed=1).draw(nodes, 3, first_round)
    assert torch.equal(short, general)
    narrow = NeighborSampler(edges[0], edges[1].int(), (count,), seed=1).draw(nodes, 3, first_round)
    assert narrow.dtype == torch.int64
    assert torch.equal(narrow, general)


def test_the_first_hop_alone_needs_no_matrix() -> None:
    sampler = NeighborSampler(*compress(random_graph(), 40), counts=(3,))
    sampler.draw(torch.arange(40), rounds=2)
    assert "adjacency" not in vars(sampler)


@pytest.mark.parametrize("counts", [(2,), (2, 1)])
def test_isolated_nodes_stand_in_for_their_neighbours(counts: tuple[int, ...]) -> None:
    """The last ones too, after whom no edge comes."""
    edges = compress(star(3) + 1, 7)  # nodes 0, 5 and 6 have no edge
    drawn = NeighborSampler(*edges, counts).draw(torch.arange(7), rounds=5)
    for node in (0, 5, 6):
        assert set(drawn[:, node].flatten().tolist()) == {node}
    assert set(drawn[:, 2, :2].flatten().tolist()) == {1}
    nothing = NeighborSampler(*compress(star(0), 4), counts).draw(torch.tensor([3, 1]), rounds=2)
    assert nothing.tolist() == [[[3] * sum(counts), [1] * sum(counts)]] * 2
