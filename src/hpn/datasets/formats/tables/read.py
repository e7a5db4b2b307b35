"""Reading a nodes table and an edges table: which column is what, ids, labels, split, times and edges."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator

from hpn.datasets.edges import count
from hpn.datasets.formats.tables import files
from hpn.datasets.formats.tables.features import Kind, Missing, TableFeatures
from hpn.datasets.formats.tables.files import SUFFIXES, Table, TableFile
from hpn.datasets.graph import UNLABELLED, Graph, Labels
from hpn.datasets.sink import FeatureWriter, Sink, write_ids, write_links
from hpn.datasets.sparse import Normalize
from hpn.errors import DataError, nearest

AsKey = Callable[[TableFile, str], str]
# One text, so that it fits into the configuration of a run and on a command line.
Names = Annotated[str, BeforeValidator(lambda names: names if isinstance(names, str) else ",".join(names))]

_NODE_COLUMNS = {"id": "id", "node": "id", "node_id": "id", "label": "label", "class": "label", "split": "split"}
_EDGE_COLUMNS = {"source": "source", "src": "source", "from": "source", "u": "source"}
_EDGE_COLUMNS |= {"target": "target", "dst": "target", "to": "target", "v": "target"}
_PARTS = {"train": "train", "val": "val|valid|validation", "test": "test"}  # words for the parts of a split
_WHOLE_LABEL = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}


def load_tables(
    path: Path,
    sink: Sink | None = None,
    *,
    normalize: Normalize = "none",
    text: Names = "",
    missing: Missing = "error",
    unknown_edges: Literal["error", "drop"] = "error",
    kinds: Mapping[str, Kind] | None = None,
    time: str = "",
    labels: Labels = "required",
) -> Graph:
    """Load a graph from a nodes table and an edges table.

    The nodes table has the columns ``id`` (or ``node``, ``node_id``; any type), ``label`` (or ``class``; text or whole
    numbers, empty if unknown; among whole numbers −1 means unknown too), if the split is given ``split`` (``train``,
    ``val``, ``test`` or empty), and the features, which :mod:`hpn.datasets.formats.tables.features` describes. The
    edges table has ``source`` and ``target`` (or ``src``/``dst``, ``from``/``to``, ``u``/``v``); its other columns are
    not used. Ids are compared as text. Classes are numbered in the order of the labels.

    Args:
        path: A folder with ``nodes.csv`` and ``edges.csv`` (or ``.csv.gz``, ``.parquet``), or with several files per
            table, ``nodes-*.parquet`` or ``nodes/*.csv``; or a nodes table, with the edges table beside it under the
            same name with ``edges`` for ``nodes``.
        sink: Where to write the graph; by default into memory.
        normalize: How to scale the features.
        text: Columns to read as text, separated by commas.
        missing: How to handle missing numbers: refuse the table, or fill them with the mean of their column or zero.
        unknown_edges: How to handle edges with ends that are not in the nodes table: refuse or drop them.
        kinds: How to read each feature column, in the order of the features, such as the ``column_kinds`` of another
            graph; by default detected.
        time: The column that states when each node arrived: whole numbers, or dates such as 2024-01-31, which become
            20240131. It is not a feature then.
        labels: Whether at least one node must have a label; if not, the column may be missing.

    Raises:
        DataError: If a table is missing or damaged, or the tables do not fit each other.
    """
    sink = sink or Sink()
    node_files, edge_files = _find_tables(path)
    name = path.resolve().name
    with files.open_database(sink.scratch) as connection:
        nodes, edges = files.open_table(connection, node_files), files.open_table(connection, edge_files)
        roles = _find_columns(nodes, _NODE_COLUMNS, {"split", "label"} if labels == "optional" else {"split"})
        if time:
            roles["time"] = _find_time(nodes, time, roles)
        ends = _find_columns(edges, _EDGE_COLUMNS)
        sink.begin(nodes.num_bytes + edges.num_bytes)
        words = [word.strip() for word in text.split(",") if word.strip()]
        features = TableFeatures(nodes, {*roles.values()}, text=words, missing=missing, kinds=kinds)
        types = nodes.types(roles["id"]) | edges.types(ends["source"]) | edges.types(ends["target"])
        as_key = _as_whole if types <= _INTEGERS else _as_text
        nodes.stage("nodes", lambda file: [*_role_columns(file, roles, as_key), features.staged(file)])
        if nodes.num_rows == 0:
            raise nodes.error("the table has no rows; a graph needs nodes")
        _write_ids(sink, nodes, roles["id"])
        class_names = _write_labels(sink, nodes)
        if not class_names and labels == "required":
            raise nodes.error("no node has a label", column=roles["label"])
        is_split = "split" in roles and _write_masks(sink, nodes, roles["split"])
        if time:
            _write_times(sink, nodes, time)
        features.write(FeatureWriter(sink, name, normalize), sink)
        dropped = _join_links(nodes, edges, ends, as_key, unknown_edges)
        num_links = edges.num_rows - dropped
        links = write_links(sink, nodes.num_rows, num_links, lambda: files.read_links(edges), edges.num_bytes)
    notes = [f"{count(dropped, 'edge')} with an unknown end dropped"] if dropped else []
    header = {"name": name, "num_features": features.num_features, "num_links": num_links, "class_names": class_names}
    header |= {"split_rule": "given" if is_split else "seeded", "feature_names": features.names}
    header |= {"column_kinds": features.kinds, "notes": features.notes + notes + links.describe()}
    return sink.finish(header)


def _find_tables(path: Path) -> tuple[list[Path], list[Path]]:
    """The files of the nodes table and those of the edges table."""
    if path.is_dir():
        nodes, parts = _beside(path / "nodes.csv"), _parts(path, "nodes")
        if not nodes and parts:
            edges = _parts(path, "edges") or _beside(path / "edges.csv")[:1]
            if not edges:
                raise DataError(f"{path}: the edges table is missing; add edges.csv, or edges-*.csv")
            return parts, edges
        nodes = nodes or [file for file in sorted(path.glob("*nodes*")) if _is_table(file)]
        if len(nodes) != 1:
            names = " and ".join(file.name for file in nodes)
            found = f"holds more than one nodes table, {names}" if nodes else "has no nodes table"
            raise DataError(f"{path}: the folder {found}; it needs nodes.csv or nodes.parquet")
        path = nodes[0]
    elif not path.exists():
        raise DataError(f"{path}: no such file or folder; give the nodes table or its folder")
    if not _is_table(path) or "nodes" not in path.name:
        raise DataError(
            f"{path}: expected the nodes table, a .csv, .csv.gz or .parquet file with 'nodes' in its name "
            "and a table with 'edges' instead beside it"
        )
    wanted = path.with_name(path.name.replace("nodes", "edges"))
    edges = _beside(wanted)
    if not edges:
        raise DataError(f"{path}: the edges table is missing; put {wanted.name} beside it")
    return [path], edges[:1]


def _is_table(path: Path) -> bool:
    return path.name.endswith(SUFFIXES) and path.is_file()


def _parts(folder: Path, table: str) -> list[Path]:
    """The files of a table of several files: ``nodes-*.csv``, or ``nodes/*.csv``."""
    return sorted(filter(_is_table, [*folder.glob(f"{table}-*"), *(folder / table).glob("*")]))


def _beside(path: Path) -> list[Path]:
    """The existing files of a table with any suffix, ``path`` itself first."""
    stem = path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")
    others = [path.with_name(stem + suffix) for suffix in SUFFIXES]
    return [file for file in dict.fromkeys([path, *others]) if _is_table(file)]


def _find_columns(table: Table, known: Mapping[str, str], optional: Set[str] = frozenset()) -> dict[str, str]:
    """The column of each role."""
    roles: dict[str, str] = {}
    for name in table.columns:
        role = known.get(name.strip().lower())
        if role in roles:
            raise table.error(f"columns {roles[role]!r} and {name!r} both mean the {role}; drop one")
        if role is not None:
            roles[role] = name
    missing = [role for role in dict.fromkeys(known.values()) if role not in {*roles, *optional}]
    if missing:
        shown = ", ".join(table.columns[:8]) + (", …" if len(table.columns) > 8 else "")
        raise table.error(f"has no column {missing[0]!r}; found: {shown}")
    return roles


def _find_time(nodes: Table, time: str, roles: Mapping[str, str]) -> str:
    for role, column in roles.items():
        if column == time:
            raise nodes.error(f"column {time!r} cannot be the time: it is the {role}")
    if time not in nodes.columns:
        hint = f"{nearest(time, nodes.columns)}its columns: {', '.join(nodes.columns[:8])}"
        raise nodes.error(f"has no column {time!r} for the time; {hint}")
    return time


def _role_columns(file: TableFile, roles: Mapping[str, str], as_key: AsKey) -> list[str]:
    texts = {role: _as_text(file, roles[role]) if role in roles else "NULL" for role in ("label", "split", "time")}
    return [f"{as_key(file, roles['id'])} AS id", *(f"{text}::VARCHAR AS {role}" for role, text in texts.items())]


def _as_whole(file: TableFile, column: str) -> str:
    return f"{file.columns[column][0]}::BIGINT"


def _as_text(file: TableFile, column: str) -> str:
    """A value of any type as text, so that 7, 7.0 and "7" are equal; empty is null."""
    name, kind = file.columns[column]
    if files.is_nested(kind):
        raise file.error(f"holds {kind}; expected text or numbers", column=column)
    if kind in {"FLOAT", "DOUBLE"}:
        whole = f"{name} = floor({name}) AND abs({name}) < 9e15 THEN {name}::BIGINT::VARCHAR"
        return f"CASE WHEN isnan({name}) THEN NULL WHEN {whole} ELSE {name}::VARCHAR END"
    return f"nullif({files.spell(name, kind, trimmed=file.is_csv)}, '')"


def _write_ids(sink: Sink, nodes: Table, column: str) -> None:
    usual = "TRY_CAST(id AS BIGINT)::VARCHAR IS NOT DISTINCT FROM id::VARCHAR"
    counts = f"min(rowid) FILTER (id IS NULL), count(DISTINCT id), bool_and({usual})"
    [(empty, distinct, is_whole)] = nodes.query(f"SELECT {counts} FROM nodes")
    if empty is not None:
        raise nodes.error("the id is empty; give every node one", row=empty, column=column)
    if distinct < nodes.num_rows:
        earlier = "row_number() OVER (PARTITION BY id ORDER BY rowid) > 1"
        repeated = f"SELECT rowid AS place, id::VARCHAR AS name FROM nodes QUALIFY {earlier}"
        row, name = nodes.query(f"FROM ({repeated}) ORDER BY place LIMIT 1")[0]
        raise nodes.error(f"id {name!r} is given to an earlier node too", row=row, column=column)
    write_ids(sink, nodes.arrays(f"SELECT id::{'BIGINT' if is_whole else 'VARCHAR'} AS id FROM nodes")["id"])


def _write_labels(sink: Sink, nodes: Table) -> list[str]:
    """Number the labels in their order: of size if all are whole numbers, else of spelling.

    The name of a class does not depend on the other rows: 2.0 is "2", and -1 is not a label.
    """
    labels = [label for (label,) in nodes.query("SELECT DISTINCT label FROM nodes WHERE label IS NOT NULL")]
    whole = {label for label in labels if _WHOLE_LABEL.fullmatch(label)}
    names = {label: str(int(label.partition(".")[0])) if label in whole else label for label in labels}
    classes = sorted(set(names.values()) - {str(UNLABELLED)}, key=int if whole == set(labels) else str)
    number = {name: index for index, name in enumerate(classes)} | {str(UNLABELLED): UNLABELLED}
    known = "SELECT unnest($labels::VARCHAR[]) AS word, unnest($numbers::BIGINT[]) AS number"
    query = f"SELECT coalesce(number, -1) AS y FROM nodes LEFT JOIN ({known}) ON label = word ORDER BY nodes.rowid"
    values = {"labels": labels, "numbers": [number[names[label]] for label in labels]}
    sink.append("y", nodes.connection.execute(query, values).fetchnumpy()["y"])
    return classes


def _write_masks(sink: Sink, nodes: Table, column: str) -> bool:
    """Write the given split, if there is one."""
    part = "lower(trim(coalesce(split, '')))"
    known = f"regexp_full_match({part}, '{'|'.join(_PARTS.values())}|')"
    for row, word in nodes.query(f"SELECT rowid, split FROM nodes WHERE NOT {known} ORDER BY rowid LIMIT 1"):
        raise nodes.error(f"{word!r} is not one of train, val and test", row=row, column=column)
    if not nodes.query(f"SELECT 1 FROM nodes WHERE {part} != '' LIMIT 1"):
        return False
    for mask, words in _PARTS.items():
        query = f"SELECT regexp_full_match({part}, '{words}') AS mask FROM nodes"
        sink.append(mask, nodes.arrays(query)["mask"].view(np.uint8))
    return True


def _write_times(sink: Sink, nodes: Table, column: str) -> None:
    """Write when each node arrived: whole numbers or dates, as the first node has."""
    is_whole = "regexp_full_match(time, '[+-]?[0-9]{1,18}')"
    [(has_numbers,)] = nodes.query(f"SELECT {is_whole} FROM nodes WHERE rowid = 0")
    number = "strftime(TRY_CAST(time AS TIMESTAMP), '%Y%m%d')::BIGINT"
    if has_numbers:
        number = f"CASE WHEN {is_whole} THEN time::BIGINT END"
    for row, text in nodes.query(f"SELECT rowid, time FROM nodes WHERE ({number}) IS NULL ORDER BY rowid LIMIT 1"):
        what = "is empty" if text is None else f"{text!r} is not a time"
        raise nodes.error(f"{what}; give every node a whole number or a date", row=row, column=column)
    sink.append("node_time", nodes.arrays(f"SELECT {number} AS time FROM nodes")["time"])


def _join_links(nodes: Table, edges: Table, ends: Mapping[str, str], as_key: AsKey, unknown_edges: str) -> int:
    """Make the table ``links`` of the positions of both ends; return the number of edges that were dropped."""
    [(are_positions,)] = nodes.query("SELECT bool_and(id::VARCHAR = rowid::VARCHAR) FROM nodes")
    nodes.query("CREATE TABLE places AS SELECT id, rowid::INTEGER AS place FROM nodes")
    nodes.query("DROP TABLE nodes")

    def keys(file: TableFile) -> list[str]:
        return [as_key(file, ends["source"]), as_key(file, ends["target"])]

    if are_positions and as_key is _as_whole:  # nothing to look up, which takes half the time
        place = f"CASE WHEN {{0}} BETWEEN 0 AND {nodes.num_rows - 1} THEN {{0}}::INTEGER END AS {{1}}"
        edges.stage("links", lambda file: list(map(place.format, keys(file), ("source", "target"))))
    else:
        edges.stage("links", lambda _: ["a.place AS source", "b.place AS target"], lambda file: _join(*keys(file)))
    unknown = "source IS NULL OR target IS NULL"
    [(number,)] = nodes.query(f"SELECT count(*) FROM links WHERE {unknown}")
    if number and unknown_edges == "error":
        raise _unknown_end(edges, ends, as_key)
    nodes.query(f"DELETE FROM links WHERE {unknown}")
    return int(number)


def _join(source: str, target: str) -> str:
    return f"LEFT JOIN places a ON {source} = a.id LEFT JOIN places b ON {target} = b.id"


def _unknown_end(edges: Table, ends: Mapping[str, str], as_key: AsKey) -> DataError:
    """The error for the first edge with an end that is not a node."""
    edges.stage("ends", lambda file: [f"{as_key(file, column)} AS {end}" for end, column in ends.items()])
    found = "SELECT ends.rowid, a.place IS NULL, source::VARCHAR, target::VARCHAR FROM ends"
    unknown = "WHERE a.place IS NULL OR b.place IS NULL ORDER BY ends.rowid LIMIT 1"
    [(row, is_source, source, target)] = edges.query(f"{found} {_join('source', 'target')} {unknown}")
    name, column = (source, ends["source"]) if is_source else (target, ends["target"])
    what = "is empty" if name is None else f"{name!r} is not the id of a node"
    return edges.error(f"{what}; add the node or drop the edge", row=row, column=column)
