"""Every data set by name, and a user's own file by path."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from hpn.datasets.digits import load_digits
from hpn.datasets.formats.npz import load_npz
from hpn.datasets.formats.ogb import CLASS_ORDERS, load_ogb
from hpn.datasets.formats.planetoid import load_actor, load_planetoid, load_webkb
from hpn.datasets.formats.table_features import Kind, Missing
from hpn.datasets.formats.table_files import SUFFIXES
from hpn.datasets.formats.tables import load_tables
from hpn.datasets.graph import Graph, Labels
from hpn.datasets.sink import Sink
from hpn.datasets.sparse import Normalize, is_sparse
from hpn.datasets.store import is_store, open_store
from hpn.datasets.synthetic import load_synthetic
from hpn.errors import DataError, nearest
from hpn.params import declared_params, resolve_params

Loader = Callable[..., Graph]
SPLIT_WORDS = {
    "given": "given with the data",
    "index": "first 60 % of each class in file order train, next 20 % validate, rest test",
    "seeded": "60/20/20 of each class, drawn with the run's seed",
}


@dataclass(frozen=True)
class DatasetInfo:
    """A data set the catalog knows.

    Args:
        name: What it is called on the command line.
        about: One line.
        published: Nodes, edges, features and classes as published.
        loader: Makes the graph; its keyword-only arguments are the data set's options.
        folder: Where its files are below the data root; ``None`` if it needs none.
    """

    name: str
    about: str
    published: tuple[int, int | None, int, int]
    loader: Loader
    folder: str | None = None

    def is_on_disk(self, root: Path) -> bool:
        """Whether it can be loaded without a download."""
        if self.folder is None:
            return True
        folder = root / self.folder
        return folder.is_dir() and any(folder.iterdir())


def _webkb(name: str, nodes: int, links: int) -> DatasetInfo:
    about = f"web pages, {name.capitalize()}"
    folder = f"webkb/{name}/raw"
    return DatasetInfo(name, about, (nodes, links, 1703, 5), partial(load_webkb, name), folder)


_ARXIV, _PRODUCTS = (169343, 1166243, 128, 40), (2449029, 61859140, 100, 47)
_cora, _citeseer = (partial(load_planetoid, name) for name in ("Cora", "CiteSeer"))
_arxiv, _products = (partial(load_ogb, f"ogbn-{name}") for name in ("arxiv", "products"))
_like_arxiv = partial(load_synthetic, preset="arxiv-like")
_like_products = partial(load_synthetic, preset="products-like")
_INFOS = (
    DatasetInfo("digits", "handwritten digits, kNN graph", (1797, None, 64, 10), load_digits),
    DatasetInfo("cora", "machine-learning papers", (2708, 5429, 1433, 7), _cora, "Cora/raw"),
    DatasetInfo("citeseer", "computer-science papers", (3327, 4732, 3703, 6), _citeseer, "CiteSeer/raw"),
    DatasetInfo("actor", "actors on one web page", (7600, 33544, 932, 5), load_actor, "actor/raw"),
    _webkb("texas", 183, 325),
    _webkb("wisconsin", 251, 515),
    _webkb("cornell", 183, 298),
    DatasetInfo("ogbn-arxiv", "arXiv papers", _ARXIV, _arxiv, "ogbn_arxiv/raw"),
    DatasetInfo("ogbn-products", "products bought together", _PRODUCTS, _products, "ogbn_products/raw"),
    DatasetInfo("synthetic", "seeded communities, any size", (2000, 8000, 32, 10), load_synthetic),
    DatasetInfo("arxiv-like", "synthetic twin of ogbn-arxiv", _ARXIV, _like_arxiv),
    DatasetInfo("products-like", "synthetic twin of ogbn-products", _PRODUCTS, _like_products),
)
CATALOG = {info.name: info for info in _INFOS}


def default_data_root() -> Path:
    """``HPN_DATA`` if it is set, else the user's cache folder."""
    from platformdirs import user_cache_path

    named = os.environ.get("HPN_DATA")
    return Path(named).expanduser() if named else user_cache_path("hpn") / "data"


