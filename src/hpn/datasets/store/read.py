"""Opens stores: maps their arrays into memory, and checks that they are what was written."""

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
"""Stores of version 1 have no ids and no names of features, and open as well; version 2 had shards."""

FILE = "mapped_from"
"""The attribute of an array that names its file, so that other processes can map it as well."""

_BLOCK = 1 << 24


def is_store(path: Path) -> bool:
    """Whether a folder is a store, whole or not."""
    return (path / HEADER).is_file()


def open_store(path: Path, *, verify: bool = True) -> Graph:
    """Map a store into memory.

    The graph takes its fingerprint from the header, which was hashed from what was written.

    Args:
        path: Its folder.
        verify: Whether to compare checksums, which reads every byte once.

    Raises:
        DataError: If it is damaged, cut short, or of another version.
    """
    header = _read_header(path)
    try:
        arrays = {name: _map_array(path, name, entry, verify) for name, entry in header["arrays"].items()}
        graph = make_graph(header, arrays)
        lengths = [len(graph.indptr) - 1, len(graph.y)]
        len(graph.class_names)
        lengths += [len(part) for part in (graph.node_ids, graph.node_time) if part is not None]
        lengths += [] if graph.y_by_time is None else [graph.y_by_time.shape[1]]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"{HEADER} does not fit the arrays: {error!r}") from None
    if set(lengths) != {graph.num_nodes}:
        raise _damaged(path, "its arrays are of different graphs")
    if "fingerprint" in header and header.get("fingerprint_of") == hash_header(header):
        remember_fingerprint(graph, str(header["fingerprint"]))
    return graph


def hash_header(header: Mapping[str, Any]) -> str:
    """Hash what the fingerprint in a header rests on, which is everything else in the header.

    Whoever changes the order of the classes by hand changes what a learner sees; the fingerprint is then
    known to be an old one.

    Example:
        >>> hash_header({"name": "a", "fingerprint": "1"}) == hash_header({"fingerprint": "2", "name": "a"})
        True
    """
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
        raise DataError(f"{path}: {HEADER} is not that of a graph store")
    if header.get("version") not in {1, VERSION}:
        raise DataError(
            f"{path}: the store is of version {header.get('version')}, this hpn reads {VERSION} "
            "and 1; upgrade hpn, or import the graph again"
        )
    return header


def _map_array(path: Path, name: str, entry: Mapping[str, Any], verify: bool) -> Tensor:
    """Map a file that must be as long as the header says, and unchanged if that is to be verified."""
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
    # Copy on write, so that nobody can change the file; and unlike those of NumPy, such a map does not keep
    # the file open, of which a process may have only about a thousand.
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
