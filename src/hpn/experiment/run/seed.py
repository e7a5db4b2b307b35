"""The progress of a seed: what is logged, kept in checkpoints, and written at its end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, Field

from hpn.errors import CheckpointError, ConfigError, RunFolderError
from hpn.evaluation import Row
from hpn.experiment.run.checkpoint import load_checkpoint, save_checkpoint
from hpn.experiment.run.environment import Stopwatch, peak_rss_mb
from hpn.experiment.run.folder import RESULT, START_OVER, VIEWS, read_config, write_json
from hpn.experiment.run.result import Costs, Growth, SeedResult, View
from hpn.experiment.watch import Watcher
from hpn.learners import Learner, Observer, Progress
from hpn.learners.finding import find_learner

# At most this share of a run's time is spent on checkpoints between tasks.
CHECKPOINT_SHARE = 0.05


class EventLog:
    """Appends events to a file, which after a crash is cut back to the bytes that the checkpoint counted."""

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
        try:
            learner.load_state_dict(saved.get("learner", {}))
            self.state = SeedState.model_validate(saved)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            why = " ".join(str(error).split())
            raise CheckpointError(
                f"the checkpoint in {folder} does not fit this method ({why}); {START_OVER}"
            ) from error
        torch.set_num_threads(self.state.threads)
        self.log = EventLog(folder / "log.jsonl", keep=self.state.log_bytes)
        self.watch = Stopwatch(self.state.seconds)
        self.num_saved = self.next_step
        self._saved_at, self._save_seconds = time.perf_counter(), 0.0
        self.log.write("resumed" if saved else "started", step=self.next_step, epoch=self.state.epoch)
        watcher.seed_started(seed, self.next_step, self.state.epoch)

    @property
    def next_step(self) -> int:
        """The step to learn, or to resume."""
        return len(self.state.rows)

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        """Log an epoch; save a checkpoint if that is quick relative to the time since the last one."""
        self.log.write("epoch", step=progress.task, done=progress.done, **progress.metrics)
        self.watcher.epoch_finished(self.seed, progress)
        since = time.perf_counter() - self._saved_at
        if progress.done < progress.total and self._save_seconds < CHECKPOINT_SHARE * since:
            self._save(epoch=progress.done)

    def finish_step(self, row: Row, view: View | None = None) -> None:
        """Keep a row of the matrices, the sizes of the learner and a view, and save a checkpoint."""
        step, learner = self.next_step, self.learner
        self.state.rows.append(row)
        self.state.growth.append(
            Growth(parameters=learner.num_parameters, stored=learner.num_stored, prototypes=learner.prototype_counts)
        )
        self.state.views += [view] if view else []
        self.log.write("step", step=step, accuracy=row.accuracy, balanced=row.balanced)
        self._save(epoch=0)
        self.watcher.step_finished(self.seed, step, row)

    def finish(self) -> SeedResult:
        """Write the seed's result."""
        self.log.write("finished")
        state, learner = self.state, self.learner
        if len(state.views) == len(state.rows):
            write_json(self.folder / VIEWS, [view.model_dump(mode="json") for view in state.views])
        result = SeedResult(
            seed=self.seed,
            matrix=[row.accuracy for row in state.rows],
            balanced=[row.balanced for row in state.rows],
            chance=[row.chance for row in state.rows],
            parameters=learner.num_parameters,
            stored=learner.num_stored,
            prototypes=learner.prototype_counts,
            bounds=learner.prototype_bounds,
            parameter_bound=learner.parameter_bound,
            growth=state.growth,
            seconds=Costs(**self.watch.read()),
            peak_rss_mb=self._peak(),
            device=learner.device.type,
        )
        write_json(self.folder / RESULT, result.model_dump(mode="json"))
        self.watcher.seed_finished(self.seed, reused=False)
        return result

    def _save(self, epoch: int) -> None:
        start, state = time.perf_counter(), self.state
        state.epoch, state.seconds, state.peak_rss_mb = epoch, self.watch.read(), self._peak()
        state.log_bytes = self.log.size()
        save_checkpoint(self.folder, {"learner": self.learner.state_dict(), **state.model_dump(mode="json")})
        self.num_saved = self.next_step
        self._saved_at = time.perf_counter()
        self._save_seconds = self._saved_at - start

    def _peak(self) -> float | None:
        now, before = peak_rss_mb(), self.state.peak_rss_mb
        return now if now is None or before is None else max(now, before)


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
    try:
        return kind(seed=seed, **config["params"]).load_state_dict(saved["learner"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"the checkpoint of seed {seed} in {folder} does not fit this version of {config['method']} "
            f"({error!r}); run its command again with --fresh"
        ) from error
