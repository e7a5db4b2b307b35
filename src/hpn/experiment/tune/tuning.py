"""Choosing hyper-parameters on validation nodes, and measuring the choice on test nodes afterwards.

::

    config.json     what is searched and how, versions included
    trials.jsonl    one line per trial and seed, written as soon as it ends
    final-…/        the run with the chosen settings
    recipe.yaml     the chosen settings, how they were chosen, and their results
    result.json     the output of ``hpn tune --json``
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpn.datasets import Graph
from hpn.errors import ConfigError
from hpn.experiment.compare.table import why_unpublished
from hpn.experiment.execute import Batch, choose_job_device, open_executor
from hpn.experiment.published import Spread, published_cell, published_source
from hpn.experiment.recipes import Chosen, Ours, Published, Recipe, write_recipe
from hpn.experiment.run.folder import RESULT, open_run_folder, write_json
from hpn.experiment.run.result import ProtocolFields, RunResult
from hpn.experiment.run.runner import Job
from hpn.experiment.tune.trials import Search, Trial, TrialLog, TunePlan, make_plan
from hpn.experiment.watch import Watcher
from hpn.metrics import Summary
from hpn.nn.device import one_thread

TRIALS, RECIPE = "trials.jsonl", "recipe.yaml"


class TuneResult(ProtocolFields):
    """The search space, the trials and the choice."""

    method: str
    backbone: str | None
    tasks: list[list[int]]
    seeds: list[int]  # that a trial is averaged over
    space: dict[str, Any]
    best: int  # number of the chosen trial
    settings: dict[str, Any]  # the chosen hyper-parameters, those that were given included
    validation_am: Summary | None
    noise: float  # standard error of a validation AM
    trials: list[Trial]
    result: RunResult  # the run with the chosen settings on test nodes
    published: Published | None
    recipe: str  # the file with the settings
    command: str
    out: str


def tune(
    dataset: str,
    *,
    trials: int = 30,
    seeds: int = 3,
    final_seeds: int = 5,
    workers: int = 1,
    ray: str | None = None,
    device: str = "auto",
    out: Path | str | None = None,
    recipe_out: Path | str | None = None,
    data_root: Path | str | None = None,
    fresh: bool = False,
    watcher: Watcher | None = None,
    **choices: Any,
) -> TuneResult:
    """Search a method's hyper-parameters by validation AM, and write the best as a recipe.

    Test nodes are not evaluated until the choice is made. The same call again resumes an interrupted one,
    with the same outcome; more trials or final seeds may be added.

    Args:
        dataset: Name or path.
        trials: Settings to try; the first are the learner's defaults.
        seeds: How many seeds (0, 1, …) a trial is averaged over.
        final_seeds: How many seeds (0, 1, …) the chosen settings are measured with on test nodes.
        workers: How many processes; one means this process.
        ray: Address of a Ray cluster to run on instead.
        device: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for the best available. On a cluster,
            ``auto`` stands for ``cpu``, and with ``cuda`` every job takes a GPU.
        out: Folder; by default ``runs/`` and a name made from the configuration.
        recipe_out: File to write the recipe to, besides the one in the folder.
        data_root: Folder with the data.
        fresh: Delete an earlier search in the folder.
        watcher: Receives the progress.
        choices: ``method``, ``backbone``, ``scenario``, ``edges``, ``evaluate``, ``stream``, ``tasks``,
            ``classes_per_task`` and ``settings``, as ``resolve_config`` takes them.
            Hyper-parameters in ``settings`` are fixed, not searched.

    Returns:
        The trials and the choice; ``to_json()`` is the output of ``hpn tune --json``.

    Raises:
        ConfigError: If an argument cannot be used, or no trial gives a number.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tuned = tune("digits", method="ncm", trials=2, seeds=1, final_seeds=1, out=folder)
        >>> tuned.result.metrics["am"].mean > 90
        True
    """
    for name, count in {"trials": trials, "seeds": seeds, "final_seeds": final_seeds}.items():
        if count < 1:
            raise ConfigError(f"{name} must be at least 1, got {count}")
    if recipe_out is not None and Path(recipe_out).is_dir():
        raise ConfigError(f"{recipe_out} is a folder; the recipe needs the name of a file")
    device = choose_job_device(device, ray=ray)
    executor = open_executor(workers, ray, device)
    root = Path(data_root) if data_root else None
    with one_thread():  # as workers load it: neighbours at equal distances may depend on that
        plan, graph = make_plan(dataset, seeds=seeds, choices=choices, data_root=root)
    folder = Path(out) if out else plan.default_folder()
    job = Job(plan.config, 0, device=device, data_root=root, graph=graph, is_trial=True)
    with open_run_folder(folder, plan.to_json(), fresh=fresh), executor:
        log, watcher = TrialLog(folder / TRIALS), watcher or Watcher()
        search = Search(plan, log, job, trials, final_seeds, Batch(executor, watcher, total=0))
        search.run()
        best = search.best()
        result = search.measure(best, folder)
        tuned = _tuned(search, best, result, graph, command=plan.command(trials, final_seeds), out=folder)
        recipe = _recipe(plan, tuned)
        write_recipe(folder / RECIPE, recipe)
        write_json(folder / RESULT, tuned.to_json())
    if recipe_out is not None:
        write_recipe(recipe_out, recipe)
    return tuned


def _tuned(search: Search, best: int, result: RunResult, graph: Graph, *, command: str, out: Path) -> TuneResult:
    plan, trials = search.plan, search.trials
    config = plan.config.with_params(trials[best].settings)
    chosen = {**plan.fixed, **trials[best].settings}
    cell = published_cell(config.dataset, config.method, config.backbone)
    published = None
    if cell and why_unpublished([config], graph) is None:
        published = Published(source=published_source(), am=cell.am, fm=cell.fm)
    same = ("dataset", "method", "backbone", "scenario", "evaluate", "edges", "stream", "tasks")
    return TuneResult(
        **{key: getattr(result, key) for key in same},
        seeds=list(plan.seeds),
        space=plan.describe_space(),
        best=best,
        settings={name: value for name, value in config.params.items() if name in chosen},
        validation_am=trials[best].am,
        noise=plan.noise(max(search.values)),
        trials=trials,
        result=result,
        published=published,
        recipe=str(out / RECIPE),
        command=command,
        out=str(out),
    )


def _recipe(plan: TunePlan, tuned: TuneResult) -> Recipe:
    config, result = plan.config.with_params(tuned.trials[tuned.best].settings), tuned.result
    protocol = {
        **{key: getattr(config, key) for key in ("stream", "edges", "evaluate")},
        "tasks": ";".join(",".join(map(str, task)) for task in config.tasks),
        "data": config.data_options,
    }
    return Recipe(
        **{key: getattr(tuned, key) for key in ("dataset", "method", "backbone", "scenario", "settings", "published")},
        chosen=Chosen(
            tuned_for=config.learner.tuned_for,
            validation_am=_spread(tuned.validation_am),
            default_am=_spread(tuned.trials[0].am),
            noise=round(tuned.noise, 4),
            trials=len(tuned.trials),
            protocol=protocol,
            **{key: getattr(tuned, key) for key in ("seeds", "space", "command")},
        ),
        ours=Ours(
            seeds=result.seeds,
            am=_spread(result.metrics["am"]),
            fm=_spread(result.metrics["fm"]),
            command=config.command(result.seeds),
        ),
    )


def _spread(summary: Summary | None) -> Any:
    return summary and Spread(mean=round(summary.mean, 4), std=round(summary.std, 4))
