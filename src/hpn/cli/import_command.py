"""``hpn import``: any data set as a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from hpn.cli.app import app
from hpn.cli.options import Dataset, read_settings, watching
from hpn.cli.session import Session, TextColumns, count, describe_sizes, with_session


@app.command("import")
@with_session
def import_(
    session: Session,
    source: Dataset,
    store: Annotated[Path, Argument(metavar="STORE", help="The folder to make.")],
    features: Annotated[
        str, Option(metavar="TYPE", help="float32 or float16: how to keep dense features.")
    ] = "float32",
    text: TextColumns = None,
    set_: Annotated[list[str] | None, Option("--set", metavar="data.KEY=VALUE")] = None,
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
    given = {"text": ",".join(text or []), "missing": session.missing, "unknown_edges": session.unknown_edges}
    options |= {key: value for key, value in given.items() if value}
    with watching(session.quiet) as watcher:
        graph = import_dataset(
            source,
            store,
            features=features,
            data_root=session.data_root,
            options=options,
            begin=watcher.reading,
        )
    lines = [
        f"{graph.name}: {describe_sizes(graph)}, {count(graph.num_classes, 'class')}",
        *(f"- {note}" for note in graph.notes),
        f"store: {store}",
    ]
    session.report({**describe_graph(graph), "notes": list(graph.notes), "store": str(store)}, lines)
