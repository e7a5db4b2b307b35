"""Cuts the arrays of a store that has just been written into shards, each with a range of nodes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hpn.datasets.store_files import BLOCK, SHARDED, Array, shard_name


def split_arrays(folder: Path, arrays: Mapping[str, dict[str, Any]], num_shards: int) -> dict[str, Any]:
    """Put shards in the place of files with features or neighbours.

    Shard ``k`` holds nodes ``k * n // num_shards`` to ``(k + 1) * n // num_shards``: their features, and
    their neighbours.

    Args:
        folder: The store.
        arrays: What the header tells of the whole arrays.
        num_shards: Shards of each array, at most one a node.

    Returns:
        What the header is to tell instead.
    """
    starts = {"indices": "indptr", "x_indices": "x_indptr", "x_values": "x_indptr"}
    num_nodes = arrays["indptr"]["shape"][0] - 1
    nodes = np.arange(num_shards + 1) * num_nodes // num_shards
    split = dict(arrays)
    for name in SHARDED:
        if name in arrays:
            bounds = nodes
            if name in starts:
                bounds = np.fromfile(folder / f"{starts[name]}.bin", np.int64)[nodes]
            split[name] = _split_file(folder, name, arrays[name], bounds)
    return split


def _split_file(folder: Path, name: str, entry: Mapping[str, Any], bounds: Array) -> dict[str, Any]:
    """Cut a file at some rows, from its end, so that no more than one shard is on disk twice."""
    width = np.dtype(entry["dtype"]).itemsize * int(np.prod(entry["shape"][1:], dtype=np.int64))
    shards: list[dict[str, int]] = []
    whole = folder / f"{name}.bin"
    with whole.open("r+b") as source:
        for number in reversed(range(len(bounds) - 1)):
            start, end = int(bounds[number]), int(bounds[number + 1])
            source.seek(start * width)
            checksum, left = 0, (end - start) * width
            with (folder / shard_name(name, number)).open("wb") as target:
                while left:
                    content = source.read(min(left, BLOCK))
                    target.write(content)
                    checksum, left = zlib.crc32(content, checksum), left - len(content)
            source.truncate(start * width)
            shards.insert(0, {"rows": end - start, "crc32": checksum})
    whole.unlink()
    return {"dtype": entry["dtype"], "shape": entry["shape"], "shards": shards}
