"""What commands about a model share: its options, its graph, and signs of life while they work."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpn.cli.app import Interrupted, fail

if TYPE_CHECKING:
    from hpn.datasets import Graph
    from hpn.model.core import ClassifierCore

GraphPath = Annotated[
    str,
    typer.Argument(metavar="GRAPH", help="A folder of tables, a .npz file, a store, or a data set's name."),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model.")]
Missing = Annotated[
    str | None, typer.Option(metavar="HOW", help="Missing values: error (the default), mean or zero.")
]
UnknownEdges = Annotated[
    str | None, typer.Option(metavar="HOW", help="Edges to unknown nodes: error (the default) or drop.")
]


@contextlib.contextmanager
def working(what: str, quiet: bool) -> Iterator[None]:
    """State what is being done, on standard error: with a clock in a terminal, on a line elsewhere."""
    try:
        if quiet:
            yield
        elif sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                bar.add_task(what, total=None)
                yield
        else:
            note(what, quiet)
            yield
    except (Interrupted, KeyboardInterrupt):  # DuckDB raises the latter
        raise typer.Exit(fail(f"interrupted while {what}; run the same command again", 1)) from None


def note(line: str, quiet: bool) -> None:
    """A line for people on standard error."""
    if not quiet:
        typer.echo(line, err=True)


def open_model(path: Path, quiet: bool) -> ClassifierCore:
    """Read a model without loading scikit-learn."""
    from hpn.model.core import ClassifierCore

    with working(f"reading {path}", quiet):
        return ClassifierCore.load(path)


def open_graph(
    path: str, data_root: Path | None, quiet: bool, model: ClassifierCore | None = None, **options: Any
) -> Graph:
    """Load a graph, its columns read as those that the model was fitted to; options that are not given are
    left to the reader."""  # noqa: D205, D209
    from hpn.datasets import load_graph

    given = {name: value for name, value in options.items() if value}
    if model is not None:
        given |= {"kinds": model.column_kinds_, "labels": "optional"}
    with working(f"reading {path}", quiet):
        graph = load_graph(path, data_root=data_root, **given)
    for line in graph.notes:
        note(line, quiet)
    return graph


def node_ids(graph: Graph, rows: Any) -> list[Any]:
    """What a graph calls some of its nodes: text or whole numbers."""
    return [int(row) for row in rows] if graph.node_ids is None else list(graph.node_ids[rows].tolist())


def report(content: dict[str, Any], lines: list[str], as_json: bool) -> None:
    """The end of a command: one JSON object, or lines for people."""
    if as_json:
        typer.echo(json.dumps({"schema": 1, **content}, ensure_ascii=False, allow_nan=False))
    else:
        typer.echo("\n".join(lines))


def count(number: int, noun: str) -> str:
    """A number of things, as in ``1 node`` and ``2 classes``."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def describe_prototypes(counts: dict[str, int], bounds: dict[str, int]) -> str:
    """Prototypes of each level against the most there can ever be."""
    return "prototypes: " + ", ".join(
        f"{counts[level]} of at most {bounds[level]} ({level})" for level in counts
    )


def describe_classes(counts: dict[Any, int]) -> list[str]:
    """One line per class."""
    width = max((len(str(label)) for label in counts), default=0)
    return [f"  {label!s:<{width}}  {count:,}" for label, count in counts.items()]


def describe_size(folder: Path) -> str:
    """What a folder takes on disk."""
    return f"{folder_size(folder) / 1e6:,.1f} MB"


def folder_size(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
