"""Independent jobs in several processes, which end whenever and however their parent ends."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, TypeVar

import torch

from hpn.nn.device import one_thread

Job = TypeVar("Job")
Result = TypeVar("Result")

_number = 0


def default_workers() -> int:
    """Cores that this process may use."""
    if hasattr(os, "process_cpu_count"):
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_parallel(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    *,
    workers: int,
    on_done: Callable[[int, Result], None],
) -> None:
    """Run ``function(job)`` for every job; one worker means in this process.

    Args:
        function: A function that can be pickled, as jobs and results must be.
        jobs: Handed out in order.
        workers: How many processes.
        on_done: Is given a job's index and result, here, as each one finishes.

    Raises:
        WorkerError: If a process ends without an answer, say for want of memory.
        Exception: The first one that a job raises; the jobs still running are ended.

    Example:
        >>> squares = {}
        >>> run_parallel(abs, [-3, 4], workers=1, on_done=squares.__setitem__)
        >>> squares
        {0: 3, 1: 4}
    """
    with Workers(min(workers, len(jobs))) as pool:
        pool.run(function, jobs, on_done=on_done)


class WorkerError(ChildProcessError):
    """A worker process that ended without an answer."""


class Workers:
    """Processes that take jobs until the ``with`` block ends; they start with the first jobs.

    A worker computes with one thread, ignores Ctrl-C (its parent ends it) and ends when its parent dies.

    Args:
        count: How many; with one, jobs run in this process.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._processes: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End the processes at once, whatever they are doing."""
        for process in self._processes.values():
            process.kill()
        for pipe, process in self._processes.items():
            process.join()
            pipe.close()
        self._processes = {}

    def run(
        self,
        function: Callable[[Job], Result],
        jobs: Sequence[Job],
        *,
        on_done: Callable[[int, Result], None],
    ) -> None:
        """Run ``function(job)`` for every job; see :func:`run_parallel`."""
        if self.count <= 1:
            with one_thread():
                for index, job in enumerate(jobs):
                    on_done(index, function(job))
            return
        try:
            self._start(min(self.count, len(jobs)))
            self._share_out(function, jobs, on_done)
        except BaseException:
            self.end()
            raise

    def _share_out(
        self, function: Callable[[Job], Result], jobs: Sequence[Job], on_done: Callable[[int, Result], None]
    ) -> None:
        waiting = iter(enumerate(jobs))
        busy = [pipe for pipe in self._processes if _send_next(pipe, function, waiting)]
        while busy:
            ready = wait(busy)
            for pipe in [pipe for pipe in busy if pipe in ready]:
                index, result = self._receive(pipe)
                if not _send_next(pipe, function, waiting):
                    busy.remove(pipe)
                on_done(index, result)

    def _start(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        resource_tracker.ensure_running()  # or the first start does it, and unblocks signals again
        while len(self._processes) < count:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, len(self._processes)), daemon=True)
            with _without_interrupts():  # a child inherits that, so Ctrl-C cannot reach it while it imports
                process.start()
                self._processes[ours] = process
            theirs.close()

    def _receive(self, pipe: Connection) -> tuple[int, Any]:
        try:
            index, result, error, trace = pipe.recv()
        except (EOFError, ConnectionError) as gone:
            process = self._processes[pipe]
            process.join()
            raise WorkerError(
                f"a worker process ended without an answer (exit code {process.exitcode}); "
                "if memory is short, use fewer workers"
            ) from gone
        if error is not None:
            raise error from _WorkerTraceback(trace)
        return index, result


class _WorkerTraceback(Exception):  # noqa: N818  (never raised by itself)
    """Where in the worker an exception was raised, to be shown above the parent's own traceback."""

    def __str__(self) -> str:
        return f"in a worker process:\n{self.args[0]}"


def _send_next(pipe: Connection, function: Callable[..., Any], waiting: Iterator[tuple[int, Any]]) -> bool:
    """Hand out the next job, if there is one."""
    for index, job in waiting:
        pipe.send((function, index, job))
        return True
    return False


def worker_number() -> int:
    """Which of the workers this process is, from 0; 0 as well if it is none."""
    return _number


def _work(pipe: Connection, number: int) -> None:
    """What a worker process does."""
    global _number  # noqa: PLW0603  (a process is one worker for as long as it lives)
    _number = number
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.captureWarnings(True)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    while True:
        try:
            function, index, job = pipe.recv()
        except (EOFError, ConnectionError):
            return
        try:
            answer = pickle.dumps((index, function(job), None, ""))
        except Exception as error:
            answer = _pickled_error(index, error)
        pipe.send_bytes(answer)


def _pickled_error(index: int, error: Exception) -> bytes:
    trace = traceback.format_exc()
    try:
        answer = pickle.dumps((index, None, error, trace))
        pickle.loads(answer)  # noqa: S301  (some exceptions can be written but not read)
    except Exception:
        return pickle.dumps((index, None, RuntimeError(f"{type(error).__name__}: {error}"), trace))
    return answer


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
