"""What commands that read a graph share: options, progress, and the wording of results."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from hpn.cli.app import Interrupted, fail
from hpn.cli.options import DataRoot, WatchedOutput

if TYPE_CHECKING:
    from hpn.datasets import Graph
    from hpn.model.core import ClassifierCore

GraphPath = Annotated[
    str, Argument(metavar="GRAPH", help="A folder of tables, a .npz file, a store, or a data set's name.")
]
ModelPath = Annotated[Path, Argument(metavar="MODEL", help="The folder of a model.")]
TextColumns = Annotated[
    list[str] | None, Option(metavar="COLUMN", help="Read this column as text; may be given several times.")
]


@dataclass(frozen=True)
class Session(WatchedOutput):
    """One call of a command that reads a graph."""

    missing: Annotated[str | None, Option(metavar="HOW", help="Missing values: error (the default), mean or zero.")] = (
        None
    )
    unknown_edges: Annotated[
        str | None, Option(metavar="HOW", help="Edges to unknown nodes: error (the default) or drop.")
    ] = None
    data_root: DataRoot = None

    def open_model(self, path: Path) -> ClassifierCore:
        """Read a model without loading scikit-learn."""
        from hpn.model.core import ClassifierCore

        with self.working(f"reading {path}"):
            return ClassifierCore.load(path)

    def reading(self, **options: Any) -> dict[str, Any]:
        """The given options of a graph's reader; the reader has defaults for the others."""
        options |= {"missing": self.missing, "unknown_edges": self.unknown_edges}
        return {name: value for name, value in options.items() if value}

    def open_graph(self, path: str, **options: Any) -> Graph:
        """Load a graph."""
        from hpn.datasets import load_graph

        with self.working(f"reading {path}"):
            graph = load_graph(path, data_root=self.data_root, **self.reading(**options))
        for line in graph.notes:
            self.note(line)
        return graph

    def open_both(self, model: Path, graph: str) -> tuple[ClassifierCore, Graph]:
        """A model, and a graph whose columns are read as in the fit."""
        learned = self.open_model(model)
        return learned, self.open_graph(graph, kinds=learned.column_kinds_, labels="optional")

    def save(self, model: ClassifierCore, path: Path) -> None:
        """Write a model."""
        with self.working(f"writing {path}"):
            model.save(path)

    @contextlib.contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show what is being done on standard error: with a clock in a terminal, as a line elsewhere."""
        try:
            if self.quiet or not sys.stderr.isatty():
                self.note(what)
                yield
                return
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                bar.add_task(what, total=None)
                yield
        except (Interrupted, KeyboardInterrupt):  # DuckDB raises the latter
            raise typer.Exit(fail(f"interrupted while {what}; run the same command again", 1)) from None

    def note(self, line: str) -> None:
        """Print a line on standard error."""
        if not self.quiet:
            typer.echo(line, err=True)

    def report(self, found: dict[str, Any], show: Any) -> None:
        """Report the result; the JSON object has the version of its schema."""
        super().report({"schema": 1, **found}, show)


def node_ids(graph: Graph, rows: Any) -> list[Any]:
    """The ids of some nodes: text or whole numbers."""
    return [int(row) for row in rows] if graph.node_ids is None else list(graph.node_ids[rows].tolist())


def count(number: int, noun: str) -> str:
    """A counted noun: ``1 node``, ``2 classes``."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def describe_names(what: str, names: Iterable[Any]) -> str:
    """A line that lists names, or an empty string."""
    listed = ", ".join(map(str, names))
    return f"{what}: {listed}" if listed else ""


def describe_sizes(graph: Graph) -> str:
    """Nodes, edges and features of a graph."""
    sizes = {"node": graph.num_nodes, "edge": graph.num_edges, "feature": graph.num_features}
    return ", ".join(count(number, noun) for noun, number in sizes.items())


def describe_classes(counts: dict[str, int]) -> list[str]:
    """One line per class."""
    width = max(map(len, counts), default=0)
    return [f"  {label:<{width}}  {number:,}" for label, number in counts.items()]
