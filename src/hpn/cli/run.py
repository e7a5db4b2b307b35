"""``hpn run``, ``hpn compare`` and ``hpn tune``: experiments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from hpn.cli import options
from hpn.cli.app import app, fail
from hpn.errors import ConfigError


@app.command()
@options.with_options
def run(
    dataset: options.Dataset,
    *,
    method: options.Method = "hpn",
    backbone: options.Backbone = None,
    seeds: options.Seeds,
    set_: options.Settings = None,
    recipe: Annotated[
        Path | None, Option(metavar="FILE", help="Use the settings of this recipe file or packaged recipe.")
    ] = None,
    no_recipe: Annotated[bool, Option("--no-recipe", help="Use the defaults, not the packaged recipe.")] = False,
    evaluate_ahead: options.EvaluateAhead = False,
    reference: Annotated[
        Path | None, Option(metavar="DIR", help="A finished run, such as joint training, for intransigence.")
    ] = None,
    views: Annotated[
        bool, Option("--views", help="Also draw the test nodes after each step (t-SNE); for hpn.")
    ] = False,
    out: Annotated[Path | None, Option(metavar="DIR", help="The run folder.")] = None,
    fresh: Annotated[bool, Option("--fresh", help="Replace an earlier run in the folder.")] = False,
    track: options.Track = None,
    protocol: options.ProtocolOptions,
    place: options.Place,
    output: options.WatchedOutput,
) -> None:
    """Learn a data set step by step, and evaluate after each step.

    The same command again resumes an interrupted run.
    """
    from hpn.display.runs import print_result
    from hpn.experiment.run.finished import find_finished

    if recipe is not None and no_recipe:
        raise ConfigError("give --recipe FILE or --no-recipe, not both")
    request: dict[str, Any] = {
        "dataset": dataset,
        "method": method,
        "backbone": backbone,
        "seeds": seeds.choose(),
        "settings": options.read_settings(set_),
        "recipe": None if no_recipe else recipe or "auto",
        "evaluate_ahead": evaluate_ahead,
        "reference": reference,
        "views": views,
        "data_root": place.data_root,
        **asdict(protocol),
    }
    with output.watching() as watcher:
        # A finished run is shown without importing PyTorch, which is needed to check other devices.
        is_shown = not fresh and track is None and place.ray is None and place.device in {"auto", "cpu"}
        result = find_finished(request, out, watcher) if is_shown else None
        if result is None:
            from hpn.experiment.run.runner import run as run_steps

            request |= {"device": place.device, "ray": place.ray}
            result = run_steps(**request, out=out, fresh=fresh, track=track, watcher=watcher)
    output.report(result, print_result)


@app.command()
@options.with_options
def compare(
    dataset: options.Dataset,
    *,
    methods: Annotated[
        list[str] | None, Option(metavar="NAMES", help="all, or a list such as hpn,ewc:gat,MODULE:CLASS.")
    ] = None,
    backbones: Annotated[str, Option(metavar="NAMES", help="Backbones of the methods that have one.")] = "gcn,gat,gin",
    seeds: options.Seeds,
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Set a hyper-parameter (METHOD.KEY) or data.OPTION."),
    ] = None,
    evaluate_ahead: options.EvaluateAhead = False,
    no_recipe: Annotated[bool, Option("--no-recipe", help="Use the defaults, not the packaged recipes.")] = False,
    runs: options.Runs = Path("runs"),
    out: Annotated[Path | None, Option(metavar="DIR", help="Folder for the tables.")] = None,
    fresh: options.Fresh = False,
    track: options.Track = None,
    protocol: options.ProtocolOptions,
    places: options.Places,
    output: options.WatchedOutput,
) -> None:
    """Run many methods on a data set, and show them in one table with the paper's numbers.

    Runs are kept: adding a method or seeds runs only what is missing, and the same command again resumes an
    interrupted one.
    """
    from hpn.display.runs import print_comparison
    from hpn.experiment.compare.table import compare as compare_methods
    from hpn.report.comparison import write_comparison

    with output.watching() as watcher:
        comparison = compare_methods(
            dataset,
            methods=methods or "all",
            backbones=backbones,
            seeds=seeds.choose(),
            settings=options.read_settings(set_),
            use_recipes=not no_recipe,
            evaluate_ahead=evaluate_ahead,
            runs=runs,
            out=out,
            fresh=fresh,
            watcher=watcher,
            **asdict(protocol),
            **places.choose(),
        )
    write_comparison(comparison)
    _track(track, [row.run for row in comparison.rows if row.error is None])
    output.report(comparison, print_comparison)
    if failed := sum(row.error is not None for row in comparison.rows):
        message = f"{failed} of {len(comparison.rows)} cells failed; the same command tries them again"
        raise typer.Exit(fail(message, 1))


@app.command()
@options.with_options
def tune(
    dataset: options.Dataset,
    *,
    method: options.Method = "hpn",
    backbone: options.Backbone = None,
    trials: Annotated[int, Option(metavar="N", help="Number of settings to try.")] = 30,
    seeds: Annotated[int, Option(metavar="N", help="Number of seeds per trial.")] = 3,
    final_seeds: Annotated[int, Option(metavar="N", help="Number of seeds for the final test.")] = 5,
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Fix a hyper-parameter instead of searching it, or set data.OPTION."),
    ] = None,
    out: Annotated[Path | None, Option(metavar="DIR", help="Folder for the search.")] = None,
    recipe_out: Annotated[Path | None, Option(metavar="FILE", help="Also write the recipe to this file.")] = None,
    fresh: Annotated[bool, Option("--fresh", help="Replace an earlier search.")] = False,
    track: options.Track = None,
    protocol: options.ProtocolOptions,
    places: options.Places,
    output: options.WatchedOutput,
) -> None:
    """Choose a method's hyper-parameters on validation nodes, and write them as a recipe.

    Test nodes are evaluated once the choice is made, not before. The same command again resumes an
    interrupted one.
    """
    from hpn.display.runs import print_tuned
    from hpn.experiment.tune.tuning import tune as search

    with output.watching() as watcher:
        tuned = search(
            dataset,
            method=method,
            backbone=backbone,
            trials=trials,
            seeds=seeds,
            final_seeds=final_seeds,
            settings=options.read_settings(set_),
            out=out,
            recipe_out=recipe_out,
            fresh=fresh,
            watcher=watcher,
            **asdict(protocol),
            **places.choose(),
        )
    _track(track, [tuned.result.out])
    output.report(tuned, print_tuned)


def _track(tracker: str | None, runs: Iterable[str | None]) -> None:
    """Send finished runs to a tracker, if one is given."""
    if tracker is not None:
        from hpn.experiment.track import track_run

        for folder in filter(None, runs):
            track_run(folder, tracker)
