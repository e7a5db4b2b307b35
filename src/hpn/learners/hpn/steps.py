"""One step: a batch in pieces, from its nodes to the gradients of what moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from hpn.learners.hpn.attempts import Attempt, Leaves, Piece, TracedPiece, differentiate
from hpn.learners.hpn.pieces import cover_together, cut
from hpn.learners.hpn.presets import Settings
from hpn.nn.device import CPU
from hpn.nn.extractors import Slots
from hpn.nn.losses import classification_loss
from hpn.nn.narrow import MOST_DIMENSIONS, Aim, NarrowPiece
from hpn.nn.network import PrototypeNetwork
from hpn.nn.processes import Processes

Gathered = list[Tensor] | None
"""Features of a piece, unless they are multiplied first."""


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
        self._gathered: tuple[Tensor, list[Gathered]] | None = None

    def look_ahead(self, order: Tensor, epoch: int) -> None:
        """Get ready for the nodes of an epoch that are this process's to compute, in batches of ``order``."""
        if self.processes.size > 1:
            batches = [self._divide(rows) for rows in torch.split(order, self.s.batch_size)]
            order = torch.cat([order[:0], *(piece for batch in batches for piece in batch.mine)])
        self.lesson.slots.look_ahead(order, epoch)

    def run(
        self, rows: Tensor, leaves: Leaves, epoch: int, upcoming: Tensor | None = None
    ) -> tuple[float, list[Tensor], list[Attempt]]:
        """The loss of a batch, its gradients, and how this process's pieces got through the network.

        Gradients are of the leaves that move and, after the warm-up, of the prototypes of each level.

        Args:
            rows: The batch.
            leaves: What moves, or would.
            epoch: Number of the epoch.
            upcoming: The next batch, for which features may be gathered while other processes are waited for.
        """
        batch, network = self._divide(rows), self.network
        if epoch < self.s.warmup_epochs:
            return *self._warm_up(batch, leaves, epoch), []
        pieces = self._take_up(batch, leaves, epoch)
        # First without founding anything, which is nearly always enough.
        if not network.is_empty:
            tried = [piece.attempt() for piece in pieces]
            is_covered = all(attempt.is_covered() for attempt in tried)
            prepare = None if upcoming is None else partial(self._prepare, upcoming, epoch)
            is_strange, loss, gradients = self._add_up(batch, tried, leaves, is_covered, prepare)
            if not is_strange:
                return loss, gradients, tried
            if is_covered:  # here, but not elsewhere; and differentiating may have used up the embeddings
                pieces = self._take_up(batch, leaves, epoch)
        with torch.no_grad():
            cover_together(network, [piece.embedded for piece in pieces], self.task, self.processes)
        tried = [piece.attempt() for piece in pieces]
        _, loss, gradients = self._add_up(batch, tried, leaves)
        return loss, gradients, tried

    def _divide(self, rows: Tensor) -> _Batch:
        return _Batch(rows, cut(rows, self.s.piece_size), self.processes)

    def _prepare(self, rows: Tensor, epoch: int) -> None:
        self._gathered = rows, self._gather(self._divide(rows), epoch)

    def _gather(self, batch: _Batch, epoch: int) -> list[Gathered]:
        if self.s.dim > MOST_DIMENSIONS:
            return [None] * len(batch.mine)
        return [self.lesson.slots.gather(piece, epoch) for piece in batch.mine]

    def _take_up(self, batch: _Batch, leaves: Leaves, epoch: int) -> list[Piece]:
        """This process's pieces, embedded."""
        is_ready = self._gathered is not None and self._gathered[0] is batch.rows
        gathered = self._gathered[1] if self._gathered and is_ready else self._gather(batch, epoch)
        self._gathered = None
        pairs = zip(batch.mine, gathered, strict=True)
        return [self._embed(batch, piece, parts, leaves, epoch) for piece, parts in pairs]

    def _embed(self, batch: _Batch, piece: Tensor, parts: Gathered, leaves: Leaves, epoch: int) -> Piece:
        s, network, node, structure = self.s, self.network, leaves["node"], leaves["structure"]
        aim = Aim(self._target(piece), self._columns, s.use_cls, s.beta, len(batch.rows))
        if parts is not None:
            return NarrowPiece(network, parts, node, structure, aim)
        return TracedPiece(network, self.lesson.slots.embed_distinct(piece, epoch, node, structure), aim)

    def _warm_up(self, batch: _Batch, leaves: Leaves, epoch: int) -> tuple[float, list[Tensor]]:
        """A step before there are prototypes."""
        moving, told = [leaf for leaf in leaves.values() if leaf.requires_grad], []
        for piece in batch.mine:
            raw, layout = self.lesson.slots.embed_distinct(piece, epoch, leaves["node"], leaves["structure"])
            logits = self.lesson.pick(self.network.warm_up(raw, layout))
            loss = classification_loss(logits, self._target(piece)) if self.s.use_cls else logits.sum() * 0.0
            loss = batch.weigh(loss, piece)
            told.append([loss.detach(), *differentiate(loss, moving)])
        blank = [torch.zeros_like(shape) for shape in (leaves["node"].new_zeros(()), *moving)]
        total, *gradients = self.processes.add(told or [blank], batch.num_pieces)
        return float(total), gradients

    def _target(self, piece: Tensor) -> Tensor:
        return self.lesson.target.index_select(0, piece).to(self.network.head.weight.device)

    def _add_up(
        self,
        batch: _Batch,
        tried: Sequence[Attempt],
        leaves: Leaves,
        is_covered: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[bool, float, list[Tensor]]:
        """Whether a piece met strangers, and, if none did, the loss of a batch and its gradients."""
        moving = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
        told = [
            [attempt.loss.new_zeros(()), attempt.loss.detach(), *attempt.gradients(moving)]
            for attempt in (tried if is_covered else ())
        ]
        if not told:
            flag = torch.tensor(float(not is_covered), device=leaves["node"].device)
            shapes = [*moving.values(), *(book.vectors for book in self.network.books_in_use)]
            told = [[flag, torch.zeros_like(flag), *(torch.zeros_like(shape) for shape in shapes)]]
        strange, total, *gradients = self.processes.add(told, batch.num_pieces, meanwhile)
        return bool(strange), float(total), gradients


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
