"""Where the graph comes from."""

from hpn.datasets.catalog import (
    CATALOG,
    DatasetInfo,
    data_files,
    default_data_root,
    describe_graph,
    find_loader,
    load_dataset,
    load_graph,
)
from hpn.datasets.graph import Graph, Masks

__all__ = [
    "CATALOG",
    "DatasetInfo",
    "Graph",
    "Masks",
    "data_files",
    "default_data_root",
    "describe_graph",
    "find_loader",
    "load_dataset",
    "load_graph",
]
