"""``hpn import``: any data set as a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hpn.cli.app import app
from hpn.cli.options import AsJson, DataRoot, Dataset, Quiet, read_settings, watching


@app.command("import")
def import_(
    source: Dataset,
    store: Annotated[Path, typer.Argument(help="The folder to make.")],
    features: Annotated[
        str, typer.Option(help="float32 or float16: how to keep dense features.")
    ] = "float32",
    shards: Annotated[
        int, typer.Option(help="Files to spread features and edges over; a machine maps those it needs.")
    ] = 1,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="data.KEY=VALUE")] = None,
    data_root: DataRoot = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write a data set as a store: flat arrays that every command maps into memory instead of reading them.

    Files are streamed, so that they may be larger than memory. A store goes wherever a data set goes. Of one
    with shards, a machine needs only the files with the nodes of its tasks.
    """
    from hpn.datasets.catalog import describe_graph
    from hpn.datasets.importing import import_dataset
    from hpn.datasets.store import FEATURE_TYPES, open_store
    from hpn.errors import ConfigError

    if features not in FEATURE_TYPES:
        raise ConfigError(f"--features {features}: expected {' or '.join(FEATURE_TYPES)}")
    options = {key.removeprefix("data."): value for key, value in read_settings(set_ or []).items()}
    with watching("import", quiet) as watcher:
        import_dataset(
            source,
            store,
            features=features,
            shards=shards,
            data_root=data_root,
            options=options,
            begin=watcher.begin,
        )
    told = {**describe_graph(open_store(store, verify=False)), "store": str(store), "shards": shards}
    if as_json:
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        sizes = f"{told['nodes']:,} nodes, {told['edges']:,} edges, {told['features']:,} features"
        typer.echo(f"{told['name']}: {sizes}, {told['classes']} classes")
        typer.echo(f"store: {store}" + (f", {shards} shards" if shards > 1 else ""))
