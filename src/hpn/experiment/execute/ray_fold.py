"""Parts of one fit on the machines of a Ray cluster.

A view is sent once: its edges through Ray's object store; its features are memory-mapped if every machine has
the file, and sent as well if not. If a worker or machine dies, Ray computes its part again.
"""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from hpn.datasets.sparse import to_csr, to_scipy
from hpn.datasets.store import FILE, HEADER, map_again
from hpn.experiment.execute.ray import MAX_RETRIES, RayExecutor, check_versions, quiet
from hpn.experiment.run.environment import installed_versions
from hpn.nn.fold import PartRunner, run_part, using
from hpn.streams import GraphView
from hpn.streams.views import FeatureRows


class PackedView(NamedTuple):
    """A view in the object store, whose arrays workers read in place."""

    token: str  # its name
    indptr: np.ndarray
    indices: np.ndarray
    features: Any  # arrays or a sparse matrix; or file, shape, type and rows of features that are mapped

    def unpack(self) -> GraphView:
        """The view; nothing is copied."""
        features = self.features
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the arrays must not be written to, and are not
            if isinstance(features, tuple):
                file, shape, dtype, nodes = features
                features = FeatureRows(map_again(file, shape, dtype), torch.from_numpy(nodes))
            elif isinstance(features, sp.csr_matrix):
                features = to_csr(features)
            else:
                features = torch.from_numpy(features)
            indptr, indices = torch.from_numpy(self.indptr), torch.from_numpy(self.indices)
        return GraphView.compressed(features, indptr, indices)


class RayParts(PartRunner):
    """Runs parts on a connected cluster."""

    is_local = False

    def __init__(self, cluster: RayExecutor) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        self._task = self._ray.remote(num_cpus=1, max_retries=MAX_RETRIES)(_run)
        self._shared: tuple[Any, Any] = (None, None)
        self.kept: dict[Any, list[Any]] = {}
        self._sees: dict[str, bool] = {}
        self._run_everywhere(check_versions, installed_versions())

    @property
    def num_workers(self) -> int:
        """Parts that run at a time."""
        return self._cluster.num_workers

    def share(self, value: Any) -> Any:
        """Put a view into the object store; the last one stays there."""
        if self._shared[0] is not value:
            self.kept = {}
            packed = self._pack(value)
            with quiet():
                self._shared = value, self._ray.put(packed)
        return self._shared[1]

    def map(self, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> list[Any]:
        """Start ``function(item, *shared)`` for every item."""
        with quiet():
            return [self._task.remote(function, item, *shared) for item in items]

    def get(self, results: Sequence[Any]) -> Iterator[Any]:
        """The results, in the order of the items."""
        for result in results:
            while not self._cluster.wait([result]):
                pass
            yield self._cluster.get(result)

    def _pack(self, view: GraphView) -> PackedView:
        features: Any = view.features
        if isinstance(features, FeatureRows):
            _, (source, nodes) = features.__reduce__()  # as it would be pickled; learners have no access
            file = getattr(source, FILE, None)
            if file is not None and self._is_seen(file):
                features = file, tuple(source.shape), source.dtype, nodes.numpy()
            else:
                features = features.take().numpy()
        else:
            features = to_scipy(features) if view.is_sparse else features.numpy()
        return PackedView(uuid.uuid4().hex, view.indptr.numpy(), view.indices.numpy(), features)

    def _is_seen(self, file: str) -> bool:
        """Whether all machines have a file."""
        if file not in self._sees:
            self._sees[file] = all(self._run_everywhere(_has_file, (file, _describe(file))))
        return self._sees[file]

    def _run_everywhere(self, function: Callable[..., Any], item: Any) -> list[Any]:
        """Run a function once on each machine."""
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        with quiet():
            nodes = [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]
            places = [strategy(node_id=node, soft=True) for node in nodes]
            started = [self._task.options(scheduling_strategy=place).remote(function, item) for place in places]
        return list(self.get(started))


@contextmanager
def fold_on(address: str) -> Iterator[None]:
    """Compute the parts of fits on the Ray cluster at an address."""
    with RayExecutor(address) as cluster, using(RayParts(cluster)):
        yield


def _run(function: Callable[..., Any], item: Any, *shared: Any) -> Any:
    return run_part(function, item, *(_open(value) for value in shared))


# The view that a worker used last, by its token.
_views: dict[str, GraphView] = {}


def _open(value: Any) -> Any:
    if not isinstance(value, PackedView):
        return value
    if value.token not in _views:
        _views.clear()
        _views[value.token] = value.unpack()
    return _views[value.token]


def _has_file(item: tuple[str, tuple[int, bytes]]) -> bool:
    file, about = item
    return Path(file).is_file() and _describe(file) == about


def _describe(file: str) -> tuple[int, bytes]:
    """Size of a file of a store, and the store's header, which has the fingerprint of the graph."""
    header = Path(file).with_name(HEADER)
    return Path(file).stat().st_size, header.read_bytes() if header.is_file() else b""
