"""Every data set by name, and the user's own files by path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hpn.errors import DataError, nearest
from hpn.params import declared_params, resolve_params

if TYPE_CHECKING:
    from hpn.datasets.formats.tables.features import Kind, Missing
    from hpn.datasets.graph import Graph, Labels
    from hpn.datasets.sink import Sink
    from hpn.datasets.sparse import Normalize
    from hpn.datasets.store import FeatureType

Loader = Callable[..., "Graph"]
SPLIT_WORDS = {
    "given": "given with the data",
    "index": "first 60 % of each class in file order train, next 20 % validate, rest test",
    "seeded": "60/20/20 of each class, drawn with the run's seed",
}
_PLANETOID, _GEOM_GCN = "formats.planetoid.load_planetoid", "formats.planetoid.load_geom_gcn"
_OGB, _SYNTHETIC = "formats.ogb.load_ogb", "synthetic.load_synthetic"


@dataclass(frozen=True)
class DatasetInfo:
    """A data set of the catalog.

    The function that loads it is imported when needed, so that the catalog can be listed without PyTorch. Its
    keyword-only arguments are the options of the data set.
    """

    name: str
    about: str
    published: tuple[int, int | None, int, int]  # nodes, edges, features and classes
    source: str  # module and name of the function that loads it
    folder: str | None = None  # of its files, below the data root

    def is_on_disk(self, root: Path) -> bool:
        """Whether it can be loaded without a download."""
        folder = None if self.folder is None else root / self.folder
        return folder is None or (folder.is_dir() and any(folder.iterdir()))


_ARXIV, _PRODUCTS = (169343, 1166243, 128, 40), (2449029, 61859140, 100, 47)
_INFOS = (
    DatasetInfo("digits", "handwritten digits, kNN graph", (1797, None, 64, 10), "digits.load_digits"),
    DatasetInfo("cora", "machine-learning papers", (2708, 5429, 1433, 7), _PLANETOID, "Cora/raw"),
    DatasetInfo("citeseer", "computer-science papers", (3327, 4732, 3703, 6), _PLANETOID, "CiteSeer/raw"),
    DatasetInfo("actor", "actors on one web page", (7600, 33544, 932, 5), _GEOM_GCN, "actor/raw"),
    DatasetInfo("texas", "web pages, Texas", (183, 325, 1703, 5), _GEOM_GCN, "webkb/texas/raw"),
    DatasetInfo("wisconsin", "web pages, Wisconsin", (251, 515, 1703, 5), _GEOM_GCN, "webkb/wisconsin/raw"),
    DatasetInfo("cornell", "web pages, Cornell", (183, 298, 1703, 5), _GEOM_GCN, "webkb/cornell/raw"),
    DatasetInfo("ogbn-arxiv", "arXiv papers", _ARXIV, _OGB, "ogbn_arxiv/raw"),
    DatasetInfo("ogbn-products", "products bought together", _PRODUCTS, _OGB, "ogbn_products/raw"),
    DatasetInfo("synthetic", "seeded communities, any size", (2000, 8000, 32, 10), _SYNTHETIC),
    DatasetInfo("arxiv-like", "synthetic twin of ogbn-arxiv", _ARXIV, _SYNTHETIC),
    DatasetInfo("products-like", "synthetic twin of ogbn-products", _PRODUCTS, _SYNTHETIC),
)
CATALOG = {info.name: info for info in _INFOS}


def default_data_root() -> Path:
    """``HPN_DATA`` if it is set, else the user's cache folder."""
    from platformdirs import user_cache_path

    named = os.environ.get("HPN_DATA")
    return Path(named).expanduser() if named else user_cache_path("hpn") / "data"


def find_loader(dataset: str, data_root: Path | None = None, sink: Sink | None = None) -> Loader:
    """Resolve a name of the catalog or a path to a function that takes options and loads the graph.

    Readers of large files write to ``sink``, by default into memory.

    Raises:
        DataError: If it is neither a name nor a path that can be read.
    """
    if info := CATALOG.get(dataset):
        module, _, name = info.source.rpartition(".")
        load: Loader = getattr(import_module(f"hpn.datasets.{module}"), name)
        if info.folder is not None:
            folder = (data_root or default_data_root()) / info.folder
            return partial(load, dataset, folder, sink) if info.source == _OGB else partial(load, dataset, folder)
        return partial(load, preset=dataset) if dataset.endswith("-like") else load
    from hpn.datasets.formats.npz import load_npz
    from hpn.datasets.formats.tables.files import SUFFIXES
    from hpn.datasets.formats.tables.read import load_tables
    from hpn.datasets.store import is_store, open_store

    path = Path(dataset).expanduser()
    if is_store(path):
        return partial(open_store, path)
    if path.is_dir() or path.name.endswith(SUFFIXES):
        return partial(load_tables, path, sink)
    if path.suffix == ".npz":
        return partial(load_npz, path, sink)
    if path.exists():
        raise DataError(
            f"{dataset}: unknown kind of file; give a store, a .npz file, a nodes table "
            "(.csv, .csv.gz or .parquet), or a folder with a nodes and an edges table"
        )
    raise DataError(
        f"no data set or file {dataset!r}; {nearest(dataset, CATALOG)}"
        f"known: {', '.join(CATALOG)}, or the path of a .npz file or of tables"
    )


