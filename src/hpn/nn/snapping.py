"""Vectors on the unit sphere, and gradients through their replacement by the nearest prototype."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

SHORTEST, LONGEST = 1e-12, 1e18
"""Lengths between which a vector is scaled directly; below, it has no direction."""


def unit(vectors: Tensor) -> Tensor:
    """Scale rows to length 1; a row of zeros, which has no direction, becomes the first axis.

    Example:
        >>> [[round(v, 4) for v in row] for row in unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()]
        [[0.6, 0.8], [1.0, 0.0]]
    """
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    if (
        length.numel()
        and not SHORTEST < float(length.detach().min()) <= float(length.detach().max()) < LONGEST
    ):
        largest = vectors.abs().amax(dim=-1, keepdim=True)
        vectors = vectors / largest.clamp_min(SHORTEST)  # squares must neither overflow nor vanish
        axis = vectors.new_zeros(vectors.shape[-1])
        axis[0] = 1.0
        length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        return torch.where(largest < SHORTEST, axis, vectors / length.clamp_min(SHORTEST))
    scaled: Tensor = vectors / length
    return scaled


class _Snap(torch.autograd.Function):
    """Forward and backward of :func:`snap`, in as few operations as they take."""

    @staticmethod
    def forward(
        ctx: Any, raw: Tensor, embeddings: Tensor, prototypes: Tensor, index: Tensor
    ) -> tuple[Tensor, Tensor]:
        values = prototypes.index_select(0, index)
        ctx.save_for_backward(raw, embeddings, values, index)
        ctx.num_prototypes = len(prototypes)
        return values, (embeddings * values).sum(dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor, None]:
        raw, embeddings, values, index = ctx.saved_tensors
        through, pull = gradients[0], gradients[1].unsqueeze(1)
        toward = torch.addcmul(through, pull, values)
        length = torch.linalg.vector_norm(raw, dim=1, keepdim=True)
        length.masked_fill_(length < SHORTEST, torch.inf)  # what has no direction cannot be turned
        along = (toward * embeddings).sum(dim=1, keepdim=True)
        for_raw = torch.addcmul(toward, along, embeddings, value=-1).div_(length)
        for_prototypes = raw.new_zeros(ctx.num_prototypes, raw.shape[1])
        for_prototypes.index_add_(0, index, torch.addcmul(through, pull, embeddings))
        return for_raw, None, for_prototypes, None


def snap(raw: Tensor, embeddings: Tensor, prototypes: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    r"""The matched prototypes and the cosines to them, with straight-through gradients.

    .. math:: h = p \qquad c = e^\top p \qquad e = r / \lVert r \rVert

    with :math:`\partial h/\partial p = \partial h/\partial e = I`, so embeddings learn what prototypes do.

    Args:
        raw: Embeddings :math:`r` of any length ``[n, dim]``.
        embeddings: What :func:`unit` made of them.
        prototypes: ``[num_prototypes, dim]``.
        index: The prototype of each embedding ``[n]``.

    Returns:
        ``[n, dim]`` and ``[n]``.
    """
    values, cosine = _Snap.apply(raw, embeddings, prototypes, index)  # type: ignore[no-untyped-call]
    return values, cosine
