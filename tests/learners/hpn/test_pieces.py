from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.learners.hpn.pieces import (
    Move,
    check_together,
    cover_together,
    cut,
    found_together,
)
from hpn.nn import prototypes
from hpn.nn.network import PrototypeNetwork
from hpn.nn.processes import ALONE, Processes
from hpn.nn.prototypes import PrototypeBook
from hpn.nn.snapping import unit

NUM_SLOTS, DIM = 3, 4


class Others(Processes):
    """Rank 0 of two processes, of which the other tells what it is given here."""

    size = 2

    def __init__(self, tells: Tensor) -> None:
        self.tells = tells

    def any(self, is_so: bool) -> bool:
        return is_so or len(self.tells) > 0

    def collect(self, rows: Tensor) -> Tensor:
        return torch.cat([rows, self.tells])


def make_network() -> PrototypeNetwork:
    torch.manual_seed(0)
    return PrototypeNetwork(
        5, 2, num_extractors=1, num_slots=NUM_SLOTS, dim=DIM, thresholds=(0.1, 0.2, 0.2)
    )  # fmt: skip


def embeddings(count: int = 40, seed: int = 1) -> Tensor:
    return torch.randn(count, NUM_SLOTS, DIM, generator=torch.Generator().manual_seed(seed))


def written(network: PrototypeNetwork) -> list[tuple[Tensor, list[int]]]:
    return [(book.vectors.clone(), book.founders.tolist()) for book in network.books]


def assert_same_books(one: PrototypeNetwork, other: PrototypeNetwork) -> None:
    for (vectors, founders), (others, other_founders) in zip(written(one), written(other), strict=True):
        assert torch.equal(vectors, others)
        assert founders == other_founders


@pytest.mark.parametrize(("count", "size"), [(10, 4), (10, 10), (10, 99), (10, 1), (7, 3), (0, 3)])
def test_a_batch_is_cut_into_as_few_equal_pieces_as_fit(count: int, size: int) -> None:
    rows = torch.randperm(count)
    pieces = cut(rows, size)
    sizes = [len(piece) for piece in pieces]
    assert torch.equal(torch.cat(pieces), rows)
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert len(pieces) == max(1, -(-count // size))


def test_one_piece_founds_what_a_growing_pass_founds() -> None:
    alone, together = make_network(), make_network()
    for task, raw in enumerate((embeddings(), embeddings(seed=2))):
        expected = alone(raw, grow_for=task)
        (passed,) = cover_together(together, [(raw, None)], task, ALONE)
        assert_same_books(together, alone)
        assert torch.equal(passed.logits, expected.logits)
        assert torch.equal(passed.representation, expected.representation)
    assert {0, 1} == set(alone.atomic_prototypes.founders.tolist())


def test_a_piece_in_which_nothing_repeats_founds_the_same() -> None:
    """The atomic embeddings are those of few neighbours, each of them in many slots."""
    raw, layout = embeddings().view(-1, DIM)[:30], (torch.arange(40 * NUM_SLOTS) % 30).view(40, NUM_SLOTS)
    distinct, repeated = make_network(), make_network()
    (passed,) = cover_together(distinct, [(raw, layout)], 0, ALONE)
    (expected,) = cover_together(repeated, [(raw[layout], None)], 0, ALONE)
    assert_same_books(distinct, repeated)
    assert torch.equal(passed.logits, expected.logits)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
@pytest.mark.parametrize("sizes", [[10, 10, 10, 10], [1, 20, 2, 17]])
def test_pieces_found_for_the_strangers_of_all_of_them_together(sizes: list[int], order: list[int]) -> None:
    raw, whole, parts = embeddings(), make_network(), make_network()
    pieces = torch.split(raw, sizes)
    for network in (whole, parts):
        network(embeddings(4, seed=3), grow_for=0)
    expected = whole(raw, grow_for=1)
    passes = cover_together(parts, [(pieces[at], None) for at in order], 1, ALONE)
    assert_same_books(parts, whole)
    logits = [part for _, part in sorted(zip(order, (p.logits for p in passes), strict=True))]
    assert_close(torch.cat(logits), expected.logits)
    one_by_one = make_network()
    one_by_one(embeddings(4, seed=3), grow_for=0)
    for piece in pieces:
        one_by_one(piece, grow_for=1)
    assert len(one_by_one.atomic_prototypes) != len(whole.atomic_prototypes), "they would found others"


def test_strangers_of_another_process_are_founded_here_too() -> None:
    book, alike = PrototypeBook(DIM, 0.1), PrototypeBook(DIM, 0.1)
    mine, others = unit(embeddings(20).view(-1, DIM)), unit(embeddings(20, seed=2).view(-1, DIM))
    alike.cover(torch.cat([mine, others]), 5)
    found_together(book, [mine[:30], mine[30:]], 5, Others(others))
    assert torch.equal(book.vectors, alike.vectors)
    assert book.founders.tolist() == [5] * len(book)
    without = PrototypeBook(DIM, 0.1)
    found_together(without, [], 5, Others(torch.cat([mine, others])))
    assert torch.equal(without.vectors, alike.vectors)


def test_nobody_strange_anywhere_founds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    network, raw = make_network(), embeddings()
    cover_together(network, [(raw[:20], None), (raw[20:], None)], 0, ALONE)
    before = deepcopy(network)
    assert all(len(book) for book in network.books)
    monkeypatch.setattr(PrototypeBook, "found", lambda *_: pytest.fail("founded"))
    cover_together(network, [(raw[:7], None)], 1, ALONE)
    found_together(network.atomic_prototypes, [], 1, ALONE)
    assert_same_books(network, before)


def test_what_is_strange_is_covered_afterwards() -> None:
    network = make_network()
    for task, raw in enumerate((embeddings(), embeddings(seed=2))):
        cover_together(network, [(part, None) for part in torch.split(raw, 15)], task, ALONE)
        with torch.no_grad():
            assert network.covers(network(raw))
    assert not network.covers(network(embeddings(seed=4)))


class Differing(Processes):
    """Two processes, of which the other tells what this one does, but for a small change."""

    def __init__(self, change: float) -> None:
        self.change = change

    def collect(self, rows: Tensor) -> Tensor:
        other = rows.clone()
        other[:, 2:3] += self.change
        return torch.cat([rows, other])


def test_a_book_that_differs_in_another_process_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    book, vectors = PrototypeBook(DIM, 0.1), unit(embeddings().view(-1, DIM))
    book.cover(vectors, 0)
    check_together(book, [vectors], Differing(0.0))
    with pytest.raises(AssertionError, match="not the same in all processes"):
        check_together(book, [vectors], Differing(1e-6))
    with pytest.raises(AssertionError, match="does not keep: cover"):
        check_together(book, [vectors, unit(embeddings(seed=7).view(-1, DIM))], Differing(0.0))
    found_together(book, [vectors], 0, Differing(1e-6))  # unless it is debugged, there is no time to look
    monkeypatch.setattr(prototypes, "DEBUG", True)
    with pytest.raises(AssertionError, match="not the same in all processes"):
        found_together(book, [vectors], 0, Differing(1e-6))


def test_a_move_goes_on_when_prototypes_are_founded() -> None:
    move = Move()
    for gradient in (torch.ones(2, 3), torch.ones(4, 3), torch.ones(4, 3)):
        move.add(gradient)
    assert move.total is not None
    assert move.total[:, 0].tolist() == [3.0, 3.0, 2.0, 2.0]
