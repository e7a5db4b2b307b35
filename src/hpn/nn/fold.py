"""Independent parts of a computation: in threads of this process, or where another runner computes them.

A part is computed with one thread, here or elsewhere, so that its result has the same bits everywhere. The combined
result must not depend on the number of parts: sums of whole numbers do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import pairwise
from threading import Lock, local
from typing import Any

import torch
from threadpoolctl import ThreadpoolController

from hpn.nn.device import one_thread

_thread = local()
_lock = Lock()  # the number of threads is set for the whole process, so one caller at a time


class PartRunner:
    """Runs parts in threads of this process, as many as PyTorch uses; a part of a part runs in its thread.

    A subclass may run them elsewhere.

    Attributes:
        is_local: Whether parts run in this process and find its caches.
        kept: Results that are used again, until another value is shared.
    """

    is_local = True

    def __init__(self) -> None:
        self.kept: dict[Any, list[Any]] = {}

    @property
    def num_workers(self) -> int:
        """Number of parts that run at the same time."""
        return 1 if getattr(_thread, "is_worker", False) else torch.get_num_threads()

    def share(self, value: Any) -> Any:
        """Put a value where workers find it; the result may be an argument of :meth:`map`."""
        return value

    def map(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
        """Start ``function(item, *shared)`` for every item; the result may be an argument of a later call."""
        if getattr(_thread, "is_worker", False):
            return [function(item, *shared) for item in items]
        call, count = partial(_call, function, shared), min(self.num_workers, len(items))
        with _lock, one_thread(), one_blas_thread():
            if count <= 1:
                return [call(item) for item in items]
            with ThreadPoolExecutor(count) as pool:
                return list(pool.map(call, items))

    def get(self, results: Sequence[Any]) -> Iterator[Any]:
        """The results of :meth:`map`, in the order of the items."""
        return iter(results)


_current: ContextVar[PartRunner] = ContextVar("runner", default=PartRunner())  # noqa: B039  (it has no state)


def current_runner() -> PartRunner:
    """The runner in use: threads of this process unless another one was chosen."""
    return _current.get()


@contextmanager
def using(runner: PartRunner) -> Iterator[None]:
    """Use another runner inside."""
    token = _current.set(runner)
    try:
        yield
    finally:
        _current.reset(token)


def run_threads(function: Callable[..., Any], items: Iterable[Any], *shared: Any) -> list[Any]:
    """Run ``function(item, *shared)`` for every item in threads of this process."""
    return PartRunner().map(function, list(items), *shared)


def run_part(function: Callable[..., Any], item: Any, *shared: Any) -> Any:
    """Run ``function(item, *shared)`` as a part: with one thread."""
    with one_thread(), one_blas_thread():
        return _call(function, shared, item)


def _call(function: Callable[..., Any], shared: tuple[Any, ...], item: Any) -> Any:
    _thread.is_worker = True
    try:
        return function(item, *shared)
    finally:
        _thread.is_worker = False


def one_blas_thread() -> Any:
    """One thread for NumPy and SciPy inside; the previous number is restored afterwards."""
    return _libraries().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  (only libraries that are loaded can be limited)

    return ThreadpoolController()


def cut(count: int, size: int) -> list[slice]:
    """Even parts of at most ``size``: ``cut(5, 2)`` has the lengths 1, 2 and 2."""
    number = max(1, -(-count // size))
    return [slice(*pair) for pair in pairwise(count * at // number for at in range(number + 1))]
