"""What makes a run repeatable: deterministic algorithms, and a number of threads that does not change."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch
from threadpoolctl import threadpool_limits

from hpn.datasets import Graph

SMALL_GRAPH = 20_000
"""Up to this many nodes a run uses one thread."""


@contextlib.contextmanager
def deterministic(graph: Graph, device: str = "cpu") -> Iterator[None]:
    """Deterministic algorithms inside, and one thread if the graph is small; all as before outside.

    Some operations have no deterministic form on a GPU; there a warning must do.

    On a small graph a second thread gained little on an idle machine and cost much on a busy one.
    """
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
