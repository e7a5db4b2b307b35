"""Independent parts of a computation: in threads of this process, or wherever an executor runs them.

A part is computed with one thread, here or elsewhere, so that its result has the same bits everywhere. What
is made of the parts must not depend on how many there are: sums of whole numbers do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from itertools import pairwise
from threading import Lock, local
from typing import Any, Protocol

import torch
from threadpoolctl import ThreadpoolController

from hpn.nn.device import one_thread


class Executor(Protocol):
    """Runs parts.

    Attributes:
        kept: Results that are used again, until another value is shared.
    """

    kept: dict[Any, list[Any]]

    @property
    def num_workers(self) -> int:
        """Parts that run at a time."""

    @property
    def is_local(self) -> bool:
        """Whether parts run in this process and find what it keeps."""

    def share(self, value: Any) -> Any:
        """Put a value where workers find it; what this gives may be among the arguments of :meth:`map`."""

    def map(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
        """Start ``function(item, *shared)`` for every item; may be among the arguments of a later call."""

    def get(self, results: Sequence[Any]) -> Iterator[Any]:
        """The results of :meth:`map`, in the order of the items."""


class Threads:
    """Runs parts in threads of this process, as many as PyTorch uses; a part of a part runs in its thread.

    Example:
        >>> list(Threads().get(Threads().map(pow, [1, 2, 3], 2)))
        [1, 4, 9]
    """

    is_local = True

    def __init__(self) -> None:
        self.kept: dict[Any, list[Any]] = {}

    @property
    def num_workers(self) -> int:
        """Parts that run at a time."""
        return 1 if getattr(_thread, "is_worker", False) else torch.get_num_threads()

    def share(self, value: Any) -> Any:
        """The value itself."""
        return value

    def map(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
        """Run ``function(item, *shared)`` for every item."""
        if getattr(_thread, "is_worker", False):
            return [function(item, *shared) for item in items]
        call = partial(_call, function, shared)
        count = min(self.num_workers, len(items))
        with _alone, one_thread(), one_blas_thread():
            if count <= 1:
                return [call(item) for item in items]
            with ThreadPoolExecutor(count) as pool:
                return list(pool.map(call, items))

    def get(self, results: Sequence[Any]) -> Iterator[Any]:
        """The results themselves."""
        return iter(results)


_thread = local()
_alone = Lock()
"""The number of threads is set for the whole process, so one caller at a time."""
_current: ContextVar[Executor] = ContextVar("executor", default=Threads())  # noqa: B039  (it has no state)


def executor() -> Executor:
    """Where parts run: :class:`Threads` unless another one is in use."""
    return _current.get()


@contextmanager
def using(other: Executor) -> Iterator[None]:
    """Let another executor run parts inside."""
    token = _current.set(other)
    try:
        yield
    finally:
        _current.reset(token)


def run_threads(function: Callable[..., Any], items: Iterable[Any], *shared: Any) -> list[Any]:
    """Run ``function(item, *shared)`` for every item in threads of this process."""
    return Threads().map(function, list(items), *shared)


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
    """One thread for NumPy and SciPy inside, as before outside."""
    return _libraries().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  (only libraries that are loaded can be limited)

    return ThreadpoolController()


def cut(count: int, size: int) -> list[slice]:
    """Even parts of at most ``size``.

    Example:
        >>> cut(5, 2)
        [slice(0, 1, None), slice(1, 3, None), slice(3, 5, None)]
    """
    number = max(1, -(-count // size))
    ends = [count * at // number for at in range(number + 1)]
    return [slice(*pair) for pair in pairwise(ends)]
