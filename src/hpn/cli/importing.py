"""``hpn import``: any data set as a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from hpn.cli.app import app
from hpn.cli.options import Dataset, DataSettings, read_settings, with_options
from hpn.cli.session import Session, TextColumns, count, describe_sizes


@app.command("import")
@with_options
def import_(
    source: Dataset,
    store: Annotated[Path, Argument(metavar="STORE", help="The folder to create.")],
    *,
    features: Annotated[
        str, Option(metavar="TYPE", help="float32 or float16: how to keep dense features.")
    ] = "float32",
    text: TextColumns = None,
    set_: DataSettings = None,
    session: Session,
) -> None:
    """Write a data set as a store: flat arrays that commands map into memory instead of reading them.

    Tables are streamed, so that they may be larger than memory. Every command that takes a data set takes a store.
    """
    from hpn.datasets.catalog import describe_graph, import_dataset
    from hpn.datasets.store import FEATURE_TYPES
    from hpn.errors import ConfigError

    if features not in FEATURE_TYPES:
        raise ConfigError(f"--features {features}: expected {' or '.join(FEATURE_TYPES)}")
    options = {**read_settings(set_, "data."), **session.reading(text=",".join(text or []))}
    where: dict[str, Any] = {"data_root": session.data_root, "options": options}
    with session.watching() as watcher:
        graph = import_dataset(source, store, features=features, begin=watcher.reading, **where)
    lines = [
        f"{graph.name}: {describe_sizes(graph)}, {count(graph.num_classes, 'class')}",
        *(f"- {note}" for note in graph.notes),
        f"store: {store}",
    ]
    session.report({**describe_graph(graph), "notes": list(graph.notes), "store": str(store)}, lines)
