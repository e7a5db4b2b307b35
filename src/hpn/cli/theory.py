"""``hpn theory``: bounds that hold before a run, and checks of a finished one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from hpn.cli import options
from hpn.cli.app import app, fail

theory_app = typer.Typer(help="Bounds on memory, and conditions of retention.", no_args_is_help=True)
app.add_typer(theory_app, name="theory")

PLOTTED = (0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Distances of the figure, which include those of the paper."""

Extractors = Annotated[
    int, Option(metavar="L", help="Number of node extractors, and of structure extractors (l_a = l_r).")
]
Features = Annotated[int, Option(metavar="F", help="Number of features, to count the extractors too.")]


@theory_app.command()
@options.with_options
def bound(
    *,
    dim: Annotated[int, Option(metavar="D", help="Dimension of the prototypes.")],
    threshold: Annotated[float, Option(metavar="T", help="Cosine distance; of all levels unless they have their own.")],
    extractors: Extractors = 22,
    threshold_node: Annotated[float | None, Option(metavar="T", help="Cosine distance of the node level.")] = None,
    threshold_class: Annotated[float | None, Option(metavar="T", help="Cosine distance of the class level.")] = None,
    features: Features = 0,
    output: options.OutputOptions,
) -> None:
    """Bound the number of prototypes, and their memory (Theorem 1)."""
    from dataclasses import replace

    from hpn.display.theory import print_bound
    from hpn.theory.memory import MemoryBound, cap_bound

    distances = [threshold if given is None else given for given in (None, threshold_node, threshold_class)]
    most = MemoryBound(dim, (distances[0], distances[1], distances[2]), extractors, features)
    levels = {}
    for (level, code), distance in zip(most.codes.items(), distances, strict=True):
        sizes = {"bound": cap_bound(most.prototypes[level]), "code": cap_bound(code.size)}
        levels[level] = {"distance": distance, **sizes, "name": code.name, "is_exact": code.is_exact}
    chosen = {"dim": dim, "extractors": extractors, "features": features, "levels": levels}
    one_set = replace(most, in_one_set=True).to_json()
    output.report({**chosen, **most.to_json(), "one_set": one_set}, print_bound)


@theory_app.command()
@options.with_options
def choose(
    *,
    budget: Annotated[str, Option(metavar="BYTES", help="The budget, such as 1MB, 500kB or 64KiB.")],
    dim: Annotated[
        list[int] | None, Option(metavar="D", help="A dimension to consider; may be given several times.")
    ] = None,
    extractors: Extractors = 22,
    features: Features = 0,
    output: options.OutputOptions,
) -> None:
    """Find the smallest distances with which a model never exceeds a memory budget."""
    from hpn.display.theory import print_choices
    from hpn.theory import memory

    amount = memory.parse_bytes(budget)
    dims = dim or list(memory.DIMS)
    choices: dict[int, dict[str, Any]] = {number: {"dim": number} for number in dims}
    for key in ("theorem", "one_set"):
        fitting = memory.choose(
            amount, dims=dims, num_extractors=extractors, num_features=features, in_one_set=key == "one_set"
        )
        for number, fits in fitting.items():
            choices[number][key] = {"threshold": fits.thresholds[0], **fits.to_json()} if fits else None
    found = {"budget": amount, "extractors": extractors, "features": features, "choices": [*choices.values()]}
    output.report(found, print_choices)


@theory_app.command()
@options.with_options
def check(
    run: Annotated[Path, Argument(help="The folder of a run of hpn, finished or not.")], output: options.OutputOptions
) -> None:
    """Check that a run kept its bounds after every task; exit code 1 if it did not."""
    from hpn.display.theory import print_check
    from hpn.experiment.bound_check import check_run

    checked = check_run(run)
    output.report(checked, print_check)
    if not checked.holds:
        raise typer.Exit(fail(f"{run} breaks a bound: {checked.violations[0]}", 1))


@theory_app.command()
@options.with_options
def retention(
    dataset: options.Dataset,
    *,
    edges: options.Edges = "within",
    tasks: options.Tasks = None,
    classes_per_task: options.ClassesPerTask = None,
    seed: Annotated[int, Option(metavar="S", help="Seed of the run.")] = 0,
    set_: options.Settings = None,
    data_root: options.DataRoot = None,
    output: options.WatchedOutput,
) -> None:
    """Learn the tasks with hpn, and report how each changed the earlier ones (Theorem 2).

    Certified retention comes with proofs: exit code 1 if one fails.
    """
    given = options.arguments(locals())
    from hpn.display.theory import print_retention
    from hpn.experiment.retention import study_retention

    study = output.watch(study_retention, given)
    output.report(study, print_retention)
    if study.report.retention == "certified" and not study.report.is_proved:
        raise typer.Exit(fail("a prediction for an earlier task has changed; this is a bug, please report it", 1))


@theory_app.command()
def plot(
    out: Annotated[Path, Option(metavar="FILE", help="The SVG file.")] = Path("bounds.svg"),
    dim: Annotated[list[int] | None, Option(metavar="D", help="A dimension; may be given several times.")] = None,
    quiet: Annotated[bool, Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Draw the bound over the distance, one line per dimension."""
    from hpn.errors import ConfigError
    from hpn.experiment.run.folder import write_atomic
    from hpn.report.figures import chart_svg, code_sizes_chart, require_svg
    from hpn.theory.spherical_codes import max_code_size

    require_svg()
    sizes = {}
    for number in dim or [2, 3, 4, 8, 16, 32]:
        if not quiet:
            typer.echo(f"dimension {number}", err=True)
        sizes[number] = [(t, float(max_code_size(number, t).size)) for t in PLOTTED]
    try:
        chart = code_sizes_chart(sizes, title="How many prototypes can keep a distance")
        write_atomic(out, chart_svg(chart).encode())
    except OSError as error:
        raise ConfigError(f"cannot write {out} ({error.strerror}); choose another --out") from error
    typer.echo(str(out))
