"""Running jobs: one of them, and many of them with an executor."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hpn.datasets import Graph, find_loader
from hpn.errors import DataError, HPNError
from hpn.experiment.run.environment import deterministic
from hpn.experiment.run.runner import Job
from hpn.experiment.watch import JobsProgress, TrialsProgress, Watcher
from hpn.nn.device import one_thread


class WorkerError(ChildProcessError):
    """A job that failed where no other may take its place, or a worker that died."""


@dataclass(frozen=True)
class JobEnd:
    """How a job ended.

    Args:
        error: One line that states why, if it failed.
        seconds: How long it took.
        value: Validation AM of a trial.
        is_numerical: Whether it failed numerically, as bad hyper-parameters do.
    """

    error: str | None = None
    seconds: float = 0.0
    value: float | None = None
    is_numerical: bool = False


class Executor(contextlib.AbstractContextManager["Executor"]):
    """Runs jobs somewhere until the ``with`` block ends."""

    def __exit__(self, *_: object) -> None:
        return None

    @property
    @abstractmethod
    def num_workers(self) -> int:
        """Jobs that run at a time."""

    @abstractmethod
    def run(self, jobs: Sequence[Job]) -> Generator[tuple[int, JobEnd], None, None]:
        """Run all jobs, begun in order; gives the index and the end of each as it ends.

        A job that fails, whatever the way, does not stop the others. Closing the generator ends those
        under way.
        """


def run_job(job: Job, graph: Graph | None = None) -> JobEnd:
    """Run, or finish, one job in this process with one thread.

    Args:
        job: The job.
        graph: Its data; by default it is loaded, once for the jobs of a process.
    """
    start, config, value = time.monotonic(), job.config, None
    try:
        with one_thread(), _without_remarks():
            options = tuple(sorted(config.data_options.items()))
            graph = graph or _load(config.dataset, options, job.data_root, config.data_sha256)
            with deterministic(graph, job.device):
                if job.folder is None:
                    value = job.validate(graph)
                else:
                    job.run(graph, Watcher())
    except Exception as error:  # one job that fails does not stop the others
        return JobEnd(one_line(error), time.monotonic() - start, is_numerical=_is_numerical(error))
    return JobEnd(None, time.monotonic() - start, value)


def one_line(error: Exception | str) -> str:
    """An error on one line; one that is not meant for people is named by its kind.

    Example:
        >>> one_line(HPNError("no such file")), one_line(KeyError("x"))
        ('no such file', "KeyError: 'x'")
    """
    is_text = isinstance(error, str | HPNError | WorkerError)
    text = str(error) if is_text else f"{type(error).__name__}: {error}"
    # Names in a message may come from a file: no line breaks, no terminal control sequences.
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))


class Batch:
    """Runs jobs, long ones first, and reports how far they are.

    Args:
        executor: Where they run.
        watcher: Is told how far they are.
        total: Jobs in all, with those that need not run and those that are not known yet.
        trials: How far tuning is, if jobs are for that.

    Attributes:
        total: As given.
        done: Jobs that have ended or need not run.
    """

    def __init__(
        self, executor: Executor, watcher: Watcher, total: int, trials: Callable[[], TrialsProgress] | None = None
    ) -> None:
        self.total, self.done = total, 0
        self._executor, self._watcher, self._trials = executor, watcher, trials
        self._seconds: list[float] = []

    def run(self, jobs: Sequence[Job], on_end: Callable[[Job, JobEnd], None]) -> None:
        """Run jobs; ``on_end`` is called for each as it ends."""
        ordered = sorted(jobs, key=_effort, reverse=True)
        left = list(ordered)
        self._show(left)
        with contextlib.closing(self._executor.run(ordered)) as ends:
            for index, end in ends:
                job = ordered[index]
                left.remove(job)
                self.done += 1
                self._seconds.append(end.seconds)
                on_end(job, end)
                self._show(left, job, end.error)

    def _show(self, left: Sequence[Job], last: Job | None = None, error: str | None = None) -> None:
        num_workers, remaining = self._executor.num_workers, None
        if self._seconds:
            remaining = sum(self._seconds) / len(self._seconds) * (self.total - self.done) / num_workers
        self._watcher.jobs_moved(
            JobsProgress(
                done=self.done,
                total=self.total,
                running=tuple(map(str, left[:num_workers])),  # they begin in order
                last=str(last) if last else None,
                error=error,
                remaining=remaining,
                trials=self._trials() if self._trials else None,
            )
        )


def _effort(job: Job) -> float:
    """How long a job takes next to others, roughly; decides only what runs first."""
    epochs = float(job.config.effective_params().get("epochs", 50))
    nodes = job.graph.num_nodes if job.graph else 1
    # Joint training learns from 1, 2, … of the steps, the others from one at a time.
    steps = (len(job.config.plan.steps) + 1) / 2 if job.config.learner.sees_past else 1.0
    # An epoch with GAT takes about four times as long as with GCN.
    return nodes * epochs * steps * (4 if job.config.backbone == "gat" else 1)


@lru_cache(maxsize=2)
def _load(dataset: str, options: tuple[tuple[str, Any], ...], data_root: Path | None, fingerprint: str) -> Graph:
    """Load a graph, once for the jobs of a process."""
    graph = find_loader(dataset, data_root)(**dict(options))
    if graph.fingerprint() != fingerprint:
        raise DataError(f"{dataset} has changed since the command began; start it again")
    return graph


def _is_numerical(error: Exception) -> bool:
    kinds = (ArithmeticError, np.linalg.LinAlgError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
    is_named = re.search(r"\b(nan|inf|infinity|(in)?finite)\b", str(error).lower()) is not None
    return isinstance(error, kinds) or (isinstance(error, RuntimeError | ValueError) and is_named)


@contextlib.contextmanager
def _without_remarks() -> Iterator[None]:
    """No warnings of learners inside: side by side they would not show which run they are about."""
    logger = logging.getLogger("hpn")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
