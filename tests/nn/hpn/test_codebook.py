from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.hpn import codebook as module
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
    codebook = Codebook(vectors.shape[1], threshold)
    codebook.grow(vectors, task)
    return codebook


def circle(*angles: float) -> Tensor:
    return torch.tensor([[math.cos(angle), math.sin(angle)] for angle in angles])


def assert_invariants(codebook: Codebook, embeddings: Tensor) -> None:
    exact, limit = codebook.vectors.numpy().astype(np.float64), 1 - codebook.threshold
    assert np.abs(np.linalg.norm(exact, axis=1) - 1).max() < 1e-6, "unit vectors"
    between = (exact @ exact.T)[np.triu_indices(len(exact), 1)]
    assert between.max(initial=-1) < limit + EXACT, "packing"
    near = (embeddings.numpy().astype(np.float64) @ exact.T).max(axis=1)
    assert near.min() >= limit - EXACT, "cover"
    assert len(codebook) == len(codebook.tasks) <= max_code_size(codebook.dim, codebook.threshold).size


def move_to(codebook: Codebook, moved: Tensor, embeddings: Tensor, task: int = 0) -> None:
    """The steps of the optimiser and of the learner; frozen prototypes get no gradient."""
    with torch.no_grad():
        codebook.storage[codebook.num_frozen :] = moved[codebook.num_frozen :]
    codebook.refine(embeddings, task)


def refine(codebook: Codebook, move: str, source: Source, embeddings: Tensor, task: int = 0) -> None:
    move_to(codebook, MOVES[move](codebook.vectors, source.noise(len(codebook))), embeddings, task)


def grow(codebook: Codebook, embeddings: Tensor, task: int) -> int:
    """How many prototypes are added."""
    before = len(codebook)
    index, cosine = codebook.grow(embeddings, task)
    for found, expected in zip((index, cosine), codebook.match(embeddings), strict=True):
        assert torch.equal(found, expected)
    return len(codebook) - before


@relaxed
@given(dims, thresholds, moves, st.integers(0, 6), seeds)
def test_cover_and_packing_hold_after_every_change(
    dim: int, threshold: float, moves: list[str], frozen_from: int, seed: int
) -> None:
    """Frozen prototypes never move nor disappear."""
    source, codebook, frozen = Source(dim, seed), Codebook(dim, threshold), torch.zeros(0, dim)
    for task, move in enumerate(moves):
        embeddings = source.crowded(40) if task % 2 else source.spread(40)
        grow(codebook, embeddings, task)
        assert_invariants(codebook, embeddings)
        if task == frozen_from:
            codebook.freeze()
            frozen = codebook.vectors.clone()
        for shown in (embeddings, source.crowded(40)):
            refine(codebook, move, source, shown, task)
            assert_invariants(codebook, shown)
            assert torch.equal(codebook.vectors[: len(frozen)], frozen)
            assert codebook.num_frozen == len(frozen)
            assert max(codebook.tasks[: len(frozen)].tolist(), default=0) <= frozen_from


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
    codebook = make(centre, threshold)
    codebook.grow(rim, task=0)
    assert_invariants(codebook, rim)
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


def test_nothing_is_added_for_covered_embeddings() -> None:
    embeddings = Source(3, seed=0).spread(200)
    codebook = make(embeddings, 0.2)
    before = codebook.vectors.clone()
    assert grow(codebook, embeddings, task=1) == 0
    assert grow(codebook, embeddings[:0], task=1) == 0
    move_to(codebook, codebook.vectors * 2, embeddings, task=1)
    assert_close(codebook.vectors, before)


def test_the_embedding_with_the_most_uncovered_neighbours_is_added_first() -> None:
    """Of the two that remain after 0, 1.5 has more neighbours than 3.6, but they are covered."""
    reach = math.acos(1 - 0.1)
    shown = (-0.9, -0.8, -0.7, -0.6, -0.5, 0.0, 0.7, 0.8, 0.9, 1.5, 2.7, 3.6, 4.5)
    codebook = make(circle(*(reach * angle for angle in shown)), 0.1)
    assert torch.equal(codebook.vectors, circle(0.0, 3.6 * reach, 1.5 * reach))


