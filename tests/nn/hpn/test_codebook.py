from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from hpn.nn.hpn import codebook
from hpn.nn.hpn.codebook import AT_ONCE, Codebook, unit
from hpn.theory import max_code_size

EXACT = 1e-12
"""Wider than any rounding error of an inner product in double precision."""

dims = st.sampled_from([2, 3, 16])
thresholds = st.floats(0.01, 0.9)
seeds = st.integers(0, 2**32 - 1)
relaxed = settings(deadline=None, max_examples=60)

MOVES = {
    "stay": lambda old, noise: old.clone(),
    "drift": lambda old, noise: old + 0.02 * noise,
    "jump": lambda old, noise: old + 0.5 * noise,
    "scatter": lambda old, noise: noise,
    "huge": lambda old, noise: 1e15 * noise,
    "tiny": lambda old, noise: 1e-9 * noise,
    "zero": lambda old, noise: torch.zeros_like(old),
    "collapse onto the oldest": lambda old, noise: old[:1] + 1e-3 * noise,
    "collapse onto the youngest": lambda old, noise: old[-1:] + 1e-3 * noise,
    "swap": lambda old, noise: old.flip(0),
}
moves = st.lists(st.sampled_from(sorted(MOVES)), min_size=1, max_size=6)


class Source:
    """Random unit vectors: all over the sphere, or crowded in a few places."""

    def __init__(self, dim: int, seed: int) -> None:
        self.dim = dim
        self.generator = torch.Generator().manual_seed(seed)

    def noise(self, count: int) -> Tensor:
        return torch.randn(count, self.dim, generator=self.generator)

    def spread(self, count: int) -> Tensor:
        return unit(self.noise(count))

    def crowded(self, count: int) -> Tensor:
        centre = self.noise(4)[torch.randint(4, (count,), generator=self.generator)]
        return unit(centre + 0.3 * self.noise(count))


def make(vectors: Tensor, threshold: float, task: int = 0) -> Codebook:
    book = Codebook(vectors.shape[1], threshold)
    book.grow(vectors, task)
    return book


def circle(*angles: float) -> Tensor:
    return torch.tensor([[math.cos(angle), math.sin(angle)] for angle in angles])


def bits(values: Tensor) -> bytes:
    return values.detach().numpy().tobytes()


def assert_invariants(book: Codebook, embeddings: Tensor) -> None:
    exact, limit = book.vectors.numpy().astype(np.float64), 1 - book.threshold
    assert np.abs(np.linalg.norm(exact, axis=1) - 1).max() < 1e-6, "unit vectors"
    between = (exact @ exact.T)[np.triu_indices(len(exact), 1)]
    assert between.max(initial=-1) < limit + EXACT, "packing"
    near = (embeddings.numpy().astype(np.float64) @ exact.T).max(axis=1)
    assert near.min() >= limit - EXACT, "cover"
    assert len(book) == len(book.vectors) == len(book.tasks) <= max_code_size(book.dim, book.threshold).size


def move_to(book: Codebook, moved: Tensor, embeddings: Tensor, task: int = 0) -> None:
    """What an optimiser and then the learner do; frozen prototypes get no gradient."""
    with torch.no_grad():
        book.storage[book.num_frozen : len(book)] = moved[book.num_frozen :]
    book.refine(embeddings, task)


def refine(book: Codebook, move: str, source: Source, embeddings: Tensor, task: int = 0) -> None:
    move_to(book, MOVES[move](book.vectors, source.noise(len(book))), embeddings, task)


def grow(book: Codebook, embeddings: Tensor, task: int) -> int:
    """How many prototypes are added."""
    before = len(book)
    index, cosine = book.grow(embeddings, task)
    for found, expected in zip((index, cosine), book.match(embeddings), strict=True):
        assert torch.equal(found, expected)
    return len(book) - before


