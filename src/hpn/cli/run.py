"""``hpn run``, ``compare``, ``tune`` and ``leaks``: experiments."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from hpn.cli import options
from hpn.cli.app import app, fail
from hpn.errors import ConfigError

if TYPE_CHECKING:
    from hpn.experiment.leaks import Leaks


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
    request = options.arguments(locals(), "recipe", "no_recipe")
    from hpn.display.runs import print_result
    from hpn.experiment.run.finished import find_finished

    if recipe is not None and no_recipe:
        raise ConfigError("give --recipe FILE or --no-recipe, not both")
    request["recipe"] = None if no_recipe else recipe or "auto"
    # What does not change the result.
    manner = {name: request.pop(name) for name in ("device", "ray", "out", "fresh", "track")}
    with output.watching() as watcher:
        # A finished run is shown without importing PyTorch, which is needed to check other devices.
        is_shown = not fresh and track is None and place.ray is None and place.device in {"auto", "cpu"}
        result = find_finished(request, out, watcher) if is_shown else None
        if result is None:
            from hpn.experiment.run.runner import run as run_steps

            result = run_steps(**request, **manner, watcher=watcher)
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
    given = options.arguments(locals(), "methods", "no_recipe", "track")
    from hpn.display.runs import print_comparison
    from hpn.experiment.compare.table import compare as compare_methods
    from hpn.report.comparison import write_comparison

    given |= {"methods": methods or "all", "use_recipes": not no_recipe}
    comparison = output.watch(compare_methods, given)
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
    given = options.arguments(locals(), "track")
    from hpn.display.runs import print_tuned
    from hpn.experiment.tune.tuning import tune as search

    tuned = output.watch(search, given)
    _track(track, [tuned.result.out])
    output.report(tuned, print_tuned)


@app.command()
@options.with_options
def leaks(
    dataset: options.Dataset,
    *,
    method: options.Method = "hpn",
    backbone: options.Backbone = None,
    seeds: options.Seeds,
    tasks: options.Tasks = None,
    classes_per_task: options.ClassesPerTask = None,
    set_: options.Settings = None,
    runs: options.Runs = Path("runs"),
    fresh: options.Fresh = False,
    places: options.Places,
    output: options.WatchedOutput,
) -> None:
    """Evaluate a learner in three ways without a task, and show what each of them reveals.

    Runs are kept and shared with hpn run and hpn compare. The same command again resumes an interrupted one.
    """
    given = options.arguments(locals())
    from hpn.experiment.leaks import find_leaks

    found = output.watch(find_leaks, given)
    output.report(found, _print_leaks)
    if failed := [row for row in found.rows if row.error is not None]:
        raise typer.Exit(fail(f"{len(failed)} of {len(found.rows)} runs failed; the same command tries them again", 1))


def _track(tracker: str | None, runs: Iterable[str | None]) -> None:
    """Send finished runs to a tracker, if one is given."""
    if tracker is not None:
        from hpn.experiment.track import track_run

        for folder in filter(None, runs):
            track_run(folder, tracker)


def _print_leaks(leaks: Leaks) -> None:
    from hpn.display.tables import make_table, open_console
    from hpn.report.format import plural, spread

    method = " ".join(filter(None, (leaks.method, leaks.backbone)))
    console = open_console(f"{method} on {leaks.dataset}", f"· no task is given · {plural(len(leaks.seeds), 'seed')}")
    heads = ("evaluate", "edges", "AM, %", "task found by a plain mean, %", "what it reveals")
    table = make_table(*heads, text=(heads[0], heads[1], heads[-1]))
    for row in leaks.rows:
        values = ["–" if value is None else spread(value) for value in (row.am, row.task_found)]
        table.add_row(row.evaluate, row.edges, *values, row.error or row.gives_away)
    console.print(table)
