"""Handwritten digits as a graph: the default data set, embedded, nothing to download."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from hpn.datasets.graph import Graph

MAX_INTENSITY = 16.0


def load_digits(*, neighbors: Annotated[int, Field(ge=1, le=100)] = 6) -> Graph:
    """Scikit-learn's 1,797 images of 8 × 8 pixels, each linked to its nearest images.

    The graph is built from the pixels alone, never from labels. The default number of neighbours was
    chosen on validation nodes (``python benchmarks/choose_digits_neighbors.py``).

    Args:
        neighbors: Nearest images, by Euclidean distance, that each image is linked to.

    Example:
        >>> graph = load_digits()
        >>> graph.num_nodes, graph.num_features, graph.num_classes
        (1797, 64, 10)
    """
    from sklearn import datasets
    from sklearn.neighbors import kneighbors_graph

    images, labels = datasets.load_digits(return_X_y=True)
    pixels = images / MAX_INTENSITY
    links = kneighbors_graph(pixels, neighbors, include_self=False).tocoo()
    return Graph.build(
        "digits",
        x=torch.from_numpy(pixels).float(),
        links=torch.stack([torch.from_numpy(links.row), torch.from_numpy(links.col)]),
        y=torch.from_numpy(labels),
        class_order=range(10),
    )
