from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.datasets.sparse import is_sparse
from hpn.learners.hpn import slots as slots_module
from hpn.learners.hpn.presets import PRESETS, Settings
from hpn.learners.hpn.slots import QUERY_TURN, Draws, batches, make_slots, most_similar
from hpn.nn.extractors import MeanSlots, Slots
from hpn.nn.neighborhoods import NeighborSampler
from hpn.nn.network import PrototypeNetwork
from hpn.nn.snapping import unit
from hpn.streams import GraphView

NUM_NODES, NUM_FEATURES = 30, 6


def settings(**changes: object) -> Settings:
    return replace(PRESETS["paper"], **changes)  # type: ignore[arg-type]


@pytest.fixture
def view() -> GraphView:
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(NUM_NODES, (2, 50), generator=generator)
    pairs = pairs[:, pairs[0] != pairs[1]]
    edge_index = torch.unique(torch.cat([pairs, pairs.flip(0)], dim=1), dim=1)
    return GraphView(torch.randn(NUM_NODES, NUM_FEATURES, generator=generator), edge_index)


def seen(slots: Slots, turn: int = 0) -> Tensor:
    """The features in the slots: what extractors see that change nothing."""
    same = torch.eye(NUM_FEATURES).unsqueeze(0)
    return slots.embed(None, turn, same, same)


def means(view: GraphView, hops: int) -> list[Tensor]:
    adjacency = torch.eye(NUM_NODES)
    adjacency[view.edge_index[0], view.edge_index[1]] = 1.0
    adjacency /= adjacency.sum(dim=1, keepdim=True)
    return [torch.matrix_power(adjacency, hop) @ view.x for hop in range(hops + 1)]


def test_means_are_the_node_and_every_hop_up_to_the_farthest(view: GraphView) -> None:
    nodes = torch.tensor([4, 0, 17])
    slots = make_slots(settings(slots="means", hops=3), view, nodes, seed=0)
    assert_close(seen(slots), torch.stack(means(view, 3), dim=1)[nodes], atol=1e-6, rtol=0)


def test_drawn_are_the_node_and_neighbours_of_the_first_then_of_the_second_hop(view: GraphView) -> None:
    nodes = torch.arange(NUM_NODES)
    slots = make_slots(settings(drawn="3,2"), view, nodes, seed=0, rounds=2, first_round=0)
    adjacency = torch.eye(NUM_NODES, dtype=torch.bool)
    adjacency[view.edge_index[0], view.edge_index[1]] = True
    second = (adjacency.float() @ adjacency.float() > 0) & ~adjacency
    first = adjacency & ~torch.eye(NUM_NODES, dtype=torch.bool)
    for turn in range(2):
        features = seen(slots, turn)
        assert torch.equal(features[:, 0], view.x)
        for ring, part in ((first, features[:, 1:4]), (second, features[:, 4:])):
            found = (part.unsqueeze(2) == view.x).all(dim=3)  # [num_nodes, slot, num_nodes]
            alone = torch.diag(~ring.any(dim=1))
            assert bool(found.any(dim=2).all())
            assert not bool((found & ~(ring | alone).unsqueeze(1)).any())
    assert not torch.equal(seen(slots, 0), seen(slots, 1))


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """What samplers are asked to draw: for how many nodes, how many rounds, from which on."""
    asked, draw = [], NeighborSampler.draw

    def watched(sampler: NeighborSampler, nodes: Tensor, rounds: int, first_round: int = 0) -> Tensor:
        asked.append((len(nodes), rounds, first_round))
        return draw(sampler, nodes, rounds, first_round)

    monkeypatch.setattr(NeighborSampler, "draw", watched)
    return asked


