r"""The loss of the paper (Eq. 12 and 13), over a batch of n nodes.

.. math::
    L = L_{cls} + \alpha L_{div} + \beta L_{dis}

where :math:`L_{cls}` is the cross entropy, :math:`L_{div}` (Eq. 4) keeps extractors apart and :math:`L_{dis}` (Eq. 8)
pulls embeddings and their matched prototypes together.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def total_loss(
    logits: Tensor,
    target: Tensor,
    embeddings: Sequence[Tensor],
    matched: Sequence[Tensor],
    extractors: Sequence[tuple[Sequence[Tensor], Tensor]],
    *,
    use_cls: bool = True,
    alpha: float = 1.0,
    beta: float = 1.0,
) -> Tensor:
    r"""The whole loss of Eq. 13, :math:`L_{cls} + \alpha L_{div} + \beta L_{dis}`.

    Args:
        logits: Logits of the competing classes ``[n, C]``.
        target: Columns of the true classes ``[n]``.
        embeddings: Per level, unit vectors ``[m, dim]``.
        matched: Per level, their matched prototypes; empty before there are any.
        extractors: Per kind (node, structure), the extractors in use and the directions of all others.
        use_cls: Whether the classification loss is included.
        alpha: Weight of the divergence loss; 0 omits it.
        beta: Weight of the distance loss; 0 omits it.
    """
    loss = F.cross_entropy(logits, target) if use_cls else logits.sum() * 0.0
    if alpha:
        loss = loss + alpha * sum(divergence_loss(chosen, others) for chosen, others in extractors)
    if beta and matched:
        loss = loss + beta * distance_loss(embeddings, matched, len(target))
    return loss


def divergence_loss(chosen: Sequence[Tensor], others: Tensor) -> Tensor:
    r"""Overlap of extractors with each other.

    .. math:: L_{div} = \frac{1}{m} \sum_{i \ne j} \lVert \bar{A}_i^\top \bar{A}_j \rVert_F^2

    over the pairs with at least one extractor in use, where columns of :math:`\bar{A}_i` have length 1 and :math:`m` is
    the number of squared entries. The paper's :math:`\sum A_i^\top A_j` is a matrix, and unbounded.

    Args:
        chosen: Extractors in use, which get a gradient ``[num_features, dim]`` each.
        others: :func:`directions` of all others ``[num_features, num_others * dim]``.
    """
    units = [F.normalize(matrix, dim=0) for matrix in chosen]
    total, entries = chosen[0].new_zeros(()), 0
    for number, matrix in enumerate(units):
        for product in (matrix.t() @ rest for rest in (others, *units[number + 1 :])):
            total, entries = total + product.square().sum(), entries + product.numel()
    return total / max(entries, 1)


def directions(extractors: Sequence[Tensor], like: Tensor) -> Tensor:
    """Columns of extractors, scaled to length 1, side by side; ``like`` gives the shape if there are none."""
    columns = [matrix.detach() for matrix in (like[:, :0], *extractors)]
    return F.normalize(torch.cat(columns, dim=1), dim=0)


def distance_loss(embeddings: Sequence[Tensor], matched: Sequence[Tensor], num_nodes: int) -> Tensor:
    r"""Negative cosine of unit embeddings and their prototypes, over all levels, averaged over nodes.

    .. math:: L_{dis} = -\frac{1}{n} \sum_v \sum_{e} \cos(e, p(e))
    """
    cosines = [torch.dot(e.flatten(), p.flatten()) for e, p in zip(embeddings, matched, strict=True)]
    return sum(cosines[1:], cosines[0]) / -num_nodes
