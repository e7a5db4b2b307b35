"""One run: the loop over tasks, once, and what makes it repeatable and safe from crashes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from hpn.datasets import Graph
from hpn.errors import CheckpointError, ConfigError
from hpn.evaluation import Row, evaluate
from hpn.experiment.checkpoint import load_checkpoint, save_checkpoint
from hpn.experiment.config import RunConfig, resolve_config
from hpn.experiment.costs import Stopwatch, peak_rss_mb
from hpn.experiment.files import write_json
from hpn.experiment.folder import RESULT, open_run_folder, read_json
from hpn.experiment.log import EventLog
from hpn.experiment.result import combine_seeds
from hpn.experiment.together import Crew, Place, agree, assist, check_shared, leading
from hpn.experiment.views import VIEWS, View, check_views, combine_views, make_view
from hpn.experiment.watch import Watcher
from hpn.learners import Learner, Observer, Progress
from hpn.nn.processes import join_processes
from hpn.streams import TaskStream

CHECKPOINT_SHARE = 0.05
"""At most this share of a run's time goes into checkpoints between tasks."""
SMALL_GRAPH = 20_000
"""Up to this many nodes a run uses one thread."""


def run(
    dataset: str,
    *,
    seeds: int | Sequence[int] = 1,
    out: Path | str | None = None,
    data_root: Path | str | None = None,
    views: bool = False,
    fresh: bool = False,
    device: str = "auto",
    precision: str = "float32",
    watcher: Watcher | None = None,
    **choices: Any,
) -> dict[str, Any]:
    """Learn a data set's tasks one after another, measure after each, and give the result.

    The same call again goes on where an interrupted one stopped, and gives a finished one's result. Started N
    times by ``torchrun``, the processes share the work, and all of them give the result.

    Args:
        dataset: Name or path.
        seeds: How many seeds (0, 1, …), or which.
        out: Run folder; by default ``runs/`` and a name made from the configuration.
        data_root: Folder with the data.
        views: Also draw the test nodes after each task (t-SNE), into ``views.json``; for ``hpn``.
        fresh: Delete what the folder holds of an earlier run.
        device: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for the best there is.
        precision: ``float32``, or ``mixed`` for networks' forward passes in bfloat16.
        watcher: Is told what happens.
        choices: ``method``, ``backbone``, ``scenario``, ``edges``, ``evaluate``, ``tasks``,
            ``classes_per_task``, ``settings`` and ``recipe``, as :func:`resolve_config` takes them.

    Returns:
        The result, as ``hpn run --json`` prints it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = run("digits", method="ncm", out=folder)
        >>> result["am"]["mean"] > 90
        True
    """
    chosen = check_seeds(seeds)
    root = Path(data_root) if data_root else None
    with join_processes() as processes:
        place = agree(processes, lambda: Place.choose(device, precision, processes))
        start = time.perf_counter()
        config, graph = agree(processes, lambda: resolve_config(dataset, data_root=root, **choices))
        agree(processes, lambda: check_shared(config, processes, views=views))
        load_seconds = time.perf_counter() - start
        result: dict[str, Any] = {}
        if processes.rank > 0:
            with deterministic(graph, place.device):
                assist(config, graph, place)
        else:
            folder = Path(out) if out else config.default_folder()
            with leading(processes) as crew:
                if views:
                    check_views(config)
                with open_run_folder(folder, config, fresh=fresh), deterministic(graph, place.device):
                    watcher = watcher or Watcher()
                    watcher.run_started(folder, len(chosen), len(config.tasks))
                    for seed in chosen:
                        run_seed(
                            config,
                            graph,
                            seed,
                            folder / f"seed-{seed}",
                            watcher,
                            views=views,
                            device=place.device,
                            precision=place.precision,
                            crew=crew,
                        )
                    if views:
                        combine_views(folder, chosen)
                    result = combine_finished(config, graph, chosen, folder, data_root=root)
                    result["seconds"]["total"] += load_seconds
                    write_json(folder / RESULT, result)
        return processes.lead(lambda: result)


def check_seeds(seeds: int | Sequence[int]) -> list[int]:
    """Seeds 0, 1, … if given how many, else those given.

    Raises:
        ConfigError: If there are none, or one is negative or given twice.
    """
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen or len(set(chosen)) != len(chosen) or min(chosen) < 0:
        raise ConfigError(f"seeds must be one or more different numbers from 0 up, got {seeds}")
    return chosen