@pytest.mark.parametrize(
    ("at_once", "blocks"), [(1 << 25, [(0, 7)]), (300, [(0, 3), (3, 3), (6, 1)]), (1, None)]
)
def test_blocks_of_rounds_change_no_draw(
    view: GraphView,
    at_once: int,
    blocks: list[tuple[int, int]] | None,
    asked_for: list[tuple[int, int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots_module, "DRAWN_AT_ONCE", at_once)
    nodes, rows = torch.arange(20), torch.tensor([3, 3, 0, 19])
    sampler = NeighborSampler(view.indptr, view.indices, (3, 2), seed=1)
    expected = sampler.draw(nodes, 7, first_round=5)
    asked_for.clear()
    draws = Draws(sampler, nodes, rounds=7, first_round=5)
    for turn in range(7):
        assert torch.equal(draws(None, turn), expected[turn])
        assert torch.equal(draws(rows, turn), expected[turn][rows])
    assert asked_for == [(20, size, 5 + turn) for turn, size in blocks or [(turn, 1) for turn in range(7)]]
    for turn in (6, 0, 2, 4, 5, 1):
        assert torch.equal(draws(rows, turn), expected[turn][rows]), "and in any order"
    assert torch.equal(draws(None, 9), sampler.draw(nodes, 1, first_round=14)[0]), "and beyond the last"


def test_the_first_hop_is_drawn_when_it_is_needed_for_whom_it_is_needed(
    view: GraphView, asked_for: list[tuple[int, int, int]]
) -> None:
    nodes, rows = torch.arange(NUM_NODES).flip(0), torch.tensor([3, 3, 0, 19])
    sampler = NeighborSampler(view.indptr, view.indices, (2,), seed=1)
    expected = sampler.draw(nodes, 4, first_round=QUERY_TURN)
    asked_for.clear()
    draws = Draws(sampler, nodes, rounds=4, first_round=QUERY_TURN)
    assert asked_for == []
    assert torch.equal(draws(rows, 2), expected[2][rows])
    assert torch.equal(draws(None, 0), expected[0])
    assert asked_for == [(4, 1, QUERY_TURN + 2), (NUM_NODES, 1, QUERY_TURN)]


@pytest.mark.parametrize("together", [5, 100])
def test_looking_ahead_changes_no_draw(
    view: GraphView,
    together: int,
    asked_for: list[tuple[int, int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots_module, "DRAWN_TOGETHER", together)
    nodes, rows = torch.arange(NUM_NODES).flip(0), torch.randperm(NUM_NODES)[:12]
    sampler = NeighborSampler(view.indptr, view.indices, (2,), seed=1)
    expected = sampler.draw(nodes, 2, first_round=0)
    draws = Draws(sampler, nodes, rounds=2, first_round=0)
    asked_for.clear()
    draws.look_ahead(rows, 1)
    assert [count for count, _, _ in asked_for] == ([5, 5, 2] if together == 5 else [12])
    asked_for.clear()
    for part in (rows[:7], rows[7:], rows[:0]):
        assert torch.equal(draws(part, 1), expected[1][part])
    assert asked_for == []
    others = torch.arange(NUM_NODES)
    for turn in (0, 1):
        assert torch.equal(draws(others, turn), expected[turn]), "what was not foreseen is drawn as well"
        assert torch.equal(draws(None, turn), expected[turn])
    assert len(asked_for) == 4


@pytest.mark.parametrize(("counts", "at_once"), [((3, 2), 1 << 25), ((2,), 2 * 20 - 1)])
def test_looking_ahead_takes_bounded_memory(
    counts: tuple[int, ...],
    at_once: int,
    view: GraphView,
    asked_for: list[tuple[int, int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots_module, "DRAWN_AT_ONCE", at_once)
    sampler = NeighborSampler(view.indptr, view.indices, counts, seed=1)
    Draws(sampler, torch.arange(20), rounds=2, first_round=0).look_ahead(torch.arange(20), 1)
    assert asked_for == []


def test_queries_see_other_neighbours_than_training_did(view: GraphView) -> None:
    s, nodes = settings(), torch.arange(NUM_NODES)
    asked = seen(make_slots(s, view, nodes, seed=0))
    again = seen(make_slots(s, view, nodes, seed=0, first_round=QUERY_TURN))
    trained = seen(make_slots(s, view, nodes, seed=0, first_round=0))
    other = seen(make_slots(s, view, nodes, seed=1))
    assert torch.equal(asked, again)
    assert not torch.equal(asked, trained)
    assert not torch.equal(asked, other)


def test_sparse_features_stay_sparse_until_smoothing_fills_them(view: GraphView) -> None:
    rows, columns = torch.arange(NUM_NODES), torch.arange(NUM_NODES) % NUM_FEATURES
    x = torch.zeros(NUM_NODES, NUM_FEATURES)
    x[rows, columns] = 1.0
    s = settings(slots="means", hops=2)
    dense = make_slots(s, GraphView(x, view.edge_index), rows, seed=0)
    sparse = make_slots(s, GraphView(x.to_sparse_csr(), view.edge_index), rows, seed=0)
    assert isinstance(sparse, MeanSlots)
    assert [is_sparse(part.x) for part in sparse.parts] == [True, False, False]
    assert_close(seen(sparse), seen(dense), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["drawn", "means"])
def test_there_are_as_many_slots_as_the_settings_say(view: GraphView, kind: str) -> None:
    for num_selected in (1, 2):
        s = settings(slots=kind, num_selected=num_selected, hops=2)
        bank = torch.ones(num_selected, NUM_FEATURES, 1)
        slots = make_slots(s, view, torch.arange(5), seed=0)
        assert slots.embed(None, 0, bank, bank).shape == (5, s.num_slots, 1)


def extractor_network(s: Settings) -> PrototypeNetwork:
    torch.manual_seed(0)
    return PrototypeNetwork(
        NUM_FEATURES, 2, num_extractors=s.num_extractors, num_slots=s.num_slots, dim=s.dim,
        thresholds=(0.1, 0.1, 0.1),
    )  # fmt: skip


@torch.no_grad()
def test_the_most_similar_extractors_are_those_that_point_at_prototypes() -> None:
    """All features are positive, so that the sign of an extractor is the direction of its embeddings."""
    s = settings(num_extractors=4, dim=2, slots="means", hops=1)
    network = extractor_network(s)
    network.atomic_prototypes.grow(torch.tensor([[1.0, 0.0]]), task=0)
    toward = {"same": (1.0, 0.0), "near": (1.0, 0.3), "far": (0.0, 1.0), "opposite": (-1.0, 0.0)}
    for bank, order in (
        (network.node_extractors, ("far", "near", "same", "opposite")),
        (network.structure_extractors, ("same", "opposite", "far", "near")),
    ):
        for number, name in enumerate(order):
            bank[number] = torch.tensor(toward[name])
    slots = MeanSlots([torch.rand(9, NUM_FEATURES), torch.rand(9, NUM_FEATURES)])
    chosen = most_similar(s, network, slots)
    assert (chosen.node, chosen.structure) == ((2,), (0,))
    chosen = most_similar(replace(s, num_selected=2), network, slots)
    assert (chosen.node, chosen.structure) == ((1, 2), (0, 3))


@torch.no_grad()
@pytest.mark.parametrize("kind", ["drawn", "means"])
def test_similarity_is_the_best_cosine_averaged_over_nodes_and_slots(view: GraphView, kind: str) -> None:
    s = settings(num_extractors=6, dim=3, slots=kind)
    network, nodes = extractor_network(s), torch.arange(NUM_NODES).repeat(12)  # more than one batch
    network.atomic_prototypes.grow(unit(torch.randn(3, 3)), task=0)
    slots = make_slots(s, view, nodes, seed=0)
    features, prototypes = seen(slots), network.atomic_prototypes.vectors

    def similarity(extractor: Tensor, part: Tensor) -> float:
        return float((unit(part @ extractor) @ prototypes.t()).amax(dim=2).mean())

    node = [similarity(extractor, features[:, :1]) for extractor in network.node_extractors]
    structure = [similarity(extractor, features[:, 1:]) for extractor in network.structure_extractors]
    chosen = most_similar(s, network, slots)
    assert chosen.node == (max(range(6), key=node.__getitem__),)
    assert chosen.structure == (max(range(6), key=structure.__getitem__),)


def test_batches_are_everything_once() -> None:
    assert [part.tolist() for part in batches(5, 2)] == [[0, 1], [2, 3], [4]]
    order = torch.tensor([3, 1, 0, 2])
    assert [part.tolist() for part in batches(4, 3, order)] == [[3, 1, 0], [2]]
