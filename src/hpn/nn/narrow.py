r"""A step where embeddings have few dimensions, as on large graphs: the loss and its gradients by hand.

The same function as extractors, :meth:`PrototypeNetwork.forward` and the losses of :mod:`hpn.nn.losses` one
after the other. Vectors of two or four numbers make rows too short for a CPU: everything here has one row a
dimension and one column an embedding. What is left is the time it takes to call so many small operations, so
there are few of them, and nothing is recorded to be differentiated later.

With :math:`h = p(e)` and :math:`e = r / \lVert r \rVert`, the gradient :math:`g` of what follows, and
:math:`q = -\beta / n` from the distance loss,

.. math::
    \frac{\partial L}{\partial r} = \frac{t - (t^\top e)\, e}{\lVert r \rVert}, \quad t = g + q\,p
    \qquad
    \frac{\partial L}{\partial p} = \sum_{e \to p} (g + q\,e)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hpn.nn.network import PrototypeNetwork
from hpn.nn.prototypes import PrototypeBook
from hpn.nn.snapping import LONGEST, SHORTEST, unit

MOST_DIMENSIONS = 8
"""Dimensions up to which this is used."""


@dataclass(frozen=True)
class Aim:
    r"""What a piece of a batch contributes to :math:`L_{cls} + \beta L_{dis}`.

    Args:
        target: The right one of ``columns`` for each node ``[n]``.
        columns: Columns of the head that compete; ``None`` for all of them in order.
        use_cls: Whether the classification loss counts.
        beta: Weight of the distance loss.
        out_of: Nodes of the batch, over which losses are averaged.
    """

    target: Tensor
    columns: Tensor | None
    use_cls: bool
    beta: float
    out_of: int


def embed_columns(parts: Sequence[Tensor], node: Tensor, structure: Tensor) -> Tensor:
    """Atomic embeddings ``[dim, num_slots, n]``; see :class:`NarrowPiece` for the arguments."""
    own, *others = parts
    num_selected, _, dim = node.shape
    blocks = [(_turn(node) @ own.t()).view(dim, num_selected, len(own))]
    turned = _turn(structure)
    for part in others:
        drawn = (turned @ part.t()).view(dim, num_selected, len(own), -1)
        blocks.append(drawn.permute(0, 3, 1, 2).reshape(dim, -1, len(own)))
    return torch.cat(blocks, dim=1)


def covers_columns(network: PrototypeNetwork, columns: Tensor) -> bool:
    """Whether prototypes, of which there are some on every level, cover embeddings and all that follows."""
    return _is_covered(network, _match_levels(network, columns)[0])


class NarrowPiece:
    """Some nodes of a batch, and their atomic embeddings.

    Args:
        network: The network.
        parts: Features of the nodes ``[n, num_features]``, then of what is around them
            ``[n * num_drawn, num_features]``.
        node: Node extractors ``[num_selected, num_features, dim]``.
        structure: Structure extractors, likewise.
        aim: What the nodes contribute to the loss.
    """

    @torch.no_grad()
    def __init__(
        self, network: PrototypeNetwork, parts: Sequence[Tensor], node: Tensor, structure: Tensor, aim: Aim
    ) -> None:
        self.network = network
        self.aim = aim
        self.parts = [part.to(node.device) for part in parts]
        self.num_selected = len(node)
        self.raw = embed_columns(self.parts, node, structure)

    @property
    def embedded(self) -> tuple[Tensor, None]:
        """Atomic embeddings as the network takes them ``[n, num_slots, dim]``, each in its slot."""
        return self.raw.permute(2, 1, 0), None

    def attempt(self) -> NarrowAttempt:
        """Pass them through the network, whose levels in use all have prototypes."""
        return NarrowAttempt(self)

    def pull_back(self, gradient: Tensor) -> list[Tensor]:
        """Gradients of node and structure extractors from that of the embeddings."""
        num_selected, (dim, _, num_nodes) = self.num_selected, gradient.shape
        found, start = [], 0
        for part in self.parts:
            num_drawn = len(part) // num_nodes
            stop = start + num_drawn * num_selected
            block = gradient[:, start:stop].reshape(dim, num_drawn, num_selected, num_nodes)
            turned = block.permute(0, 2, 3, 1).reshape(dim * num_selected, -1) @ part
            found.append(turned.view(dim, num_selected, -1).permute(1, 2, 0))
            start = stop
        own, around, *farther = found
        for more in farther:
            around = around + more
        return [own, around]


class NarrowAttempt:
    """A pass of a piece; its gradients are computed when they are asked for.

    Attributes:
        loss: The piece's share of the batch's.
        logits: Of the columns that compete ``[num_columns, n]``.
    """

    @torch.no_grad()
    def __init__(self, piece: NarrowPiece) -> None:
        self.piece = piece
        network, aim = piece.network, piece.aim
        weight: Tensor = network.head.weight
        bias: Tensor = network.head.bias
        if aim.columns is not None:
            weight, bias = weight.index_select(0, aim.columns), bias.index_select(0, aim.columns)
        self.weight = weight

        self.matches, self.values = _match_levels(network, piece.raw)
        self.representation = torch.cat(self.values)
        self.logits = torch.addmm(bias.unsqueeze(1), weight, self.representation)

        self.pull = -aim.beta / aim.out_of
        self.loss: Tensor = self.pull * torch.cat([match.cosine for match in self.matches]).sum()
        if not aim.use_cls:
            self.slope = torch.zeros_like(self.logits)
        else:
            numbers = torch.arange(len(self.logits), device=aim.target.device)
            right = torch.eq(numbers.unsqueeze(1), aim.target, out=torch.empty_like(self.logits))
            likelihood = self.logits.log_softmax(dim=0)
            self.loss = self.loss - torch.dot(likelihood.view(-1), right.view(-1)) / aim.out_of
            self.slope = likelihood.exp_().sub_(right).div_(aim.out_of)

    def is_covered(self) -> bool:
        """Whether every embedding is near enough to the prototype it was matched to."""
        return _is_covered(self.piece.network, self.matches)

    def placed(self, level: int) -> tuple[Tensor, Tensor]:
        """The embeddings of a level ``[num_embeddings, dim]``, and the prototype of each."""
        match = self.matches[level]
        return match.embeddings.t(), match.hits.max(dim=0).indices

    @torch.no_grad()
    def gradients(self, moving: Iterable[str]) -> list[Tensor]:
        """Gradients of what moves, in its order, and of each level's prototypes.

        Args:
            moving: ``node`` and ``structure``, which are the extractors, and names of shared parameters.
        """
        representation, slope = self.representation, self.slope
        found = {
            "head.weight": self._put(slope @ representation.t(), self.piece.network.head.weight),
            "head.bias": self._put(slope.sum(dim=1), self.piece.network.head.bias),
        }
        onward = list(torch.split(self.weight.t() @ slope, [len(values) for values in self.values]))
        prototypes = []
        between = _layers_between(self.piece.network)
        for level in range(len(between), 0, -1):
            layer, name = between[level - 1], ("to_node", "to_class")[level - 1]
            for_raw, for_book = _differentiate(self.matches[level], onward[level], self.pull)
            found[f"{name}.weight"] = for_raw @ self.values[level - 1].t()
            found[f"{name}.bias"] = for_raw.sum(dim=1)
            prototypes.append(for_book)
            onward[level - 1] = torch.addmm(onward[level - 1], layer.weight.t(), for_raw)
        dim, num_slots, num_nodes = self.piece.raw.shape
        through = onward[0].view(num_slots, dim, num_nodes).transpose(0, 1).reshape(dim, -1)
        for_raw, for_book = _differentiate(self.matches[0], through, self.pull)
        names = list(moving)
        if "node" in names:
            slopes = self.piece.pull_back(for_raw.view(dim, num_slots, num_nodes))
            found["node"], found["structure"] = slopes
        return [*(found[name] for name in names), for_book, *reversed(prototypes)]

    def _put(self, gradient: Tensor, like: Tensor) -> Tensor:
        """A gradient of some rows as one of all."""
        columns = self.piece.aim.columns
        return gradient if columns is None else torch.zeros_like(like).index_copy_(0, columns, gradient)


@dataclass(frozen=True, eq=False)
class _Match:
    """A level, one column an embedding.

    Shapes:
        - ``embeddings``, ``values``: ``[dim, n]``
        - ``length``, ``cosine``: ``[n]``
        - ``hits``: ``[num_prototypes, n]``, 1 where an embedding was matched to a prototype
    """

    embeddings: Tensor
    values: Tensor
    length: Tensor
    cosine: Tensor
    hits: Tensor


def _layers_between(network: PrototypeNetwork) -> list[nn.Linear]:
    return [network.to_node, network.to_class][: len(network.levels) - 1]


def _match_levels(network: PrototypeNetwork, raw: Tensor) -> tuple[list[_Match], list[Tensor]]:
    """The levels in use, and what each hands on: a row for each slot and dimension, a column a node."""
    (dim, num_slots, num_nodes), books = raw.shape, network.books_in_use
    atomic = _match(books[0], raw.view(dim, -1))
    handed_on = [atomic.values.view(dim, num_slots, num_nodes).transpose(0, 1).reshape(-1, num_nodes)]
    matches = [atomic]
    for layer, book in zip(_layers_between(network), books[1:], strict=True):
        matches.append(_match(book, torch.addmm(layer.bias.unsqueeze(1), layer.weight, handed_on[-1])))
        handed_on.append(matches[-1].values)
    return matches, handed_on


def _is_covered(network: PrototypeNetwork, matches: Sequence[_Match]) -> bool:
    pairs = zip(network.books_in_use, matches, strict=True)
    return all(float(match.cosine.amin()) >= book.nearly for book, match in pairs)


def _match(book: PrototypeBook, raw: Tensor) -> _Match:
    length = raw.square().sum(dim=0).sqrt_()
    shortest, longest = length.aminmax()
    if SHORTEST < float(shortest) <= float(longest) < LONGEST:
        embeddings = raw / length
    else:
        embeddings = unit(raw.t()).t().contiguous()
        length = torch.linalg.vector_norm(raw, dim=0)
        length.masked_fill_(length < SHORTEST, torch.inf)  # what has no direction cannot be turned
    vectors = book.vectors
    cosine = vectors @ embeddings
    best = cosine.amax(dim=0)
    # Looking for the largest and then for where it is takes a fraction of what doing both at once takes.
    hits = cosine.eq_(best)
    if float(hits.sum()) != len(best):  # two prototypes are equally near: the older one counts
        first = (vectors @ embeddings).max(dim=0).indices
        hits = torch.zeros_like(hits).scatter_(0, first.unsqueeze(0), 1.0)
    return _Match(embeddings, vectors.t() @ hits, length, best, hits)


def _differentiate(match: _Match, through: Tensor, pull: float) -> tuple[Tensor, Tensor]:
    """Gradients of what was matched ``[dim, n]``, and of the prototypes ``[num_prototypes, dim]``."""
    toward = torch.add(through, match.values, alpha=pull)
    along = (toward * match.embeddings).sum(dim=0)
    for_raw = toward.addcmul_(along, match.embeddings, value=-1).div_(match.length)
    return for_raw, match.hits @ torch.add(through, match.embeddings, alpha=pull).t()


def _turn(extractors: Tensor) -> Tensor:
    """``[num_selected, num_features, dim]`` as ``[dim * num_selected, num_features]``."""
    return extractors.permute(2, 0, 1).reshape(-1, extractors.shape[1]).contiguous()
