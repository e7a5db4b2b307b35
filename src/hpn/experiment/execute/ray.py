"""Jobs on the machines of a Ray cluster, which need not share a file system.

A graph is sent to the cluster once, through Ray's object store. A job runs in a temporary folder; the files of a
finished seed are returned, and written here.
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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joblib

from hpn.datasets import Graph
from hpn.errors import ConfigError, HPNError
from hpn.experiment.execute.jobs import JobEnd, JobExecutor, WorkerError, one_line, run_job
from hpn.experiment.run.checkpoint import NAME as CHECKPOINT
from hpn.experiment.run.environment import installed_versions
from hpn.experiment.run.folder import RESULT, list_differences, write_atomic
from hpn.experiment.run.runner import Job

LOCAL = "local"
# Jobs that are submitted to the cluster at a time.
JOBS_PER_CPU = 4
# Seconds in which a cluster has to answer.
WAIT = 30.0
# Seconds after which a signal that came while Ray was waiting is handled.
POLL = 0.2
# Bytes of shared memory for graphs and smoothed columns on this machine; more goes to disk.
OBJECT_STORE = 2 * 2**30
# How often a job begins again if its worker or machine died.
MAX_RETRIES = 2
# What Ray reads from the environment when it is imported and when it connects.
SETTINGS = {
    "RAY_task_oom_retries": str(MAX_RETRIES),  # without end, if not set
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",  # or the deaths of workers are reported on standard output
}
PROBE = """
import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
except Exception as error:
    sys.exit(" ".join(f"{type(error).__name__}: {error}".split()))
"""


class RayExecutor(JobExecutor):
    """A Ray cluster, connected until the ``with`` block ends.

    A job takes one CPU and computes with one thread, as in a worker process of this machine, and gives
    the same numbers on the same kind of CPU.

    Args:
        address: As ``ray.init`` takes it: ``auto``, ``HOST:6379`` or ``ray://HOST:10001``; ``local`` stands
            for a new cluster on this machine, which ends with the block.
        gpus: Whether a job takes a GPU as well.
        num_cpus: Jobs at a time on a new cluster; by default as many as this process may use cores.

    Raises:
        ConfigError: On entry, if Ray is not installed, the cluster cannot be reached or has no GPU; later,
            if the cluster is lost.
    """

    def __init__(self, address: str, *, gpus: bool = False, num_cpus: int | None = None) -> None:
        self.address, self.gpus, self.num_cpus = address, gpus, num_cpus
        self.ray: Any = None
        self._task: Any = None
        self._graphs: dict[str, Any] = {}
        self._session: str | None = None

    def __enter__(self) -> RayExecutor:
        try:
            with _environment(SETTINGS), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import ray
        except ImportError as error:
            raise ConfigError("--ray needs Ray: pip install 'hpn[ray]'") from error
        self.ray = ray
        if self.ray.is_initialized():
            raise ConfigError("Ray is in use in this process already; call ray.shutdown() first")
        if self.address != LOCAL:
            check_address(self.address)
        try:
            with quiet():
                self._connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._graphs = {}
        with quiet():
            self.ray.shutdown()
            if self._session:  # logs of Ray
                shutil.rmtree(self._session, ignore_errors=True)

    @property
    def num_workers(self) -> int:  # type: ignore[override]
        """Jobs that the cluster runs at a time as it is now: one per CPU, or GPU; at least one."""
        return max(1, self._count("GPU" if self.gpus else "CPU"))

    @property
    def num_begun(self) -> int:  # type: ignore[override]
        """Jobs that are submitted at a time."""
        return self.num_workers * JOBS_PER_CPU

    def _begin(self, job: Job, index: int) -> Any:
        key = job.config.data_sha256
        with quiet():
            if key not in self._graphs:
                self._graphs[key] = self.ray.put(job.graph)
            # In a list, or Ray would get the graph for every job.
            return self._task.remote(replace(job, graph=None, stream=None), [self._graphs[key]])

    def wait(self, answers: list[Any]) -> Collection[Any]:
        """One of the answers, if one has come."""
        with self._reachable():
            return list(self.ray.wait(answers, num_returns=1, timeout=POLL)[0])

    def _end(self, job: Job, answer: Any) -> JobEnd:
        end = JobEnd()
        try:
            end, files = self.get(answer)
            if files:
                write_files(job.folder, files)
        except (HPNError, OSError) as error:
            end = replace(end, error=one_line(error))
        return end

    def _cancel(self, answers: list[Any]) -> None:
        with quiet(), contextlib.suppress(Exception):
            for answer in answers:
                self.ray.cancel(answer, force=True)

    def get(self, answer: Any) -> Any:
        """The result of a task."""
        errors = self.ray.exceptions
        try:
            with quiet():
                return self.ray.get(answer)
        except errors.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, HPNError):
                raise type(cause)(str(cause)) from error
            if isinstance(error, errors.RayTaskError):
                why = f"failed on the cluster: {str(error).strip().splitlines()[-1]}"
                if "ModuleNotFoundError" in why or "ImportError" in why:
                    why += "; every machine of the cluster needs hpn, as it is installed here"
            elif isinstance(error, errors.OutOfMemoryError):
                why = "the machine that it ran on has too little memory"
            else:
                why = f"the worker or machine that it ran on died ({type(error).__name__})"
            raise WorkerError(one_line(why)) from error

    def _connect(self) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        variables = SETTINGS
        if self.address == LOCAL:
            options |= {"num_cpus": self.num_cpus or joblib.cpu_count()}
            options |= {"include_dashboard": False, "object_store_memory": OBJECT_STORE}
            # Workers must find the modules that this process finds, the source folder of hpn included.
            variables = {**SETTINGS, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
        try:
            with _environment(variables):
                context = self.ray.init(address=self.address, **options)
        except Exception as error:
            raise ConfigError(f"cannot use the Ray cluster {self.address} ({one_line(error)})") from error
        if self.address == LOCAL:
            self._session = context.address_info["session_dir"]
        if self.gpus and not self._count("GPU"):
            raise ConfigError(f"the Ray cluster {self.address} has no GPU; choose --device auto or cpu")
        needs = {"num_cpus": 1, **({"num_gpus": 1} if self.gpus else {})}
        self._task = self.ray.remote(**needs, max_retries=MAX_RETRIES)(run_there)

    def _count(self, resource: str) -> int:
        with self._reachable():
            return int(self.ray.cluster_resources().get(resource, 0))

    @contextlib.contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            with quiet():
                yield
        except Exception as error:
            raise ConfigError(f"lost the Ray cluster {self.address} ({one_line(error)})") from error


def run_there(job: Job, graph: list[Any]) -> tuple[JobEnd, dict[str, bytes]]:
    """Run a job whose folder is on another machine, in a temporary folder; its end, and the files of a seed."""
    check_versions(job.config.versions)
    with TemporaryDirectory(prefix="hpn-") as place:
        folder = Path(place) / job.folder.name
        end = run_job(replace(job, folder=folder), _fetch(graph[0]))
        end = replace(end, error=end.error and end.error.replace(str(folder), str(job.folder)))
        return end, {path.name: path.read_bytes() for path in folder.glob("*") if not end.error and path.is_file()}


@lru_cache(maxsize=2)
def _fetch(graph: Any) -> Graph:
    """A graph from Ray's object store, once for the jobs of a worker."""
    import ray

    found: Graph = ray.get(graph)
    return found


