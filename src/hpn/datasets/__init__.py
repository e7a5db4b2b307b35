"""Graphs: data sets by name, and files of your own. The catalog is imported without PyTorch."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name in {"Graph", "Masks"}:
        from hpn.datasets import graph

        return getattr(graph, name)
    raise AttributeError(f"module 'hpn.datasets' has no attribute {name!r}")
