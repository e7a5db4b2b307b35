"""Jobs on the machines of a Ray cluster, which need not share a file system.

A graph goes to the cluster once, through Ray's object store. What the folder of an unfinished seed holds
travels with its job; what the folder of the finished one holds comes back, and is written here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from hpn.errors import ConfigError
from hpn.experiment.away import read_files, run_there, write_files
from hpn.experiment.graphs import load_once
from hpn.experiment.jobs import Job, JobEnd, reason
from hpn.experiment.parallel import default_workers

LOCAL = "local"
JOBS_A_CPU = 4
"""So many jobs are in the hands of the cluster at a time."""
MAX_RETRIES = 2
"""How often a job begins again whose worker or machine died."""
WAIT = 30.0
"""Seconds in which a cluster has to answer."""
POLL = 0.2
"""Seconds after which a signal that came while Ray was waiting is looked at."""
OBJECT_STORE = 256 * 2**20
"""Bytes of shared memory for graphs on this machine; larger ones go to disk."""
RAY_SETTINGS = {
    "RAY_task_oom_retries": str(MAX_RETRIES),  # without end, if not set
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # or the deaths of workers are told on standard output
}
"""What Ray reads from the environment when it is imported and when it connects."""
PROBE = """
import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
except Exception as error:
    sys.exit(" ".join(f"{type(error).__name__}: {error}".split()))
