"""A batch in pieces: what several processes have to agree on while prototypes are matched and founded.

Passes are tried without founding anything, which is enough once the prototypes cover a task. If a piece shows
an embedding that none covers, in whichever process, all pieces go through the levels together: the strangers
of all of them are put together, rank 0 chooses the founders, and every process founds the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hpn.nn import prototypes
from hpn.nn.network import Pass, PrototypeNetwork, Stages, finish_pass
from hpn.nn.processes import Processes
from hpn.nn.prototypes import PrototypeBook

Embedded = tuple[Tensor, Tensor | None]
"""Atomic embeddings of a piece, and which of them is in which slot if each is there only once."""


def cut(rows: Tensor, size: int, *, is_even: bool = False) -> list[Tensor]:
    """Cut a batch into as few pieces of about the same size as are not larger than ``size``.

    Args:
        rows: The batch.
        size: The most rows of a piece.
        is_even: Make an even number of pieces if there is more than one, so that two processes share them
            equally.

    Example:
        >>> [len(piece) for piece in cut(torch.arange(10), 4)]
        [4, 3, 3]
    """
    count = max(1, -(-len(rows) // size))
    return list(torch.tensor_split(rows, count + count % 2 if is_even and count > 1 else count))


def cover_together(
    network: PrototypeNetwork, pieces: Sequence[Embedded], task: int, processes: Processes
) -> list[Pass]:
    """Pass pieces through the network, level by level, founding what any of them needs.

    Args:
        network: The network.
        pieces: This process's pieces; there may be none.
        task: In whose name prototypes are founded.
        processes: The processes that do this at the same time.
    """
    stages: list[Stages] = [network.stages(raw, layout=layout) for raw, layout in pieces]
    for book in network.books_in_use:
        found_together(book, [next(stage) for stage in stages], task, processes)
    return [finish_pass(stage) for stage in stages]


@torch.no_grad()
def found_together(
    book: PrototypeBook, embeddings: Sequence[Tensor], task: int, processes: Processes
) -> None:
    """Found prototypes for what none covers, in any process."""
    strangers = [book.strangers(part) for part in embeddings]
    everyones = processes.collect(torch.cat(strangers) if strangers else book.vectors[:0])
    if len(everyones):
        book.found(processes.lead(lambda: book.choose_founders(everyones)), task)
    if prototypes.DEBUG:
        check_together(book, embeddings, processes)


def check_together(book: PrototypeBook, embeddings: Sequence[Tensor], processes: Processes) -> None:
    """Assert that a book keeps its invariants, and is the same in all processes."""
    for part in embeddings:
        book.check(part)
    if not bool((processes.collect(book.vectors.reshape(1, -1)) == book.vectors.reshape(1, -1)).all()):
        raise AssertionError(f"{book} is not the same in all processes")


class Move:
    """The sum of gradients of a growing set of prototypes."""

    def __init__(self) -> None:
        self.total: Tensor | None = None

    def add(self, gradient: Tensor) -> None:
        """Add the gradients of all prototypes; those founded meanwhile had none before."""
        if self.total is None:
            self.total = gradient
            return
        if len(gradient) > len(self.total):
            new = gradient.new_zeros(len(gradient) - len(self.total), gradient.shape[1])
            self.total = torch.cat([self.total, new])
        self.total += gradient
