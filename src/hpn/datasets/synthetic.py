"""Seeded communities with class-dependent features, of any size.

Class ``c`` has a mean ``μ_c``, a random unit vector, and its nodes the features ``μ_c + noise · ε``
with ``ε ~ N(0, I)``. Two means are about √2 apart, so that no classifier of single nodes tells two
classes apart in more than about ``Φ(0.7 / noise)`` of the cases: 76 % at ``noise = 1``. The
neighbours, most of them of the same class, tell the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from hpn.datasets.graph import Graph
from hpn.errors import ConfigError, nearest

Preset = Literal["small", "arxiv-like", "products-like"]

_MIN_CLASS_SIZE = 10
# Of the sizes of the classes and of the nodes' degrees: P(degree > k) falls as k to the -2.
_SIZE_EXPONENT = 0.5
_DEGREE_EXPONENT = 2.0
_CHUNK = 1 << 22


@dataclass(frozen=True)
class _Size:
    num_nodes: int
    num_links: int
    num_features: int
    num_classes: int


_PRESETS: dict[str, _Size] = {
    "small": _Size(2_000, 8_000, 32, 10),
    "arxiv-like": _Size(169_343, 1_166_243, 128, 40),
    "products-like": _Size(2_449_029, 61_859_140, 100, 47),
}


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
        preset: The four numbers below: 2,000 nodes, 8,000 links, 32 features and 10 classes
            (``small``), or those of ogbn-arxiv or ogbn-products.
        num_nodes: Number of nodes instead of the preset's; at least 10 for each class.
        num_links: Number of links drawn; a pair of nodes may be drawn more than once.
        num_features: Number of features a node has.
        num_classes: Number of classes. Class c has a share of the nodes that falls as 1 / √(c + 1).
        homophily: Share of the links that join two nodes of the same class.
        noise: Standard deviation of each feature around its class mean.
        num_times: Number of times at which nodes arrive, drawn uniformly for each node; with one there are no
            times.
        graph_seed: Seed of everything drawn here; the run's seeds have no part in it.

    Raises:
        ConfigError: If an argument is out of range, or there are too few nodes for the classes.

    Example:
        >>> graph = load_synthetic(num_nodes=100, num_links=300, num_classes=4)
        >>> graph.num_nodes, graph.num_links, graph.class_sizes()
        (100, 300, [33, 25, 22, 20])
    """
    size = _choose_size(preset, num_nodes, num_links, num_features, num_classes)
    _check(size, homophily, noise, num_times, graph_seed)
    rng = np.random.default_rng(graph_seed)
    y = rng.permutation(np.repeat(np.arange(size.num_classes), _class_sizes(size)))
    x = _draw_features(rng, y, size, noise)
    links = _draw_links(rng, y, size, homophily)
    node_time = torch.from_numpy(rng.integers(num_times, size=size.num_nodes)) if num_times > 1 else None
    return Graph.build(
        "synthetic" if preset == "small" else preset,
        x=torch.from_numpy(x),
        links=torch.from_numpy(links),
        y=torch.from_numpy(y),
        node_time=node_time,
    )


def _choose_size(
    preset: str, num_nodes: int | None, num_links: int | None, num_features: int | None, num_classes: int | None
) -> _Size:
    if preset not in _PRESETS:
        raise ConfigError(f"preset={preset!r}: {nearest(preset, _PRESETS)}expected one of {', '.join(_PRESETS)}")
    base = _PRESETS[preset]
    return _Size(
        base.num_nodes if num_nodes is None else num_nodes,
        base.num_links if num_links is None else num_links,
        base.num_features if num_features is None else num_features,
        base.num_classes if num_classes is None else num_classes,
    )


def _check(size: _Size, homophily: float, noise: float, num_times: int, graph_seed: int) -> None:
    rules = (
        ("num_links", size.num_links, size.num_links >= 0, "at least 0"),
        ("num_features", size.num_features, size.num_features >= 1, "at least 1"),
        ("num_classes", size.num_classes, size.num_classes >= 2, "at least 2"),
        ("homophily", homophily, 0 <= homophily <= 1, "from 0 to 1"),
        ("noise", noise, 0 < noise < float("inf"), "above 0"),
        ("num_times", num_times, num_times >= 1, "at least 1"),
        ("graph_seed", graph_seed, graph_seed >= 0, "at least 0"),
    )
    for name, value, is_right, expected in rules:
        if not is_right:
            raise ConfigError(f"synthetic: {name}={value}, expected {expected}")
    fewest = _MIN_CLASS_SIZE * size.num_classes
    if size.num_nodes < fewest:
        raise ConfigError(
            f"synthetic: num_nodes={size.num_nodes} is too few for {size.num_classes} classes "
            f"of at least {_MIN_CLASS_SIZE} nodes; expected at least {fewest}, or fewer classes"
        )


def _class_sizes(size: _Size) -> NDArray[np.int64]:
    weight = np.arange(1, size.num_classes + 1) ** -_SIZE_EXPONENT
    spare = size.num_nodes - _MIN_CLASS_SIZE * size.num_classes
    sizes: NDArray[np.int64] = np.floor(spare * weight / weight.sum()).astype(np.int64)
    sizes += _MIN_CLASS_SIZE
    sizes[0] += size.num_nodes - sizes.sum()
    return sizes


def _draw_features(rng: np.random.Generator, y: NDArray[np.int64], size: _Size, noise: float) -> NDArray[np.float32]:
    means = rng.standard_normal((size.num_classes, size.num_features), dtype=np.float32)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    x = np.empty((size.num_nodes, size.num_features), dtype=np.float32)
    rows = max(1, _CHUNK // size.num_features)
    for start in range(0, size.num_nodes, rows):
        part = x[start : start + rows]
        rng.standard_normal(out=part, dtype=np.float32)
        part *= np.float32(noise)
        part += means[y[start : start + rows]]
    return x


def _draw_links(rng: np.random.Generator, y: NDArray[np.int64], size: _Size, homophily: float) -> NDArray[np.int32]:
    """Draw both ends of every link from a row of tickets, of which a node holds several.

    The tickets of a node lie side by side, and so do those of a class. A link within a class is
    drawn among the tickets of the class without those of its first node, a link between classes
    among all tickets without those of the class: one interval with a hole in either case, so that
    nothing has to be drawn twice.
    """
    node = np.argsort(y, kind="stable").astype(np.int32)
    tickets = np.floor(2 + 2 * rng.pareto(_DEGREE_EXPONENT, size.num_nodes)).astype(np.int64)
    # No more than this, lest a few nodes take part in most links of a small class.
    tickets = np.minimum(tickets, max(2, round(size.num_nodes**0.5)))
    node_start = np.concatenate([[0], np.cumsum(tickets)])
    class_start = node_start[np.concatenate([[0], np.cumsum(np.bincount(y))])]
    holder = np.repeat(np.arange(size.num_nodes, dtype=np.int32), tickets)
    class_of = y[node]

    links = np.empty((2, size.num_links), dtype=np.int32)
    for begin in range(0, size.num_links, _CHUNK):
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
