"""Where a seed stands: what is logged, kept in checkpoints, and written at its end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from hpn.errors import CheckpointError
from hpn.evaluation import Row
from hpn.experiment.run.checkpoint import load_checkpoint, save_checkpoint
from hpn.experiment.run.costs import Stopwatch, peak_rss_mb
from hpn.experiment.run.files import write_json
from hpn.experiment.run.folder import RESULT, VIEWS
from hpn.experiment.run.log import EventLog
from hpn.experiment.run.views import View
from hpn.experiment.watch import Watcher
from hpn.learners import Learner, Observer, Progress

CHECKPOINT_SHARE = 0.05
"""At most this share of a run's time goes into checkpoints between tasks."""


@dataclass
class SeedRun(Observer):
    """Where a seed stands: kept in its checkpoint, brought back by :meth:`resume`."""

    folder: Path
    learner: Learner
    seed: int
    watcher: Watcher
    log: EventLog
    watch: Stopwatch
    rows: list[Row] = field(default_factory=list)
    growth: list[dict[str, Any]] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    peak_rss_mb: float | None = None
    _saved_at: float = field(default_factory=time.perf_counter)
    _save_seconds: float = 0.0

    @classmethod
    def resume(cls, folder: Path, learner: Learner, seed: int, watcher: Watcher) -> SeedRun:
        """Take up the checkpoint in ``folder``, or start from nothing."""
        saved = load_checkpoint(folder) or {}
        try:
            learner.load_state_dict(saved.get("learner", {}))
            progress = cls(
                folder,
                learner,
                seed,
                watcher,
                EventLog(folder / "log.jsonl", keep=saved.get("log_bytes", 0)),
                Stopwatch(saved.get("seconds", {})),
                [Row(**row) for row in saved.get("rows", [])],
                saved.get("growth", []),
                saved.get("views", []),
                saved.get("peak_rss_mb"),
            )
            # Sums depend on how they are divided among threads, so a run keeps the number it began with.
            torch.set_num_threads(saved.get("threads", torch.get_num_threads()))
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"the checkpoint in {folder} does not fit this method ({error}); "
                "use --fresh to start over, or choose another --out"
            ) from error
        step = int(saved.get("step", 0))
        progress.log.write("resumed" if saved else "started", task=progress.next_task, step=step)
        watcher.seed_started(seed, progress.next_task, step)
        return progress

    @property
    def next_task(self) -> int:
        """The task to learn, or to go on learning."""
        return len(self.rows)

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        """Log a step; checkpoint if that costs little next to the time since the last one."""
        self.log.write("step", task=progress.task, done=progress.done, **progress.metrics)
        self.watcher.epoch_finished(self.seed, progress)
        since = time.perf_counter() - self._saved_at
        if progress.done < progress.total and self._save_seconds < CHECKPOINT_SHARE * since:
            self._save(step=progress.done)

    def finish_task(self, row: Row, view: View | None = None) -> None:
        """Keep a row of the matrices, what the learner has grown to and a view, and checkpoint."""
        self.rows.append(row)
        self.growth.append(
            {
                "parameters": self.learner.num_parameters,
                "stored": self.learner.num_stored,
                "prototypes": self.learner.prototype_counts,
            }
        )
        if view is not None:
            self.views.append(view)
        task = len(self.rows) - 1
        self.log.write("task", task=task, accuracy=row.accuracy, balanced=row.balanced)
        self._save(step=0)
        self.watcher.task_finished(self.seed, task, row)

    def finish(self) -> None:
        """Write the seed's result."""
        self.log.write("finished")
        if len(self.views) == len(self.rows):
            write_json(self.folder / VIEWS, self.views)
        write_json(
            self.folder / RESULT,
            {
                "seed": self.seed,
                "matrix": [row.accuracy for row in self.rows],
                "balanced": [row.balanced for row in self.rows],
                "parameters": self.learner.num_parameters,
                "stored": self.learner.num_stored,
                "prototypes": self.learner.prototype_counts,
                "bounds": self.learner.prototype_bounds,
                "parameter_bound": self.learner.parameter_bound,
                "growth": self.growth,
                "seconds": self.watch.read(),
                "peak_rss_mb": self._peak(),
                "device": self.learner.device.type,
            },
        )
        self.watcher.seed_finished(self.seed, reused=False)

    def _save(self, step: int) -> None:
        start = time.perf_counter()
        save_checkpoint(
            self.folder,
            {
                "learner": self.learner.state_dict(),
                "rows": [{"accuracy": row.accuracy, "balanced": row.balanced} for row in self.rows],
                "growth": self.growth,
                "views": self.views,
                "step": step,
                "seconds": self.watch.read(),
                "peak_rss_mb": self._peak(),
                "threads": torch.get_num_threads(),
                "log_bytes": self.log.size(),
            },
        )
        self._saved_at = time.perf_counter()
        self._save_seconds = self._saved_at - start

    def _peak(self) -> float | None:
        now = peak_rss_mb()
        return now if now is None or self.peak_rss_mb is None else max(now, self.peak_rss_mb)
