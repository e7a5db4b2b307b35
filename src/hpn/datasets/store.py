"""A graph as a folder of flat arrays that is mapped into memory, not read.

::

    header.json      what the graph is called, its classes, its fingerprint, and of every array type, shape
                     and checksum
    indptr.bin       where the neighbours of each node begin, int64
    indices.bin      the neighbours, int32 (int64 beyond 2³¹ nodes)
    x.bin            dense features, float32 or float16; or x_indptr, x_indices and x_values, sparse ones
    y.bin            the class of each node, int64, −1 where it is unknown
    train.bin, …     a given split, one byte a node

A store is written beside its place and moved there as a whole. When it is opened, sizes are checked against
the header at once, and checksums as the bytes are first read through.

In a store with K shards there are ``x-00000.bin``, ``x-00001.bin``, … in the place of ``x.bin``, and so for
``indices``, ``x_indices`` and ``x_values``: shard k holds the features and the neighbours of nodes k·n/K to
(k + 1)·n/K. A shard is mapped, and its checksum compared, when one of its nodes is first asked for; shards
that nobody asks for need not be there. What has one entry a node (``indptr``, ``y``, the split) stays whole.
"""

from __future__ import annotations

from hpn.datasets.store_files import FEATURE_TYPES, HEADER, KIND, VERSION, Advance, FeatureType, no_progress
from hpn.datasets.store_reader import is_store, open_store
from hpn.datasets.store_writer import (
    StoreWriter,
    append_features,
    check_shards,
    make_header,
    to_features,
    write_store,
)

__all__ = [
    "FEATURE_TYPES",
    "HEADER",
    "KIND",
    "VERSION",
    "Advance",
    "FeatureType",
    "StoreWriter",
    "append_features",
    "check_shards",
    "is_store",
    "make_header",
    "no_progress",
    "open_store",
    "to_features",
    "write_store",
]
