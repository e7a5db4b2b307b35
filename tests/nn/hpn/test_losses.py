from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.hpn.losses import directions, distance_loss, divergence_loss, total_loss


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


LOGITS, TARGET = noise(4, 3), torch.tensor([2, 0, 1, 1])
EMBEDDINGS = [torch.nn.functional.normalize(noise(m, 2, seed=m), dim=1) for m in (8, 4)]
MATCHED = [torch.nn.functional.normalize(noise(m, 2, seed=m + 1), dim=1) for m in (8, 4)]
EXTRACTORS = list(noise(5, 6, 2).unbind())


def naive_classification() -> float:
    """Eq. 12, averaged over nodes."""
    total = 0.0
    for row, label in zip(LOGITS.tolist(), TARGET.tolist(), strict=True):
        share = [math.exp(value) / sum(math.exp(other) for other in row) for value in row]
        total -= math.log(share[label])
    return total / len(TARGET)


def naive_divergence(extractors: list[Tensor], chosen: list[int]) -> float:
    """Eq. 4 with squared entries and columns of length 1, over pairs with an extractor in use."""
    entries = []
    for i, j in product(range(len(extractors)), repeat=2):
        if i < j and (i in chosen or j in chosen):
            for a, b in product(range(extractors[0].shape[1]), repeat=2):
                one, other = extractors[i][:, a], extractors[j][:, b]
                entries.append(float((one @ other) / (one.norm() * other.norm())) ** 2)
    return sum(entries) / len(entries)


def naive_distance() -> float:
    """Eq. 8 at every level, averaged over nodes."""
    total = 0.0
    for level, prototypes in zip(EMBEDDINGS, MATCHED, strict=True):
        for e, p in zip(level, prototypes, strict=True):
            total -= float((e @ p) / (e.norm() * p.norm()))
    return total / len(TARGET)


def split(chosen: list[int]) -> tuple[list[Tensor], Tensor]:
    used = [EXTRACTORS[at] for at in chosen]
    return used, directions([part for at, part in enumerate(EXTRACTORS) if at not in chosen], used[0])


@pytest.mark.parametrize("chosen", [[1], [0, 4], [0, 1, 2, 3, 4]])
def test_equation_4(chosen: list[int]) -> None:
    assert divergence_loss(*split(chosen)).item() == pytest.approx(naive_divergence(EXTRACTORS, chosen))


def test_the_divergence_is_zero_for_orthogonal_extractors_and_falls_along_its_gradient() -> None:
    axes = torch.eye(6)
    apart = [3 * axes[:, 2 * at : 2 * at + 2] for at in range(3)]
    assert divergence_loss(apart[:1], directions(apart[1:], apart[0])).item() == pytest.approx(0, abs=1e-12)
    assert divergence_loss(apart[:1], directions([], apart[0])).item() == 0
    used, others = split([1])
    leaf = used[0].clone().requires_grad_()
    before = divergence_loss([leaf], others)
    (slope,) = torch.autograd.grad(before, leaf)
    assert float(slope.abs().max()) > 0
    assert divergence_loss([leaf - 0.1 * slope], others) < before


def test_equation_8() -> None:
    assert distance_loss(EMBEDDINGS, MATCHED, len(TARGET)).item() == pytest.approx(naive_distance())


@pytest.mark.parametrize("use_cls", [True, False])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.0, 2.0), (3.0, 0.0), (0.0, 0.0)])
def test_equations_12_and_13(use_cls: bool, alpha: float, beta: float) -> None:
    kinds = [split([1]), split([0, 4])]
    found = total_loss(LOGITS, TARGET, EMBEDDINGS, MATCHED, kinds, use_cls=use_cls, alpha=alpha, beta=beta).item()
    divergence = naive_divergence(EXTRACTORS, [1]) + naive_divergence(EXTRACTORS, [0, 4])
    expected = use_cls * naive_classification() + alpha * divergence + beta * naive_distance()
    assert found == pytest.approx(expected)


def test_before_there_are_prototypes_there_is_no_distance() -> None:
    found = total_loss(LOGITS, TARGET, EMBEDDINGS, [], [split([1])], alpha=0.0)
    assert_close(found.item(), naive_classification())
