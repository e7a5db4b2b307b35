from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hpn.nn.losses import classification_loss, distance_loss, divergence_loss, unit_columns

seeds = st.integers(0, 2**32 - 1)
relaxed = settings(deadline=None)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def divergence(selected: Tensor, others: Tensor) -> Tensor:
    return divergence_loss(selected, unit_columns(others))


def slow_divergence(selected: Tensor, others: Tensor) -> float:
    """The mean over ``i`` selected, ``j`` any other, and pairs of their columns."""
    everything = [*selected.double(), *others.double()]
    squares = []
    for i in range(len(selected)):
        for j, other in enumerate(everything):
            for a in everything[i].t() if j != i else ():
                squares += [float(a @ b / (a.norm() * b.norm())) ** 2 for b in other.t()]
    return math.fsum(squares) / max(1, len(squares))


@relaxed
@given(st.integers(1, 6), st.integers(2, 4), seeds)
def test_classification_is_the_mean_of_negative_log_probabilities(n: int, classes: int, seed: int) -> None:
    logits = 3 * draw(n, classes, seed=seed)
    target = torch.arange(n) % classes
    by_hand = 0.0
    for row, label in zip(logits.tolist(), target.tolist(), strict=True):
        by_hand -= math.log(math.exp(row[label]) / sum(math.exp(value) for value in row)) / n
    assert classification_loss(logits, target).item() == pytest.approx(by_hand, abs=1e-5)


def test_the_gradient_of_classification_is_probability_minus_target() -> None:
    logits, target = draw(5, 3, seed=0).requires_grad_(), torch.tensor([0, 1, 2, 0, 1])
    classification_loss(logits, target).backward()
    expected = (logits.detach().softmax(dim=1) - torch.eye(3)[target]) / 5
    assert torch.allclose(logits.grad, expected, atol=1e-6)


@relaxed
@given(st.integers(1, 4), st.integers(0, 3), st.integers(2, 6), st.integers(1, 4), seeds)
def test_divergence_is_the_mean_over_pairs(own: int, rest: int, features: int, dim: int, seed: int) -> None:
    selected, others = draw(own, features, dim, seed=seed), draw(rest, features, dim, seed=seed + 1)
    loss = divergence(selected, others)
    assert loss.item() == pytest.approx(slow_divergence(selected, others), abs=1e-6)
    order = torch.randperm(own, generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(divergence(selected[order], others.flip(0)), loss, atol=1e-6)


@relaxed
@given(st.integers(1, 4), st.integers(0, 3), seeds)
def test_divergence_of_orthogonal_extractors_is_zero(own: int, rest: int, seed: int) -> None:
    """Columns of one extractor may overlap as they like."""
    basis = torch.linalg.qr(draw(24, 24, seed=seed))[0].reshape(24, 8, 3).transpose(0, 1)
    extractors = basis @ draw(8, 3, 3, seed=seed + 1)
    loss = divergence(extractors[:own], extractors[own : own + rest])
    assert abs(loss.item()) < 1e-6


@relaxed
@given(st.integers(1, 4), st.integers(0, 3), seeds)
def test_divergence_of_random_extractors_can_be_reduced(own: int, rest: int, seed: int) -> None:
    if own + rest == 1:
        rest = 1
    selected = draw(own, 8, 3, seed=seed).requires_grad_()
    others = draw(rest, 8, 3, seed=seed + 1)
    loss = divergence(selected, others)
    loss.backward()
    assert loss.item() > 0
    assert bool((selected.grad.norm(dim=1) > 0).all()), "of every column"
    smaller = divergence(selected.detach() - 1e-2 * selected.grad / selected.grad.norm(), others)
    assert smaller < loss


@relaxed
@given(st.integers(1, 4), st.integers(0, 3), seeds)
def test_divergence_is_at_most_one_and_blind_to_the_length_of_columns(own: int, rest: int, seed: int) -> None:
    extractors = draw(own + rest, 4, 3, seed=seed)
    scale = draw(own + rest, 1, 3, seed=seed + 1).mul(3).exp() * torch.tensor([1.0, -1.0, 1.0])
    loss, scaled = (divergence(one[:own], one[own:]) for one in (extractors, extractors * scale))
    assert -1e-6 < loss.item() <= 1
    assert torch.allclose(loss, scaled, atol=1e-5)


def test_divergence_of_parallel_columns_is_one_and_of_nothing_zero() -> None:
    parallel = draw(6, 1, seed=0).expand(4, 6, 3)
    for own in (1, 2, 4):
        assert divergence(parallel[:own], parallel[own:]).item() == pytest.approx(1, abs=1e-5)
    assert divergence(parallel[:1], parallel[:0]).item() == 0
    assert divergence(parallel[:0], parallel).item() == 0


def test_unit_columns_are_side_by_side() -> None:
    extractors = torch.tensor([[[3.0, 0.0], [4.0, -2.0]], [[0.0, 1.0], [5.0, 0.0]]])
    expected = torch.tensor([[0.6, 0.0, 0.0, 1.0], [0.8, -1.0, 1.0, 0.0]])
    assert torch.allclose(unit_columns(extractors), expected)


def test_distance_is_the_negative_sum_of_cosines_per_node() -> None:
    cosine = torch.tensor([1.0, 0.5, 0.25], requires_grad=True)
    loss = distance_loss(cosine, num_nodes=2)
    assert loss.item() == -0.875
    loss.backward()
    assert cosine.grad.tolist() == [-0.5, -0.5, -0.5]
    assert distance_loss(cosine[:0], num_nodes=2).item() == 0
