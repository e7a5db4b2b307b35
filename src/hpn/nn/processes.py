"""Processes that compute a batch together: who computes which piece, and how they agree on the outcome.

A batch is cut into pieces in the same way however many processes there are, each piece is computed as a whole
by one of them, and what the pieces give is added up in their order. Which process computed which piece
therefore leaves no trace: the outcome is the same to the last bit.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch import Tensor

from hpn.errors import ProcessesError
from hpn.nn.board import PLACE, Board, is_possible, make_file

Value = TypeVar("Value")
Errand = Callable[[], None]
WHAT_NOW = "the same command goes on from the last checkpoint"


class Processes:
    """One process, alone.

    Attributes:
        rank: Number of this process.
        size: Number of processes.

    Example:
        >>> alone = Processes()
        >>> list(alone.share(3)), alone.add([[torch.ones(2)], [torch.ones(2)]], 2)
        ([0, 1, 2], [tensor([2., 2.])])
    """

    rank = 0
    size = 1

    def share(self, count: int) -> range:
        """Which of ``count`` pieces are this process's to compute."""
        return range(self.rank, count, self.size)

    def add(
        self,
        mine: Sequence[Sequence[Tensor]],
        count: int,
        meanwhile: Errand | None = None,
    ) -> list[Tensor]:
        """Add up what all pieces give, in the order of the pieces.

        Args:
            mine: Of each piece of :meth:`share`, tensors of the same shapes for every piece.
            count: Pieces in all.
            meanwhile: Something that may be done while others are waited for; left out if nobody is.
        """
        total = list(mine[0])
        for piece in mine[1:]:
            total = [sum_ + part for sum_, part in zip(total, piece, strict=True)]
        return total

    def line_up(self, mine: Sequence[Tensor], sizes: Sequence[int], width: int) -> Tensor:
        """The rows of all pieces, in the order of the pieces.

        Args:
            mine: Of each piece of :meth:`share`, its rows.
            sizes: Rows of every piece.
            width: Numbers a row.
        """
        return torch.cat(list(mine)) if mine else torch.empty(0, width, device="cpu")

    def make(self, count: int, make: Callable[[int], Value]) -> list[Value]:
        """Make ``count`` things, each in one process, and give all of them to all."""
        return [make(number) for number in range(count)]

    def any(self, is_so: bool) -> bool:
        """Whether it is so in any process."""
        return is_so

    def lowest(self, is_so: bool) -> int | None:
        """The first process in which it is so."""
        rank = self.least(self.rank if is_so else self.size)
        return rank if rank < self.size else None

    def least(self, number: int) -> int:
        """The least of the numbers that processes have."""
        return number

    def collect(self, rows: Tensor) -> Tensor:
        """The rows of all processes, one below the other."""
        return rows

    def lead(self, make: Callable[[], Value]) -> Value:
        """What rank 0 makes; the others wait for it."""
        return make()

    def align(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors with those of rank 0."""


ALONE = Processes()


class JoinedProcesses(Processes):
    """Processes that torch.distributed has joined.

    Args:
        uses_board: Whether small exchanges go through shared memory where all are on one machine.
    """

    def __init__(self, *, uses_board: bool = True) -> None:
        import torch.distributed as dist

        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self._dist = dist
        # Newer versions of PyTorch have another name for it, and warn of this one.
        self._gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        self.board = self._open_board() if uses_board else None

    def _open_board(self) -> Board | None:
        """A board, if all processes are on one machine and can see the same memory."""
        hosts: list[Any] = [None] * self.size
        with told_of_the_end():
            self._dist.all_gather_object(hosts, socket.gethostname() if is_possible() else None)
        if None in hosts or len(set(hosts)) > 1:
            return None
        path = self.lead(lambda: make_file(self.size))
        board = None
        with suppress(OSError, ValueError):
            board = Board(path, self.rank, self.size)
        failed = self._any_by_socket(board is None)  # which also waits until all have opened it
        if self.rank == 0:
            path.unlink(missing_ok=True)
        return None if failed else board

    def leave(self) -> None:
        """Tell the others not to wait for this one any more."""
        if self.board is not None:
            self.board.leave()

    def add(
        self,
        mine: Sequence[Sequence[Tensor]],
        count: int,
        meanwhile: Errand | None = None,
    ) -> list[Tensor]:
        """See :class:`Processes`; one exchange, whatever the number of tensors."""
        if not mine:
            raise ValueError("a process without pieces has to give zeros of the right shapes")
        flat = torch.stack([_join(piece) for piece in mine])
        in_order = self._in_order(flat[: len(self.share(count))], count, meanwhile)
        total = in_order[0]
        for piece in in_order[1:]:
            total = total + piece
        return _part(total, mine[0])

    def line_up(self, mine: Sequence[Tensor], sizes: Sequence[int], width: int) -> Tensor:
        """See :class:`Processes`."""
        if not sum(sizes):
            return super().line_up(mine, sizes, width)
        height = max(sizes)
        padded = torch.zeros(len(mine), height, width, device=mine[0].device if mine else "cpu")
        for place, rows in zip(padded, mine, strict=True):
            place[: len(rows)] = rows
        in_order = self._in_order(padded.view(len(mine), height * width), len(sizes))
        pieces = in_order.view(len(sizes), height, width)
        return torch.cat([piece[:size] for piece, size in zip(pieces, sizes, strict=True)])

    def _in_order(self, mine: Tensor, count: int, meanwhile: Errand | None = None) -> Tensor:
        """The rows of all processes, row p being the (p // size)-th of process p mod size."""
        height = -(-count // self.size)
        if len(mine) < height:
            mine = torch.cat([mine, mine.new_zeros(height - len(mine), mine.shape[1])])
        everyones = self._exchange(mine, meanwhile)
        return everyones.transpose(0, 1).reshape(-1, mine.shape[1])[:count]

    def _exchange(self, mine: Tensor, meanwhile: Errand | None = None) -> Tensor:
        """What each process gives ``[size, *mine.shape]``."""
        board = self._board_for(mine)
        if board is not None:
            with told_of_the_end():
                board.write(mine.numpy())
            if meanwhile is not None:
                meanwhile()
            with told_of_the_end():
                return torch.from_numpy(board.read(mine.numpy()))
        everyones = mine.new_empty(self.size, *mine.shape)
        gathered = everyones.view(-1, *mine.shape[1:])
        with told_of_the_end():
            self._gather(gathered, mine)
        return everyones

    def _board_for(self, mine: Tensor) -> Board | None:
        """The board, if there is one and it has room for so much."""
        is_small = mine.numel() * mine.element_size() <= PLACE
        return self.board if mine.device.type == "cpu" and is_small else None

    def make(self, count: int, make: Callable[[int], Value]) -> list[Value]:
        """See :class:`Processes`."""
        if count == 1:  # not worth the exchange
            return [make(0)]
        parts: list[Any] = [None] * self.size
        mine = [make(number) for number in self.share(count)]
        with told_of_the_end():
            self._dist.all_gather_object(parts, mine)
        return [parts[number % self.size][number // self.size] for number in range(count)]

    def any(self, is_so: bool) -> bool:
        """See :class:`Processes`."""
        if self.board is None:
            return self._any_by_socket(is_so)
        return bool(self._exchange(torch.tensor([float(is_so)], device="cpu")).any())

    def _any_by_socket(self, is_so: bool) -> bool:
        """The same, whether there is a board or not."""
        flag = torch.tensor([float(is_so)], device="cpu")
        with told_of_the_end():
            self._dist.all_reduce(flag, op=self._dist.ReduceOp.MAX)
        return bool(flag.item())

    def least(self, number: int) -> int:
        """See :class:`Processes`."""
        mine = torch.tensor([number], device="cpu")
        if self.board is not None:
            return int(self._exchange(mine).min())
        with told_of_the_end():
            self._dist.all_reduce(mine, op=self._dist.ReduceOp.MIN)
        return int(mine)

    def collect(self, rows: Tensor) -> Tensor:
        """See :class:`Processes`."""
        parts: list[Any] = [None] * self.size
        with told_of_the_end():
            self._dist.all_gather_object(parts, rows.detach().cpu())
        return torch.cat(parts).to(rows.device)

    def lead(self, make: Callable[[], Value]) -> Value:
        """See :class:`Processes`. An error of rank 0 is raised by all."""
        holder: list[Any] = [None, None]
        if self.rank == 0:
            try:
                holder[0] = make()
            except Exception as error:
                holder[1] = error
        with told_of_the_end():
            self._dist.broadcast_object_list(holder, src=0)
        if holder[1] is not None:
            raise holder[1]
        value: Value = holder[0]
        return value

    @torch.no_grad()
    def align(self, tensors: Sequence[Tensor]) -> None:
        """See :class:`Processes`."""
        if not tensors:
            return
        flat = _join(tensors)
        if self._board_for(flat) is not None:
            flat = self._exchange(flat)[0]
        else:
            with told_of_the_end():
                self._dist.broadcast(flat, src=0)
        for tensor, part in zip(tensors, _part(flat, tensors), strict=True):
            tensor.copy_(part)


def _join(tensors: Sequence[Tensor]) -> Tensor:
    """All their numbers in a row."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def _part(row: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that were joined to a row, of the shapes of others."""
    sizes = [tensor.numel() for tensor in like]
    if row.device.type != "cpu":
        return [part.view(t.shape) for part, t in zip(torch.split(row, sizes), like, strict=True)]
    # NumPy takes a fraction of the time over a dozen small ones.
    numbers, stops = row.numpy(), accumulate(sizes)
    return [
        torch.from_numpy(numbers[stop - tensor.numel() : stop].reshape(tensor.shape))
        for tensor, stop in zip(like, stops, strict=True)
    ]


@contextmanager
def told_of_the_end() -> Iterator[None]:
    """Say in one line what it means that another process does not answer any more."""
    try:
        yield
    except RuntimeError as error:
        # Gloo begins with the place in its source, and after a full stop tells of likely causes.
        reason = re.sub(r"^\[\S+:\d+\] ", "", " ".join(str(error).split())).split(". ")[0][:120]
        raise ProcessesError(
            f"another process of this job ended or does not answer ({reason}); {WHAT_NOW}"
        ) from error
