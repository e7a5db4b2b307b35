"""A user's own graph as two tables, its nodes and its edges, in CSV or Parquet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from hpn.datasets.graph import UNLABELLED, Graph, Masks
from hpn.datasets.ids import read_ids
from hpn.datasets.normalize import Normalize, apply_normalize
from hpn.datasets.table_features import list_columns, read_features
from hpn.datasets.table_files import TableFile, open_table
from hpn.errors import DataError

_SUFFIXES = (".csv", ".parquet")
_NODE_COLUMNS = {
    **dict.fromkeys(("id", "node", "node_id"), "id"),
    **dict.fromkeys(("label", "class"), "label"),
    "split": "split",
}
_EDGE_COLUMNS = {
    **dict.fromkeys(("source", "src", "from", "u"), "source"),
    **dict.fromkeys(("target", "dst", "to", "v"), "target"),
}
_PARTS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")


def load_tables(path: Path, *, normalize: Normalize = "none") -> Graph:
    """Load a graph from a nodes table and an edges table.

    The nodes table has the columns ``id`` (or ``node``, ``node_id``; any type), ``label`` (or
    ``class``; text or whole numbers, empty where
    it is unknown; among whole numbers −1 means unknown too), if the split is given ``split`` (``train``,
    ``val``, ``test`` or empty), and the features: numeric columns, or one column with a list. The
    edges table has ``source`` and ``target`` (or ``src``/``dst``, ``from``/``to``, ``u``/``v``); its other
    columns are not used. Ids are compared as text. Classes are numbered in the order of the labels.

    Args:
        path: A folder with ``nodes.csv`` and ``edges.csv`` (or ``.parquet``); or a nodes table, the
            edges table next to it under the same name with ``edges`` for ``nodes``.
        normalize: How to scale the features.

    Raises:
        DataError: If a table is missing or damaged, or they do not fit each other.
    """
    nodes_path, edges_path = _find_tables(path)
    nodes, edges = open_table(nodes_path), open_table(edges_path)
    roles = _find_columns(nodes, _NODE_COLUMNS, optional="split")
    names = [name for name in nodes.columns if name not in roles.values()]
    table = nodes.read(text=[*roles.values(), *list_columns(names)])
    if table.num_rows == 0:
        raise nodes.error("the table has no rows; a graph needs nodes")
    ids = _node_ids(nodes, table, roles["id"])
    y, class_names = _classes(nodes, table, roles["label"])
    graph = Graph.build(
        path.resolve().name,
        x=torch.from_numpy(read_features(nodes, table, names)),
        links=torch.from_numpy(_links(edges, ids)),
        y=torch.from_numpy(y),
        class_names=class_names,
        masks=_masks(nodes, table, roles["split"]) if "split" in roles else None,
        node_ids=read_ids(ids.to_pylist()),
        feature_names=None if list_columns(names) else names,
    )
    return replace(graph, x=apply_normalize(graph.x, normalize))


def _find_tables(path: Path) -> tuple[Path, Path]:
    if path.is_dir():
        nodes = _beside(path / "nodes.csv") or _named_nodes(path)
        if len(nodes) != 1:
            names = " and ".join(file.name for file in nodes)
            found = f"holds more than one nodes table, {names}" if nodes else "has no nodes table"
            raise DataError(f"{path}: the folder {found}; it needs nodes.csv or nodes.parquet")
        path = nodes[0]
    elif not path.exists():
        raise DataError(f"{path}: no such file or folder; give the nodes table or its folder")
    if path.suffix not in _SUFFIXES or "nodes" not in path.stem:
        raise DataError(
            f"{path}: expected the nodes table, a .csv or .parquet file with 'nodes' in its name "
            "and a table with 'edges' instead beside it"
        )
    edges = _beside(path.with_name(path.stem.replace("nodes", "edges") + path.suffix))
    if not edges:
        wanted = path.stem.replace("nodes", "edges")
        raise DataError(f"{path}: the edges table is missing; put {wanted}{path.suffix} beside it")
    return path, edges[0]


def _named_nodes(folder: Path) -> list[Path]:
    """Tables such as ``my-nodes.csv``."""
    files = sorted(folder.glob("*nodes*"))
    return [file for file in files if file.suffix in _SUFFIXES and file.is_file()]


def _beside(path: Path) -> list[Path]:
    """List which of the two kinds of a table exist, the kind asked for first."""
    kinds = sorted(_SUFFIXES, key=lambda suffix: suffix != path.suffix)
    return [found for suffix in kinds if (found := path.with_suffix(suffix)).is_file()]


def _find_columns(file: TableFile, known: Mapping[str, str], optional: str = "") -> dict[str, str]:
    """Map each role to the column that plays it."""
    roles: dict[str, str] = {}
    for name in file.columns:
        role = known.get(name.strip().lower())
        if role is None:
            continue
        if role in roles:
            raise file.error(f"columns {roles[role]!r} and {name!r} both mean the {role}; drop one")
        roles[role] = name
    missing = [role for role in dict.fromkeys(known.values()) if role not in {*roles, optional}]
    if missing:
        shown = ", ".join(file.columns[:8]) + (", …" if len(file.columns) > 8 else "")
        raise file.error(f"has no column {missing[0]!r}; found: {shown}")
    return roles


def _as_text(file: TableFile, table: pa.Table, column: str) -> pa.Array:
    """Turn a column of any type into text, so that 7, 7.0 and "7" are alike; empty is null."""
    values = table[column]
    try:
        if pa.types.is_floating(values.type):
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
            with suppress(pa.ArrowInvalid):
                values = values.cast(pa.int64())
        text = values.cast(pa.large_string()).combine_chunks()
        text.validate(full=True)
    except pa.ArrowException:
        raise file.error(f"holds {values.type}; expected text or numbers", column=column) from None
    if file.is_csv:
        text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)


def _first(mask: pa.Array) -> int:
    return int(pc.index(mask, True).as_py())


def _node_ids(file: TableFile, table: pa.Table, column: str) -> pa.Array:
    ids = _as_text(file, table, column)
    if ids.null_count:
        raise file.error("the id is empty; give every node one", row=_first(ids.is_null()), column=column)
    if pc.count_distinct(ids).as_py() < len(ids):
        codes = ids.dictionary_encode().indices.to_numpy()
        repeated = np.ones(len(ids), dtype=np.bool_)
        repeated[np.unique(codes, return_index=True)[1]] = False
        row = int(repeated.argmax())
        raise file.error(f"id {ids[row].as_py()!r} is given to an earlier node too", row=row, column=column)
    return ids


def _links(file: TableFile, ids: pa.Array) -> NDArray[np.int64]:
    roles = _find_columns(file, _EDGE_COLUMNS)
    columns = [roles["source"], roles["target"]]
    table = file.read(text=columns, only=columns)
    links = np.empty((2, table.num_rows), dtype=np.int64)
    for end, column in enumerate(columns):
        text = _as_text(file, table, column)
        position = pc.index_in(text, value_set=ids)
        if position.null_count:
            row = _first(position.is_null())
            name = text[row].as_py()
            what = "is empty" if name is None else f"{name!r} is the id of no node"
            raise file.error(f"{what}; add the node or drop the edge", row=row, column=column)
        links[end] = position.to_numpy()
    return links


def _classes(file: TableFile, table: pa.Table, column: str) -> tuple[NDArray[np.int64], list[str]]:
    """Number the labels in their order: of size if all are whole numbers, else of spelling."""
    encoded = _as_text(file, table, column).dictionary_encode()
    labels: list[str] = encoded.dictionary.to_pylist()
    if all(_WHOLE.fullmatch(label) for label in labels):
        values = [int(label.partition(".")[0]) for label in labels]
        labels = [str(value) for value in values]
        names = [str(value) for value in sorted(set(values) - {UNLABELLED})]
    else:
        names = sorted(labels)
    if not names:
        raise file.error("no node has a label", column=column)
    number = {name: index for index, name in enumerate(names)}
    if str(UNLABELLED) not in number:
        number[str(UNLABELLED)] = UNLABELLED
    # The last entry is where the code of a missing label, -1, points to.
    numbers = np.array([*(number[label] for label in labels), UNLABELLED], dtype=np.int64)
    return numbers[encoded.indices.fill_null(-1).to_numpy()], names


def _masks(file: TableFile, table: pa.Table, column: str) -> Masks | None:
    text = pc.utf8_lower(pc.utf8_trim_whitespace(_as_text(file, table, column)))
    if text.null_count == len(text):
        return None
    encoded = text.dictionary_encode()
    parts: list[str] = encoded.dictionary.to_pylist()
    for part in parts:
        if part not in _PARTS:
            row = _first(pc.equal(text, part))
            raise file.error(f"{part!r} is not one of train, val and test", row=row, column=column)
    codes = np.array([*(_PARTS[part] for part in parts), -1])
    part_of = codes[encoded.indices.fill_null(-1).to_numpy()]
    return Masks(*(torch.from_numpy(part_of == code) for code in range(3)))
