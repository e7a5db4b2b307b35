"""Sends runs to TensorBoard or MLflow: metrics per step, losses per epoch, hyper-parameters and a summary.

The logs of the seeds are the only source. A run that was interrupted, or that finished before it was tracked, is
therefore sent completely, and nothing is sent twice. A tracker that fails never stops a run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpn.errors import ConfigError, nearest
from hpn.experiment.run.folder import read_config, read_json, write_json
from hpn.experiment.run.result import RunResult, load_result
from hpn.experiment.watch import Watcher
from hpn.learners import Progress
from hpn.metrics import METRICS, Measured

LOG = logging.getLogger(__name__)
PARAM_LENGTH = 500
"""MLflow takes no longer values of parameters."""
BATCH = 1000
"""MLflow takes no more metrics at once."""
INTERVAL = 2.0
"""Seconds between two messages about epochs, which are counted as time of the fit."""

Point = tuple[Mapping[str, float], int, int]
"""Values by name, the step, and the time in milliseconds."""


class TensorBoard:
    """Event files in the folders of a run and of its seeds: ``tensorboard --logdir runs`` shows them.

    Args:
        folder: Folder of a run or of one of its seeds. Earlier event files in it are replaced.
        name: Unused; TensorBoard names runs by their folders.
        params: Shown as a table.
        parent: Unused; folders are nested.
    """

    package = "tensorboard"
    num_sent = 0

    def __init__(self, folder: Path, name: str, params: Mapping[str, Any], parent: TensorBoard | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        for earlier in folder.glob("events.out.tfevents.*"):
            earlier.unlink()
        self._writer = SummaryWriter(str(folder))
        rows = "\n".join(f"| {key} | {value} |" for key, value in params.items())
        self._writer.add_text("configuration", f"| name | value |\n|---|---|\n{rows}")

    def send(self, points: Sequence[Point]) -> None:
        """Add points to the curve of each value."""
        for values, step, milliseconds in points:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step, walltime=milliseconds / 1000)
        self._writer.flush()

    def count(self, num_sent: int) -> None:
        """Nothing: the files are written anew the next time."""

    def close(self, status: str = "FINISHED") -> None:
        """Close the file."""
        self._writer.close()


class MLflow:
    """One MLflow run per run and, nested in it, one per seed, in the experiment ``hpn-DATASET``.

    They go where MLflow is set to send them (``MLFLOW_TRACKING_URI``), by default to ``mlflow.db``. The folder
    keeps the identity of its MLflow run, so that a resumed run is continued.

    Args:
        folder: Folder of a run or of one of its seeds.
        name: What MLflow shows.
        params: Logged as parameters.
        parent: The MLflow run of the run, for a seed.
    """

    package = "mlflow"

    def __init__(self, folder: Path, name: str, params: Mapping[str, Any], parent: MLflow | None) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it reports every table that it creates
        self._client, self._file = MlflowClient(), folder / ".mlflow"
        kept = read_json(self._file) or {}
        if kept.get("uri") == self._client.tracking_uri:
            self._run, self.num_sent = kept["run"], int(kept["num_sent"])
            self._client.update_run(self._run, status="RUNNING")
            return
        title = f"hpn-{Path(params['dataset']).stem}"
        experiment = self._client.get_experiment_by_name(title)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(title)
        tags = {"mlflow.parentRunId": parent._run} if parent else {}
        self._run = self._client.create_run(experiment_id, run_name=name, tags=tags).info.run_id
        entries = [Param(key, str(value)[:PARAM_LENGTH]) for key, value in params.items()]
        self._client.log_batch(self._run, params=entries)
        self.count(0)

    def send(self, points: Sequence[Point]) -> None:
        """Log points of each metric."""
        from mlflow.entities import Metric

        metrics = [Metric(name, value, at, step) for values, step, at in points for name, value in values.items()]
        for start in range(0, len(metrics), BATCH):
            self._client.log_batch(self._run, metrics[start : start + BATCH])

    def count(self, num_sent: int) -> None:
        """Note how many events were sent."""
        self.num_sent = num_sent
        write_json(self._file, {"uri": self._client.tracking_uri, "run": self._run, "num_sent": num_sent})

    def close(self, status: str = "FINISHED") -> None:
        """Mark the run as ended."""
        self._client.set_terminated(self._run, status)


TRACKERS: dict[str, Any] = {"tensorboard": TensorBoard, "mlflow": MLflow}
"""What ``--track`` takes."""


class Tracker(Watcher):
    """Sends a run while it goes on, and passes everything on to another watcher.

    Args:
        name: ``tensorboard`` or ``mlflow``.
        watcher: The other watcher.

    Raises:
        ConfigError: If there is no such tracker, or its package is not installed.
    """

    def __init__(self, name: str, watcher: Watcher | None = None) -> None:
        if name not in TRACKERS:
            raise ConfigError(f"unknown tracker {name!r}; {nearest(name, TRACKERS)}known: {', '.join(TRACKERS)}")
        self._kind = TRACKERS[name]
        if importlib.util.find_spec(self._kind.package) is None:
            raise ConfigError(f"--track {name} needs {self._kind.package}; install it with: pip install 'hpn[{name}]'")
        self._watcher = watcher or Watcher()
        self._has_failed = False
        self._sent_at = -INTERVAL

    def run_started(self, out: Path | None, num_seeds: int, num_tasks: int) -> None:
        """Open the run.

        Raises:
            ConfigError: If the tracker does not accept it.
        """
        self._watcher.run_started(out, num_seeds, num_tasks)
        if out is None:
            raise ValueError("a run without a folder cannot be tracked")
        self._folder, self._seeds = out, dict[int, _SeedLog]()
        config = read_config(out)
        names = ("dataset", "method", "scenario", "edges", "evaluate")
        stream = {
            "stream": config.get("stream", "tasks"),
            "tasks": ";".join(",".join(map(str, task)) for task in config["tasks"]),
        }
        self._params = {**{name: config[name] for name in names}, **stream, **config["params"]}
        try:
            self._run = self._kind(out, out.name, self._params, None)
        except Exception as error:
            where = "; see MLFLOW_TRACKING_URI" if self._kind is MLflow else ""
            raise ConfigError(f"--track {self._kind.package}: {' '.join(str(error).split())}{where}") from error

    def seed_started(self, seed: int, first_task: int, first_epoch: int) -> None:
        """Send what the log of a resumed seed holds already."""
        self._watcher.seed_started(seed, first_task, first_epoch)
        self._send(seed)

    def epoch_finished(self, seed: int, progress: Progress) -> None:
        """Send the loss."""
        self._watcher.epoch_finished(seed, progress)
        if time.monotonic() - self._sent_at >= INTERVAL:  # what is left out now is sent the next time
            self._send(seed)

    def step_finished(self, seed: int, task: int, row: Any) -> None:
        """Send accuracies and metrics."""
        self._watcher.step_finished(seed, task, row)
        self._send(seed)

    def seed_finished(self, seed: int, *, reused: bool) -> None:
        """Send the rest, or all of a seed that had finished before."""
        self._watcher.seed_finished(seed, reused=reused)
        self._send(seed, is_last=True)

    def run_finished(self, result: RunResult) -> None:
        """Send the summary over the seeds."""
        self._watcher.run_finished(result)
        known = {name: found for name, found in result.metrics.items() if found is not None}
        summary = {f"{name}_mean": found.mean for name, found in known.items()}
        summary |= {f"{name}_std": found.std for name, found in known.items()}
        try:
            if self._run.num_sent != len(result.seeds):  # otherwise it was sent before
                last = max(file.stat().st_mtime for file in self._folder.glob("seed-*/log.jsonl"))
                self._run.send([(summary, len(result.steps), int(1000 * last))])
                self._run.count(len(result.seeds))
            self._run.close()
        except Exception as error:
            self._warn(error)

    def run_stopped(self) -> None:
        """Mark the run, and the seed that was running, as stopped; the same command continues them."""
        self._watcher.run_stopped()
        with contextlib.suppress(Exception):  # the reason why the run has stopped is what matters
            for seed in self._seeds.values():
                seed.stop()
            self._run.close("KILLED")

    def _send(self, seed: int, *, is_last: bool = False) -> None:
        if self._has_failed:
            return
        try:
            if seed not in self._seeds:
                name, folder = f"{self._folder.name} seed {seed}", self._folder / f"seed-{seed}"
                target = self._kind(folder, name, {**self._params, "seed": seed}, self._run)
                self._seeds[seed] = _SeedLog(folder / "log.jsonl", target)
            self._seeds[seed].forward(is_last=is_last)
            self._sent_at = time.monotonic()
        except Exception as error:  # a server may be gone for a while, and learning goes on
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        self._has_failed = True
        reason = " ".join(str(error).split())
        LOG.warning("tracking stopped (%s); the same command sends what is missing once the run has ended", reason)


def track_run(folder: Path | str, name: str) -> None:
    """Send a finished run.

    Args:
        folder: The run folder.
        name: ``tensorboard`` or ``mlflow``.

    Raises:
        ConfigError: If there is no such tracker, its package is not installed, or it does not accept the run.
        DataError: If the folder has no result.
    """
    folder = Path(folder)
    result, tracker = load_result(folder), Tracker(name)
    tracker.run_started(folder, len(result.seeds), len(result.steps))
    for seed in result.seeds:
        tracker.seed_finished(seed, reused=True)
    tracker.run_finished(result)


class _SeedLog:
    """The log of a seed, and how many of its events were read.

    Args:
        path: The log.
        target: Where its events go. Those that it received before are not sent again: a resumed seed repeats them.
    """

    def __init__(self, path: Path, target: Any) -> None:
        self._path, self._target = path, target
        self._position, self._num_events, self._num_epochs = 0, 0, 0
        self._rows: list[tuple[list[float], list[float]]] = []  # accuracies, and the same balanced
        self._is_open = True

    def forward(self, *, is_last: bool) -> None:
        """Send the events that are new."""
        points: list[Point] = []
        with self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                self._position += len(line)
                event = json.loads(line)
                if event["event"] not in {"epoch", "step"}:
                    continue
                self._num_events += 1
                values, step = self._read_epoch(event) if event["event"] == "epoch" else self._read_step(event)
                if values and self._num_events > self._target.num_sent:
                    points.append((values, step, int(1000 * event["time"])))
        if points:
            self._target.send(points)
            self._target.count(self._num_events)
        if is_last:
            self._target.close()
            self._is_open = False

    def stop(self) -> None:
        """Send what is left of a seed that was stopped."""
        if self._is_open:
            self.forward(is_last=False)
            self._target.close("KILLED")

    def _read_epoch(self, event: dict[str, Any]) -> tuple[dict[str, float], int]:
        self._num_epochs += 1
        about = {"time", "event", "step", "done"}
        return {f"epoch/{key}": value for key, value in event.items() if key not in about}, self._num_epochs

    def _read_step(self, event: dict[str, Any]) -> tuple[dict[str, float], int]:
        """Accuracies and the metrics so far; steps are numbered from 1."""
        self._rows.append((event["accuracy"], event["balanced"]))
        done = len(self._rows)
        matrix, balanced = ([row[:done] for row in rows] for rows in zip(*self._rows, strict=True))
        measured = Measured(matrix, balanced)
        values = {name: value for name, metric in METRICS.items() if (value := metric(measured)) is not None}
        return values | {f"accuracy/step-{j + 1:02d}": value for j, value in enumerate(event["accuracy"])}, done