def combine_finished(
    config: RunConfig, graph: Graph, seeds: Sequence[int], folder: Path, *, data_root: Path | None
) -> dict[str, Any]:
    """Put the finished seeds of a run folder together."""
    finished = [read_json(folder / f"seed-{seed}" / RESULT) for seed in seeds]
    command = config.command(seeds, data_root)
    return combine_seeds(config, graph, seeds, finished, command=command, out=folder)


def is_finished(folder: Path, *, views: bool) -> bool:
    """Whether the folder of a seed holds all that was asked for."""
    return read_json(folder / RESULT) is not None and not (views and read_json(folder / VIEWS) is None)


def run_seed(
    config: RunConfig,
    graph: Graph,
    seed: int,
    folder: Path,
    watcher: Watcher,
    *,
    views: bool = False,
    device: str = "cpu",
    precision: str = "float32",
    crew: Crew | None = None,
) -> None:
    """Run, or finish, one seed; its result goes to ``folder``."""
    crew = crew or Crew()
    place = Place(device, precision, crew.processes)
    if is_finished(folder, views=views):
        watcher.seed_finished(seed, reused=True)
        return
    if read_json(folder / RESULT) is None:
        _learn_seed(config, graph, seed, folder, watcher, views=views, place=place, crew=crew)
    if not is_finished(folder, views=views):  # it ran, in part at least, before views were asked for
        learner, stream = place.settle(config.make_learner(seed)), config.make_stream(graph, seed)
        made = [make_view(learner, stream, index) for index in learn_tasks(learner, stream)]
        write_json(folder / VIEWS, made)


def _learn_seed(
    config: RunConfig,
    graph: Graph,
    seed: int,
    folder: Path,
    watcher: Watcher,
    *,
    views: bool,
    place: Place,
    crew: Crew,
) -> None:
    folder.mkdir(exist_ok=True)
    for half_written in folder.glob(".*.part"):
        half_written.unlink()
    stream = config.make_stream(graph, seed, place.processes.make)
    progress = SeedRun.resume(folder, place.settle(config.make_learner(seed)), seed, watcher)
    learner, watch = progress.learner, progress.watch
    threads = torch.get_num_threads()
    crew.call({"seed": seed, "task": progress.next_task, "threads": threads, "state": learner.state_dict()})
    with contextlib.closing(progress.log):
        for index in learn_tasks(learner, stream, first=progress.next_task, observer=progress, watch=watch):
            with watch.measure("predict"):
                row = evaluate(learner, stream, after=index, mode=config.evaluate)
            progress.finish_task(row, make_view(learner, stream, index) if views else None)
        crew.rest()
        progress.finish()


def learn_tasks(
    learner: Learner,
    stream: TaskStream,
    *,
    first: int = 0,
    observer: Observer | None = None,
    watch: Stopwatch | None = None,
) -> Iterator[int]:
    """Learn the tasks of a stream one after another; each is yielded when it is learned.

    Args:
        learner: Who learns.
        stream: The tasks.
        first: The task to begin with.
        observer: Is told of every step.
        watch: Measures the time as ``fit``.
    """
    watch = watch or Stopwatch({})
    for index in range(first, len(stream)):
        with watch.measure("fit"):
            learner.fit_task(stream.task(index, with_past=learner.sees_past), observer)
        yield index


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

    def after_step(self, learner: Learner, progress: Progress) -> None:
        """Log a step; checkpoint if that costs little next to the time since the last one."""
        self.log.write("step", task=progress.task, done=progress.done, **progress.metrics)
        self.watcher.step_finished(self.seed, progress)
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
                "precision": self.learner.precision,
                "processes": self.learner.processes.size,
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


@contextlib.contextmanager
def deterministic(graph: Graph, device: str = "cpu") -> Iterator[None]:
    """Deterministic algorithms inside, and one thread if the graph is small; all as before outside.

    Some operations have no deterministic form on a GPU; there a warning must do.

    On a small graph a second thread gained little on an idle machine and cost much on a busy one.
    """
    mode = torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    threads = torch.get_num_threads()
    limit = 1 if graph.num_nodes <= SMALL_GRAPH else threads
    # Not use_deterministic_algorithms, which imports PyTorch's compiler and takes seconds for it.
    if device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("error" if device == "cpu" else "warn")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_num_threads(limit)
    try:
        with threadpool_limits(limit):
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        torch.set_num_threads(threads)
