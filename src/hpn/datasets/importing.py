"""Any data set as a store: files are streamed, so that they may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hpn.datasets.catalog import CATALOG, default_data_root, find_loader, load_dataset
from hpn.datasets.import_npz import import_npz, npz_size
from hpn.datasets.import_ogb import import_ogb, ogb_size
from hpn.datasets.import_tables import import_tables, tables_size
from hpn.datasets.ogb import CLASS_ORDERS
from hpn.datasets.store import (
    Advance,
    FeatureType,
    StoreWriter,
    check_shards,
    is_store,
    open_store,
    write_store,
)
from hpn.errors import ConfigError, DataError


def import_dataset(
    source: str,
    path: Path | str,
    *,
    features: FeatureType = "float32",
    shards: int = 1,
    data_root: Path | str | None = None,
    options: Mapping[str, Any] | None = None,
    begin: Callable[[int], Advance] | None = None,
) -> None:
    """Write a data set as a store, in bounded memory if it is a file or from OGB.

    Args:
        source: A name of the catalog, or the path of an ``.npz`` file, of tables, or of a store that is to be
            cut into other shards.
        path: The folder to make; it must not exist.
        features: How to keep dense features.
        shards: Files to spread features and neighbours over, each with a range of nodes.
        data_root: Folder with the data.
        options: The data set's own options. Only data that is made in memory has any here.
        begin: Is told how many bytes there are to read, and gives what is to be told of each that was; not
            called for data that is made in memory.

    Raises:
        ConfigError: If there cannot be as many shards, or options be set.
        DataError: If the source cannot be read, or the store not be written.
    """
    begin = begin or (lambda _: lambda _: None)
    check_shards(shards)
    place, root = Path(path), Path(data_root) if data_root else default_data_root()
    if place.exists():
        raise DataError(f"{place} exists; choose another place for the store, or delete it first")
    is_file = source not in CATALOG
    if options and (is_file or source in CLASS_ORDERS):
        raise ConfigError(f"{source} is streamed as it is, so that {next(iter(options))!r} cannot be set")
    if source in CLASS_ORDERS:
        with StoreWriter(place, shards=shards) as store:
            import_ogb(source, root, store, features=features, advance=begin(ogb_size(source, root)))
    elif is_file:
        find_loader(source)  # says what is wrong with the path
        file = Path(source).expanduser()
        if is_store(file):
            write_store(open_store(file), place, features=features, shards=shards)
            return
        with StoreWriter(place, shards=shards) as store:
            if file.suffix == ".npz" and not file.is_dir():
                import_npz(file, store, features=features, advance=begin(npz_size(file)))
            else:
                import_tables(file, store, features=features, advance=begin(tables_size(file)))
    else:
        graph = load_dataset(source, data_root=root, **options or {})
        write_store(graph, place, features=features, shards=shards)
