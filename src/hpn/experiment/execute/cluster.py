"""Jobs on the machines of a Ray cluster, which need not share a file system.

A graph goes to the cluster once, through Ray's object store. What the folder of an unfinished seed holds
travels with its job; what the folder of the finished one holds comes back, and is written here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from hpn.errors import ConfigError, HPNError
from hpn.experiment.execute.graphs import load_once
from hpn.experiment.execute.jobs import Job, JobEnd, reason
from hpn.experiment.execute.local import WorkerError, default_workers
from hpn.experiment.execute.ray_calls import (
    MAX_RETRIES,
    RAY_SETTINGS,
    check_address,
    environment,
    import_ray,
    quiet,
)
from hpn.experiment.execute.remote import answer_there, read_files, run_there, write_files

AnyJob = TypeVar("AnyJob")
Result = TypeVar("Result")

LOCAL = "local"
JOBS_A_CPU = 4
"""So many jobs are in the hands of the cluster at a time."""
WAIT = 30.0
"""Seconds in which a cluster has to answer."""
POLL = 0.2
"""Seconds after which a signal that came while Ray was waiting is looked at."""
OBJECT_STORE = 2 * 2**30
"""Bytes of shared memory for graphs and smoothed columns on this machine; what is more goes to disk."""


class Cluster:
    """A Ray cluster that runs jobs until the ``with`` block ends.

    A job takes one CPU and computes with one thread, as in a worker process of this machine, and gives
    the same numbers on the same kind of CPU. Whatever way it fails, the others go on.

    Args:
        address: As ``ray.init`` takes it: ``auto``, ``HOST:6379`` or ``ray://HOST:10001``; ``local`` stands
            for a new cluster on this machine, which ends with the block.
        gpus: Whether a job takes a GPU as well.
        wait: Seconds in which the cluster has to answer.
        num_cpus: Jobs at a time on a new cluster; by default as many as this process may use cores.

    Raises:
        ConfigError: On entry, if Ray is not installed, the cluster cannot be reached or has no GPU.
    """

    def __init__(
        self, address: str, *, gpus: bool = False, wait: float = WAIT, num_cpus: int | None = None
    ) -> None:
        self.address = address
        self.gpus = gpus
        self.wait = wait
        self.num_cpus = num_cpus
        self._ray: Any = None
        self._task: Any = None
        self._graphs: dict[str, Any] = {}
        self._session: str | None = None

    def __enter__(self) -> Cluster:
        self._ray = import_ray()
        if self._ray.is_initialized():
            raise ConfigError("Ray is in use in this process already; call ray.shutdown() first")
        if self.address != LOCAL:
            check_address(self.address, self.wait)
        try:
            with quiet():
                self._connect()
        except BaseException:
            self._disconnect()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._disconnect()

    @property
    def ray(self) -> Any:
        """The package, connected."""
        return self._ray

    @property
    def num_jobs(self) -> int:
        """Jobs that the cluster runs at a time as it is now: one for each CPU, or GPU; at least one."""
        return max(1, self._count("GPU" if self.gpus else "CPU"))

    def __call__(self, jobs: Sequence[Job], *, on_done: Callable[[int, JobEnd], None]) -> None:
        """Run all jobs, begun in order; see :class:`~hpn.experiment.execute.jobs.Execute`.

        Raises:
            ConfigError: If the cluster is lost.
        """
        self._share_out(
            jobs,
            run_there,
            on_answer=lambda index, answer: on_done(index, self._end(jobs[index], answer)),
            on_error=lambda index, error: on_done(index, JobEnd(reason(error), 0.0)),
        )

    def run(
        self,
        function: Callable[[AnyJob], Result],
        jobs: Sequence[AnyJob],
        *,
        on_done: Callable[[int, Result], None],
    ) -> None:
        """Run ``function(job)`` for every job, as :class:`~hpn.experiment.execute.local.Workers` do.

        A job has ``config``, ``data_root`` and ``folder``; what its folder holds, if there is one, travels.

        Raises:
            WorkerError: If a worker or machine dies too often, or a job raises what is not meant for people.
            HPNError: The first one that a job raises, or that the cluster is lost.
        """

        def fail(_: int, error: Exception) -> None:
            raise error

        self._share_out(
            jobs,
            partial(answer_there, function),
            on_answer=lambda index, answer: on_done(index, self._result(jobs[index], answer)),
            on_error=fail,
        )

    def _share_out(
        self,
        jobs: Sequence[Any],
        there: Callable[..., Any],
        *,
        on_answer: Callable[[int, Any], None],
        on_error: Callable[[int, Exception], None],
    ) -> None:
        waiting = iter(enumerate(jobs))
        running: dict[Any, int] = {}
        try:
            while True:
                for index, job in islice(waiting, max(0, self.num_jobs * JOBS_A_CPU - len(running))):
                    try:
                        running[self._submit(job, there)] = index
                    except Exception as error:  # its data or its folder cannot be read
                        on_error(index, error)
                if not running:
                    return
                for answer in self.answers(list(running)):
                    on_answer(running.pop(answer), answer)
        except BaseException:
            self._cancel(running)
            raise

    def _connect(self) -> None:
        options: dict[str, Any] = {}
        variables = RAY_SETTINGS
        if self.address == LOCAL:
            options = {
                "num_cpus": self.num_cpus or default_workers(),
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE,
            }
            # Workers are to find what this process finds, the source folder of hpn included.
            places = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
            variables = {**RAY_SETTINGS, "PYTHONPATH": places}
        try:
            with environment(variables):
                context = self._ray.init(
                    address=self.address, log_to_driver=False, logging_level="ERROR", **options
                )
        except Exception as error:
            raise ConfigError(f"cannot use the Ray cluster {self.address} ({reason(error)})") from error
        if self.address == LOCAL:
            self._session = context.address_info["session_dir"]
        if self.gpus and not self._count("GPU"):
            raise ConfigError(
                f"the Ray cluster {self.address} has no GPU; leave the device to it, or say cpu"
            )
        needs = {"num_cpus": 1, **({"num_gpus": 1} if self.gpus else {})}
        self._task = self._ray.remote(**needs, max_retries=MAX_RETRIES)(_work)

    def _disconnect(self) -> None:
        self._graphs = {}
        with quiet():
            self._ray.shutdown()
            if self._session:  # logs of Ray
                shutil.rmtree(self._session, ignore_errors=True)

    def _count(self, resource: str) -> int:
        with self._reachable():
            return int(self._ray.cluster_resources().get(resource, 0))

    def _submit(self, job: Any, there: Callable[..., Any]) -> Any:
        key = job.config.data_sha256
        if key not in self._graphs:
            graph = load_once(job.config, job.data_root)
            with quiet():
                self._graphs[key] = self._ray.put(graph)
        files = read_files(job.folder) if job.folder else {}
        with quiet():
            return self._task.remote(job, files, [self._graphs[key]], there)

    def answers(self, running: list[Any]) -> list[Any]:
        """One that has come, if one has."""
        with self._reachable():
            return list(self._ray.wait(running, num_returns=1, timeout=POLL)[0])

    @contextlib.contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            with quiet():
                yield
        except Exception as error:
            raise ConfigError(f"lost the Ray cluster {self.address} ({reason(error)})") from error

    def _end(self, job: Job, answer: Any) -> JobEnd:
        """How a job ended; the files of one that went well are written."""
        end = JobEnd(None, 0.0)
        try:
            answered: tuple[JobEnd, dict[str, bytes]] = self._get(answer)
            end, files = answered
            if end.error is None:
                write_files(job.folder, files)
        except self._ray.exceptions.RayError as error:
            return JobEnd(self.why(error), 0.0)
        except OSError as error:
            return replace(end, error=reason(error))
        return end

    def _result(self, job: Any, answer: Any) -> Any:
        """What a job gave; its files are written."""
        try:
            result, files = self._get(answer)
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, HPNError):
                raise type(cause)(str(cause)) from error
            raise WorkerError(self.why(error)) from error
        if job.folder:
            write_files(job.folder, files)
        return result

    def _get(self, answer: Any) -> tuple[Any, dict[str, bytes]]:
        with quiet():
            answered: tuple[Any, dict[str, bytes]] = self._ray.get(answer)
        return answered

    def why(self, error: Exception) -> str:
        """What a job failed of, for people."""
        errors = self._ray.exceptions
        if isinstance(error, errors.RayTaskError):
            return _not_run(error)
        if isinstance(error, errors.OutOfMemoryError):
            return "the machine that it ran on has too little memory"
        return f"the worker or machine that it ran on died ({type(error).__name__})"

    def _cancel(self, running: Mapping[Any, int]) -> None:
        with quiet(), contextlib.suppress(Exception):
            for answer in running:
                self._ray.cancel(answer, force=True)


@contextlib.contextmanager
def open_cluster(ray: str | None, device: str) -> Iterator[Cluster | None]:
    """The cluster at an address, if one is given."""
    if ray is None:
        yield None
        return
    with Cluster(ray, gpus=device == "cuda") as cluster:
        yield cluster


def _work(
    job: Any, files: Mapping[str, bytes], graph: list[Any], there: Callable[..., Any]
) -> tuple[Any, dict[str, bytes]]:
    """:func:`run_there` and the like as a task of Ray; a graph in no list Ray would get for every job."""
    answer: tuple[Any, dict[str, bytes]] = there(job, files, lambda: import_ray().get(graph[0]))
    return answer


def _not_run(error: Exception) -> str:
    """Why a worker could not do what it was asked: the last line of its traceback."""
    last = reason(ConfigError(str(error).strip().splitlines()[-1]))
    if "ModuleNotFoundError" in last or "ImportError" in last:
        last += "; every machine of the cluster needs hpn, as it is installed here"
    return f"failed on the cluster: {last}"
