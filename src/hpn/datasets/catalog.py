"""Every data set by name, and a user's own file by path."""

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
    from hpn.datasets.formats.table_features import Kind, Missing
    from hpn.datasets.graph import Graph, Labels
    from hpn.datasets.sink import Sink
    from hpn.datasets.sparse import Normalize

Loader = Callable[..., "Graph"]
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
        source: Module and name of the function that makes the graph, imported when it is needed, so that
            the catalog can be listed without PyTorch.
        folder: Where its files are below the data root; ``None`` if it needs none.
        given: What the function is to be given besides.
        preset: The preset of it that this is, if any.
    """

    name: str
    about: str
    published: tuple[int, int | None, int, int]
    source: str
    folder: str | None = None
    given: tuple[str, ...] = ()
    preset: str | None = None

    @property
    def loader(self) -> Loader:
        """Makes the graph; its keyword-only arguments are the data set's options."""
        module, _, name = self.source.rpartition(".")
        function: Loader = getattr(import_module(f"hpn.datasets.{module}"), name)
        preset = {} if self.preset is None else {"preset": self.preset}
        return partial(function, *self.given, **preset) if self.given or preset else function

    def is_on_disk(self, root: Path) -> bool:
        """Whether it can be loaded without a download."""
        if self.folder is None:
            return True
        folder = root / self.folder
        return folder.is_dir() and any(folder.iterdir())


_PLANETOID, _ACTOR, _WEBKB = (f"formats.planetoid.load_{name}" for name in ("planetoid", "actor", "webkb"))
_OGB, _SYNTHETIC = "formats.ogb.load_ogb", "synthetic.load_synthetic"


def _planetoid(name: str, about: str, published: tuple[int, int, int, int]) -> DatasetInfo:
    return DatasetInfo(name.lower(), about, published, _PLANETOID, f"{name}/raw", (name,))


def _webkb(name: str, nodes: int, links: int) -> DatasetInfo:
    about = f"web pages, {name.capitalize()}"
    return DatasetInfo(name, about, (nodes, links, 1703, 5), _WEBKB, f"webkb/{name}/raw", (name,))


def _ogb(name: str, about: str, published: tuple[int, int, int, int]) -> list[DatasetInfo]:
    """A data set of OGB, and the synthetic one of its size."""
    real, twin = f"ogbn-{name}", f"{name}-like"
    return [
        DatasetInfo(real, about, published, _OGB, f"ogbn_{name}/raw", (real,)),
        DatasetInfo(twin, f"synthetic twin of {real}", published, _SYNTHETIC, preset=twin),
    ]


_ARXIV, _ARXIV_LIKE = _ogb("arxiv", "arXiv papers", (169343, 1166243, 128, 40))
_PRODUCTS, _PRODUCTS_LIKE = _ogb("products", "products bought together", (2449029, 61859140, 100, 47))
_INFOS = (
    DatasetInfo("digits", "handwritten digits, kNN graph", (1797, None, 64, 10), "digits.load_digits"),
    _planetoid("Cora", "machine-learning papers", (2708, 5429, 1433, 7)),
    _planetoid("CiteSeer", "computer-science papers", (3327, 4732, 3703, 6)),
    DatasetInfo("actor", "actors on one web page", (7600, 33544, 932, 5), _ACTOR, "actor/raw"),
    _webkb("texas", 183, 325),
    _webkb("wisconsin", 251, 515),
    _webkb("cornell", 183, 298),
    _ARXIV,
    _PRODUCTS,
    DatasetInfo("synthetic", "seeded communities, any size", (2000, 8000, 32, 10), _SYNTHETIC),
    _ARXIV_LIKE,
    _PRODUCTS_LIKE,
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
        takes_sink = info.source == _OGB
        return partial(info.loader, root, sink) if takes_sink else partial(info.loader, root)
    from hpn.datasets.formats.npz import load_npz
    from hpn.datasets.formats.table_files import SUFFIXES
    from hpn.datasets.formats.tables import load_tables
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
        time: Column of tables that states when each node arrived; see :func:`~hpn.datasets.formats.tables.load_tables`.
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
    from hpn.datasets.sparse import is_sparse

    info = CATALOG.get(graph.name)
    note = ""
    if info is not None and info.published[1] not in {None, graph.num_links}:
        note = (
            f"The literature counts {info.published[1]:,} edges; the published files hold {graph.num_links:,} records."
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
