"""One job, in whichever process it runs."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpn.datasets import Graph, find_loader
from hpn.errors import DataError, HPNError, find_place
from hpn.experiment.run.environment import deterministic
from hpn.experiment.run.runner import Job
from hpn.experiment.watch import Watcher
from hpn.nn.device import one_thread


class WorkerError(ChildProcessError):
    """A worker that died, or a job that failed and that the command needs."""


@dataclass(frozen=True)
class JobEnd:
    """How a job ended."""

    error: str | None = None  # why it failed, on one line
    seconds: float = 0.0
    value: float | None = None  # validation AM of a trial
    is_numerical: bool = False  # whether it failed numerically, as bad hyper-parameters do


def run_job(job: Job, graph: Graph | None = None) -> JobEnd:
    """Run, or finish, one job in this process with one thread."""
    start, config, value = time.monotonic(), job.config, None
    try:
        with one_thread(), _without_warnings():
            options = tuple(sorted(config.data_options.items()))
            graph = graph or _load(config.dataset, options, job.data_root, config.data_sha256)
            with deterministic(graph, job.device):
                if job.is_trial:
                    value = job.validate(graph)
                else:
                    job.run(graph, Watcher())
    except Exception as error:  # one job that fails does not stop the others
        place = "" if isinstance(error, HPNError | OSError) else f" ({find_place(error)})"
        return JobEnd(one_line(error) + place, time.monotonic() - start, is_numerical=_is_numerical(error))
    return JobEnd(None, time.monotonic() - start, value)


def one_line(error: Exception | str) -> str:
    """An error on one line; one that is not meant for people begins with its kind.

    Example:
        >>> one_line(HPNError("no such file")), one_line(KeyError("x"))
        ('no such file', "KeyError: 'x'")
    """
    is_text = isinstance(error, str | HPNError | WorkerError)
    text = str(error) if is_text else f"{type(error).__name__}: {error}"
    # Names in a message may come from a file: no line breaks, no terminal control sequences.
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


class JobExecutor(contextlib.AbstractContextManager["JobExecutor"], ABC):
    """Runs jobs elsewhere, inside a ``with`` block: begins them in order, a few more as some end.

    Attributes:
        num_workers: Jobs that run at a time.
        num_begun: Jobs that are begun at a time.
    """

    num_workers: int
    num_begun: int

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[int, JobEnd], None, None]:
        """Run all jobs, and yield the index and the end of each as it ends.

        A job that fails does not stop the others. Closing the generator ends those under way.
        """
        waiting, running, ended = iter(enumerate(jobs)), dict[Any, int](), dict[int, JobEnd]()
        try:
            while True:
                for index, job in islice(waiting, max(0, self.num_begun - len(running))):
                    try:
                        running[self._begin(job, index)] = index
                    except OSError as error:  # its folder cannot be read
                        ended[index] = JobEnd(one_line(error))
                yield from ended.items()  # now that others have begun
                if not (running or ended):
                    return
                answers = [(answer, running.pop(answer)) for answer in self.wait(list(running))] if running else []
                ended = {index: self._end(jobs[index], answer) for answer, index in answers}
        finally:
            if running:
                self._cancel(list(running))

    @abstractmethod
    def _begin(self, job: Job, index: int) -> Any: ...

    @abstractmethod
    def wait(self, answers: list[Any]) -> Collection[Any]:
        """Some of the answers that have come; none after a while."""

    @abstractmethod
    def _end(self, job: Job, answer: Any) -> JobEnd: ...

    @abstractmethod
    def _cancel(self, answers: list[Any]) -> None: ...


@lru_cache(maxsize=2)
def _load(dataset: str, options: tuple[tuple[str, Any], ...], data_root: Path | None, fingerprint: str) -> Graph:
    graph = find_loader(dataset, data_root)(**dict(options))
    if graph.fingerprint() != fingerprint:
        raise DataError(f"{dataset} has changed since the command began; start it again")
    return graph


def _is_numerical(error: Exception) -> bool:
    kinds = (ArithmeticError, np.linalg.LinAlgError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
    is_named = re.search(r"\b(nan|inf|infinity|(in)?finite)\b", str(error).lower()) is not None
    return isinstance(error, kinds) or (isinstance(error, RuntimeError | ValueError) and is_named)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """No warnings of learners inside: with several jobs they would not show which run they are about."""
    logger = logging.getLogger("hpn")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