def check_versions(here: Mapping[str, str]) -> None:
    """Refuse to compute where other versions are installed."""
    different = "; ".join(list_differences(installed_versions(), here, "here"))
    if different:
        raise ConfigError(f"{socket.gethostname()} has other versions: {different}")


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a seed's folder hold these files, the result last: interrupted anywhere, the seed can be resumed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in sorted(files, key=lambda name: (name == RESULT, name == CHECKPOINT)):
        write_atomic(folder / name, files[name])


def check_address(address: str, wait: float = WAIT) -> None:
    """Check that a cluster answers; Ray itself tries for minutes and prints that, so another process tries."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    try:
        if host and port.isdecimal():  # most mistakes show at once
            socket.create_connection((host, int(port)), timeout=wait).close()
        words = [sys.executable, "-c", PROBE, address]
        probe = subprocess.run(words, capture_output=True, text=True, timeout=wait, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"cannot reach the Ray cluster {address} (no answer in {wait:.0f} seconds)") from error
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot reach the Ray cluster {address} ({error})") from error
    if probe.returncode:
        why = (probe.stderr.strip().splitlines() or [f"exit code {probe.returncode}"])[-1]
        if "AuthToken" in probe.stderr:
            why = "it requires a token; set RAY_AUTH_MODE=token, see Ray's documentation"
        raise ConfigError(f"cannot reach the Ray cluster {address} ({one_line(why)})")


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables inside, all as before outside."""
    before = {name: os.environ[name] for name in values if name in os.environ}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Around calls of Ray: no warnings, and Ctrl-C and the like wait until the end.

    Ray loses what a signal handler raises while it waits, and installs a handler of its own.
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
