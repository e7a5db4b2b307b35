"""Where a seed stands: what is logged, kept in checkpoints, and written at its end."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from hpn.errors import CheckpointError
from hpn.evaluation import Row
from hpn.experiment.run.checkpoint import load_checkpoint, save_checkpoint
from hpn.experiment.run.environment import Stopwatch, peak_rss_mb
from hpn.experiment.run.folder import RESULT, VIEWS, write_json
from hpn.experiment.run.result import Costs, Growth, SeedResult, View
from hpn.experiment.watch import Watcher
from hpn.learners import Learner, Observer, Progress

CHECKPOINT_SHARE = 0.05
"""At most this share of a run's time goes into checkpoints between tasks."""


class EventLog:
    """Appends events; after a crash it is cut back to what the checkpoint knows of.

    Args:
        path: The file.
        keep: Bytes that are known to be good; what is behind them belongs to work that is done again.
    """

    def __init__(self, path: Path, keep: int) -> None:
        self._file = path.open("ab")
        self._file.truncate(min(keep, self._file.tell()))  # a power cut may have taken more

    def write(self, event: str, **details: Any) -> None:
        """Append one event."""
        entry = {"time": round(time.time(), 3), "event": event, **details}
        self._file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
        self._file.flush()

    def size(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


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
    growth: list[Growth] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    peak_rss_mb: float | None = None
    num_saved: int = 0
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
                [Growth(**entry) for entry in saved.get("growth", [])],
                [View(**view) for view in saved.get("views", [])],
                saved.get("peak_rss_mb"),
            )
            # Sums depend on how they are divided among threads, so a run keeps the number it began with.
            torch.set_num_threads(saved.get("threads", torch.get_num_threads()))
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"the checkpoint in {folder} does not fit this method ({error}); "
                "use --fresh to start over, or choose another --out"
            ) from error
        progress.num_saved = progress.next_step
        epoch = int(saved.get("epoch", 0))
        progress.log.write("resumed" if saved else "started", step=progress.next_step, epoch=epoch)
        watcher.seed_started(seed, progress.next_step, epoch)
        return progress

    @property
    def next_step(self) -> int:
        """The step to learn, or to resume."""
        return len(self.rows)

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        """Log an epoch; checkpoint if that costs little next to the time since the last one."""
        self.log.write("epoch", step=progress.task, done=progress.done, **progress.metrics)
        self.watcher.epoch_finished(self.seed, progress)
        since = time.perf_counter() - self._saved_at
        if progress.done < progress.total and self._save_seconds < CHECKPOINT_SHARE * since:
            self._save(epoch=progress.done)

    def finish_step(self, row: Row, view: View | None = None) -> None:
        """Keep a row of the matrices, what the learner has grown to and a view, and checkpoint."""
        self.rows.append(row)
        learner = self.learner
        self.growth.append(
            Growth(parameters=learner.num_parameters, stored=learner.num_stored, prototypes=learner.prototype_counts)
        )
        if view is not None:
            self.views.append(view)
        step = len(self.rows) - 1
        self.log.write("step", step=step, accuracy=row.accuracy, balanced=row.balanced)
        self._save(epoch=0)
        self.watcher.step_finished(self.seed, step, row)

    def finish(self) -> SeedResult:
        """Write the seed's result."""
        self.log.write("finished")
        if len(self.views) == len(self.rows):
            write_json(self.folder / VIEWS, [view.model_dump(mode="json") for view in self.views])
        learner = self.learner
        result = SeedResult(
            seed=self.seed,
            matrix=[row.accuracy for row in self.rows],
            balanced=[row.balanced for row in self.rows],
            chance=[row.chance for row in self.rows],
            parameters=learner.num_parameters,
            stored=learner.num_stored,
            prototypes=learner.prototype_counts,
            bounds=learner.prototype_bounds,
            parameter_bound=learner.parameter_bound,
            growth=self.growth,
            seconds=Costs(**self.watch.read()),
            peak_rss_mb=self._peak(),
            device=learner.device.type,
        )
        write_json(self.folder / RESULT, result.model_dump(mode="json"))
        self.watcher.seed_finished(self.seed, reused=False)
        return result

    def _save(self, epoch: int) -> None:
        start = time.perf_counter()
        save_checkpoint(
            self.folder,
            {
                "learner": self.learner.state_dict(),
                "rows": [asdict(row) for row in self.rows],
                "growth": [entry.model_dump(mode="json") for entry in self.growth],
                "views": [view.model_dump(mode="json") for view in self.views],
                "epoch": epoch,
                "seconds": self.watch.read(),
                "peak_rss_mb": self._peak(),
                "threads": torch.get_num_threads(),
                "log_bytes": self.log.size(),
            },
        )
        self.num_saved = len(self.rows)
        self._saved_at = time.perf_counter()
        self._save_seconds = self._saved_at - start

    def _peak(self) -> float | None:
        now = peak_rss_mb()
        return now if now is None or self.peak_rss_mb is None else max(now, self.peak_rss_mb)
