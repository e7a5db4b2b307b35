"""``hpn reproduce``: the experiments of the paper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
from typer import Argument, Option

from hpn.cli.app import app, fail
from hpn.cli.options import (
    AsJson,
    DataRoot,
    Device,
    NumWorkers,
    Quiet,
    Ray,
    Seed,
    chosen_seeds,
    chosen_workers,
    watching,
)
from hpn.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer._click import Context

MANY = "--datasets"


class ManyDatasets(typer.core.TyperCommand):
    """A command whose option ``--datasets`` takes every word up to the next option."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Write ``--datasets a b`` out as ``--datasets a --datasets b``."""
        return super().parse_args(ctx, _repeated(args))


@app.command(cls=ManyDatasets)
def reproduce(
    names: Annotated[list[str], Argument(metavar="NAME", help="Experiments, all of them (all), or list.")],
    datasets: Annotated[
        list[str] | None,
        Option(metavar="NAMES", help="Names or paths; default: the experiment's own that are on disk."),
    ] = None,
    only: Annotated[
        str | None, Option(metavar="WORD", help="Run the rows of this method or preset; all other rows stay.")
    ] = None,
    seeds: Annotated[int | None, Option(metavar="N", help="Run seeds 0 … N-1. Default 5.")] = None,
    seed: Seed = None,
    workers: NumWorkers = None,
    ray: Ray = None,
    device: Device = "auto",
    runs: Annotated[Path, Option(metavar="DIR", help="Run folders: the cache.")] = Path("runs"),
    out: Annotated[Path, Option(metavar="DIR", help="Where the pages go.")] = Path("reproduction"),
    data_root: DataRoot = None,
    fresh: Annotated[bool, Option("--fresh", help="Replace earlier runs.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Repeat experiments of the paper; write a page about each, its numbers beside ours.

    Nothing runs twice: the same command again goes on where an interrupted one stopped, and experiments
    share their runs, also with run and compare. Data sets that an earlier call put on a page stay there.
    """
    from hpn import display, reproduction

    if "list" in names:
        if len(names) > 1:
            raise ConfigError("list goes alone; leave the other names out")
        rows: list[dict[str, Any]] = [
            {"name": name, **experiment.words(), "datasets": list(experiment.datasets)}
            for name, experiment in reproduction.EXPERIMENTS.items()
        ]
        _print(rows, display.print_experiments, as_json)
        return
    with watching(quiet) as watcher:
        done = reproduction.reproduce(
            names,
            datasets=datasets,
            only=only,
            seeds=5 if seeds is None and not seed else chosen_seeds(seeds, seed),
            workers=chosen_workers(workers, ray),
            ray=ray,
            device=device,
            runs=runs,
            out=out,
            data_root=data_root,
            fresh=fresh,
            watcher=watcher,
        )
    _print(done, display.print_reproduction, as_json)
    if done["failed"]:
        message = f"{len(done['failed'])} of {done['runs']} runs failed; the same command tries them again"
        raise typer.Exit(fail(message, 1))


def _print(content: Any, show: Callable[[Any], None], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(content, ensure_ascii=False, allow_nan=False))
    else:
        show(content)


def _repeated(args: list[str]) -> list[str]:
    """Put the option before each of its words.

    Example:
        >>> _repeated(["all", "--datasets", "cora", "digits", "--seeds", "2"])
        ['all', '--datasets', 'cora', '--datasets', 'digits', '--seeds', '2']
    """
    written: list[str] = []
    option = ""
    for word in args:
        if word.startswith("-"):
            option = word.partition("=")[0]
        elif option == MANY and written[-1] != MANY:
            written.append(MANY)
        written.append(word)
    return written