@relaxed
@given(dims, thresholds, moves, st.integers(0, 6), seeds)
def test_cover_and_packing_hold_after_every_change(
    dim: int, threshold: float, moves: list[str], frozen_from: int, seed: int
) -> None:
    source, book = Source(dim, seed), Codebook(dim, threshold)
    for task, move in enumerate(moves):
        embeddings = source.crowded(40) if task % 2 else source.spread(40)
        grow(book, embeddings, task)
        assert_invariants(book, embeddings)
        if task == frozen_from:
            book.freeze()
        refine(book, move, source, embeddings, task)
        assert_invariants(book, embeddings)
        unseen = source.crowded(40)
        refine(book, move, source, unseen, task)
        assert_invariants(book, unseen)


@pytest.mark.parametrize("dim", [2, 3, 16])
@pytest.mark.parametrize("threshold", [0.01, 0.3, 0.9])
def test_cover_and_packing_are_exact_at_the_rim_of_a_cap(dim: int, threshold: float) -> None:
    source = Source(dim, seed=0)
    centre, side = source.spread(1), source.noise(400).double()
    axis = centre.double() / centre.double().norm()
    side -= (side @ axis.t()) * axis
    side /= side.norm(dim=1, keepdim=True)
    cosine = 1 - threshold + 1e-7 * source.noise(400)[:, :1].double()
    rim = (cosine * axis + (1 - cosine**2).sqrt() * side).float()
    offset = rim.double() @ centre.double().t() - (1 - threshold)
    assert -1e-6 < float(offset.min()) < 0 < float(offset.max()) < 1e-6, "on both sides of the rim"
    book = make(centre, threshold)
    book.grow(rim, task=0)
    assert_invariants(book, rim)
    for one in rim[:40]:
        lone = make(centre, threshold)
        move_to(lone, lone.vectors.clone(), one[None], task=0)
        assert_invariants(lone, one[None])
        lone = make(centre, threshold)
        lone.grow(one[None], task=0)
        assert_invariants(lone, one[None])
        pair = make(torch.cat([centre, -centre]), threshold)
        move_to(pair, torch.stack([centre[0], one]), centre, task=0)
        assert_invariants(pair, centre)


def test_nothing_is_founded_for_what_is_covered() -> None:
    embeddings = Source(3, seed=0).spread(200)
    book = make(embeddings, 0.2)
    before = book.vectors.clone()
    assert grow(book, embeddings, task=1) == 0
    assert grow(book, embeddings[:0], task=1) == 0
    move_to(book, book.vectors * 2, embeddings, task=1)
    assert_close(book.vectors, before)


def test_the_embedding_with_the_most_uncovered_company_founds_first() -> None:
    """Of the two that are left after 0, 1.5 has more company than 3.6, but its company is covered."""
    reach = math.acos(1 - 0.1)
    shown = (-0.9, -0.8, -0.7, -0.6, -0.5, 0.0, 0.7, 0.8, 0.9, 1.5, 2.7, 3.6, 4.5)
    book = make(circle(*(reach * angle for angle in shown)), 0.1)
    assert torch.equal(book.vectors, circle(0.0, 3.6 * reach, 1.5 * reach))


@pytest.mark.parametrize(("dim", "threshold"), [(2, 1e-4), (3, 0.01), (16, 0.3)])
def test_growth_in_several_chunks_keeps_the_properties(dim: int, threshold: float) -> None:
    source = Source(dim, seed=1)
    known, embeddings = source.spread(20), source.spread(3 * AT_ONCE + 7)
    book = make(known, threshold)
    book.grow(embeddings, task=1)
    assert_invariants(book, embeddings)


@pytest.mark.parametrize("threshold", [0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4])
def test_no_stream_makes_more_prototypes_than_the_bound(threshold: float) -> None:
    """On the circle, where the bound is exact: the tightest chain reaches it, and nothing exceeds it."""
    source, apart, bound = (Source(2, seed=0), 1.0001 * math.acos(1 - threshold), max_code_size(2, threshold).size)
    book = make(circle(*(apart * i for i in range(bound))), threshold)
    assert len(book) == bound
    names = sorted(MOVES)
    for step in range(300):
        angles = sorted(math.atan2(y, x) for x, y in book.vectors.tolist())
        ends = [*angles[1:], angles[0] + 2 * math.pi]
        aimed = [(one + other) / 2 for one, other in zip(angles, ends, strict=True)]
        aimed += [angle + sign * apart for angle in angles for sign in (1, -1)]
        embeddings = circle(*aimed)
        book.grow(embeddings, step)
        assert len(book) <= bound
        refine(book, "drift" if step % 3 else names[step % len(names)], source, embeddings, step)
        assert len(book) <= bound
        assert_invariants(book, embeddings)


