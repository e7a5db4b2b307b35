"""Opening stores: their arrays are mapped into memory and verified."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.graph import Graph, remember_fingerprint
from hpn.datasets.sink import make_graph
from hpn.errors import DataError

HEADER = "header.json"
KIND = "hpn graph store"
VERSION = 3
"""Stores of version 1, without ids and names of features, can be opened too; version 2 had shards."""

FILE = "mapped_from"
"""The attribute of an array with the path of its file, so that other processes can map it too."""

_BLOCK = 1 << 24


def is_store(path: Path) -> bool:
    """Whether a folder is a store, complete or not."""
    return (path / HEADER).is_file()


def open_store(path: Path, *, verify: bool = True) -> Graph:
    """Map a store into memory.

    The graph takes its fingerprint from the header.

    Args:
        path: Its folder.
        verify: Whether to compare checksums, which reads every byte once.

    Raises:
        DataError: If it is damaged, truncated, or of another version.
    """
    header = _read_header(path)
    try:
        arrays = {name: _map_array(path, name, entry, verify) for name, entry in header["arrays"].items()}
        graph = make_graph(header, arrays)
        lengths = {graph.num_nodes, len(graph.indptr) - 1, len(graph.y)}
        lengths |= {len(part) for part in (graph.node_ids, graph.node_time) if part is not None}
        lengths |= set() if graph.y_by_time is None else {graph.y_by_time.shape[1]}
        len(graph.class_names)  # raises if the header has none
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"{HEADER} does not fit the arrays: {error!r}") from None
    if len(lengths) > 1:
        raise _damaged(path, "its arrays belong to different graphs")
    if "fingerprint" in header and header.get("fingerprint_of") == hash_header(header):
        remember_fingerprint(graph, str(header["fingerprint"]))
    return graph


def hash_header(header: Mapping[str, Any]) -> str:
    """Hash everything in a header but the fingerprint, which is outdated if any of it was edited."""
    rest = {key: value for key, value in header.items() if key not in {"fingerprint", "fingerprint_of"}}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads((path / HEADER).read_bytes())
    except OSError as error:
        raise DataError(f"{path}: {HEADER} cannot be read: {error.strerror}") from None
    except ValueError:
        raise _damaged(path, f"{HEADER} is not JSON") from None
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise DataError(f"{path}: {HEADER} is not the header of a graph store")
    if header.get("version") not in {1, VERSION}:
        found = f"the store has version {header.get('version')}, but this hpn reads {VERSION} and 1"
        raise DataError(f"{path}: {found}; upgrade hpn, or import the graph again")
    return header


def _map_array(path: Path, name: str, entry: Mapping[str, Any], verify: bool) -> Tensor:
    """Map a file, whose size must be that in the header, and its checksum as well if ``verify``."""
    file, dtype, shape = path / f"{name}.bin", np.dtype(entry["dtype"]), tuple(entry["shape"])
    try:
        found = file.stat().st_size
    except OSError:
        raise _damaged(path, f"{file.name} is missing") from None
    empty, size = torch.from_numpy(np.empty(0, dtype)), math.prod(shape)
    if found != size * dtype.itemsize:
        raise _damaged(path, f"{file.name} has {found:,} bytes, expected {size * dtype.itemsize:,}")
    if size == 0:
        return empty.reshape(shape)
    # Copy on write, so that the file cannot be changed. Unlike a map of NumPy, it does not keep the file open;
    # a process may have only about a thousand open files.
    array = torch.from_file(str(file), shared=False, size=size, dtype=empty.dtype)
    if verify:
        flat, checksum = array.view(torch.uint8).numpy(), 0
        for start in range(0, len(flat), _BLOCK):
            checksum = zlib.crc32(flat[start : start + _BLOCK].data, checksum)
        if checksum != int(entry["crc32"]):
            raise _damaged(path, f"{file.name} has changed since it was written")
    mapped = array.reshape(shape)
    setattr(mapped, FILE, str(file.resolve()))
    return mapped


def map_again(file: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Map an array of a store that another process has opened and checked."""
    return torch.from_file(file, shared=False, size=math.prod(shape), dtype=dtype).reshape(shape)


def _damaged(path: Path, what: str) -> DataError:
    return DataError(f"{path}: the store is damaged or cut short ({what}); import the graph again")
