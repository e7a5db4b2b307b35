"""Fixtures that every folder of tests may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_limits

from hpn.datasets import Graph, load_dataset
from hpn.streams import TaskStream

REPO = Path(__file__).resolve().parents[1]

# The `ogb` package looks for a newer version of itself in a thread; without a network that ends in a warning.
os.environ.setdefault("OUTDATED_IGNORE", "1")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Tests run side by side: with more threads than cores, small products take many times as long."""
    torch.set_num_threads(1)
    threadpool_limits(1)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Real data: ``HPN_DATA``, else a folder beside the repository."""
    root = Path(os.environ.get("HPN_DATA", REPO.parent / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"no real data: set HPN_DATA (looked in {root})")
    return root


@pytest.fixture(scope="session")
def graph() -> Graph:
    """A small graph whose tasks can be learned."""
    return load_dataset("synthetic", num_nodes=300, num_links=1200, num_features=12, num_classes=6)


@pytest.fixture
def stream(graph: Graph) -> TaskStream:
    return TaskStream(graph, seed=0)
