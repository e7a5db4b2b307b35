"""Running jobs: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hpn.errors import ConfigError
from hpn.experiment.execute.jobs import JobEnd, JobExecutor
from hpn.experiment.execute.local import LocalExecutor
from hpn.experiment.execute.ray import RayExecutor
from hpn.experiment.run.runner import Job
from hpn.experiment.watch import JobsProgress, TrialsProgress, Watcher
from hpn.nn.device import choose_device


def open_executor(workers: int, ray: str | None, device: str) -> JobExecutor:
    """The executor that runs jobs inside a ``with`` block."""
    if workers < 1:
        raise ConfigError(f"workers must be at least 1, got {workers}")
    return LocalExecutor(workers) if ray is None else RayExecutor(ray, gpus=device == "cuda")


def choose_job_device(device: str, *, ray: str | None = None) -> str:
    """Check the choice of a device for jobs, and resolve ``auto``.

    On a Ray cluster, whose machines may differ, ``auto`` stands for the CPU; with ``cuda`` every job
    requests a GPU from Ray.
    """
    if ray is None:
        return str(choose_device(device))
    if device not in {"auto", "cpu", "cuda"}:
        raise ConfigError(f"device {device!r} is not available on a Ray cluster; choose cpu, cuda or auto")
    return "cuda" if device == "cuda" else "cpu"


@dataclass
class Batch:
    """Runs jobs, long ones first, and reports their progress."""

    executor: JobExecutor
    watcher: Watcher
    total: int  # jobs in all, those that need not run included
    done: int = 0  # jobs that have ended or need not run
    trials: Callable[[], TrialsProgress] | None = None  # the progress of a search, if jobs are for one
    _seconds: list[float] = field(default_factory=list)

    def run(self, jobs: Sequence[Job], on_end: Callable[[Job, JobEnd], None]) -> None:
        """Run jobs; ``on_end`` is called for each as it ends."""
        ordered = sorted(jobs, key=_effort, reverse=True)
        left = list(ordered)
        self._show(left)
        with contextlib.closing(self.executor.run(ordered)) as ends:
            for index, end in ends:
                job = ordered[index]
                left.remove(job)
                self.done += 1
                self._seconds.append(end.seconds)
                on_end(job, end)
                self._show(left, job, end.error)

    def _show(self, left: Sequence[Job], last: Job | None = None, error: str | None = None) -> None:
        num_workers, remaining = self.executor.num_workers, None
        if self._seconds:
            remaining = sum(self._seconds) / len(self._seconds) * (self.total - self.done) / num_workers
        running = tuple(map(str, left[:num_workers]))  # they begin in order
        trials = self.trials() if self.trials else None
        name = str(last) if last else None
        self.watcher.jobs_moved(JobsProgress(self.done, self.total, running, name, error, remaining, trials))


def _effort(job: Job) -> float:
    """How long a job takes relative to others, roughly; decides only the order in which they begin."""
    epochs = float(job.config.effective_params().get("epochs", 50))
    nodes = job.graph.num_nodes if job.graph else 1
    # Joint training learns from 1, 2, … of the steps, the others from one at a time.
    steps = (len(job.config.plan.steps) + 1) / 2 if job.config.learner.sees_past else 1.0
    # An epoch with GAT takes about four times as long as with GCN.
    return nodes * epochs * steps * (4 if job.config.backbone == "gat" else 1)
