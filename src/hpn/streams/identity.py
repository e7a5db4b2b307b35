"""How nodes and graphs are known again: hashes, which tell nothing else about them."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from hpn.datasets.sparse import is_sparse
from hpn.streams.views import GraphView


def hash_ids(ids: np.ndarray) -> np.ndarray:
    """A fixed, well mixed number for each id, another for every other (the finaliser of SplitMix64)."""
    mixed = ids.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((mixed ^ (mixed >> np.uint64(31))).view(np.int64))


def hash_nodes(view: GraphView, nodes: np.ndarray) -> np.ndarray:
    """Hashes of the ids of some nodes of a view."""
    return hash_ids(view.ids.numpy()[nodes])


def find_hashes(view: GraphView, hashes: np.ndarray) -> np.ndarray:
    """The nodes of a view whose ids have these hashes, -1 where there is none ``[n]``."""
    here = hash_ids(view.ids.numpy())
    order = np.argsort(here)
    place = order[np.searchsorted(here[order], hashes).clip(max=len(here) - 1)]
    return np.where(here[place] == hashes, place, -1)


@lru_cache(maxsize=4)
def fingerprint(view: GraphView) -> str:
    """Hash of all that the nodes of a view are encoded from: ids, features and edges."""
    x = view.x
    features = (x.crow_indices(), x.col_indices(), x.values()) if is_sparse(x) else (x,)
    digest = hashlib.sha256()
    for part in (view.ids, view.indptr, view.indices.long(), *features):
        digest.update(str((part.dtype, tuple(part.shape))).encode())
        digest.update(np.ascontiguousarray(part.numpy()).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
