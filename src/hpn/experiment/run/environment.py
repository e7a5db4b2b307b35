"""What surrounds a run: versions, threads and deterministic algorithms, seconds and memory."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpn.datasets import Graph

PACKAGES = ("hpn", "torch", "torch_geometric", "numpy", "scipy", "scikit-learn")
SMALL_GRAPH = 20_000
"""Up to this many nodes a run uses one thread."""


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    import hpn

    found = {name: hpn.__version__ if name == "hpn" else version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}


@contextlib.contextmanager
def deterministic(graph: Graph, device: str = "cpu") -> Iterator[None]:
    """Deterministic algorithms inside, and one thread if the graph is small; all as before outside.

    Some operations have no deterministic form on a GPU; there a warning must do.

    On a small graph a second thread gained little on an idle machine and cost much on a busy one.
    """
    import torch
    from threadpoolctl import threadpool_limits

    mode = torch.get_deterministic_debug_mode()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    threads = torch.get_num_threads()
    limit = 1 if graph.num_nodes <= SMALL_GRAPH else threads
    # Not use_deterministic_algorithms, which imports PyTorch's compiler and takes seconds for it.
    if device != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_deterministic_debug_mode("error" if device == "cpu" else "warn")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.set_num_threads(limit)
    try:
        with threadpool_limits(limit):
            yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        torch.set_num_threads(threads)


class Stopwatch:
    """Adds up seconds by name; what was measured before a crash is added to."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = {"fit": 0.0, "predict": 0.0, "total": 0.0, **seconds}
        self._earlier = dict(self.seconds)
        self._start = time.perf_counter()
        self._running: tuple[str, float] | None = None

    @contextlib.contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the time spent inside to ``name``."""
        self._running = (name, time.perf_counter())
        try:
            yield
        finally:
            name, start = self._running
            self.seconds[name] += time.perf_counter() - start
            self._running = None

    def read(self) -> dict[str, float]:
        """Seconds so far, a measurement under way included."""
        now = time.perf_counter()
        seconds = dict(self.seconds)
        if self._running:
            name, start = self._running
            seconds[name] += now - start
        seconds["total"] = self._earlier["total"] + now - self._start
        return seconds


def peak_rss_mb() -> float | None:
    """Largest resident memory of this process so far, in MB; ``None`` where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)
