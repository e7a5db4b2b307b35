"""Establishing prototypes: everything that training nodes show, a chunk of them at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpn.learners.hpn.pieces import cover_together, cut
from hpn.learners.hpn.presets import Settings
from hpn.learners.hpn.slots import batches
from hpn.nn.extractors import Slots
from hpn.nn.narrow import MOST_DIMENSIONS, covers_columns, embed_columns
from hpn.nn.network import PrototypeNetwork
from hpn.nn.processes import Processes

SMALLEST_CHUNK = 1024
MOST_AHEAD = 16
"""Chunks looked at before processes tell each other whether somebody met a stranger."""


@dataclass(frozen=True, eq=False)
class Look:
    """A piece as the extractors now see it.

    Shapes:
        - ``raw``: ``[n, num_slots, dim]``, of any length
        - ``lengths``: ``[num_slots]``, added up over nodes
    """

    raw: Tensor
    lengths: Tensor
    is_covered: bool


class Establishment:
    """Covers all training nodes of a task.

    Args:
        s: Settings.
        network: The network, whose prototypes grow.
        slots: The training nodes.
        extractors: The task's node and structure extractors.
        turn: Which round of drawn neighbours to look at.
        task: In whose name prototypes are founded.
        processes: Those that do this together.
    """

    def __init__(
        self,
        s: Settings,
        network: PrototypeNetwork,
        slots: Slots,
        extractors: tuple[Tensor, Tensor],
        turn: int,
        task: int,
        processes: Processes,
    ) -> None:
        self.s = s
        self.network = network
        self.slots = slots
        self.extractors = extractors
        self.turn = turn
        self.task = task
        self.processes = processes
        size = max(s.batch_size, SMALLEST_CHUNK)
        self.chunks = [cut(rows, s.piece_size) for rows in batches(len(slots), size)]
        most_pieces = max(map(len, self.chunks))
        self._lengths = torch.zeros(most_pieces, len(self.chunks), s.num_slots, device=extractors[0].device)

    @torch.no_grad()
    def run(self) -> Tensor:
        """Found what is needed, chunk by chunk.

        Returns:
            The usual length of an atomic embedding, one a slot.
        """
        # Chunks in which nothing is uncovered change nothing, so several can be looked at ahead.
        start, ahead = 0, 1
        while start < len(self.chunks):
            stop = min(start + ahead, len(self.chunks))
            first, looks = self._find_strangers(start, stop)
            if first == stop:
                start, ahead = stop, min(2 * ahead, MOST_AHEAD)
                continue
            if looks is None:
                looks = self._look_at(first)
            cover_together(self.network, [(look.raw, None) for look in looks], self.task, self.processes)
            start, ahead = first + 1, 1
        return self._mean_length()

    def _find_strangers(self, start: int, stop: int) -> tuple[int, list[Look] | None]:
        """The first chunk in which somebody meets a stranger; and its pieces, if they were looked at last."""
        mine, looks = stop, None
        for number in range(start, stop):
            looks = self._look_at(number)
            if not all(look.is_covered for look in looks):
                mine = number
                break
        first = self.processes.least(mine)
        return first, looks if mine == first else None

    def _look_at(self, number: int) -> list[Look]:
        """This process's pieces of a chunk; how long their embeddings are is noted."""
        looks = []
        for piece in self.processes.share(len(self.chunks[number])):
            look = self._look(self.chunks[number][piece])
            self._lengths[piece, number] = look.lengths
            looks.append(look)
        return looks

    def _look(self, rows: Tensor) -> Look:
        network = self.network
        parts = self.slots.gather(rows, self.turn) if self.s.dim <= MOST_DIMENSIONS else None
        if parts is None:
            raw = self.slots.embed(rows, self.turn, *self.extractors)
            lengths = torch.linalg.vector_norm(raw, dim=2).sum(dim=0)
            return Look(raw, lengths, not network.is_empty and network.covers(network(raw)))
        device = self.extractors[0].device
        columns = embed_columns([part.to(device) for part in parts], *self.extractors)
        lengths = columns.square().sum(dim=0).sqrt_().sum(dim=1)
        is_covered = not network.is_empty and covers_columns(network, columns)
        return Look(columns.permute(2, 1, 0), lengths, is_covered)

    def _mean_length(self) -> Tensor:
        """Added up over the pieces of each chunk and then over chunks, whoever looked at them."""
        most, num_chunks, width = self._lengths.shape
        mine = [self._lengths[piece] for piece in self.processes.share(most)]
        everyones = self.processes.line_up(mine, [num_chunks] * most, width).view(most, num_chunks, width)
        total = torch.zeros_like(everyones[0, 0])
        for chunk in everyones.unbind(1):
            of_chunk = chunk[0]
            for piece in chunk[1:]:
                of_chunk = of_chunk + piece
            total += of_chunk
        return total / len(self.slots)
