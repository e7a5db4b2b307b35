"""Opens stores: maps their arrays into memory, and checks that they are what was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.graph import Graph, Masks, remember_fingerprint
from hpn.datasets.shards import ShardedCsr, ShardedRows
from hpn.datasets.store_files import (
    HEADER,
    KIND,
    MASKS,
    SHARDED_VERSION,
    VERSION,
    ArrayFile,
    damaged,
    hash_header,
    shard_name,
)
from hpn.errors import DataError


def is_store(path: Path) -> bool:
    """Whether a folder is a store, whole or not."""
    return (path / HEADER).is_file()


def open_store(path: Path, *, verify: bool = True) -> Graph:
    """Map a store into memory.

    The graph takes its fingerprint from the header, which was hashed from what was written.

    Args:
        path: Its folder.
        verify: Whether to compare checksums, which reads every byte once; those of a shard when it is first
            needed.

    Raises:
        DataError: If it is damaged, cut short, or of a newer version. A shard that is missing or has changed
            is an error when a row of it is asked for.
    """
    header = _read_header(path)
    try:
        files = {name: _list_files(path, name, entry) for name, entry in header["arrays"].items()}
        arrays = {name: _open_array(part, verify) for name, part in files.items()}
        graph = make_graph(header, arrays)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, f"{HEADER} does not fit the arrays: {error!r}") from None
    if len(graph.indptr) != graph.num_nodes + 1 or len(graph.y) != graph.num_nodes:
        raise damaged(path, "its arrays are of different graphs")
    if "fingerprint" in header and header.get("fingerprint_of") == hash_header(header):
        remember_fingerprint(graph, str(header["fingerprint"]))
    return graph


def make_graph(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Graph:
    """Put a graph together from its header and arrays, some of which may be in shards."""
    x = arrays["x"] if "x" in arrays else _sparse(arrays, int(header["num_features"]))
    masks = Masks(*(arrays[name].bool() for name in MASKS)) if "train" in arrays else None
    return Graph(
        name=str(header["name"]),
        x=x,
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        y=arrays["y"],
        class_names=tuple(str(name) for name in header["class_names"]),
        num_links=int(header["num_links"]),
        split_rule=header["split_rule"],
        masks=masks,
        class_order=None if header["class_order"] is None else tuple(header["class_order"]),
    )


def _sparse(arrays: Mapping[str, Any], width: int) -> Tensor:
    indptr, columns, values = (arrays[f"x_{part}"] for part in ("indptr", "indices", "values"))
    if not isinstance(values, Tensor):
        return cast(Tensor, ShardedCsr(indptr, columns, values, width))
    size = (len(indptr) - 1, width)
    return torch.sparse_csr_tensor(indptr, columns, values, size, check_invariants=False)


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads((path / HEADER).read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {HEADER} cannot be read: {error.strerror}") from None
    except ValueError:
        raise damaged(path, f"{HEADER} is not JSON") from None
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise DataError(f"{path}: {HEADER} is not that of a graph store")
    if header.get("version") not in {VERSION, SHARDED_VERSION}:
        raise DataError(
            f"{path}: the store is of version {header.get('version')}, this hpn knows {VERSION} "
            f"and {SHARDED_VERSION}; upgrade hpn, or import the graph again"
        )
    return header


def _list_files(path: Path, name: str, entry: Mapping[str, Any]) -> list[ArrayFile]:
    """The file of an array, or those of its shards; files must be as long as the header says."""
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    if "shards" not in entry:
        file = ArrayFile(path / f"{name}.bin", dtype, shape, int(entry["crc32"]))
        file.check_size()
        return [file]
    # Whoever has a copy of the graph in another process may have another current folder.
    folder, count = path.resolve(), len(entry["shards"])
    files = [
        ArrayFile(
            folder / shard_name(name, number),
            dtype,
            (int(shard["rows"]), *shape[1:]),
            int(shard["crc32"]),
            (number, count),
        )
        for number, shard in enumerate(entry["shards"])
    ]
    if sum(file.shape[0] for file in files) != shape[0]:
        raise ValueError(f"the shards of {name} do not add up to {shape[0]} rows")
    return files


def _open_array(files: list[ArrayFile], verify: bool) -> Tensor | ShardedRows:
    return files[0].map(verify=verify) if files[0].shard is None else ShardedRows(files, verify=verify)
