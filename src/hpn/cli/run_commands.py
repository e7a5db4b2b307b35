"""``hpn run``, ``hpn compare`` and ``hpn tune``: what runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hpn.cli.app import app, fail
from hpn.cli.options import (
    AsJson,
    Backbone,
    ClassesPerTask,
    DataRoot,
    Dataset,
    Device,
    Edges,
    Evaluate,
    Method,
    NumWorkers,
    Quiet,
    Ray,
    Scenario,
    Seed,
    Seeds,
    Tasks,
    chosen_recipe,
    chosen_seeds,
    chosen_workers,
    read_settings,
    watching,
)


@app.command()
def run(
    dataset: Dataset,
    method: Method = "hpn",
    backbone: Backbone = None,
    scenario: Scenario = None,
    edges: Edges = "within",
    evaluate: Evaluate = None,
    tasks: Tasks = None,
    classes_per_task: ClassesPerTask = None,
    seeds: Seeds = None,
    seed: Seed = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A hyper-parameter, or data.OPTION."),
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings from this recipe, or packaged recipe.")
    ] = None,
    no_recipe: Annotated[
        bool, typer.Option("--no-recipe", help="The learner's defaults, not the packaged recipe.")
    ] = False,
    views: Annotated[
        bool, typer.Option("--views", help="Also draw the test nodes after each task (t-SNE); for hpn.")
    ] = False,
    device: Device = "auto",
    ray: Ray = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Run folder.")] = None,
    data_root: DataRoot = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier run in the folder.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn the tasks of a data set one after another, and measure after each.

    The same command again goes on where an interrupted run stopped.
    """
    from hpn import display
    from hpn.experiment.run.finished import find_finished

    request: dict[str, Any] = {
        "dataset": dataset,
        "method": method,
        "backbone": backbone,
        "scenario": scenario,
        "edges": edges,
        "evaluate": evaluate,
        "tasks": tasks,
        "classes_per_task": classes_per_task,
        "seeds": chosen_seeds(seeds, seed),
        "settings": read_settings(set_ or []),
        "recipe": chosen_recipe(recipe, no_recipe),
        "views": views,
        "data_root": data_root,
    }
    with watching("run", quiet) as watcher:
        # A finished run is shown without importing PyTorch, which is needed to check other devices.
        is_shown = not fresh and ray is None and device in {"auto", "cpu"}
        result = find_finished(request, out, watcher) if is_shown else None
        if result is None:
            from hpn.experiment.run.runner import run as run_steps

            result = run_steps(**request, device=device, ray=ray, out=out, fresh=fresh, watcher=watcher)
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, allow_nan=False))
    else:
        display.print_result(result)


@app.command()
def compare(
    dataset: Dataset,
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="all, or names and name:backbone, such as hpn,ewc:gat."),
    ] = None,
    backbones: Annotated[str, typer.Option(help="For methods that have one.")] = "gcn,gat,gin",
    scenario: Scenario = None,
    edges: Edges = "within",
    evaluate: Evaluate = None,
    tasks: Tasks = None,
    classes_per_task: ClassesPerTask = None,
    seeds: Seeds = None,
    seed: Seed = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="METHOD.KEY or data.OPTION."),
    ] = None,
    no_recipe: Annotated[bool, typer.Option("--no-recipe", help="The learners' defaults.")] = False,
    workers: NumWorkers = None,
    ray: Ray = None,
    device: Device = "auto",
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Run folders: the cache.")] = Path("runs"),
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the tables go.")] = None,
    data_root: DataRoot = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace earlier runs.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run many methods on a data set and put them in one table, the paper's numbers beside them.

    Runs are kept: adding a method or seeds runs only what is missing, and the same command again goes on
    where an interrupted one stopped.
    """
    from hpn import display
    from hpn.experiment.compare.table import compare as compare_methods
    from hpn.report.comparison import write_comparison

    with watching("compare", quiet) as watcher:
        comparison = compare_methods(
            dataset,
            methods=methods or "all",
            backbones=backbones,
            scenario=scenario,
            edges=edges,
            evaluate=evaluate,
            tasks=tasks,
            classes_per_task=classes_per_task,
            seeds=chosen_seeds(seeds, seed),
            settings=read_settings(set_ or []),
            use_recipes=not no_recipe,
            workers=chosen_workers(workers, ray),
            ray=ray,
            device=device,
            runs=runs,
            out=out,
            data_root=data_root,
            fresh=fresh,
            watcher=watcher,
        )
    write_comparison(comparison)
    if as_json:
        typer.echo(json.dumps(comparison, ensure_ascii=False, allow_nan=False))
    else:
        display.print_comparison(comparison)
    failed = sum(row["error"] is not None for row in comparison["rows"])
    if failed:
        message = f"{failed} of {len(comparison['rows'])} cells failed; the same command tries them again"
        raise typer.Exit(fail(message, 1))


@app.command()
def tune(
    dataset: Dataset,
    method: Method = "hpn",
    backbone: Backbone = None,
    trials: Annotated[int, typer.Option(metavar="N", help="Settings to try.")] = 30,
    seeds: Annotated[int, typer.Option(metavar="N", help="Seeds that a trial is averaged over.")] = 3,
    final_seeds: Annotated[int, typer.Option(metavar="N", help="Seeds of the test of the chosen.")] = 5,
    scenario: Scenario = None,
    edges: Edges = "within",
    evaluate: Evaluate = None,
    tasks: Tasks = None,
    classes_per_task: ClassesPerTask = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Fixed, not searched; or data.OPTION."),
    ] = None,
    workers: NumWorkers = None,
    ray: Ray = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the search.")] = None,
    recipe_out: Annotated[Path | None, typer.Option(metavar="FILE", help="A copy of the recipe.")] = None,
    data_root: DataRoot = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier search.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Choose a method's hyper-parameters on validation nodes, and write them down as a recipe.

    Test nodes are asked about once the choice is made, not before. The same command again goes on where
    an interrupted one stopped.
    """
    from hpn import display
    from hpn.experiment.tune.tuning import tune as search

    with watching("tune", quiet) as watcher:
        tuned = search(
            dataset,
            method=method,
            backbone=backbone,
            trials=trials,
            seeds=seeds,
            final_seeds=final_seeds,
            scenario=scenario,
            edges=edges,
            evaluate=evaluate,
            tasks=tasks,
            classes_per_task=classes_per_task,
            settings=read_settings(set_ or []),
            workers=chosen_workers(workers, ray),
            ray=ray,
            device=device,
            out=out,
            recipe_out=recipe_out,
            data_root=data_root,
            fresh=fresh,
            watcher=watcher,
        )
    if as_json:
        typer.echo(json.dumps(tuned, ensure_ascii=False, allow_nan=False))
    else:
        display.print_tuned(tuned)
