"""Threads that stand in for processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from itertools import zip_longest
from threading import Barrier, BrokenBarrierError
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

from hpn.nn.processes import Processes

Value = TypeVar("Value")


class Threads(Processes):
    """Threads that do as processes do."""

    def __init__(self, rank: int, barrier: Barrier, told: list[Any]) -> None:
        self.rank, self.size = rank, len(told)
        self._barrier, self._told = barrier, told

    def _exchange(self, mine: Any) -> list[Any]:
        self._told[self.rank] = deepcopy(mine)
        self._barrier.wait(30)
        everyones = deepcopy(self._told)
        self._barrier.wait(30)
        return everyones

    def add(
        self,
        mine: Sequence[Sequence[Tensor]],
        count: int,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[Tensor]:
        if meanwhile is not None:
            meanwhile()
        everyones = self._exchange([[part.detach() for part in piece] for piece in mine])
        shapes = {tuple(part.shape for part in piece) for given in everyones for piece in given}
        assert len(shapes) == 1, "also of those without a piece"
        shares = [given[: len(range(rank, count, self.size))] for rank, given in enumerate(everyones)]
        pieces = [piece for turn in zip_longest(*shares) for piece in turn if piece is not None]
        return super().add(pieces, count)

    def any(self, is_so: bool) -> bool:
        return any(self._exchange(is_so))

    def least(self, number: int) -> int:
        return min(self._exchange(number))

    def line_up(self, mine: Sequence[Tensor], sizes: Sequence[int], width: int) -> Tensor:
        rounds = zip_longest(*self._exchange(list(mine)))
        return torch.cat([rows for turn in rounds for rows in turn if rows is not None])

    def collect(self, rows: Tensor) -> Tensor:
        return torch.cat(self._exchange(rows.detach()))

    def lead(self, make: Callable[[], Value]) -> Value:
        value: Value = self._exchange(make() if self.rank == 0 else None)[0]
        return value


def together(size: int, act: Callable[[Processes], Value]) -> list[Value]:
    """What each of several processes gets that do the same at the same time."""
    barrier, told = Barrier(size), [None] * size

    def be(rank: int) -> Value:
        torch.set_num_threads(1)
        try:
            return act(Threads(rank, barrier, told))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(be, rank) for rank in range(size)]
    for future in sorted(futures, key=lambda future: isinstance(future.exception(), BrokenBarrierError)):
        future.result()  # the error that the others only heard of comes first
    return [future.result() for future in futures]


@pytest.fixture(name="together")
def together_fixture() -> Callable[..., list[Any]]:
    """What each of several processes gets that do the same at the same time."""
    return together
