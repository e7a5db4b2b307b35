from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.nn import extractors
from hpn.nn.extractors import DrawnSlots, MeanSlots, Slots
from hpn.streams import GraphView

NUM_NODES, NUM_FEATURES, DIM = 12, 7, 3
PATHS = {"gather": 0, "product": 10**9}
"""Values of GATHER_FACTOR that take one way or the other."""

both_layouts = pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
one_and_two = pytest.mark.parametrize("num_selected", [1, 2])
both_paths = pytest.mark.parametrize("path", PATHS)
some_rows = pytest.mark.parametrize("rows", [None, [4, 0, 4, 1]], ids=["all", "rows"])


def features(seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(NUM_NODES, NUM_FEATURES, generator=generator)
    x[torch.rand(x.shape, generator=generator) < 0.6] = 0.0
    x[3] = 0.0
    return x


def view(x: Tensor) -> GraphView:
    return GraphView(x, torch.zeros(2, 0, dtype=torch.long))


class Given:
    """Draws what it was given."""

    def __init__(self, drawn: Tensor) -> None:
        self.drawn = drawn
        self.foreseen: list[tuple[list[int], int]] = []

    def __call__(self, rows: Tensor | None, turn: int) -> Tensor:
        return self.drawn[turn] if rows is None else self.drawn[turn][rows]

    def look_ahead(self, rows: Tensor, turn: int) -> None:
        self.foreseen.append((rows.tolist(), turn))


def bank(num_selected: int, seed: int) -> Tensor:
    shape = (num_selected, NUM_FEATURES, DIM)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def by_hand(own: Tensor, around: list[list[Tensor]], node: Tensor, structure: Tensor) -> Tensor:
    """One product a slot and extractor: ``own`` row by row, then ``around`` it."""
    nodes = []
    for row, others in zip(own, around, strict=True):
        parts = [row @ extractor for extractor in node]
        parts += [other @ extractor for other in others for extractor in structure]
        nodes.append(torch.stack(parts))
    return torch.stack(nodes)


def assert_same_values_and_gradients(
    slots: Slots, turn: int, rows: list[int] | None, own: Tensor, around: list[list[Tensor]], num: int
) -> None:
    node, structure = bank(num, seed=1), bank(num, seed=2)
    chosen = list(range(len(own))) if rows is None else rows
    expected = by_hand(own[chosen], [around[row] for row in chosen], node, structure)
    got = slots.embed(None if rows is None else torch.tensor(rows), turn, node, structure)
    assert_close(got, expected, atol=1e-5, rtol=1e-5)
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3))
    for one, other in zip(
        torch.autograd.grad((got * weight).sum(), (node, structure)),
        torch.autograd.grad((expected * weight).sum(), (node, structure)),
        strict=True,
    ):
        assert float(other.abs().max()) > 0.1
        assert_close(one, other, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        plain = slots.embed(None if rows is None else torch.tensor(rows), turn, node, structure)
    assert_close(plain, expected, atol=1e-5, rtol=1e-5)


@both_layouts
@one_and_two
@some_rows
@pytest.mark.parametrize("num_means", [1, 3])
def test_mean_slots(is_sparse: bool, num_selected: int, rows: list[int] | None, num_means: int) -> None:
    parts = [features(seed) for seed in range(1 + num_means)]
    slots = MeanSlots([part.to_sparse_csr() if is_sparse else part for part in parts])
    assert len(slots) == NUM_NODES
    around = [[part[at] for part in parts[1:]] for at in range(NUM_NODES)]
    assert_same_values_and_gradients(slots, 0, rows, parts[0], around, num_selected)


@both_layouts
@one_and_two
@some_rows
@both_paths
@pytest.mark.parametrize("turn", [0, 1])
def test_drawn_slots(
    is_sparse: bool,
    num_selected: int,
    rows: list[int] | None,
    path: str,
    turn: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extractors, "GATHER_FACTOR", PATHS[path])
    x, nodes = features(), torch.tensor([7, 3, 0, 11, 5])
    drawn = torch.randint(NUM_NODES, (2, 5, 4), generator=torch.Generator().manual_seed(0))
    slots = DrawnSlots(view(x.to_sparse_csr() if is_sparse else x), nodes, Given(drawn))
    assert len(slots) == 5
    around = [[x[other] for other in drawn[turn, at]] for at in range(5)]
    assert_same_values_and_gradients(slots, turn, rows, x[nodes], around, num_selected)


@both_layouts
@one_and_two
@both_paths
def test_distinct_embeddings_are_those_of_the_slots_each_once(
    is_sparse: bool, num_selected: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extractors, "GATHER_FACTOR", PATHS[path])
    x, nodes, rows = features(), torch.tensor([7, 3, 0, 11, 5]), torch.tensor([2, 0, 4])
    drawn = torch.randint(4, (2, 5, 6), generator=torch.Generator().manual_seed(0))
    slots = DrawnSlots(view(x.to_sparse_csr() if is_sparse else x), nodes, Given(drawn))
    banks = bank(num_selected, seed=1), bank(num_selected, seed=2)
    expected = slots.embed(rows, 1, *banks)
    raw, layout = slots.embed_distinct(rows, 1, *banks)
    if path == "gather" and not is_sparse:  # where a graph is large, few draws repeat one
        assert layout is None
        assert torch.equal(raw, expected)
        return
    assert layout is not None
    assert raw.shape == (num_selected * (3 + len(drawn[1, rows].unique())), DIM)
    assert_close(raw[layout], expected, atol=1e-5, rtol=1e-5)
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3))
    assert_close(
        torch.autograd.grad((raw[layout] * weight).sum(), banks),
        torch.autograd.grad((expected * weight).sum(), banks),
        atol=1e-5,
        rtol=1e-5,
    )


