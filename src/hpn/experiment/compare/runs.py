"""Run folders of a comparison or reproduction, and running what they lack.

While workers write the folders of seeds, this process holds the locks of the run folders. It puts the seeds
of a cell together, and gives the folder back, as soon as the last of them has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpn.datasets import Graph
from hpn.experiment.execute.cluster import Cluster
from hpn.experiment.execute.graphs import graphs
from hpn.experiment.execute.jobs import Batch, Job, reason
from hpn.experiment.run.config import RunConfig
from hpn.experiment.run.folder import RESULT, VIEWS, open_run_folder, write_json
from hpn.experiment.run.runner import combine_finished, is_finished
from hpn.experiment.run.views import combine_views
from hpn.experiment.watch import BatchWatcher


@dataclass(eq=False)
class CellRun:
    """The run of a cell, which ends with a result or with the reason that there is none.

    Args:
        config: The run.
        folder: Its run folder.
        seeds: Its seeds.
        data_root: Folder with the data.
        graph: Its data.
        name: What to call it in progress displays; by default method and backbone.
        views: Whether the test nodes are drawn after each task as well.
        device: Where its learners compute.
    """

    config: RunConfig
    folder: Path
    seeds: Sequence[int]
    data_root: Path | None
    graph: Graph = field(repr=False)
    name: str | None = None
    views: bool = False
    device: str = "cpu"
    missing: set[int] = field(default_factory=set)
    result: dict[str, Any] | None = None
    error: str | None = None
    _lock: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def open(self, *, fresh: bool) -> list[Job]:
        """Lock the folder; gives a job for each seed that is not there yet."""
        with self._catching():
            self._lock.enter_context(open_run_folder(self.folder, self.config, fresh=fresh))
            self.missing = {
                seed for seed in self.seeds if not is_finished(self._seed_folder(seed), views=self.views)
            }
        if not self.missing:
            self._finish(is_new=False)
        return [
            Job(
                self.config,
                seed,
                self._seed_folder(seed),
                self.data_root,
                self.graph.num_nodes,
                self.name,
                self.views,
                self.device,
            )
            for seed in sorted(self.missing)
        ]

    def job_ended(self, job: Job, error: str | None) -> None:
        """Count a seed as done; after the last one, put them together."""
        self.error = self.error or error
        self.missing.discard(job.seed)
        if not self.missing:
            self._finish(is_new=True)

    def close(self) -> None:
        """Give the folder back."""
        self._lock.close()

    def _finish(self, *, is_new: bool) -> None:
        with self._catching():
            if self.error is None:
                result = combine_finished(
                    self.config, self.graph, self.seeds, self.folder, data_root=self.data_root
                )
                if is_new or not (self.folder / RESULT).exists():
                    write_json(self.folder / RESULT, result)
                if self.views and (is_new or not (self.folder / VIEWS).exists()):
                    combine_views(self.folder, self.seeds)
                self.result = result
        self.close()

    def _seed_folder(self, seed: int) -> Path:
        return self.folder / f"seed-{seed}"

    @contextlib.contextmanager
    def _catching(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # one cell that fails is not to take the others with it
            self.error = reason(error)


def run_cells(
    cells: Sequence[CellRun],
    *,
    workers: int,
    fresh: bool,
    watcher: BatchWatcher,
    cluster: Cluster | None = None,
) -> None:
    """Run the seeds that are missing, so that every cell has its result or its error.

    Args:
        cells: The cells, each in a folder of its own.
        workers: How many processes.
        fresh: Delete what the run folders hold.
        watcher: Is told how far it is.
        cluster: Where jobs run instead.
    """
    with contextlib.ExitStack() as folders:
        owners: dict[Job, CellRun] = {}
        for cell in cells:
            folders.callback(cell.close)
            owners |= dict.fromkeys(cell.open(fresh=fresh), cell)
            graphs[cell.config.data_sha256] = cell.graph
        folders.callback(graphs.clear)
        total = sum(len(cell.seeds) for cell in cells)
        width = workers if cluster is None else cluster.num_jobs
        batch = Batch(list(owners), workers=width, total=total, watcher=watcher, execute=cluster)
        batch.run(lambda job, error: owners[job].job_ended(job, error))
