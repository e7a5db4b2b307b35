"""Jobs in processes of this machine, which end whenever and however their parent ends."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import Any

import joblib
import torch
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool

from hpn.experiment.execute.jobs import JobEnd, run_job
from hpn.experiment.run.runner import Job

# For the processes that clean up what killed workers held: they would mention it.
NO_WARNING = "ignore:resource_tracker:UserWarning"
# Seconds between two checks of a worker whether its parent lives.
POLL = 0.2


class LocalExecutor(contextlib.AbstractContextManager["LocalExecutor"]):
    """Worker processes that start with the first jobs and end with the ``with`` block.

    A worker computes with one thread, does not receive Ctrl-C (its parent ends it) and ends when its parent
    dies. GPUs are used in turn, if there are several.

    Args:
        num_workers: Jobs that run at a time; with one, they run in this process.
    """

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self._has_started = False

    def __exit__(self, *_: object) -> None:
        if self._has_started:
            get_reusable_executor().shutdown(wait=True, kill_workers=True)

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[int, JobEnd], None, None]:
        """Run all jobs, begun in order, and yield the index and the end of each as it ends.

        A job that fails does not stop the others. Closing the generator ends those under way. If a worker
        is killed, its job is not known: all under way have failed, and the others run in new workers.
        """
        num_workers = min(self.num_workers, len(jobs))
        if num_workers <= 1:
            for index, job in enumerate(jobs):
                yield index, run_job(job, job.graph)
            return
        self._has_started = True
        waiting = dict(enumerate(jobs))
        while waiting:
            begun: list[int] = []
            try:
                with contextlib.closing(_start(waiting, begun, num_workers)) as results:
                    for index, end in results:
                        del waiting[index]
                        yield index, end
            except BrokenProcessPool as error:
                for index in begun:
                    if index in waiting:
                        yield index, _lost(waiting.pop(index), error)


def _start(waiting: dict[int, Job], begun: list[int], num_workers: int) -> Generator[Any, None, None]:
    """Submit jobs in order, one per worker at a time, and yield their ends."""

    def submit() -> Iterator[Any]:
        for index, job in list(waiting.items()):
            begun.append(index)
            sent = replace(job, graph=None, stream=None, device=_in_turn(job.device, index))
            yield joblib.delayed(_run)(index, sent)

    options = {"initializer": _begin_work, "initargs": (os.getpid(),), "inner_max_num_threads": 1}
    with joblib.parallel_config("loky", n_jobs=num_workers, **options), _without_interrupts():
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=num_workers)
        results = parallel(submit())
    try:
        for result in results:  # noqa: UP028  (it would be closed before warnings are filtered)
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about jobs that are left, as intended
            results.close()


def _run(index: int, job: Job) -> tuple[int, JobEnd]:
    return index, run_job(job)


def _lost(job: Job, error: Exception) -> JobEnd:
    """The end of a job that was under way when a worker died, or had just ended."""
    if not job.is_trial and job.is_finished():
        return JobEnd()
    return JobEnd(f"a worker process was killed ({type(error).__name__}); if memory is short, use fewer workers")


def _in_turn(device: str, index: int) -> str:
    count = torch.cuda.device_count() if device == "cuda" else 0
    return f"cuda:{index % count}" if count > 1 else device


def _begin_work(parent: int) -> None:
    """Prepare a worker process."""
    logging.captureWarnings(True)
    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL)
    os._exit(1)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that start inside never receive Ctrl-C."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    sys.warnoptions.append(NO_WARNING)
    try:
        for tracker in (resource_tracker, loky_tracker):
            tracker.ensure_running()  # or the first start does it, and unblocks signals again
    finally:
        sys.warnoptions.remove(NO_WARNING)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