@both_layouts
def test_means_are_distinct_already(is_sparse: bool) -> None:
    slots = MeanSlots([x.to_sparse_csr() if is_sparse else x for x in (features(0), features(1))])
    rows, banks = torch.tensor([4, 0, 1]), (bank(2, seed=1), bank(2, seed=2))
    raw, layout = slots.embed_distinct(rows, 0, *banks)
    assert layout is None
    assert torch.equal(raw, slots.embed(rows, 0, *banks))


@both_layouts
@pytest.mark.parametrize("most", [1, 2])
def test_features_are_gathered_unless_sparse_or_much_repeated(
    is_sparse: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extractors, "MOST_REPEATED", most)
    x, nodes, rows = features(), torch.tensor([7, 3, 0, 11, 5]), torch.tensor([2, 0, 4])
    draw = Given(torch.randint(4, (2, 5, 6), generator=torch.Generator().manual_seed(0)))
    gathered = DrawnSlots(view(x.to_sparse_csr() if is_sparse else x), nodes, draw).gather(rows, 1)
    if is_sparse or most == 1:  # 18 draws of 12 nodes
        assert gathered is None
    else:
        assert gathered is not None
        assert torch.equal(gathered[0], x[nodes[rows]])
        assert torch.equal(gathered[1], x[draw.drawn[1, rows].flatten()])


@both_layouts
def test_means_are_gathered_if_they_are_dense(is_sparse: bool) -> None:
    parts, rows = [features(0), features(1)], torch.tensor([4, 0, 1])
    gathered = MeanSlots([x.to_sparse_csr() if is_sparse else x for x in parts]).gather(rows, 0)
    if is_sparse:
        assert gathered is None
    else:
        assert gathered is not None
        assert all(torch.equal(part, x[rows]) for part, x in zip(gathered, parts, strict=True))


def test_who_draws_is_told_what_will_be_asked() -> None:
    draw = Given(torch.zeros(1, 5, 2, dtype=torch.long))
    DrawnSlots(view(features()), torch.arange(5), draw).look_ahead(torch.tensor([3, 1]), 0)
    MeanSlots([features()]).look_ahead(torch.tensor([3, 1]), 0)  # nothing is drawn there
    assert draw.foreseen == [([3, 1], 0)]


@both_paths
def test_which_way_is_taken(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extractors, "GATHER_FACTOR", PATHS[path])
    gathered = []
    take = GraphView.take

    def watched(view: GraphView, rows: Tensor | None = None) -> Tensor:
        gathered.append(rows is not None)
        return take(view, rows)

    monkeypatch.setattr(GraphView, "take", watched)
    slots = DrawnSlots(view(features()), torch.arange(5), Given(torch.zeros(1, 5, 2, dtype=torch.long)))
    slots.embed(None, 0, bank(1, seed=1), bank(1, seed=2))
    assert any(gathered) == (path == "gather")


@both_paths
@both_layouts
def test_extractors_of_one_kind_may_stay_as_they_are(
    path: str, is_sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extractors, "GATHER_FACTOR", PATHS[path])
    x = features()
    drawn = torch.ones(1, 5, 2, dtype=torch.long)
    slots = DrawnSlots(view(x.to_sparse_csr() if is_sparse else x), torch.arange(5), Given(drawn))
    node, structure = bank(1, seed=1).detach(), bank(1, seed=2)
    slots.embed(None, 0, node, structure).sum().backward()
    assert_close(structure.grad, 10 * x[1][None, :, None].expand(1, NUM_FEATURES, DIM))
    assert node.grad is None
