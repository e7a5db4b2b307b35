"""``hpn run``, ``hpn compare`` and ``hpn tune``: what runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hpn.cli.app import app, fail
from hpn.cli.options import (
    AsJson,
    Backbone,
    Dataset,
    Method,
    NumWorkers,
    Quiet,
    Seed,
    Seeds,
    chosen_recipe,
    chosen_seeds,
    chosen_workers,
    print_json,
    protocol,
    read_settings,
    sharing,
    watching,
    where,
)


@app.command()
@sharing(protocol, where)
def run(
    dataset: Dataset,
    method: Method = "hpn",
    backbone: Backbone = None,
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
    evaluate_ahead: Annotated[
        bool, typer.Option("--evaluate-ahead", help="Also evaluate on all steps still to come.")
    ] = False,
    reference: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A finished run, such as joint training, for intransigence."),
    ] = None,
    views: Annotated[
        bool, typer.Option("--views", help="Also draw the test nodes after each step (t-SNE); for hpn.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Run folder.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier run in the folder.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **shared: Any,
) -> None:
    """Learn a data set step by step, and measure after each step.

    The same command again resumes an interrupted run.
    """
    from hpn import display
    from hpn.experiment.run.finished import find_finished

    device, ray = shared.pop("device"), shared.pop("ray")
    request: dict[str, Any] = {
        "dataset": dataset,
        "method": method,
        "backbone": backbone,
        "seeds": chosen_seeds(seeds, seed),
        "settings": read_settings(set_),
        "recipe": chosen_recipe(recipe, no_recipe),
        "evaluate_ahead": evaluate_ahead,
        "reference": reference,
        "views": views,
        **shared,
    }
    with watching(quiet) as watcher:
        # A finished run is shown without importing PyTorch, which is needed to check other devices.
        is_shown = not fresh and ray is None and device in {"auto", "cpu"}
        result = find_finished(request, out, watcher) if is_shown else None
        if result is None:
            from hpn.experiment.run.runner import run as run_steps

            result = run_steps(**request, device=device, ray=ray, out=out, fresh=fresh, watcher=watcher)
    if as_json:
        print_json(result.to_json())
    else:
        display.print_result(result)


@app.command()
@sharing(protocol, where)
def compare(
    dataset: Dataset,
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="all, or names and name:backbone, such as hpn,ewc:gat."),
    ] = None,
    backbones: Annotated[
        str, typer.Option(metavar="NAMES", help="For methods that have one.")
    ] = "gcn,gat,gin",
    seeds: Seeds = None,
    seed: Seed = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="METHOD.KEY or data.OPTION."),
    ] = None,
    no_recipe: Annotated[bool, typer.Option("--no-recipe", help="The learners' defaults.")] = False,
    workers: NumWorkers = None,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Run folders: the cache.")] = Path("runs"),
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the tables go.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace earlier runs.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **shared: Any,
) -> None:
    """Run many methods on a data set and put them in one table, the paper's numbers beside them.

    Runs are kept: adding a method or seeds runs only what is missing, and the same command again resumes an
    interrupted one.
    """
    from hpn import display
    from hpn.experiment.compare.table import compare as compare_methods
    from hpn.report.comparison import write_comparison

    with watching(quiet) as watcher:
        comparison = compare_methods(
            dataset,
            methods=methods or "all",
            backbones=backbones,
            seeds=chosen_seeds(seeds, seed),
            settings=read_settings(set_),
            use_recipes=not no_recipe,
            workers=chosen_workers(workers, shared["ray"]),
            runs=runs,
            out=out,
            fresh=fresh,
            watcher=watcher,
            **shared,
        )
    write_comparison(comparison)
    if as_json:
        print_json(comparison.to_json())
    else:
        display.print_comparison(comparison)
    failed = sum(row.error is not None for row in comparison.rows)
    if failed:
        message = f"{failed} of {len(comparison.rows)} cells failed; the same command tries them again"
        raise typer.Exit(fail(message, 1))


@app.command()
@sharing(protocol, where)
def tune(
    dataset: Dataset,
    method: Method = "hpn",
    backbone: Backbone = None,
    trials: Annotated[int, typer.Option(metavar="N", help="Settings to try.")] = 30,
    seeds: Annotated[int, typer.Option(metavar="N", help="Seeds that a trial is averaged over.")] = 3,
    final_seeds: Annotated[int, typer.Option(metavar="N", help="Seeds of the test of the chosen.")] = 5,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Fixed, not searched; or data.OPTION."),
    ] = None,
    workers: NumWorkers = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the search.")] = None,
    recipe_out: Annotated[Path | None, typer.Option(metavar="FILE", help="A copy of the recipe.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Replace an earlier search.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    **shared: Any,
) -> None:
    """Choose a method's hyper-parameters on validation nodes, and write them as a recipe.

    Test nodes are evaluated once the choice is made, not before. The same command again resumes an
    interrupted one.
    """
    from hpn import display
    from hpn.experiment.tune.tuning import tune as search

    with watching(quiet) as watcher:
        tuned = search(
            dataset,
            method=method,
            backbone=backbone,
            trials=trials,
            seeds=seeds,
            final_seeds=final_seeds,
            settings=read_settings(set_),
            workers=chosen_workers(workers, shared["ray"]),
            out=out,
            recipe_out=recipe_out,
            fresh=fresh,
            watcher=watcher,
            **shared,
        )
    if as_json:
        print_json(tuned.to_json())
    else:
        display.print_tuned(tuned)