def find_loader(dataset: str, data_root: Path | None = None, sink: Sink | None = None) -> Loader:
    """Resolve a name of the catalog or a path to a function that takes options and loads the graph.

    Args:
        dataset: The name or path.
        data_root: Folder with the data.
        sink: Where readers of files put the graph; by default into memory.

    Raises:
        DataError: If it is neither, or a path to nothing that can be read.
    """
    info = CATALOG.get(dataset)
    if info is not None:
        if info.folder is None:
            return info.loader
        root = data_root or default_data_root()
        return partial(info.loader, root, sink) if dataset in CLASS_ORDERS else partial(info.loader, root)
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
    """Files that a data set is read from, and their folder; none if it is generated or comes with a package.

    Args:
        dataset: A name of the catalog or a path.
        data_root: Folder with the data.
    """
    if dataset in CATALOG:
        name = CATALOG[dataset].folder
        if name is None:
            return []
        folder = (data_root or default_data_root()) / name
    else:
        path = Path(dataset).expanduser()
        if path.suffix == ".npz":
            return [path]
        folder = path if path.is_dir() else path.parent  # the edges of a nodes table are beside it
    below = (folder, folder / "nodes", folder / "edges")  # where tables are cut into several files
    return [folder, *sorted(file for place in below for file in place.glob("*") if file.is_file())]


def load_dataset(dataset: str, *, data_root: Path | str | None = None, **options: Any) -> Graph:
    """Load a data set of the catalog, or a user's own file.

    Args:
        dataset: A name (``digits``, ``cora``, …) or a path.
        data_root: Folder with the data; default ``HPN_DATA``, else the user's cache folder, where
            missing data is downloaded to.
        options: The data set's own options, such as ``neighbors`` of ``digits``.

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

    The graph has ``node_ids``, ``class_names`` and ``feature_names`` as its source has them, and
    ``index(ids)`` finds nodes. ``notes`` report what was done while reading.

    Args:
        path: Where it is.
        text: Columns of tables to read as text; by default that is found out.
        missing: What to do about missing numbers in tables: refuse them (``error``), or fill them with the
            ``mean`` of their column or with ``zero``.
        unknown_edges: What to do about edges to nodes that a table does not have: refuse them (``error``), or
            ``drop`` them.
        kinds: How to read each feature column of tables, such as the ``column_kinds`` of another graph.
        normalize: How to scale the features, ``none`` or ``row``; by default as usual for the data.
        time: Column of tables that states when each node arrived; see :func:`load_tables`.
        labels: ``optional`` reads tables and ``.npz`` files without any label as well, to predict for them.
        data_root: Folder with the data sets that have names.

    Raises:
        ConfigError: If an option is given that the format does not have.
        DataError: If the graph cannot be read.
    """
    options = {"text": text, "missing": missing, "unknown_edges": unknown_edges, "kinds": kinds}
    options |= {"normalize": normalize, "time": time, "labels": labels}
    usual = {"text": (), "missing": "error", "unknown_edges": "error", "time": "", "labels": "required"}
    known = declared_params(find_loader(str(path), Path(data_root) if data_root else None))
    given = {name: value for name, value in options.items() if value is not None and value != usual.get(name)}
    # What changes nothing is fine for every format; one without columns has no kinds of them.
    harmless = {"normalize": "none", "labels": "optional", "kinds": kinds}
    given = {name: value for name, value in given.items() if name in known or value != harmless.get(name)}
    return load_dataset(str(path), data_root=data_root, **given)


def describe_graph(graph: Graph) -> dict[str, Any]:
    """Statistics of a loaded graph as plain data, with a note where they differ from the published."""
    info = CATALOG.get(graph.name)
    note = ""
    if info is not None and info.published[1] not in {None, graph.num_links}:
        note = (
            f"The literature counts {info.published[1]:,} edges; "
            f"the published files hold {graph.num_links:,} records."
        )
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
