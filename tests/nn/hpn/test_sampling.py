from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hpn.nn.hpn import sampling
from hpn.nn.hpn.sampling import NeighborSampler
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


def draw(
    edge_index: Tensor,
    num_nodes: int,
    counts: tuple[int, ...],
    *,
    nodes: Tensor | None = None,
    turns: range = range(1),
    seed: int = 0,
) -> Tensor:
    """Several rounds ``[len(turns), len(nodes), sum(counts)]``."""
    view = GraphView(torch.zeros(num_nodes, 1), edge_index)
    chosen = torch.arange(num_nodes) if nodes is None else nodes
    sampler = NeighborSampler(view.indptr, view.indices, chosen, counts, seed)
    return torch.stack([sampler.draw(turn) for turn in turns])


@relaxed
@given(graphs(), st.lists(st.integers(1, 2), min_size=1, max_size=3), st.integers(0, 3))
def test_draws_are_all_nodes_at_exactly_that_distance_and_the_node_itself_if_there_are_none(
    graph: tuple[Tensor, int], counts: list[int], seed: int
) -> None:
    """Slots are in the order of hops."""
    edge_index, num_nodes = graph
    drawn = draw(edge_index, num_nodes, tuple(counts), turns=range(400), seed=seed)
    assert drawn.shape == (400, num_nodes, sum(counts))
    for node in range(num_nodes):
        for of_hop, ring in zip(drawn[:, node].split(counts, dim=1), rings(edge_index, node, len(counts)), strict=True):
            assert all(set(slot.tolist()) == (ring or {node}) for slot in of_hop.t())


def test_every_node_of_a_ring_is_as_likely_as_every_other() -> None:
    drawn = draw(star(8), 9, (3, 2), turns=range(8000))
    for slot in range(3):
        assert abs(surprise(drawn[:, 0, slot] - 1, 8)) < 4
    for slot in (3, 4):  # a leaf sees the seven others two hops away
        assert abs(surprise(drawn[:, 1, slot] - 2, 7)) < 4


def test_slots_rounds_and_nodes_are_independent() -> None:
    drawn = draw(star(8), 9, (2, 1), turns=range(16_000))
    centre, leaf = drawn[:, 0, :2] - 1, drawn[:, 1, 2] - 2
    assert abs(surprise(centre[:, 0] * 8 + centre[:, 1], 64)) < 4
    assert abs(surprise(centre[:-1, 0] * 8 + centre[1:, 0], 64)) < 4
    assert abs(surprise(centre[:, 0] * 7 + leaf, 56)) < 4


def test_a_draw_depends_on_the_seed_the_round_and_the_node_only() -> None:
    every = draw(random_graph(), 40, (3, 4), turns=range(6), seed=1)
    some = torch.tensor([31, 2, 2, 17])
    assert torch.equal(draw(random_graph(), 40, (3, 4), nodes=some, turns=range(6), seed=1), every[:, some])
    assert torch.equal(draw(random_graph(), 40, (3, 4), turns=range(3, 5), seed=1), every[3:5])
    assert torch.equal(draw(random_graph(), 40, (3,), turns=range(6), seed=1), every[:, :, :3])
    assert not torch.equal(every[0], every[1])
    for seed in (0, -1):
        assert not torch.equal(draw(random_graph(), 40, (3, 4), turns=range(6), seed=seed), every)
    assert draw(random_graph(), 40, (3, 4), nodes=some[:0]).shape == (1, 0, 7)


@pytest.mark.parametrize(("at_once", "kept"), [(1, 0), (7, 1 << 25), (1 << 15, 10)])
def test_memory_limits_change_nothing(at_once: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = draw(random_graph(), 40, (3, 4, 2), turns=range(3))
    monkeypatch.setattr(sampling, "NODES_AT_ONCE", at_once)
    monkeypatch.setattr(sampling, "KEPT_ENTRIES", kept)
    assert torch.equal(draw(random_graph(), 40, (3, 4, 2), turns=range(3)), whole)
