"""Jobs in processes of this machine, which end whenever and however their parent ends."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import Any

import torch
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool

from hpn.experiment.execute.jobs import JobEnd, JobExecutor, run_job
from hpn.experiment.run.runner import Job

# For the processes that clean up what killed workers held: they would mention it.
NO_WARNING = "ignore:resource_tracker:UserWarning"
# Seconds between two checks of a worker whether its parent lives.
POLL = 0.2
# Before a worker imports what computes.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class LocalExecutor(JobExecutor):
    """Worker processes that start with the first jobs and end with the ``with`` block.

    A worker computes with one thread, does not receive Ctrl-C (its parent ends it) and ends when its parent
    dies. GPUs are used in turn, if there are several. If a worker is killed, its job is not known: all under way
    have failed, and the others run in new workers.

    Args:
        num_workers: Jobs that run at a time; with one, they run in this process.
    """

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self._pool: Any = None

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)

    def run(self, jobs: Sequence[Job]) -> Generator[tuple[int, JobEnd], None, None]:
        """Run all jobs; one by itself runs in this process."""
        self.num_begun = min(self.num_workers, len(jobs))
        if self.num_begun > 1:
            return super().run(jobs)
        return ((index, run_job(job, job.graph)) for index, job in enumerate(jobs))

    def _begin(self, job: Job, index: int) -> Any:
        options = {"timeout": None, "initializer": _begin_work, "initargs": (os.getpid(),), "env": ONE_THREAD}
        with _without_interrupts():
            self._pool = get_reusable_executor(self.num_begun, **options)
            sent = replace(job, graph=None, stream=None, device=_in_turn(job.device, index))
            try:
                return self._pool.submit(run_job, sent)
            except BrokenProcessPool:  # a worker died just now
                return self._begin(job, index)

    def wait(self, answers: list[Any]) -> Collection[Any]:
        """The answers that have come."""
        return wait(answers, return_when=FIRST_COMPLETED).done

    def _end(self, job: Job, answer: Any) -> JobEnd:
        try:
            return answer.result()  # type: ignore[no-any-return]
        except BrokenProcessPool as error:
            if not job.is_trial and job.is_finished():  # it had just ended
                return JobEnd()
            why = f"a worker process was killed ({type(error).__name__}); if memory is short, use fewer workers"
            return JobEnd(why)

    def _cancel(self, answers: list[Any]) -> None:
        self.__exit__()


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
