"""One piece of a batch: its embeddings, its way through the network, and the gradients of its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from hpn.learners.hpn.pieces import Embedded
from hpn.nn.losses import classification_loss, distance_loss
from hpn.nn.narrow import Aim
from hpn.nn.network import Pass, PrototypeNetwork

Leaves = Mapping[str, Tensor]
"""What moves, or would, by name: a task's extractors, and the layers all tasks share."""


class Piece(Protocol):
    """Some nodes of a batch, embedded."""

    @property
    def embedded(self) -> Embedded:
        """Their atomic embeddings."""

    def attempt(self) -> Attempt:
        """Pass them through the network, whose levels in use all have prototypes."""


class Attempt(Protocol):
    """A pass of a piece through the network."""

    @property
    def loss(self) -> Tensor:
        """The piece's share of the batch's loss."""

    def is_covered(self) -> bool:
        """Whether every embedding is near enough to the prototype it was matched to."""

    def gradients(self, moving: Leaves) -> list[Tensor]:
        """Gradients of the leaves that move, and of each level's prototypes; once."""

    def placed(self, level: int) -> tuple[Tensor, Tensor]:
        """The embeddings of a level ``[num_embeddings, dim]``, and the prototype of each."""


class TracedPiece:
    """A piece whose gradients PyTorch finds.

    Args:
        network: The network.
        embedded: Embeddings, and which of them is in which slot if each is there only once.
        aim: What the nodes contribute to the loss.
    """

    def __init__(self, network: PrototypeNetwork, embedded: Embedded, aim: Aim) -> None:
        self.network = network
        self.embedded = embedded
        self.aim = aim

    def attempt(self) -> TracedAttempt:
        """See :class:`Piece`."""
        raw, layout = self.embedded
        passed = self.network(raw, layout=layout)
        return TracedAttempt(self.network, passed, self._loss(passed, layout))

    def _loss(self, passed: Pass, layout: Tensor | None) -> Tensor:
        """L_cls and L_dis; L_div does not depend on the batch and joins in as a gradient."""
        aim, logits = self.aim, passed.logits
        logits = logits if aim.columns is None else logits[:, aim.columns]
        loss = classification_loss(logits, aim.target) if aim.use_cls else logits.sum() * 0.0
        if aim.beta:
            atomic = passed.levels[0].cosine
            everywhere = atomic if layout is None else atomic.index_select(0, layout.flatten())
            cosine = torch.cat([everywhere, *(level.cosine for level in passed.levels[1:])])
            loss = loss + aim.beta * distance_loss(cosine, len(aim.target))
        return loss if len(aim.target) == aim.out_of else loss * (len(aim.target) / aim.out_of)


class TracedAttempt:
    """A pass that PyTorch has recorded."""

    def __init__(self, network: PrototypeNetwork, passed: Pass, loss: Tensor) -> None:
        self.network = network
        self.passed = passed
        self.loss = loss

    def is_covered(self) -> bool:
        """See :class:`Attempt`."""
        return self.network.covers(self.passed)

    def gradients(self, moving: Leaves) -> list[Tensor]:
        """See :class:`Attempt`."""
        return differentiate(self.loss, [*moving.values(), *(p.prototypes for p in self.passed.levels)])

    def placed(self, level: int) -> tuple[Tensor, Tensor]:
        """See :class:`Attempt`."""
        found = self.passed.levels[level]
        return found.embeddings, found.index


def differentiate(loss: Tensor, wanted: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of a loss; zeros of what it does not depend on."""
    if not loss.requires_grad:
        return [torch.zeros_like(leaf) for leaf in wanted]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [torch.zeros_like(x) if slope is None else slope for x, slope in zip(wanted, found, strict=True)]
