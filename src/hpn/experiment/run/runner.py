"""One run: the loop over tasks, once, and what makes it repeatable and safe from crashes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hpn.datasets import Graph, data_files
from hpn.errors import ConfigError
from hpn.evaluation import evaluate
from hpn.experiment.recipes import find_file
from hpn.experiment.run.config import RunConfig, resolve_config
from hpn.experiment.run.costs import Stopwatch
from hpn.experiment.run.determinism import deterministic
from hpn.experiment.run.files import write_json
from hpn.experiment.run.finished import keep_request
from hpn.experiment.run.folder import RESULT, VIEWS, open_run_folder, read_json
from hpn.experiment.run.result import combine_seeds
from hpn.experiment.run.seed import SeedRun
from hpn.experiment.run.seeds import check_seeds
from hpn.experiment.run.views import check_views, combine_views, make_view
from hpn.experiment.watch import Watcher
from hpn.learners import Learner, Observer
from hpn.nn.device import choose_device
from hpn.streams import TaskStream


def run(
    dataset: str,
    *,
    seeds: int | Sequence[int] = 1,
    out: Path | str | None = None,
    data_root: Path | str | None = None,
    views: bool = False,
    fresh: bool = False,
    device: str = "auto",
    ray: str | None = None,
    watcher: Watcher | None = None,
    **choices: Any,
) -> dict[str, Any]:
    """Learn a data set's tasks one after another, measure after each, and give the result.

    The same call again resumes an interrupted run, and gives the result of a finished one.

    Args:
        dataset: Name or path.
        seeds: How many seeds (0, 1, …), or which.
        out: Run folder; by default ``runs/`` and a name made from the configuration.
        data_root: Folder with the data.
        views: Also draw the test nodes after each task (t-SNE), into ``views.json``; for ``hpn``.
        fresh: Delete what the folder holds of an earlier run.
        device: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for the best there is.
        ray: Address of a Ray cluster that computes the sums of ``hpn`` with the preset ``best``; ``local``
            for a new one on this machine. The result is the same, bit for bit.
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
    from hpn.experiment.execute.ray_fold import fold_on  # which imports this module

    chosen = check_seeds(seeds)
    root = Path(data_root) if data_root else None
    device = str(choose_device(device))
    start, since = time.perf_counter(), time.time_ns()
    config, graph = resolve_config(dataset, data_root=root, **choices)
    if ray is not None and not getattr(config.make_learner(0), "folds", False):
        raise ConfigError(
            "hpn run --ray computes the sums of --method hpn with the preset best; for many runs on a "
            "cluster there are hpn compare --ray and hpn tune --ray"
        )
    load_seconds = time.perf_counter() - start
    if views:
        check_views(config)
    folder = Path(out) if out else config.default_folder()
    is_done = not fresh and all(is_finished(folder / f"seed-{seed}", views=views) for seed in chosen)
    with (
        open_run_folder(folder, config, fresh=fresh),
        deterministic(graph, device),
        fold_on(None if is_done else ray),
    ):
        watcher = watcher or Watcher()
        watcher.run_started(folder, len(chosen), len(config.tasks))
        for seed in chosen:
            run_seed(config, graph, seed, folder / f"seed-{seed}", watcher, views=views, device=device)
        if views:
            combine_views(folder, chosen)
        result = combine_finished(config, graph, chosen, folder, data_root=root)
        result["seconds"]["total"] += load_seconds
        write_json(folder / RESULT, result)
        request = {"dataset": dataset, "seeds": seeds, "views": views, "data_root": data_root, **choices}
        recipes = [find_file(config.recipe)] if config.recipe else []
        keep_request(folder, request, [*data_files(dataset, root), *recipes], since=since)
    return result


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
) -> None:
    """Run, or finish, one seed; its result goes to ``folder``."""
    if is_finished(folder, views=views):
        watcher.seed_finished(seed, reused=True)
        return
    if read_json(folder / RESULT) is None:
        _learn_seed(config, graph, seed, folder, watcher, views=views, device=device)
    if not is_finished(folder, views=views):  # it ran, in part at least, before views were asked for
        learner, stream = config.make_learner(seed).to(device), config.make_stream(graph, seed)
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
    device: str,
) -> None:
    folder.mkdir(exist_ok=True)
    for half_written in folder.glob(".*.part"):
        half_written.unlink()
    stream = config.make_stream(graph, seed)
    progress = SeedRun.resume(folder, config.make_learner(seed).to(device), seed, watcher)
    learner, watch = progress.learner, progress.watch
    with contextlib.closing(progress.log):
        for index in learn_tasks(learner, stream, first=progress.next_task, observer=progress, watch=watch):
            with watch.measure("predict"):
                row = evaluate(learner, stream, after=index, mode=config.evaluate)
            progress.finish_task(row, make_view(learner, stream, index) if views else None)
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
            learner.fit_task(stream.step(index, with_past=learner.sees_past), observer)
        yield index
