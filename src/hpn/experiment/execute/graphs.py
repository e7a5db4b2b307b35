"""The graphs that a process works on, each loaded once for all of its jobs."""

from __future__ import annotations

from pathlib import Path

from hpn.datasets import Graph, find_loader
from hpn.errors import DataError
from hpn.experiment.run.config import RunConfig

graphs: dict[str, Graph] = {}
"""Graphs by their hash, the latest last."""
MAX_NODES = 500_000
"""In all graphs that are kept, the latest aside."""


def load_once(config: RunConfig, data_root: Path | None) -> Graph:
    """The graph of a configuration; a process that has it does not load it again.

    Raises:
        DataError: If the data is not what the configuration was made for.
    """
    key = config.data_sha256
    if key not in graphs:
        graph = find_loader(config.dataset, data_root)(**config.data_options)
        if graph.fingerprint() != key:
            raise DataError(f"{config.dataset} has changed since the command began; start it again")
        keep_graph(key, graph)
    return graphs[key]


def keep_graph(key: str, graph: Graph) -> None:
    """Keep a graph for later jobs; the oldest ones go where there are too many nodes."""
    graphs[key] = graph
    while len(graphs) > 1 and sum(kept.num_nodes for kept in graphs.values()) > MAX_NODES:
        del graphs[next(iter(graphs))]
