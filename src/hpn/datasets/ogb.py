"""The large graphs of the Open Graph Benchmark, read from its raw files.

OGB's own data set class is not used: it unpickles its cache, and before a large download it asks a
question on standard input. Its reader of the raw files does neither.

Reference:
    Hu et al., Open Graph Benchmark: Datasets for Machine Learning on Graphs, NeurIPS 2020.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv
import torch
from numpy.typing import NDArray

from hpn.datasets.download import fetch_missing
from hpn.datasets.graph import UNLABELLED, Graph
from hpn.errors import ConfigError, DataError, nearest

# fmt: off
CLASS_ORDERS = {
    "ogbn-arxiv": (
        35, 12, 15, 21, 28, 30, 16, 24, 10, 34, 8, 4, 5, 2, 27, 26, 36, 19, 23, 31,
        9, 37, 13, 3, 20, 39, 22, 6, 38, 33, 25, 11, 18, 1, 14, 7, 0, 17, 29, 32,
    ),
    "ogbn-products": (
        4, 7, 6, 3, 12, 2, 0, 8, 1, 13, 16, 21, 9, 10, 18, 24, 17, 5, 11, 42, 15, 20, 19, 23,
        14, 25, 28, 29, 43, 22, 36, 44, 26, 37, 32, 31, 30, 27, 34, 38, 41, 35, 39, 33, 45, 40,
    ),
}
# fmt: on
_FILES = tuple(
    f"{part}.csv.gz" for part in ("edge", "node-feat", "node-label", "num-node-list", "num-edge-list")
)
_UNREADABLE = (
    OSError,
    EOFError,
    zlib.error,
    ValueError,
    KeyError,
    IndexError,
    RuntimeError,
    ArithmeticError,
)


def load_ogb(name: str, root: Path) -> Graph:
    """Load ``ogbn-arxiv`` or ``ogbn-products``.

    Args:
        name: Which of the two.
        root: Folder with ``ogbn_arxiv/raw`` or ``ogbn_products/raw``, as OGB lays them out; what is
            missing is downloaded to it.

    Raises:
        ConfigError: If the name is unknown, or the ``ogb`` package is not installed.
        DataError: If raw files are missing or damaged.
    """
    raw = find_raw(name, root)
    links, x = _read_graph(name, raw)
    y = _read_labels(raw / "node-label.csv.gz")
    present = set(np.unique(y).tolist())
    return Graph.build(
        name,
        x=torch.from_numpy(x),
        links=torch.from_numpy(links),
        y=torch.from_numpy(y),
        class_names=_class_names(raw.parent / "mapping", int(y.max(initial=UNLABELLED)) + 1),
        split_rule="index",
        class_order=[label for label in CLASS_ORDERS[name] if label in present],
    )


def find_raw(name: str, root: Path) -> Path:
    """Find the folder with the raw files below the data root; what is missing is downloaded to it.

    Raises:
        ConfigError: If the name is unknown, or the ``ogb`` package is not installed.
        DataError: If raw files are missing.
    """
    url = ogb_url(name)
    folder = root / name.replace("-", "_")
    raw = folder / "raw"
    if not raw.is_dir():
        _download(name, url, folder)
    missing = [file for file in _FILES if not (raw / file).is_file()]
    if missing:
        raise DataError(
            f"{name}: {raw} lacks {', '.join(missing)}; delete {folder} to download it again, or fetch "
            f"{url}, unpack it and rename its folder {Path(url).stem!r} to {folder}"
        )
    return raw


def ogb_url(name: str) -> str:
    """Look up in OGB's own list where a data set can be fetched.

    Raises:
        ConfigError: If the name is unknown, or the ``ogb`` package is not installed.

    Example:
        >>> ogb_url("ogbn-arxiv").endswith("/arxiv.zip")
        True
    """
    if name not in CLASS_ORDERS:
        known = ", ".join(CLASS_ORDERS)
        raise ConfigError(f"no OGB data set {name!r}; {nearest(name, CLASS_ORDERS)}known: {known}")
    package = importlib.util.find_spec("ogb")
    if package is None or not package.submodule_search_locations:
        raise _not_installed(name)
    listed = Path(package.submodule_search_locations[0]) / "nodeproppred" / "master.csv"
    with listed.open(newline="", encoding="utf-8") as file:
        rows = {row[""]: row for row in csv.DictReader(file)}
    return rows["url"][name]


def _download(name: str, url: str, folder: Path) -> None:
    """Fetch OGB's archive and unpack it, so that ``folder`` is there as a whole or not at all."""
    archive = folder.parent / Path(url).name
    fetch_missing(name, folder.parent, {archive.name: url})
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(scratch)
            (Path(scratch) / archive.stem).rename(folder)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
        raise DataError(
            f"{archive}: cannot be unpacked into {folder} ({error}); delete it to download it again"
        ) from None
    archive.unlink()


