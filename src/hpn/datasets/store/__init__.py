"""A graph as a folder of flat arrays that are mapped into memory instead of being read.

::

    header.json      name, classes, features and fingerprint of the graph; type, shape and checksum of every array
    indptr.bin       where the neighbours of each node begin, int64
    indices.bin      the neighbours, int32 (int64 beyond 2³¹ nodes)
    x.bin            dense features, float32 or float16; or x_indptr, x_indices and x_values, sparse ones
    y.bin            the class of each node, int64, −1 if unknown
    train.bin, …     a given split, one byte per node
    node_time.bin    when each node arrived, int64; y_by_time: its class at each time, one row per time, int64
    ids.bin          ids of the nodes, int64; or ids_text and ids_ends: UTF-8, and where each id ends

A store is written to a temporary folder and moved to its place when it is complete. Opening it compares sizes with
the header, and checksums if requested.
"""

from __future__ import annotations

from hpn.datasets.store.read import HEADER, KIND, VERSION, is_store, open_store
from hpn.datasets.store.write import FEATURE_TYPES, FeatureType, StoreWriter, write_store

__all__ = [
    "FEATURE_TYPES",
    "HEADER",
    "KIND",
    "VERSION",
    "FeatureType",
    "StoreWriter",
    "is_store",
    "open_store",
    "write_store",
]