@pytest.mark.parametrize(("dim", "threshold"), [(2, 1e-4), (3, 0.01), (16, 0.3)])
def test_growth_in_several_chunks_keeps_the_properties(dim: int, threshold: float) -> None:
    source = Source(dim, seed=1)
    known, embeddings = source.spread(20), source.spread(3 * AT_ONCE + 7)
    codebook = make(known, threshold)
    codebook.grow(embeddings, task=1)
    assert_invariants(codebook, embeddings)


@pytest.mark.parametrize("threshold", [0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4])
def test_no_stream_makes_more_prototypes_than_the_bound(threshold: float) -> None:
    """On the circle, where the bound is exact: the tightest chain reaches it, and nothing exceeds it."""
    source, apart, bound = (Source(2, seed=0), 1.0001 * math.acos(1 - threshold), max_code_size(2, threshold).size)
    codebook = make(circle(*(apart * i for i in range(bound))), threshold)
    assert len(codebook) == bound
    names = sorted(MOVES)
    for step in range(300):
        angles = sorted(math.atan2(y, x) for x, y in codebook.vectors.tolist())
        ends = [*angles[1:], angles[0] + 2 * math.pi]
        aimed = [(one + other) / 2 for one, other in zip(angles, ends, strict=True)]
        aimed += [angle + sign * apart for angle in angles for sign in (1, -1)]
        embeddings = circle(*aimed)
        codebook.grow(embeddings, step)
        assert len(codebook) <= bound
        refine(codebook, "drift" if step % 3 else names[step % len(names)], source, embeddings, step)
        assert len(codebook) <= bound
        assert_invariants(codebook, embeddings)


NEAR = 0.8 * math.acos(1 - 0.1)


@pytest.mark.parametrize(
    ("before", "moved", "kept"),
    [
        ((2.0, 1.0, 0.0), (2.0, 1.99, 0.0), [0, 2]),  # the older of two
        ((0.0, 1.0, 2.0), (0.0, NEAR, 2 * NEAR), [0, 2]),  # the second is merged, so that the third may stay
    ],
)
def test_a_prototype_is_merged_into_an_older_one_that_is_kept(
    before: tuple[float, ...], moved: tuple[float, ...], kept: list[int]
) -> None:
    codebook = Codebook(2, 0.1)
    for task, angle in enumerate(before):
        assert grow(codebook, circle(angle), task) == 1
    move_to(codebook, circle(*moved), circle(moved[0]), task=3)
    assert_close(codebook.vectors, circle(*moved)[kept])
    assert codebook.tasks.tolist() == kept


def test_the_nearest_is_matched_and_ties_go_to_the_older() -> None:
    source = Source(16, seed=0)
    codebook, embeddings = make(source.spread(100), 0.3), source.spread(50)
    cosines = embeddings.double() @ codebook.vectors.double().t()
    index, cosine = codebook.match(embeddings)
    assert torch.equal(index, cosines.argmax(dim=1))
    assert torch.allclose(cosine.double(), cosines.amax(dim=1), atol=1e-6)
    codebook = make(torch.tensor([[1.0, 0.0]]), 0.1)
    codebook.grow(torch.tensor([[0.0, 1.0]]), task=0)
    assert codebook.match(torch.tensor([[0.5, 0.5]]))[0].tolist() == [0]


def broken(row: int, vector: Tensor) -> Codebook:
    codebook = make(circle(0.0, 1.0, 2.0), 0.1)
    codebook.storage.data[row] = vector
    return codebook


def test_check_finds_a_broken_codebook() -> None:
    codebook = make(circle(0.0, 1.0, 2.0), 0.1)
    for embeddings in (None, circle(0.1, 1.1), circle()):
        codebook.check(embeddings)
    Codebook(2, 0.1).check()
    with pytest.raises(AssertionError, match="cover"):
        codebook.check(circle(0.1, 3.0))
    with pytest.raises(AssertionError, match="packing"):
        broken(1, codebook.vectors[0] + 1e-7).check()
    with pytest.raises(AssertionError, match="unit length"):
        broken(1, 1.01 * codebook.vectors[1]).check()


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("refines", [False, True])
def test_in_debug_mode_every_change_is_checked(refines: bool, debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEBUG", debug)
    embeddings, codebook = circle(0.0, 1.0, 2.0), broken(1, circle(0.01)[0])
    codebook.freeze()
    with pytest.raises(AssertionError, match="packing") if debug else nullcontext():
        if refines:
            move_to(codebook, codebook.vectors.clone(), embeddings[:1], task=0)
        else:
            codebook.grow(embeddings, task=0)