@relaxed
@given(dims, thresholds, moves, seeds)
def test_frozen_prototypes_never_move_nor_disappear(dim: int, threshold: float, moves: list[str], seed: int) -> None:
    source = Source(dim, seed)
    book = make(source.spread(10), threshold)
    book.grow(source.spread(10), task=1)
    book.freeze()
    size, vectors, tasks = len(book), bits(book.vectors), book.tasks.tolist()
    book.grow(source.spread(30), task=2)
    for move in moves:
        refine(book, move, source, source.crowded(20), task=3)
        assert book.num_frozen == size
        assert bits(book.vectors[:size]) == vectors
        assert book.tasks[:size].tolist() == tasks


def test_a_young_prototype_that_meets_a_frozen_one_is_dropped() -> None:
    book = make(circle(0.0), 0.1)
    book.freeze()
    book.grow(circle(1.0, 2.0), task=1)
    assert len(book) == 3
    move_to(book, circle(5.0, 0.01, 2.5), circle(0.0, 2.5), task=1)
    assert_close(book.vectors, circle(0.0, 2.5))


def test_merging_keeps_the_older() -> None:
    book = Codebook(2, 0.1)
    for task, angle in enumerate((2.0, 1.0, 0.0)):
        assert grow(book, circle(angle), task) == 1
    move_to(book, circle(2.0, 1.99, 0.0), circle(2.0), task=3)
    assert_close(book.vectors, circle(2.0, 0.0))
    assert book.tasks.tolist() == [0, 2]


def test_what_is_merged_away_drops_nothing_in_turn() -> None:
    """The first meets the second and the second the third, but the first and the third are apart."""
    near = 0.8 * math.acos(1 - 0.1)
    book = Codebook(2, 0.1)
    for task, angle in enumerate((0.0, 1.0, 2.0)):
        book.grow(circle(angle), task)
    move_to(book, circle(0.0, near, 2 * near), circle(0.0), task=3)
    assert_close(book.vectors, circle(0.0, 2 * near))
    assert book.tasks.tolist() == [0, 2]


def test_tasks_are_the_tasks_that_needed_the_prototypes() -> None:
    book = make(circle(0.0, 1.0), 0.1, task=4)
    book.grow(circle(0.0, 2.0), task=7)
    assert book.tasks.tolist() == [4, 4, 7]
    move_to(book, circle(0.0, 1.0, 2.0), circle(3.0), task=9)
    assert book.tasks.tolist() == [4, 4, 7, 9]
    assert_close(book.vectors, circle(0.0, 1.0, 2.0, 3.0))


def test_the_nearest_is_matched_and_ties_go_to_the_older() -> None:
    source = Source(16, seed=0)
    book, embeddings = make(source.spread(100), 0.3), source.spread(50)
    cosines = embeddings.double() @ book.vectors.double().t()
    index, cosine = book.match(embeddings)
    assert torch.equal(index, cosines.argmax(dim=1))
    assert torch.allclose(cosine.double(), cosines.amax(dim=1), atol=1e-6)
    book = make(torch.tensor([[1.0, 0.0]]), 0.1)
    book.grow(torch.tensor([[0.0, 1.0]]), task=0)
    assert book.match(torch.tensor([[0.5, 0.5]]))[0].tolist() == [0]


