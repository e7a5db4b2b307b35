from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.snapping import snap, unit

dims = st.sampled_from([2, 3, 16])
seeds = st.integers(0, 2**32 - 1)
relaxed = settings(deadline=None, max_examples=60)


class Source:
    """Random vectors."""

    def __init__(self, dim: int, seed: int) -> None:
        self.dim = dim
        self.generator = torch.Generator().manual_seed(seed)

    def noise(self, count: int) -> Tensor:
        return torch.randn(count, self.dim, generator=self.generator)

    def spread(self, count: int) -> Tensor:
        return unit(self.noise(count))


def circle(*angles: float) -> Tensor:
    return torch.tensor([[math.cos(angle), math.sin(angle)] for angle in angles])


@given(st.lists(st.integers(-9, 15), min_size=1, max_size=6), dims, seeds)
@relaxed
def test_unit_rows_keep_their_direction(exponents: list[int], dim: int, seed: int) -> None:
    direction = Source(dim, seed).spread(len(exponents))
    scaled = unit(direction * 10.0 ** torch.tensor(exponents)[:, None])
    assert torch.allclose(scaled, direction, atol=1e-6)


def test_a_row_of_zeros_becomes_the_first_axis() -> None:
    mixed = unit(torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, -2.0], [1e-30, 0.0, 1e-30]]))
    assert mixed.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]]
    assert unit(torch.zeros(0, 3)).shape == (0, 3)


@pytest.fixture
def _warn_always() -> Iterator[None]:
    """PyTorch warns of some things once a process, which would make a test depend on those before it."""
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.usefixtures("_warn_always")
def test_a_row_of_zeros_has_no_gradient_and_does_not_spoil_that_of_others() -> None:
    vectors = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    unit(vectors)[:, 0].sum().backward()
    assert_close(vectors.grad, torch.tensor([[0.0, 0.0], [0.128, -0.096]]))


@pytest.mark.parametrize("length", [1e20, 1e38])
def test_a_row_longer_than_single_precision_can_square(length: float) -> None:
    assert torch.allclose(unit(circle(1.0) * length), circle(1.0), atol=1e-6)


def snap_by_autograd(raw: Tensor, vectors: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    embeddings = raw / raw.norm(dim=1, keepdim=True)
    return (embeddings - embeddings.detach()) + vectors[index], (embeddings * vectors[index]).sum(dim=1)


@relaxed
@given(dims, st.sampled_from([(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)]), seeds)
def test_snapping_gives_the_prototypes_and_straight_through_gradients(
    dim: int, parts: tuple[float, float], seed: int
) -> None:
    source, index = Source(dim, seed), torch.tensor([1, 0, 1, 3])
    raw, vectors = source.spread(4) * (1 + source.noise(4)[:, :1].abs()), source.spread(5)
    weights = parts[0] * source.noise(4), parts[1] * source.noise(4)[:, 0]
    results = []
    for way in (snap_by_autograd, lambda r, p, i: snap(r, unit(r.detach()), p, i)):
        leaves = raw.clone().requires_grad_(), vectors.clone().requires_grad_()
        values, cosine = way(*leaves, index)
        assert torch.equal(values, vectors[index]), "forward, exactly the prototypes"
        ((values * weights[0]).sum() + (cosine * weights[1]).sum()).backward()
        assert all(float(leaf.grad.norm()) > 0 for leaf in leaves)
        results.append((cosine.detach(), *(leaf.grad for leaf in leaves)))
    assert_close(results[0], results[1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("used", [0, 1])
def test_either_result_of_snapping_may_go_unused(used: int) -> None:
    raw, vectors = circle(1.0).requires_grad_(), circle(0.5, 2.0).requires_grad_()
    snap(raw, unit(raw.detach()), vectors, torch.tensor([0]))[used].sum().backward()
    assert float(raw.grad.norm()) > 0
    assert float(vectors.grad[0].norm()) > 0
    assert vectors.grad[1].tolist() == [0.0, 0.0]


def test_snapping_a_row_of_zeros_sends_no_gradient() -> None:
    """As :func:`unit` does not: the first axis stands in for it whatever happens nearby."""
    raw, vectors = torch.zeros(1, 2).requires_grad_(), circle(0.5)
    snap(raw, unit(raw.detach()), vectors, torch.tensor([0]))[0].sum().backward()
    assert raw.grad.tolist() == [[0.0, 0.0]]
