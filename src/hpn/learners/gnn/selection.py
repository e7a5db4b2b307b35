r"""Which nodes of a task are worth keeping: the three strategies of ER-GNN (Zhou and Cao, AAAI 2021).

Each gives every training node a number; of each class, the nodes with the smallest numbers are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from hpn.nn.encoder import Features

MOST_COMPARED = 2_000
"""Nodes that a node is compared with at most, evenly spaced; tasks come in a drawn order."""
ROWS_AT_ONCE = 1_024


def nearest_to_mean(points: Features, target: Tensor) -> Tensor:
    """Mean of feature: the squared distance from the mean of the node's class.

    Args:
        points: Features or embeddings, dense or SciPy CSR ``[n, dim]``.
        target: Class of each ``[n]``.
    """
    distance = torch.zeros(len(target), dtype=torch.float64, device=target.device)
    for label in torch.unique(target):
        members = torch.nonzero(target == label).flatten()
        rows = points[members.numpy()]
        mean = np.asarray(rows.mean(axis=0)).reshape(1, -1)
        distance[members] = torch.from_numpy(_squared_distances(rows, mean)[:, 0])
    return distance


def cover(points: Features, target: Tensor, radius: float) -> Tensor:
    """Coverage maximisation: how many nodes of other classes are nearby.

    Args:
        points: Features or embeddings, dense or SciPy CSR ``[n, dim]``.
        target: Class of each ``[n]``.
        radius: What is nearby, as a share of the mean distance between two nodes.
    """
    count = len(target)
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOST_COMPARED)).astype(np.int64))
    others, labels = _dense(points[chosen]), target.numpy()[chosen]
    distances = [
        np.sqrt(_squared_distances(points[start : start + ROWS_AT_ONCE], others))
        for start in range(0, count, ROWS_AT_ONCE)
    ]
    distance = np.concatenate(distances)
    is_other = target.numpy()[:, None] != labels[None, :]
    nearby = (distance < radius * distance.mean()) & is_other
    return torch.from_numpy(nearby.sum(axis=1).astype(np.float64))


def influence(losses: Tensor, weights: Sequence[Tensor], *, damping: float = 0.01, steps: int = 20) -> Tensor:
    r"""Influence maximisation: minus how much weighing the node more lowers the loss of all nodes.

    .. math:: -\nabla L^\top (H + \delta I)^{-1} \nabla L_v

    where :math:`L` is the mean of the losses :math:`L_v` and H its second derivatives. The system is solved
    by conjugate gradients, and one more product gives the inner products with all nodes' gradients at once,
    so no gradient of a single node is ever computed.

    Args:
        losses: Loss of each node, with its graph ``[n]``.
        weights: What it is differentiated by.
        damping: :math:`\delta`.
        steps: Of conjugate gradients at most.
    """
    flat = flatten(torch.autograd.grad(losses.mean(), weights, create_graph=True, materialize_grads=True))

    def curvature(direction: Tensor) -> Tensor:
        along = torch.autograd.grad(flat @ direction, weights, retain_graph=True, materialize_grads=True)
        return flatten(along) + damping * direction

    solved = _conjugate_gradients(curvature, flat.detach(), steps)
    # The derivative of sum_v u_v L_v by the weights is linear in u, so its slope by u is what is wanted.
    share = torch.zeros_like(losses, requires_grad=True)
    mixed = flatten(torch.autograd.grad(losses @ share, weights, create_graph=True, materialize_grads=True))
    (inner,) = torch.autograd.grad(mixed @ solved, share)
    return -inner.detach()


def _conjugate_gradients(product: Callable[[Tensor], Tensor], right: Tensor, steps: int) -> Tensor:
    solved = torch.zeros_like(right)
    residual = right.clone()
    direction, size = residual.clone(), residual @ residual
    for _ in range(steps):
        if size <= 1e-12 * (right @ right):
            break
        image = product(direction)
        bend = direction @ image
        if bend <= 0:  # not convex along here: what was found so far is the best that is safe
            break
        solved = solved + size / bend * direction
        residual = residual - size / bend * image
        direction, size = residual + (residual @ residual) / size * direction, residual @ residual
    return solved


def _squared_distances(points: Features, others: np.ndarray) -> np.ndarray:
    points, others = points.astype(np.float64), others.astype(np.float64)
    squares = points.multiply(points) if hasattr(points, "multiply") else points**2
    own = np.asarray(squares.sum(axis=1)).reshape(-1, 1)
    return np.asarray(np.maximum(own - 2 * np.asarray(points @ others.T) + (others**2).sum(axis=1), 0))


def _dense(points: Features) -> np.ndarray:
    return np.asarray(points.toarray() if hasattr(points, "toarray") else points)


def flatten(parts: Sequence[Tensor]) -> Tensor:
    """One vector of all entries."""
    return torch.cat([part.flatten() for part in parts])
