from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from hpn.learners.gnn.selection import MOST_COMPARED, ROWS_AT_ONCE, cover, influence, nearest_to_mean


def clouds(count: int, seed: int = 0) -> tuple[np.ndarray, Tensor]:
    """Three classes that overlap."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 3, count)
    points = rng.normal(size=(count, 4)) + 1.5 * np.eye(3, 4)[target]
    return points * (np.abs(points) > 0.3), torch.from_numpy(target)


def count_nearby(points: np.ndarray, target: Tensor, radius: float) -> np.ndarray:
    distances, labels = cdist(points, points), target.numpy()
    return ((distances < radius * distances.mean()) & (labels[:, None] != labels)).sum(axis=1)


@pytest.mark.parametrize("sparse", [False, True])
def test_squared_distance_from_the_mean_of_the_own_class(sparse: bool) -> None:
    points, target = clouds(40)
    found = nearest_to_mean(sp.csr_matrix(points) if sparse else points, target).numpy()
    for at, label in enumerate(target.tolist()):
        mean = points[target.numpy() == label].mean(axis=0)
        assert found[at] == pytest.approx(((points[at] - mean) ** 2).sum())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("radius", [0.2, 0.5, 1.0])
def test_nodes_of_other_classes_nearby_are_counted(radius: float, sparse: bool) -> None:
    points, target = clouds(60)
    expected = count_nearby(points, target, radius)
    assert expected.max() > 0
    found = cover(sp.csr_matrix(points) if sparse else points, target, radius)
    assert found.tolist() == expected.tolist()


def test_what_is_nearby_does_not_depend_on_how_rows_are_taken_in_turns() -> None:
    """One row more than is compared at once, and that one is an outlier: it counts like any other."""
    points, target = clouds(ROWS_AT_ONCE + 1)
    points[-1] = 500
    assert cover(points, target, 0.5).tolist() == count_nearby(points, target, 0.5).tolist()


def test_of_very_many_nodes_some_are_compared_with() -> None:
    count = MOST_COMPARED + 500
    points, target = clouds(count)
    exact = count_nearby(points, target, 0.7)
    found = cover(points, target, 0.7).numpy() * count / MOST_COMPARED
    assert np.abs(found - exact).mean() < 0.05 * exact.mean()
    assert np.corrcoef(found, exact)[0, 1] > 0.99


def softmax_losses(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return -(x @ weights.view(3, -1).T).log_softmax(dim=1)[torch.arange(len(y)), y]


@pytest.mark.parametrize("damping", [0.01, 1.0])
def test_influence_is_that_of_the_explicit_inverse(damping: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(30, 4, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (30,), generator=generator)
    weights = torch.randn(12, generator=generator, dtype=torch.float64, requires_grad=True)
    hessian = torch.autograd.functional.hessian(lambda w: softmax_losses(w, x, y).mean(), weights.detach())
    each = torch.autograd.functional.jacobian(lambda w: softmax_losses(w, x, y), weights.detach())
    inverse = torch.linalg.inv(hessian + damping * torch.eye(12, dtype=torch.float64))
    expected = -each @ inverse @ each.mean(dim=0)
    found = influence(softmax_losses(weights, x, y), [weights], damping=damping, steps=50)
    assert float(expected.abs().max()) > 0.1
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert weights.grad is None


def test_influence_where_the_loss_is_not_convex_is_a_number() -> None:
    weights = torch.tensor([0.1, -0.2], requires_grad=True)
    found = influence(torch.stack([weights.prod(), weights.prod() ** 2, weights[0]]), [weights])
    assert bool(torch.isfinite(found).all())


def test_a_weight_that_nothing_depends_on_is_no_obstacle() -> None:
    weights = [torch.rand(4, requires_grad=True), torch.rand(2, requires_grad=True)]
    losses = (weights[0] - torch.eye(4)).square().sum(dim=1)
    both, one = influence(losses, weights), influence(losses, weights[:1])
    assert torch.allclose(both, one)
