"""``hpn reproduce``: the experiments of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
from typer import Argument, Option

from hpn.cli.app import app, fail
from hpn.cli.options import FiveSeeds, Fresh, Places, Runs, WatchedOutput, arguments, with_options
from hpn.errors import ConfigError

if TYPE_CHECKING:
    from typer._click import Context

MANY = "--datasets"


class ManyDatasets(typer.core.TyperCommand):
    """A command whose option ``--datasets`` takes all values up to the next option."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Write ``--datasets a b`` out as ``--datasets a --datasets b``."""
        return super().parse_args(ctx, _repeated(args))


@app.command(cls=ManyDatasets)
@with_options
def reproduce(
    names: Annotated[list[str], Argument(metavar="NAME", help="Names of experiments, or all; list shows them.")],
    *,
    datasets: Annotated[
        list[str] | None,
        Option(metavar="NAMES", help="Names or paths; default: those of the experiment that are on disk."),
    ] = None,
    only: Annotated[
        str | None, Option(metavar="WORD", help="Run only the rows of this method or preset; other rows stay.")
    ] = None,
    seeds: FiveSeeds,
    runs: Runs = Path("runs"),
    out: Annotated[Path, Option(metavar="DIR", help="Folder for the pages.")] = Path("reproduction"),
    fresh: Fresh = False,
    places: Places,
    output: WatchedOutput,
) -> None:
    """Repeat experiments of the paper, and write a page about each with its numbers beside ours.

    Nothing runs twice: the same command again resumes an interrupted one, and experiments share their runs
    with each other, with run and with compare. Data sets that an earlier call put on a page stay there.
    """
    given = arguments(locals())
    from hpn import reproduction
    from hpn.display.runs import print_experiments, print_reproduction

    if "list" in names:
        if len(names) > 1:
            raise ConfigError("list cannot be combined with other names; leave them out")
        rows: list[dict[str, Any]] = [
            {"name": name, **experiment.words(), "datasets": list(experiment.datasets)}
            for name, experiment in reproduction.EXPERIMENTS.items()
        ]
        output.report(rows, print_experiments)
        return
    done = output.watch(reproduction.reproduce, given)
    output.report(done, print_reproduction)
    if done["failed"]:
        message = f"{len(done['failed'])} of {done['runs']} runs failed; the same command tries them again"
        raise typer.Exit(fail(message, 1))


def _repeated(args: list[str]) -> list[str]:
    """Put the option before each of its values."""
    written: list[str] = []
    option = ""
    for word in args:
        if word.startswith("-"):
            option = word.partition("=")[0]
        elif option == MANY and written[-1] != MANY:
            written.append(MANY)
        written.append(word)
    return written
