"""The large graphs of the Open Graph Benchmark, read from its raw files.

OGB's own package is not used, because it unpickles its cache, prompts on standard input, and looks for newer versions
of itself on the network.

Reference:
    Hu et al., Open Graph Benchmark: Datasets for Machine Learning on Graphs, NeurIPS 2020.
"""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from hpn.datasets.formats.download import fetch_missing
from hpn.datasets.formats.tables import files
from hpn.datasets.formats.tables.features import TableFeatures
from hpn.datasets.formats.tables.files import Table
from hpn.datasets.graph import Graph, check_labels
from hpn.datasets.sink import FeatureWriter, Sink, write_links
from hpn.errors import DataError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ADDRESS = "http://snap.stanford.edu/ogb/data/nodeproppred"
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
_MAX_CLASSES = 1 << 16
_FILES = ("edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz")
_AGAIN = "unpack the archive again"


def load_ogb(name: str, raw: Path, sink: Sink | None = None) -> Graph:
    """Load ``ogbn-arxiv`` or ``ogbn-products``.

    Args:
        name: Which of the two.
        raw: Folder ``raw`` of OGB's layout; if it is missing, the data set is downloaded.
        sink: Where to write the graph; by default into memory.

    Raises:
        DataError: If raw files are missing or damaged, or do not fit each other.
    """
    _find_files(name, raw)
    sink = sink or Sink()
    with files.open_database(sink.scratch) as connection:
        edges, nodes, labels = (_open_raw(connection, raw / file) for file in _FILES)
        sink.begin(nodes.num_bytes + edges.num_bytes)
        features = TableFeatures(nodes, set(), kinds=dict.fromkeys(nodes.columns, "number"))
        nodes.stage("nodes", lambda file: [features.staged(file)])
        y = _read_labels(labels)
        known = _class_names(connection, raw.parent / "mapping", int(y.max()) + 1)
        class_names = check_labels(name, torch.from_numpy(y), nodes.num_rows, known)
        sink.append("y", y)
        features.write(FeatureWriter(sink, name), sink)
        nodes.query("DROP TABLE nodes")
        _stage_links(edges, nodes.num_rows)
        links = write_links(sink, nodes.num_rows, edges.num_rows, lambda: files.read_links(edges), edges.num_bytes)
    header = {"name": name, "num_features": len(nodes.columns), "num_links": edges.num_rows}
    header |= {"class_names": list(class_names), "split_rule": "index", "notes": links.describe()}
    present = set(y.tolist())
    return sink.finish({**header, "class_order": [label for label in CLASS_ORDERS[name] if label in present]})


def _find_files(name: str, raw: Path) -> None:
    """Download the raw files if their folder is missing, and check that they are complete."""
    url, folder = f"{ADDRESS}/{name.removeprefix('ogbn-')}.zip", raw.parent
    if not raw.is_dir():
        _download(name, url, folder)
    missing = [file for file in _FILES if not (raw / file).is_file()]
    if missing:
        raise DataError(
            f"{name}: {raw} lacks {', '.join(missing)}; delete {folder} to download it again, or fetch "
            f"{url}, unpack it and rename its folder {Path(url).stem!r} to {folder}"
        )


def _download(name: str, url: str, folder: Path) -> None:
    """Download OGB's archive and unpack it, so that ``folder`` is complete or does not exist."""
    archive = folder.parent / Path(url).name
    fetch_missing(name, folder.parent, {archive.name: url})
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch:
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(scratch)
            (Path(scratch) / archive.stem).rename(folder)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
        what = f"cannot be unpacked into {folder} ({error}); delete it to download it again"
        raise DataError(f"{archive}: {what}") from None
    archive.unlink()


def _open_raw(connection: DuckDBPyConnection, path: Path) -> Table:
    """A file of numbers without a header; its first line determines the number of columns."""
    files.check_gzip(path)
    with files.open_bytes(path) as file:
        line = file.readline()
    if not line.strip():
        raise DataError(f"{path}: the file is empty; {_AGAIN}")
    return Table(connection, [files.TableFile(path, files.text_columns(list(map(str, range(line.count(b",") + 1)))))])


def _read_labels(labels: Table) -> NDArray[np.int64]:
    """The class of each node, -1 where there is none."""
    labels.stage("labels", lambda _: ["c0 AS word", "TRY_CAST(c0 AS DOUBLE) AS number"])
    right = f"isnan(number) OR (number = floor(number) AND abs(number) < {_MAX_CLASSES})"
    query = f"SELECT rowid, word FROM labels WHERE NOT coalesce({right}, word IS NULL) LIMIT 1"
    for row, word in labels.query(query):
        raise labels.error(f"{word!r} is not a class number; {_AGAIN}", row=row)
    return labels.arrays("SELECT coalesce(nullif(number, 'nan'::DOUBLE), -1)::BIGINT AS y FROM labels")["y"]


def _stage_links(edges: Table, num_nodes: int) -> None:
    if len(edges.columns) != 2:
        raise edges.error(f"expected two nodes per line, found {len(edges.columns)} columns; {_AGAIN}")
    # A cast alone would round fractions.
    whole = "CASE WHEN regexp_full_match({0}, '-?[0-9]+') THEN TRY_CAST({0} AS BIGINT) END AS {1}"
    edges.stage("links", lambda _: [whole.format("c0", "source"), whole.format("c1", "target")])
    right = " AND ".join(f"coalesce({end} BETWEEN 0 AND {num_nodes - 1}, false)" for end in ("source", "target"))
    for row, source, target in edges.query(f"SELECT rowid, * FROM links WHERE NOT ({right}) LIMIT 1"):
        what = f"edge {row} ({source} - {target}) lacks a node; there are {num_nodes} nodes, numbered from 0"
        raise edges.error(f"{what}; {_AGAIN}", row=row)


def _class_names(connection: DuckDBPyConnection, mapping: Path, num_classes: int) -> list[str]:
    """The names that OGB gives its classes; a class without one has its number as name."""
    names: dict[str, str] = {}
    for path in sorted(mapping.glob("labelidx2*.csv.gz"))[:1]:
        table = files.open_table(connection, [path])
        if len(table.columns) >= 2:
            table.stage("class_names", lambda _: ["trim(c0)", "c1"])
            names = dict(table.query("FROM class_names"))
    return [names.get(str(label)) or str(label) for label in range(num_classes)]