@relaxed
@given(dims, st.floats(0.01, 0.3), st.booleans(), st.integers(1, 5), seeds)
def test_old_prototypes_are_matched_the_same_after_growth(
    dim: int, threshold: float, frozen: bool, visible: int, seed: int
) -> None:
    source = Source(dim, seed)
    book, embeddings = make(source.spread(20), threshold), source.spread(30)
    visible = min(visible, len(book))
    if frozen:
        book.freeze()
    before = book.match(embeddings, visible)
    assert int(before[0].max()) < visible
    assert torch.equal(before[0], book.vectors[:visible].matmul(embeddings.t()).argmax(dim=0))
    everything = book.match(embeddings)
    size, capacity = len(book), len(book.storage)
    for task in range(1, 5):
        book.grow(source.spread(200), task)
        if frozen:
            refine(book, "drift", source, embeddings, task)
        for old, new in zip(before, book.match(embeddings, visible), strict=True):
            assert bits(old) == bits(new)
        for old, new in zip(everything, book.match(embeddings, size), strict=True):
            assert bits(old) == bits(new)
    assert dim < 16 or len(book.storage) > capacity, "storage was reallocated"


@relaxed
@given(dims, thresholds, st.booleans(), seeds)
def test_a_restored_book_goes_on_as_the_original(dim: int, threshold: float, frozen: bool, seed: int) -> None:
    source = Source(dim, seed)
    books = nn.ModuleList([make(source.spread(20), threshold), Codebook(dim, threshold)])
    if frozen:
        books[0].freeze()
    books[0].grow(source.spread(20), task=1)
    state = books.state_dict()
    restored = nn.ModuleList([make(source.spread(3), threshold), Codebook(dim, threshold)])
    restored.load_state_dict(state)
    later, noise = source.spread(40), source.noise(200)
    saved = {key: value.clone() for key, value in state.items()}
    for original, copy in zip(books, restored, strict=True):
        for step in range(3):
            assert bits(original.vectors) == bits(copy.vectors)
            assert original.tasks.tolist() == copy.tasks.tolist()
            assert original.num_frozen == copy.num_frozen
            for book in (original, copy):
                if step == 1:
                    move_to(book, noise[: len(book)], later, task=2)
                else:
                    book.grow(later, task=3)
    assert all(torch.equal(state[key], value) for key, value in saved.items()), "a snapshot, not a view"


def test_storage_grows_geometrically() -> None:
    book, capacities = Codebook(16, 0.01), [0]
    for embedding in Source(16, seed=0).spread(1000):
        place = book.storage.data_ptr()
        assert grow(book, embedding[None], task=0) == 1
        if book.storage.data_ptr() != place:
            capacities.append(len(book.storage))
        assert len(book.storage) == len(book._tasks) == capacities[-1]
    assert len(book) == 1000
    assert len(capacities) <= 1 + math.log2(1000)


def broken(row: int, vector: Tensor) -> Codebook:
    book = make(circle(0.0, 1.0, 2.0), 0.1)
    book.storage.data[row] = vector
    return book


def test_check_finds_a_broken_book() -> None:
    book = make(circle(0.0, 1.0, 2.0), 0.1)
    book.check()
    book.check(circle(0.1, 1.1))
    book.check(circle())
    Codebook(2, 0.1).check()
    with pytest.raises(AssertionError, match="cover"):
        book.check(circle(0.1, 3.0))
    with pytest.raises(AssertionError, match="packing"):
        broken(1, book.vectors[0] + 1e-7).check()
    with pytest.raises(AssertionError):
        broken(1, 1.01 * book.vectors[1]).check()


@pytest.mark.parametrize("debug", [False, True])
def test_in_debug_mode_every_change_is_checked(debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codebook, "DEBUG", debug)
    embeddings = circle(0.0, 1.0, 2.0, 3.0)
    book = make(embeddings, 0.1)
    move_to(book, circle(0.1, 1.1, 2.0, 3.0), embeddings, task=0)
    for change in (
        lambda book: book.grow(embeddings, task=0),
        lambda book: move_to(book, book.vectors.clone(), embeddings[:1], task=0),
    ):
        book = broken(1, circle(0.01)[0])
        book.freeze()
        if debug:
            with pytest.raises(AssertionError, match="packing"):
                change(book)
        else:
            change(book)
