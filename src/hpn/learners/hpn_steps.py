"""One step: a batch in pieces, from its nodes to the gradients of what moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpn.learners.hpn_params import Settings
from hpn.learners.hpn_pieces import Embedded, cover_together, cut
from hpn.nn.device import CPU
from hpn.nn.extractors import Slots
from hpn.nn.losses import classification_loss, distance_loss
from hpn.nn.narrow import MOST_DIMENSIONS, narrow_loss
from hpn.nn.network import Pass, PrototypeNetwork
from hpn.nn.processes import Processes

Tried = tuple[Pass | None, Tensor]
"""A pass, once there are prototypes, and its loss."""

Leaves = dict[str, Tensor]
"""What moves, or would, by name: a task's extractors, and the layers all tasks share."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """A task made ready for all its epochs.

    Shapes:
        - ``target``, ``val_target``: ``[num_train]`` and ``[num_val]``, positions in ``columns``
        - ``columns``: columns of the head that compete
    """

    slots: Slots
    target: Tensor
    val: Slots
    val_target: Tensor
    columns: Tensor

    def pick(self, logits: Tensor) -> Tensor:
        """The logits that compete."""
        is_all = torch.equal(self.columns, torch.arange(logits.shape[1], device=CPU))
        return logits if is_all else logits[:, self.columns.to(logits.device)]


class Steps:
    """Computes the steps of one task.

    Args:
        s: Settings.
        network: The network, whose prototypes grow.
        lesson: The task's nodes.
        task: Its number.
        processes: Those that share the pieces of a batch.
    """

    def __init__(
        self, s: Settings, network: PrototypeNetwork, lesson: Lesson, task: int, processes: Processes
    ) -> None:
        self.s = s
        self.network = network
        self.lesson = lesson
        self.task = task
        self.processes = processes
        is_all = torch.equal(lesson.columns, torch.arange(network.head.out_features, device=CPU))
        self._columns = None if is_all else lesson.columns.to(network.head.weight.device)

    def run(self, rows: Tensor, leaves: Leaves, epoch: int) -> tuple[float, list[Tensor], list[Pass]]:
        """The loss of a batch, its gradients, and the passes of this process's pieces."""
        network = self.network
        batch = _Batch(rows, cut(rows, self.s.piece_size), self.processes)
        embedded = [self._embed(piece, leaves, epoch) for piece in batch.mine]
        if epoch < self.s.warmup_epochs:
            _, loss, gradients = self._add_up(batch, self._warm_up(batch, embedded), leaves, is_warm_up=True)
            return loss, gradients, []
        # First without founding anything, which is nearly always enough.
        if not network.is_empty:
            tried = self._pass(batch, embedded)
            is_covered = all(network.covers(passed) for passed, _ in tried)
            is_strange, loss, gradients = self._add_up(batch, tried, leaves, is_covered=is_covered)
            if not is_strange:
                return loss, gradients, [passed for passed, _ in tried]
            if is_covered:  # here, but not elsewhere; and differentiating has used up the embeddings
                embedded = [self._embed(piece, leaves, epoch) for piece in batch.mine]
        with torch.no_grad():
            cover_together(network, embedded, self.task, self.processes)
        tried = self._pass(batch, embedded)
        _, loss, gradients = self._add_up(batch, tried, leaves)
        return loss, gradients, [passed for passed, _ in tried]

    def _embed(self, piece: Tensor, leaves: Leaves, epoch: int) -> Embedded:
        return self.lesson.slots.embed_distinct(piece, epoch, leaves["node"], leaves["structure"])

    def _warm_up(self, batch: _Batch, embedded: list[Embedded]) -> list[Tried]:
        """The losses of this process's pieces before there are prototypes."""
        tried: list[Tried] = []
        for piece, (raw, layout) in zip(batch.mine, embedded, strict=True):
            logits = self.lesson.pick(self.network.warm_up(raw, layout))
            tried.append((None, batch.weigh(self.loss(logits, self._target(piece), None), piece)))
        return tried

    def _pass(self, batch: _Batch, embedded: list[Embedded]) -> list[tuple[Pass, Tensor]]:
        """The passes of this process's pieces, and their shares of the loss."""
        tried = []
        for piece, (raw, layout) in zip(batch.mine, embedded, strict=True):
            target = self._target(piece).to(raw.device)
            if layout is None and self.s.dim <= MOST_DIMENSIONS:
                switches: Any = {"use_cls": self.s.use_cls, "beta": self.s.beta, "out_of": len(batch.rows)}
                tried.append(narrow_loss(self.network, raw, target, self._columns, **switches))
            else:
                passed = self.network(raw, layout=layout)
                loss = self.loss(self.lesson.pick(passed.logits), target, passed, layout)
                tried.append((passed, batch.weigh(loss, piece)))
        return tried

    def _target(self, piece: Tensor) -> Tensor:
        return self.lesson.target.index_select(0, piece)

    def _add_up(
        self,
        batch: _Batch,
        tried: Sequence[Tried],
        leaves: Leaves,
        *,
        is_covered: bool = True,
        is_warm_up: bool = False,
    ) -> tuple[bool, float, list[Tensor]]:
        """Whether a piece met strangers, and, if none did, the loss of a batch and its gradients.

        Gradients are of the leaves that move and, after the warm-up, of the prototypes of each level.
        """
        moving = [leaf for leaf in leaves.values() if leaf.requires_grad]
        told = []
        for passed, share in tried if is_covered else ():
            wanted = [*moving, *([] if passed is None else (level.prototypes for level in passed.levels))]
            told.append([share.new_zeros(()), share.detach(), *_gradients(share, wanted)])
        if not told:
            books = () if is_warm_up else self.network.books[: len(self.network.levels)]
            flag = torch.tensor(float(not is_covered), device=leaves["node"].device)
            shapes = [*moving, *(book.vectors for book in books)]
            told = [[flag, torch.zeros_like(flag), *(torch.zeros_like(shape) for shape in shapes)]]
        strange, total, *gradients = self.processes.add(told, batch.num_pieces)
        return bool(strange), float(total), gradients

    def loss(
        self, logits: Tensor, target: Tensor, passed: Pass | None, layout: Tensor | None = None
    ) -> Tensor:
        """L_cls and L_dis; L_div does not depend on the batch and joins in as a gradient."""
        target = target.to(logits.device)
        loss = classification_loss(logits, target) if self.s.use_cls else logits.sum() * 0.0
        if passed is not None and self.s.beta:
            atomic = passed.levels[0].cosine
            everywhere = atomic if layout is None else atomic.index_select(0, layout.flatten())
            cosine = torch.cat([everywhere, *(level.cosine for level in passed.levels[1:])])
            loss = loss + self.s.beta * distance_loss(cosine, len(target))
        return loss


@dataclass(frozen=True, eq=False)
class _Batch:
    """The nodes of a step, and how they are divided."""

    rows: Tensor
    pieces: list[Tensor]
    processes: Processes

    @property
    def num_pieces(self) -> int:
        return len(self.pieces)

    def weigh(self, loss: Tensor, piece: Tensor) -> Tensor:
        """A piece's share of the batch's mean."""
        return loss if len(piece) == len(self.rows) else loss * (len(piece) / len(self.rows))

    @property
    def mine(self) -> list[Tensor]:
        """The pieces that are this process's to compute."""
        return [self.pieces[number] for number in self.processes.share(len(self.pieces))]


def _gradients(loss: Tensor, wanted: list[Tensor]) -> list[Tensor]:
    """Gradients of a loss; zeros of what it does not depend on."""
    if not loss.requires_grad:
        return [torch.zeros_like(leaf) for leaf in wanted]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [torch.zeros_like(x) if slope is None else slope for x, slope in zip(wanted, found, strict=True)]
