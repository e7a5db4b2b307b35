"""Seeded communities with class-dependent features, of any size.

Class ``c`` has a mean ``μ_c``, a random unit vector, and its nodes have the features ``μ_c + noise · ε`` with
``ε ~ N(0, I)``. Two means are about √2 apart, so that a classifier of single nodes separates two classes in at most
about ``Φ(0.7 / noise)`` of the cases: 76 % at ``noise = 1``. The neighbours, most of them of the same class, provide
the rest.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from hpn.datasets.catalog import CATALOG
from hpn.datasets.graph import Graph
from hpn.errors import ConfigError

Preset = Literal["small", "arxiv-like", "products-like"]
Labels = NDArray[np.int64]

_MIN_CLASS_SIZE = 10
# Of class sizes, and of node degrees: P(degree > k) falls as k to the -2.
_SIZE_EXPONENT = 0.5
_DEGREE_EXPONENT = 2.0
_CHUNK = 1 << 22


def load_synthetic(
    *,
    preset: Preset = "small",
    num_nodes: Annotated[int | None, Field(ge=20)] = None,
    num_links: Annotated[int | None, Field(ge=0)] = None,
    num_features: Annotated[int | None, Field(ge=1)] = None,
    num_classes: Annotated[int | None, Field(ge=2)] = None,
    homophily: Annotated[float, Field(ge=0, le=1)] = 0.8,
    noise: Annotated[float, Field(gt=0)] = 1.0,
    num_times: Annotated[int, Field(ge=1)] = 1,
    graph_seed: Annotated[int, Field(ge=0)] = 0,
) -> Graph:
    """Draw a graph.

    Args:
        preset: The four numbers below: 2,000 nodes, 8,000 links, 32 features and 10 classes (``small``), or those
            of ogbn-arxiv or ogbn-products.
        num_nodes: Number of nodes instead of the preset's; at least 10 per class.
        num_links: Number of links drawn; a pair of nodes may be drawn more than once.
        num_features: Number of features per node.
        num_classes: Number of classes. The share of class c falls as 1 / √(c + 1).
        homophily: Share of the links that join two nodes of the same class.
        noise: Standard deviation of each feature around its class mean.
        num_times: Number of times at which nodes arrive, drawn uniformly per node; with one there are no times.
        graph_seed: Seed of everything drawn here, independent of the seeds of a run.

    Raises:
        ConfigError: If there are too few nodes for the classes.

    Example:
        >>> graph = load_synthetic(num_nodes=100, num_links=300, num_classes=4)
        >>> graph.num_nodes, graph.num_links, graph.class_sizes()
        (100, 300, [33, 25, 22, 20])
    """
    name = "synthetic" if preset == "small" else preset
    given = (num_nodes, num_links, num_features, num_classes)
    nodes, links, features, classes = (
        int(usual or 0) if number is None else number
        for usual, number in zip(CATALOG[name].published, given, strict=True)
    )
    if nodes < _MIN_CLASS_SIZE * classes:
        raise ConfigError(
            f"synthetic: num_nodes={nodes} is too few for {classes} classes of at least {_MIN_CLASS_SIZE} nodes; "
            f"expected at least {_MIN_CLASS_SIZE * classes}, or fewer classes"
        )
    rng = np.random.default_rng(graph_seed)
    y = rng.permutation(np.repeat(np.arange(classes), _class_sizes(nodes, classes)))
    return Graph.build(
        name,
        x=torch.from_numpy(_draw_features(rng, y, features, noise)),
        links=torch.from_numpy(_draw_links(rng, y, links, homophily)),
        y=torch.from_numpy(y),
        node_time=torch.from_numpy(rng.integers(num_times, size=nodes)) if num_times > 1 else None,
    )


def _class_sizes(num_nodes: int, num_classes: int) -> Labels:
    weight = np.arange(1, num_classes + 1) ** -_SIZE_EXPONENT
    spare = num_nodes - _MIN_CLASS_SIZE * num_classes
    sizes: Labels = np.floor(spare * weight / weight.sum()).astype(np.int64) + _MIN_CLASS_SIZE
    sizes[0] += num_nodes - sizes.sum()
    return sizes


def _draw_features(rng: np.random.Generator, y: Labels, num_features: int, noise: float) -> NDArray[np.float32]:
    means = rng.standard_normal((y.max() + 1, num_features), dtype=np.float32)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    x = np.empty((len(y), num_features), dtype=np.float32)
    rows = max(1, _CHUNK // num_features)
    for start in range(0, len(y), rows):
        part = x[start : start + rows]
        rng.standard_normal(out=part, dtype=np.float32)
        part *= np.float32(noise)
        part += means[y[start : start + rows]]
    return x


def _draw_links(rng: np.random.Generator, y: Labels, num_links: int, homophily: float) -> NDArray[np.int32]:
    """Draw both ends of every link from a row of tickets, of which a node holds several.

    The tickets of a node are adjacent, and so are those of a class. A link within a class is drawn among the tickets
    of the class without those of its first node; a link between classes among all tickets without those of the class.
    Either is one interval with a hole, so that nothing has to be drawn twice.
    """
    node = np.argsort(y, kind="stable").astype(np.int32)
    tickets = np.floor(2 + 2 * rng.pareto(_DEGREE_EXPONENT, len(y))).astype(np.int64)
    # Bounded, so that no few nodes take part in most links of a small class.
    tickets = np.minimum(tickets, max(2, round(len(y) ** 0.5)))
    node_start = np.concatenate([[0], np.cumsum(tickets)])
    class_start = node_start[np.concatenate([[0], np.cumsum(np.bincount(y))])]
    holder = np.repeat(np.arange(len(y), dtype=np.int32), tickets)
    class_of = y[node]

    links = np.empty((2, num_links), dtype=np.int32)
    for begin in range(0, num_links, _CHUNK):
        part = links[:, begin : begin + _CHUNK]
        count = part.shape[1]
        source = holder[rng.integers(0, len(holder), count)]
        group = class_of[source]
        is_within = rng.random(count) < homophily
        low = np.where(is_within, class_start[group], 0)
        high = np.where(is_within, class_start[group + 1], len(holder))
        hole = np.where(is_within, node_start[source], class_start[group])
        width = np.where(is_within, node_start[source + 1], class_start[group + 1]) - hole
        ticket = low + (rng.random(count) * (high - low - width)).astype(np.int64)
        ticket += width * (ticket >= hole)
        part[0], part[1] = node[source], node[holder[ticket]]
    return links
