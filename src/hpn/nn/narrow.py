r"""The loss and its gradients where embeddings have few dimensions, as on large graphs.

The same function as :meth:`PrototypeNetwork.forward` with the losses of :mod:`hpn.nn.losses`, differentiated
by hand. Vectors of two or four numbers make rows too short for a CPU: everything here has one row a dimension
and one column an embedding, which is several times as fast.

With :math:`h = p(e)` and :math:`e = r / \lVert r \rVert`, the gradient :math:`g` of what follows, and
:math:`q = -\beta / n` from the distance loss,

.. math::
    \frac{\partial L}{\partial r} = \frac{t - (t^\top e)\, e}{\lVert r \rVert}, \quad t = g + q\,p
    \qquad
    \frac{\partial L}{\partial p} = \sum_{e \to p} (g + q\,e)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpn.nn.network import Level, Pass, PrototypeNetwork
from hpn.nn.prototypes import PrototypeBook
from hpn.nn.snapping import LONGEST, SHORTEST, unit

MOST_DIMENSIONS = 8
"""Dimensions up to which this is used."""


def narrow_loss(
    network: PrototypeNetwork,
    raw: Tensor,
    target: Tensor,
    columns: Tensor | None = None,
    *,
    use_cls: bool,
    beta: float,
    out_of: int | None = None,
) -> tuple[Pass, Tensor]:
    r"""A pass, and the loss :math:`L_{cls} + \beta L_{dis}`.

    Args:
        network: The network; every level in use has prototypes.
        raw: Atomic embeddings, of any length ``[n, num_slots, dim]``.
        target: The right one of ``columns`` for each node ``[n]``.
        columns: Columns of the head that compete; ``None`` for all of them in order.
        use_cls: Whether the classification loss counts.
        beta: Weight of the distance loss.
        out_of: Nodes of the batch that these are a piece of, over which losses are averaged.

    Returns:
        The pass, whose logits are of ``columns``, and the loss, which can be differentiated by ``raw``, the
        shared layers and the prototypes of the pass.
    """
    books = network.books[: len(network.levels)]
    leaves = [book.vectors.detach().requires_grad_() for book in books]
    layers = list(network.shared_parameters.values())
    with torch.no_grad():
        count = len(raw) if out_of is None else out_of
        made = _compute(network, raw.detach(), target, columns, use_cls=use_cls, beta=beta, out_of=count)
    levels = [
        Level(m.embeddings.t(), m.values.t(), m.index, m.cosine, leaf)
        for m, leaf in zip(made.matches, leaves, strict=True)
    ]
    loss: Tensor = _Known.apply(made.loss, made.gradients, raw, *layers, *leaves)  # type: ignore[no-untyped-call]
    return Pass(levels, made.representation.t(), made.logits.t()), loss


@dataclass(frozen=True, eq=False)
class _Match:
    """A level, one column an embedding.

    Shapes:
        - ``embeddings``, ``values``: ``[dim, n]``
        - ``length``, ``index``, ``cosine``: ``[n]``
    """

    embeddings: Tensor
    values: Tensor
    length: Tensor
    index: Tensor
    cosine: Tensor


@dataclass(frozen=True, eq=False)
class _Made:
    """What is computed at once; gradients are of the embeddings, the layers and the prototypes, in order."""

    matches: list[_Match]
    representation: Tensor
    logits: Tensor
    loss: Tensor
    gradients: list[Tensor]


class _Known(torch.autograd.Function):
    """A number whose gradients are known already."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: Sequence[Tensor], *_inputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        slope = float(slopes[0])
        scaled = ctx.gradients if slope == 1.0 else [slope * gradient for gradient in ctx.gradients]
        needed = ctx.needs_input_grad[2:]
        return None, None, *(g if is_needed else None for g, is_needed in zip(scaled, needed, strict=True))


