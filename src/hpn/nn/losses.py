r"""The terms of the objective :math:`L_{cls} + \alpha L_{div} + \beta L_{dis}`, one equation each."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def classification_loss(logits: Tensor, target: Tensor) -> Tensor:
    r"""Cross entropy, averaged over nodes.

    .. math:: L_{cls} = -\frac{1}{n} \sum_v \log \mathrm{softmax}(z_v)_{y_v}

    Shapes:
        - ``logits``: ``[n, num_classes]``
        - ``target``: ``[n]``
    """
    return F.cross_entropy(logits, target)


def divergence_loss(selected: Tensor, others: Tensor) -> Tensor:
    r"""How much the selected extractors overlap with the others and with each other.

    .. math:: L_{div} = \operatorname{mean}_{i \ne j,\,a,\,b} \bigl(\hat{A}_i^\top \hat{A}_j\bigr)_{ab}^2

    where :math:`\hat{A}_i` is an extractor with columns scaled to length 1. The paper's sum of
    :math:`A_i^\top A_j` is a matrix and unbounded below; this is its bounded counterpart, zero if and only if
    the extractors span orthogonal subspaces. Pairs of extractors that are both not selected are left
    out: they are constant while a task is learned.

    Args:
        selected: ``[num_selected, num_features, dim]``.
        others: What :func:`unit_columns` made of the other extractors ``[num_features, num_others * dim]``.
    """
    num, dim = selected.shape[0], selected.shape[2]
    own = unit_columns(selected)
    total = (others.t() @ own).square().sum()
    entries = num * dim * others.shape[1]
    if num > 1:
        gram = (own.t() @ own).view(num, dim, num, dim)
        same = gram.diagonal(dim1=0, dim2=2).square().sum()
        total = total + gram.square().sum() - same
        entries += num * (num - 1) * dim**2
    return total / max(1, entries)


def unit_columns(extractors: Tensor) -> Tensor:
    """Extractors ``[num, num_features, dim]`` side by side, every column scaled to length 1."""
    return F.normalize(extractors, dim=1).transpose(0, 1).flatten(1)


def distance_loss(cosine: Tensor, num_nodes: int) -> Tensor:
    r"""How far embeddings are from the prototypes they matched, averaged over nodes.

    .. math:: L_{dis} = -\frac{1}{n} \sum_v \sum_{e \in E_{old}(v)} \cos(e, p(e))

    Args:
        cosine: Cosines of all matched embeddings of a level.
        num_nodes: Nodes they belong to.
    """
    return -cosine.sum() / num_nodes
