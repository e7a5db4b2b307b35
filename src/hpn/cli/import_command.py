"""``hpn import``: any data set as a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hpn.cli.app import app
from hpn.cli.models import Missing, UnknownEdges
from hpn.cli.options import AsJson, DataRoot, Dataset, Quiet, read_settings, watching


@app.command("import")
def import_(
    source: Dataset,
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The folder to make.")],
    features: Annotated[
        str, typer.Option(metavar="TYPE", help="float32 or float16: how to keep dense features.")
    ] = "float32",
    text: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Read this column of a table as text.")
    ] = None,
    missing: Missing = None,
    unknown_edges: UnknownEdges = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="data.KEY=VALUE")] = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a data set as a store: flat arrays that every command maps into memory instead of reading them.

    Tables are streamed, so that they may be larger than memory. A store goes wherever a data set goes.
    """
    from hpn.datasets.catalog import describe_graph
    from hpn.datasets.importing import import_dataset
    from hpn.datasets.store import FEATURE_TYPES
    from hpn.errors import ConfigError

    if features not in FEATURE_TYPES:
        raise ConfigError(f"--features {features}: expected {' or '.join(FEATURE_TYPES)}")
    options = {key.removeprefix("data."): value for key, value in read_settings(set_ or []).items()}
    given = {"text": ",".join(text or []), "missing": missing, "unknown_edges": unknown_edges}
    options |= {key: value for key, value in given.items() if value}
    with watching(quiet) as watcher:
        graph = import_dataset(
            source, store, features=features, data_root=data_root, options=options, begin=watcher.reading
        )
    described = {**describe_graph(graph), "notes": list(graph.notes), "store": str(store)}
    if as_json:
        typer.echo(json.dumps(described, ensure_ascii=False))
    else:
        sizes = (
            f"{described['nodes']:,} nodes, {described['edges']:,} edges, {described['features']:,} features"
        )
        typer.echo(f"{described['name']}: {sizes}, {described['classes']} classes")
        for note in graph.notes:
            typer.echo(f"- {note}")
        typer.echo(f"store: {store}")