def _compute(
    network: PrototypeNetwork,
    raw: Tensor,
    target: Tensor,
    columns: Tensor | None,
    *,
    use_cls: bool,
    beta: float,
    out_of: int,
) -> _Made:
    num_nodes, num_slots, dim = raw.shape
    books, depth = network.books, len(network.levels)
    between = [network.to_node, network.to_class][: depth - 1]
    weight: Tensor = network.head.weight
    bias: Tensor = network.head.bias
    if columns is not None:
        weight, bias = weight[columns], bias[columns]

    atomic = _match(books[0], raw.reshape(-1, dim).t().contiguous())
    # Slots side by side: a row for each slot and dimension.
    side_by_side = atomic.values.view(dim, num_nodes, num_slots).permute(2, 0, 1).reshape(-1, num_nodes)
    matches, parts = [atomic], [side_by_side]
    for layer, book in zip(between, books[1:], strict=False):
        matches.append(_match(book, torch.addmm(layer.bias.unsqueeze(1), layer.weight, parts[-1])))
        parts.append(matches[-1].values)
    representation = torch.cat(parts)
    logits = torch.addmm(bias.unsqueeze(1), weight, representation)

    pull = -beta / out_of
    loss = pull * torch.cat([match.cosine for match in matches]).sum()
    slope = torch.zeros_like(logits)
    if use_cls:
        likelihood, right = logits.log_softmax(dim=0), target.unsqueeze(0)
        loss = loss - likelihood.gather(0, right).sum() / out_of
        slope = likelihood.exp_().scatter_add_(0, right, logits.new_full(right.shape, -1.0)).div_(out_of)

    for_weight, for_bias = slope @ representation.t(), slope.sum(dim=1)
    onward = list(torch.split(weight.t() @ slope, [len(part) for part in parts]))
    layers: list[Tensor] = []
    prototypes: list[Tensor] = []
    for depth_now in range(depth - 1, 0, -1):
        layer = between[depth_now - 1]
        for_raw, for_book = _differentiate(matches[depth_now], onward[depth_now], pull, len(books[depth_now]))
        layers = [for_raw @ parts[depth_now - 1].t(), for_raw.sum(dim=1), *layers]
        prototypes = [for_book, *prototypes]
        onward[depth_now - 1] = onward[depth_now - 1] + layer.weight.t() @ for_raw
    through = onward[0].view(num_slots, dim, num_nodes).permute(1, 2, 0).reshape(dim, -1)
    for_raw, for_book = _differentiate(atomic, through, pull, len(books[0]))
    head = [_put(for_weight, network.head.weight, columns), _put(for_bias, network.head.bias, columns)]
    gradients = [for_raw.t().reshape(raw.shape), *layers, *head, for_book, *prototypes]
    return _Made(matches, representation, logits, loss, gradients)


def _match(book: PrototypeBook, raw: Tensor) -> _Match:
    length = raw.square().sum(dim=0).sqrt_()
    shortest, longest = length.aminmax()
    if SHORTEST < float(shortest) <= float(longest) < LONGEST:
        embeddings = raw / length
    else:
        embeddings = unit(raw.t()).t().contiguous()
        length = torch.linalg.vector_norm(raw, dim=0)
        length.masked_fill_(length < SHORTEST, torch.inf)  # what has no direction cannot be turned
    cosine, index = (book.vectors @ embeddings).max(dim=0)
    values = book.vectors.t().contiguous().index_select(1, index)
    return _Match(embeddings, values, length, index, cosine)


def _differentiate(match: _Match, through: Tensor, pull: float, count: int) -> tuple[Tensor, Tensor]:
    """Gradients of what was matched ``[dim, n]``, and of the prototypes ``[count, dim]``."""
    toward = torch.add(through, match.values, alpha=pull)
    along = (toward * match.embeddings).sum(dim=0)
    for_raw = toward.addcmul_(along, match.embeddings, value=-1).div_(match.length)
    total = through.new_zeros(len(through), count)
    total.index_add_(1, match.index, torch.add(through, match.embeddings, alpha=pull))
    return for_raw, total.t()


def _put(gradient: Tensor, like: Tensor, columns: Tensor | None) -> Tensor:
    """A gradient of some rows as one of all."""
    return gradient if columns is None else torch.zeros_like(like).index_copy_(0, columns, gradient)
