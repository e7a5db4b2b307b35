"""The progress of a seed: what is logged, kept in checkpoints, and written at its end."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, Field

from hpn.errors import CheckpointError, ConfigError, RunFolderError
from hpn.evaluation import Row
from hpn.experiment.run.checkpoint import load_checkpoint, save_checkpoint
from hpn.experiment.run.environment import Stopwatch, peak_rss_mb
from hpn.experiment.run.folder import RESULT, START_OVER, VIEWS, append_json, read_config, write_json
from hpn.experiment.run.result import Costs, Growth, SeedResult, View
from hpn.experiment.watch import Watcher
from hpn.learners import Learner, Observer, Progress
from hpn.learners.finding import find_learner

# At most this share of a run's time is spent on checkpoints between tasks.
CHECKPOINT_SHARE = 0.05


class SeedState(BaseModel):
    """What a checkpoint holds beside the state of the learner."""

    rows: list[Row] = []
    growth: list[Growth] = []
    views: list[View] = []
    epoch: int = 0  # epochs of the next step that are done
    seconds: dict[str, float] = {}
    peak_rss_mb: float | None = None
    # Sums depend on how they are divided among threads, so a run keeps the number it began with.
    threads: int = Field(default_factory=torch.get_num_threads)
    log_bytes: int = 0


class SeedRun(Observer):
    """A seed under way, which resumes from the checkpoint in its folder if there is one."""

    def __init__(self, folder: Path, learner: Learner, seed: int, watcher: Watcher) -> None:
        self.folder, self.learner, self.seed, self.watcher = folder, learner, seed, watcher
        saved = load_checkpoint(folder) or {}
        with _checking_fit(folder):
            learner.load_state_dict(saved.get("learner", {}))
            self.state = SeedState.model_validate(saved)
        torch.set_num_threads(self.state.threads)
        self.log = folder / "log.jsonl"
        self.log.touch()
        # Back to what the checkpoint counted; a power cut may have taken more.
        os.truncate(self.log, min(self.state.log_bytes, self.log.stat().st_size))
        self.watch = Stopwatch(self.state.seconds)
        self.num_saved = self.next_step
        self._saved_at, self._save_seconds = time.perf_counter(), 0.0
        self._log("resumed" if saved else "started", step=self.next_step, epoch=self.state.epoch)
        watcher.seed_started(seed, self.next_step, self.state.epoch)

    @property
    def next_step(self) -> int:
        """The step to learn, or to resume."""
        return len(self.state.rows)

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        """Log an epoch; save a checkpoint if that is quick relative to the time since the last one."""
        self._log("epoch", step=progress.task, done=progress.done, **progress.metrics)
        self.watcher.epoch_finished(self.seed, progress)
        since = time.perf_counter() - self._saved_at
        if progress.done < progress.total and self._save_seconds < CHECKPOINT_SHARE * since:
            self._save(epoch=progress.done)

    def finish_step(self, row: Row, view: View | None = None) -> None:
        """Keep a row of the matrices, the sizes of the learner and a view, and save a checkpoint."""
        step, learner = self.next_step, self.learner
        self.state.rows.append(row)
        self.state.growth.append(Growth(**_sizes(learner)))
        self.state.views += [view] if view else []
        self._log("step", step=step, accuracy=row.accuracy, balanced=row.balanced)
        self._save(epoch=0)
        self.watch.lap()
        self.watcher.step_finished(self.seed, step, row)

    def finish(self) -> None:
        """Write the seed's result."""
        self._log("finished")
        state, learner = self.state, self.learner
        if len(state.views) == len(state.rows):
            write_json(self.folder / VIEWS, [view.model_dump(mode="json") for view in state.views])
        result = SeedResult(
            seed=self.seed,
            matrix=[row.accuracy for row in state.rows],
            balanced=[row.balanced for row in state.rows],
            chance=[row.chance for row in state.rows],
            **_sizes(learner),
            bounds=learner.prototype_bounds,
            parameter_bound=learner.parameter_bound,
            growth=state.growth,
            seconds=Costs(**self.watch.lap()),
            peak_rss_mb=self._peak(),
            device=learner.device.type,
        )
        write_json(self.folder / RESULT, result.model_dump(mode="json"))
        self.watcher.seed_finished(self.seed, reused=False)

    def _save(self, epoch: int) -> None:
        start, state = time.perf_counter(), self.state
        state.epoch, state.peak_rss_mb = epoch, self._peak()
        state.seconds = self.watch.lap("fit") if epoch else self.watch.lap()
        state.log_bytes = self.log.stat().st_size
        save_checkpoint(self.folder, {"learner": self.learner.state_dict(), **state.model_dump(mode="json")})
        self.num_saved = self.next_step
        self._saved_at = time.perf_counter()
        self._save_seconds = self._saved_at - start

    def _log(self, event: str, **details: Any) -> None:
        append_json(self.log, {"time": round(time.time(), 3), "event": event, **details})

    def _peak(self) -> float | None:
        now, before = peak_rss_mb(), self.state.peak_rss_mb
        return now if now is None or before is None else max(now, before)


def _sizes(learner: Learner) -> dict[str, Any]:
    counts = learner.prototype_counts
    return {"parameters": learner.num_parameters, "stored": learner.num_stored, "prototypes": counts}


@contextlib.contextmanager
def _checking_fit(folder: Path) -> Iterator[None]:
    """What a learner says of a state that is not its own, as an error that names the checkpoint."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())
        raise CheckpointError(
            f"the checkpoint in {folder} does not fit this method, or this version of it ({why}); {START_OVER}"
        ) from error


def load_learner(run: Path | str, seed: int = 0, *, learner: type[Learner] | None = None) -> Learner:
    """Load a learner as a run left it.

    Args:
        run: A run folder, finished or not.
        seed: Which of its seeds.
        learner: The class of a learner of your own, if it cannot be imported by the name in the run folder.

    Raises:
        RunFolderError: If there is no such run or seed, or its learner cannot be imported.
        CheckpointError: If its checkpoint is damaged or of a newer version.
    """
    folder = Path(run)
    config = read_config(folder)
    saved = load_checkpoint(folder / f"seed-{seed}")
    if saved is None:
        raise RunFolderError(f"{folder} has no checkpoint of seed {seed}")
    try:
        kind = learner or find_learner(config["method"])[1]
    except ConfigError as error:
        raise RunFolderError(
            f"{folder}: {error}; load it where its module can be imported, or give its class with learner="
        ) from error
    with _checking_fit(folder / f"seed-{seed}"):
        return kind(seed=seed, **config["params"]).load_state_dict(saved["learner"])