def _not_installed(name: str) -> ConfigError:
    return ConfigError(f"{name} needs the ogb package; run: pip install 'hpn[ogb]'")


def _import_reader(name: str) -> Callable[..., list[dict[str, Any]]]:
    # On import, ogb starts a thread that asks the network for a newer version of ogb, through the
    # package `outdated`, and does without if that cannot be imported. None makes it so.
    absent = object()
    before: Any = sys.modules.get("outdated", absent)
    sys.modules["outdated"] = None  # type: ignore[assignment]
    try:
        from ogb.io.read_graph_raw import read_csv_graph_raw
    except ImportError:
        raise _not_installed(name) from None
    finally:
        if before is absent:
            del sys.modules["outdated"]
        else:
            sys.modules["outdated"] = before
    reader: Callable[..., list[dict[str, Any]]] = read_csv_graph_raw
    return reader


def _read_graph(name: str, raw: Path) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    read = _import_reader(name)
    chatter = io.StringIO()
    try:
        # Both directions are made of each link later, for every data set alike.
        with redirect_stdout(chatter), redirect_stderr(chatter), np.errstate(invalid="raise"):
            graph = read(str(raw), add_inverse_edge=False)[0]
        links, x = graph["edge_index"], np.asarray(graph["node_feat"], dtype=np.float32)
    except _UNREADABLE as error:
        raise _damaged(raw, error) from None
    if x.ndim != 2 or len(x) != graph["num_nodes"]:
        raise DataError(
            f"{raw / 'node-feat.csv.gz'}: {len(x)} nodes have features, but num-node-list.csv.gz "
            f"tells of {graph['num_nodes']}; unpack the archive again"
        )
    return links, x


def _damaged(raw: Path, error: Exception) -> DataError:
    """Name the file at fault, which OGB's reader of all of them does not."""
    reason = " ".join(str(error).split())[:120]
    for file in _FILES:
        try:
            with gzip.open(raw / file) as stream:
                while stream.read(1 << 20):
                    pass
        except (OSError, EOFError, zlib.error):
            return DataError(f"{raw / file}: is cut short or damaged; unpack the archive again")
    files = ", ".join(_FILES)
    return DataError(f"{raw}: {files} do not hold what they should ({reason}); unpack them again")


def _read_rows(path: Path, has_header: bool) -> pa.Table:
    options = pc_csv.ReadOptions(autogenerate_column_names=not has_header)
    try:
        return pc_csv.read_csv(path, options)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise DataError(f"{path}: cannot be read ({reason}); unpack the archive again") from None


def _read_labels(path: Path) -> NDArray[np.int64]:
    column = _read_rows(path, has_header=False).column(0)
    try:
        labels = column.cast(pa.int64()).fill_null(UNLABELLED).to_numpy()
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())[:120]
        raise DataError(f"{path}: expected one class number a line ({reason})") from None
    # Copied because Arrow's memory may not be written to, which PyTorch does not allow for.
    return np.array(labels, dtype=np.int64)


def _class_names(mapping: Path, num_classes: int) -> list[str]:
    """Read the names OGB gives its classes; a class without one is called by its number."""
    names: dict[int, str] = {}
    for path in sorted(mapping.glob("labelidx2*.csv.gz"))[:1]:
        table = _read_rows(path, has_header=True)
        if table.num_columns >= 2:
            numbers, words = table.column(0).to_pylist(), table.column(1).to_pylist()
            names = dict(zip(numbers, map(str, words), strict=True))
    return [names.get(label, str(label)) for label in range(num_classes)]
