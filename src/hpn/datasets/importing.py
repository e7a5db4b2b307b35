"""Any data set as a store: files are streamed, so that they may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hpn.datasets.catalog import find_loader
from hpn.datasets.graph import Graph
from hpn.datasets.sink import write_graph
from hpn.datasets.store import FeatureType, StoreWriter
from hpn.params import resolve_params


def import_dataset(
    source: str,
    path: Path | str,
    *,
    features: FeatureType = "float32",
    data_root: Path | str | None = None,
    options: Mapping[str, Any] | None = None,
    begin: Callable[[int], Callable[[int], None]] | None = None,
) -> Graph:
    """Write a data set as a store, in bounded memory if it is in tables or from OGB, and open it.

    Args:
        source: A name of the catalog, or the path of an ``.npz`` file, of tables, or of another store.
        path: The folder to make; it must not exist.
        features: How to keep dense features.
        data_root: Folder with the data.
        options: The data set's own options, as for :func:`~hpn.datasets.catalog.load_dataset`.
        begin: Is told how many bytes there are to read, and gives what is to be told of those that were; not
            called for data that is made in memory.

    Raises:
        ConfigError: If an option is unknown.
        DataError: If the source cannot be read, or the store not be written.
    """
    progress = begin or (lambda _: lambda _: None)
    with StoreWriter(Path(path), features=features, progress=progress) as store:
        loader = find_loader(source, Path(data_root) if data_root else None, store)
        graph = loader(**resolve_params(loader, options or {}, owner=f"data set {source}"))
        return graph if store.is_finished else write_graph(store, graph)