def data_files(dataset: str, data_root: Path | None = None) -> list[Path]:
    """The files of a data set, given by name or path, and their folder; none if it is generated or in a package."""
    if info := CATALOG.get(dataset):
        if info.folder is None:
            return []
        folder = (data_root or default_data_root()) / info.folder
    else:
        path = Path(dataset).expanduser()
        if path.suffix == ".npz":
            return [path]
        folder = path if path.is_dir() else path.parent  # the edges table is beside the nodes table
    below = (folder, folder / "nodes", folder / "edges")  # where tables of several files are
    return [folder, *sorted(file for place in below for file in place.glob("*") if file.is_file())]


def load_dataset(dataset: str, *, data_root: Path | str | None = None, **options: Any) -> Graph:
    """Load a data set of the catalog, or the user's own file.

    Args:
        dataset: A name (``digits``, ``cora``, …) or a path.
        data_root: Folder with the data; default ``HPN_DATA``, else the user's cache folder. Missing data is
            downloaded to it.
        options: Options of the data set, such as ``neighbors`` of ``digits``.

    Example:
        >>> load_dataset("digits", neighbors=4).name
        'digits'
    """
    loader = find_loader(dataset, Path(data_root) if data_root else None)
    return loader(**resolve_params(loader, options, owner=f"data set {dataset}"))


def load_graph(
    path: Path | str,
    *,
    text: Sequence[str] = (),
    missing: Missing = "error",
    unknown_edges: Literal["error", "drop"] = "error",
    kinds: Mapping[str, Kind] | None = None,
    normalize: Normalize | None = None,
    time: str = "",
    labels: Labels = "required",
    data_root: Path | str | None = None,
) -> Graph:
    """Load a user's own graph: a folder or pair of tables, an ``.npz`` file, a store; or a data set by name.

    The graph has ``node_ids``, ``class_names`` and ``feature_names`` as in its source, and ``index(ids)`` finds
    nodes. ``notes`` report what was done while reading.

    Args:
        path: Where it is.
        text: Columns of tables to read as text; by default text is detected.
        missing: How to handle missing numbers in tables: refuse them (``error``), or fill them with the ``mean``
            of their column or with ``zero``.
        unknown_edges: How to handle edges to nodes that the nodes table does not have: refuse them (``error``),
            or ``drop`` them.
        kinds: How to read each feature column of tables, such as the ``column_kinds`` of another graph.
        normalize: How to scale the features, ``none`` or ``row``; by default as usual for the data.
        time: Column of tables that states when each node arrived; see
            :func:`~hpn.datasets.formats.tables.read.load_tables`.
        labels: ``optional`` also reads tables and ``.npz`` files without any label, to predict for them.
        data_root: Folder with the data sets that have names.

    Raises:
        ConfigError: If an option is given that the format does not have.
        DataError: If the graph cannot be read.
    """
    options = {"text": text, "missing": missing, "unknown_edges": unknown_edges, "kinds": kinds}
    options |= {"normalize": normalize, "time": time, "labels": labels}
    known = declared_params(find_loader(str(path), Path(data_root) if data_root else None))
    # Options that would change nothing are accepted for every format.
    harmless = {"normalize": "none", "labels": "optional", "kinds": kinds}
    given = {
        name: value
        for name, value in options.items()
        if value and value not in ("error", "required") and (name in known or value != harmless.get(name))
    }
    return load_dataset(str(path), data_root=data_root, **given)


def import_dataset(
    source: str,
    path: Path | str,
    *,
    features: FeatureType = "float32",
    data_root: Path | str | None = None,
    options: Mapping[str, Any] | None = None,
    begin: Callable[[int], Callable[[int], None]] | None = None,
) -> Graph:
    """Write a data set as a store, in bounded memory if it consists of tables or is from OGB, and open it.

    Args:
        source: A name of the catalog, or the path of an ``.npz`` file, of tables, or of another store.
        path: The folder to create; it must not exist.
        features: How to store dense features.
        data_root: Folder with the data.
        options: Options of the data set, as for :func:`load_dataset`.
        begin: Receives the number of bytes to read, and returns a function that receives the bytes read since its
            last call; not called for data that is generated.

    Raises:
        ConfigError: If an option is unknown.
        DataError: If the source cannot be read, or the store cannot be written.
    """
    from hpn.datasets.sink import write_graph
    from hpn.datasets.store import StoreWriter

    with StoreWriter(Path(path), features=features, progress=begin) as store:
        loader = find_loader(source, Path(data_root) if data_root else None, store)
        graph = loader(**resolve_params(loader, options or {}, owner=f"data set {source}"))
        return graph if store.is_finished else write_graph(store, graph)


def describe_graph(graph: Graph) -> dict[str, Any]:
    """Statistics of a loaded graph as plain data, with a note where they differ from the published ones."""
    from hpn.datasets.sparse import is_sparse

    info = CATALOG.get(graph.name)
    published, note = info.published[1] if info else None, ""
    if published not in {None, graph.num_links}:
        note = f"The literature counts {published:,} edges; the published files hold {graph.num_links:,} records."
    return {
        "name": graph.name,
        "about": info.about if info else "your own data",
        "nodes": graph.num_nodes,
        "links": graph.num_links,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "storage": "sparse" if is_sparse(graph.x) else "dense",
        "split": SPLIT_WORDS[graph.split_rule],
        "note": note,
    }
