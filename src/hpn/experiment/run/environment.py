"""The surroundings of a run: versions, threads and deterministic algorithms, seconds and memory."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpn.datasets import Graph

PACKAGES = ("torch", "torch_geometric", "numpy", "scipy", "scikit-learn")
# Graphs up to this size use one thread: a second one gains little, and on a busy machine it costs much.
SMALL_GRAPH = 20_000


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    import hpn

    own = {"python": platform.python_version(), "hpn": hpn.__version__}
    return own | {name: version(name) for name in PACKAGES}


@contextlib.contextmanager
def deterministic(graph: Graph, device: str = "cpu") -> Iterator[None]:
    """Use deterministic algorithms inside, and one thread if the graph is small.

    Some operations have no deterministic form on a GPU; there they only warn.
    """
    import torch
    from threadpoolctl import threadpool_limits

    options: Any = torch.utils.deterministic
    mode, threads = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    fill = options.fill_uninitialized_memory
    limit = 1 if graph.num_nodes <= SMALL_GRAPH else threads
    if device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # Not use_deterministic_algorithms, which imports PyTorch's compiler and takes seconds.
    torch.set_deterministic_debug_mode("error" if device == "cpu" else "warn")
    options.fill_uninitialized_memory = False
    torch.set_num_threads(limit)
    try:
        with threadpool_limits(limit):
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        options.fill_uninitialized_memory = fill
        torch.set_num_threads(threads)


class Stopwatch:
    """Adds up seconds by name, beginning with those that were measured before a crash."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.seconds = {"fit": 0.0, "predict": 0.0, "total": 0.0, **seconds}
        self._last = time.perf_counter()

    def lap(self, *names: str) -> dict[str, float]:
        """Add the time since the last lap to ``names`` and to the total; returns all seconds."""
        passed, self._last = time.perf_counter() - self._last, time.perf_counter()
        for name in (*names, "total"):
            self.seconds[name] += passed
        return dict(self.seconds)


def peak_rss_mb() -> float | None:
    """Largest resident memory of this process so far, in MB; ``None`` where the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)