"""


class Cluster:
    """A Ray cluster that runs jobs until the ``with`` block ends; an :class:`~hpn.experiment.jobs.Execute`.

    A job takes one CPU and computes with one thread, as in a worker process of this machine, and gives
    the same numbers on the same kind of CPU. Whatever way it fails, the others go on.

    Args:
        address: As ``ray.init`` takes it: ``auto``, ``HOST:6379`` or ``ray://HOST:10001``; ``local`` stands
            for a new cluster on this machine, which ends with the block.
        wait: Seconds in which the cluster has to answer.

    Raises:
        ConfigError: On entry, if Ray is not installed or the cluster cannot be reached.
    """

    def __init__(self, address: str, *, wait: float = WAIT) -> None:
        self.address = address
        self.wait = wait
        self._ray: Any = None
        self._task: Any = None
        self._graphs: dict[str, Any] = {}
        self._session: str | None = None

    def __enter__(self) -> Cluster:
        self._ray = _import_ray()
        if self._ray.is_initialized():
            raise ConfigError("Ray is in use in this process already; call ray.shutdown() first")
        if self.address != LOCAL:
            check_address(self.address, self.wait)
        try:
            with _quiet():
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
    def num_cpus(self) -> int:
        """CPUs of the cluster as it is now, at least one."""
        with self._reachable():
            return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def __call__(self, jobs: Sequence[Job], *, on_done: Callable[[int, JobEnd], None]) -> None:
        """Run all jobs, begun in order; see :class:`~hpn.experiment.jobs.Execute`.

        Raises:
            ConfigError: If the cluster is lost.
        """
        waiting = iter(enumerate(jobs))
        running: dict[Any, int] = {}
        try:
            while True:
                for index, job in islice(waiting, max(0, self.num_cpus * JOBS_A_CPU - len(running))):
                    try:
                        running[self._submit(job)] = index
                    except Exception as error:  # its data or its folder cannot be read
                        on_done(index, JobEnd(reason(error), 0.0))
                if not running:
                    return
                for answer in self._answers(list(running)):
                    index = running.pop(answer)
                    on_done(index, self._finish(jobs[index], answer))
        except BaseException:
            self._cancel(running)
            raise

    def _connect(self) -> None:
        options: dict[str, Any] = {}
        environment = RAY_SETTINGS
        if self.address == LOCAL:
            options = {
                "num_cpus": default_workers(),
                "include_dashboard": False,
                "object_store_memory": OBJECT_STORE,
            }
            # Workers are to find what this process finds, the source folder of hpn included.
            places = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
            environment = {**RAY_SETTINGS, "PYTHONPATH": places}
        try:
            with _environment(environment):
                context = self._ray.init(
                    address=self.address, log_to_driver=False, logging_level="ERROR", **options
                )
        except Exception as error:
            raise ConfigError(f"cannot use the Ray cluster {self.address} ({reason(error)})") from error
        self._task = self._ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_work)
        if self.address == LOCAL:
            self._session = context.address_info["session_dir"]

    def _disconnect(self) -> None:
        self._graphs = {}
        with _quiet():
            self._ray.shutdown()
            if self._session:  # logs of Ray
                shutil.rmtree(self._session, ignore_errors=True)

    def _submit(self, job: Job) -> Any:
        key = job.config.data_sha256
        if key not in self._graphs:
            graph = load_once(job.config, job.data_root)
            with _quiet():
                self._graphs[key] = self._ray.put(graph)
        files = read_files(job.folder)
        with _quiet():
            return self._task.remote(job, files, [self._graphs[key]])

    def _answers(self, running: list[Any]) -> list[Any]:
        """One that has come, if one has."""
        with self._reachable():
            return list(self._ray.wait(running, num_returns=1, timeout=POLL)[0])

    @contextlib.contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            with _quiet():
                yield
        except Exception as error:
            raise ConfigError(f"lost the Ray cluster {self.address} ({reason(error)})") from error

    def _finish(self, job: Job, answer: Any) -> JobEnd:
        """Take the answer, and write the files of a job that went well."""
        errors = self._ray.exceptions
        end = JobEnd(None, 0.0)
        try:
            with _quiet():
                answered: tuple[JobEnd, dict[str, bytes]] = self._ray.get(answer)
            end, files = answered
            if end.error is None:
                write_files(job.folder, files)
        except errors.RayTaskError as error:
            return JobEnd(_not_run(error), 0.0)
        except errors.OutOfMemoryError:
            return JobEnd("the machine that it ran on has too little memory", 0.0)
        except errors.RayError as error:
            return JobEnd(f"the worker or machine that it ran on died ({type(error).__name__})", 0.0)
        except OSError as error:
            return replace(end, error=reason(error))
        return end

    def _cancel(self, running: Mapping[Any, int]) -> None:
        with _quiet(), contextlib.suppress(Exception):
            for answer in running:
                self._ray.cancel(answer, force=True)


def check_address(address: str, wait: float) -> None:
    """See whether a cluster answers.

    Ray itself tries for minutes, and says so; so another process tries, for as long as it may.

    Raises:
        ConfigError: If none does.
    """
    host, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        if host and port.isdecimal():  # most mistakes show at once
            socket.create_connection((host, int(port)), timeout=wait).close()
        words = [sys.executable, "-c", PROBE, address]
        probe = subprocess.run(words, capture_output=True, text=True, timeout=wait, check=False)  # noqa: S603
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot reach the Ray cluster {address} ({error})") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"cannot reach the Ray cluster {address} (no answer in {wait:.0f} seconds)"
        ) from error
    if probe.returncode:
        why = (probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"])[-1]
        if "AuthToken" in probe.stderr:
            why = "it asks for a token; set RAY_AUTH_MODE=token, as Ray's documentation has it"
        raise ConfigError(f"cannot reach the Ray cluster {address} ({reason(ConfigError(why))})")


def _work(job: Job, files: Mapping[str, bytes], graph: list[Any]) -> tuple[JobEnd, dict[str, bytes]]:
    """:func:`run_there` as a task of Ray; the graph is in a list, or Ray would get it for every job."""
    return run_there(job, files, lambda: _import_ray().get(graph[0]))


def _not_run(error: Exception) -> str:
    """Why a worker could not do what it was asked: the last line of its traceback."""
    last = reason(ConfigError(str(error).strip().splitlines()[-1]))
    if "ModuleNotFoundError" in last or "ImportError" in last:
        last += "; every machine of the cluster needs hpn, as it is installed here"
    return f"failed on the cluster: {last}"


def _import_ray() -> Any:
    try:
        with _environment(RAY_SETTINGS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
    except ImportError as error:
        raise ConfigError("--ray needs Ray: pip install 'hpn[ray]'") from error
    return ray


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables inside, all as before outside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Around calls of Ray: no warnings, and Ctrl-C and the like wait until the end.

    Ray loses what a signal handler raises while it waits, and puts a handler of its own in place.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        came: list[int] = []
        before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
        try:
            for kind, handler in before.items():
                if handler not in (signal.SIG_IGN, None):
                    signal.signal(kind, lambda number, _: came.append(number))
            yield
        except SystemExit:
            came.append(signal.SIGTERM)  # Ray's own handler got it
            raise
        finally:
            for kind, handler in before.items():
                if handler is not None:
                    signal.signal(kind, handler)
            if came:
                signal.raise_signal(came[0])
