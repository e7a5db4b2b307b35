"""Run folders of a comparison or reproduction, and running the seeds they lack.

While workers write the folders of seeds, this process holds the locks of the run folders. It combines the seeds
of a cell, and releases the folder, as soon as the last of them has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hpn.experiment.execute import Batch
from hpn.experiment.execute.jobs import JobEnd, JobExecutor, one_line
from hpn.experiment.run.folder import RESULT, VIEWS, open_run_folder, write_json
from hpn.experiment.run.result import RunResult
from hpn.experiment.run.runner import Job, PlannedRun
from hpn.experiment.run.views import combine_views
from hpn.experiment.watch import Watcher


@dataclass(eq=False)
class CellRun(PlannedRun):
    """The run of a cell, which ends with a result or with the reason why there is none."""

    result: RunResult | None = None
    error: str | None = None
    missing: list[Job] = field(default_factory=list)  # jobs of seeds that have not ended
    _lock: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def open(self, *, fresh: bool) -> None:
        """Lock the folder, and find the missing seeds."""
        with self._catching():
            self._lock.enter_context(open_run_folder(self.folder, self.config.to_json(), fresh=fresh))
            self.missing = [job for job in self.jobs if not job.is_finished()]
        if not self.missing:
            self._finish(is_new=False)

    def job_ended(self, job: Job, end: JobEnd) -> None:
        """Count a seed as done; after the last one, combine them."""
        self.error = self.error or end.error
        self.missing.remove(job)
        if not self.missing:
            self._finish(is_new=True)

    def close(self) -> None:
        """Release the folder."""
        self._lock.close()

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


def run_cells(cells: Sequence[CellRun], executor: JobExecutor, *, fresh: bool, watcher: Watcher) -> None:
    """Run the missing seeds, so that every cell has its result or its error."""
    with contextlib.ExitStack() as folders:
        owners: dict[Job, CellRun] = {}
        for cell in cells:
            folders.callback(cell.close)
            cell.open(fresh=fresh)
            owners |= dict.fromkeys(cell.missing, cell)
        batch = Batch(executor, watcher, total=sum(len(cell.seeds) for cell in cells))
        batch.done = batch.total - len(owners)
        batch.run(list(owners), lambda job, end: owners[job].job_ended(job, end))
