"""Run folders of a comparison or reproduction, and running what they lack.

While workers write the folders of seeds, this process holds the locks of the run folders. It puts the seeds
of a cell together, and releases the folder, as soon as the last of them has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpn.datasets import Graph
from hpn.experiment.execute.jobs import Batch, Executor, JobEnd, one_line
from hpn.experiment.run.config import RunConfig
from hpn.experiment.run.folder import RESULT, VIEWS, open_run_folder, write_json
from hpn.experiment.run.result import RunResult, combine_seeds
from hpn.experiment.run.runner import Job
from hpn.experiment.run.views import combine_views
from hpn.experiment.watch import Watcher


@dataclass(eq=False)
class CellRun:
    """The run of a cell, which ends with a result or with the reason that there is none.

    Args:
        folder: The run folder.
        name: What to call it in progress displays; by default method and backbone.
        views: Whether the test nodes are drawn after each step as well.
        missing: Jobs of seeds that have not ended.
    """

    config: RunConfig
    folder: Path
    seeds: Sequence[int]
    data_root: Path | None
    graph: Graph = field(repr=False)
    name: str | None = None
    views: bool = False
    device: str = "cpu"
    result: RunResult | None = None
    error: str | None = None
    missing: list[Job] = field(default_factory=list)
    _lock: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def jobs(self) -> list[Job]:
        """A job for each seed."""
        shared = {key: getattr(self, key) for key in ("views", "device", "data_root", "graph", "name")}
        return [Job(self.config, seed, self.folder / f"seed-{seed}", **shared) for seed in self.seeds]

    def open(self, *, fresh: bool) -> None:
        """Lock the folder, and see which seeds are missing."""
        with self._catching():
            self._lock.enter_context(open_run_folder(self.folder, self.config, fresh=fresh))
            self.missing = [job for job in self.jobs if not job.is_finished()]
        if not self.missing:
            self._finish(is_new=False)

    def job_ended(self, job: Job, end: JobEnd) -> None:
        """Count a seed as done; after the last one, put them together."""
        self.error = self.error or end.error
        self.missing.remove(job)
        if not self.missing:
            self._finish(is_new=True)

    def close(self) -> None:
        """Release the folder."""
        self._lock.close()

    def combine(self, reference: RunResult | None = None) -> RunResult:
        """Put the finished seeds together, measured against a reference run if one is given."""
        names, finished = self.graph.class_names, [job.read() for job in self.jobs]
        command = self.config.command(self.seeds, self.data_root)
        return combine_seeds(self.config, names, finished, command=command, out=self.folder, reference=reference)

    def _finish(self, *, is_new: bool) -> None:
        with self._catching():
            if self.error is None:
                result = self.combine()
                if is_new or not (self.folder / RESULT).exists():
                    write_json(self.folder / RESULT, result.to_json())
                if self.views and (is_new or not (self.folder / VIEWS).exists()):
                    combine_views(self.folder, self.seeds)
                self.result = result
        self.close()

    @contextlib.contextmanager
    def _catching(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # one cell that fails does not stop the others
            self.error = one_line(error)


def run_cells(cells: Sequence[CellRun], executor: Executor, *, fresh: bool, watcher: Watcher) -> None:
    """Run the seeds that are missing, so that every cell has its result or its error.

    Args:
        cells: The cells, each in a folder of its own.
        executor: Where jobs run.
        fresh: Delete what the run folders hold.
        watcher: Is told how far it is.
    """
    with contextlib.ExitStack() as folders:
        owners: dict[Job, CellRun] = {}
        for cell in cells:
            folders.callback(cell.close)
            cell.open(fresh=fresh)
            owners |= dict.fromkeys(cell.missing, cell)
        batch = Batch(executor, watcher, total=sum(len(cell.seeds) for cell in cells))
        batch.done = batch.total - len(owners)
        batch.run(list(owners), lambda job, end: owners[job].job_ended(job, end))
