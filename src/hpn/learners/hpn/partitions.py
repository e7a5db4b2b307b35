"""Sums over the nodes of a graph, partition by partition: a map and a fold.

First, blocks of columns are smoothed separately. Then, partitions of the nodes are encoded and summed separately, and
the sums are added. Encoded nodes are whole numbers and their sums exact, so the result has the same bits for any
partitions and blocks, wherever they are computed (:mod:`hpn.nn.fold`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpn.learners.hpn.statistics import LAYER_HOPS, MEAN_HOPS, Sums, sum_encoded
from hpn.nn.encoder import Base, Block, Slots, encode_projected, see
from hpn.nn.fold import current_runner, cut
from hpn.nn.smoothing import Normalization
from hpn.streams import GraphView

LEAST = 1 << 14
"""Minimum number of nodes of a partition."""

Labelled = tuple[np.ndarray, np.ndarray]
"""Nodes of a view, and their class numbers."""


class Layer(NamedTuple):
    """The random layer: the number of random features, and the seed that draws them."""

    width: int
    seed: int


def encode(slots: Slots, nodes: np.ndarray, layer: Layer, blocks: Sequence[Block] = ()) -> list[Any]:
    """Encoded nodes of each bank; ``blocks`` are smoothed columns that were computed elsewhere."""
    if blocks and slots.is_wide:
        layers = encode_projected(nodes, LAYER_HOPS, blocks)
    else:
        layers = slots.layers(LAYER_HOPS, nodes, *layer)
    return [*layers, *(slots.unit_rows(hop, nodes) for hop in MEAN_HOPS)]


def sum_nodes(view: GraphView, groups: Sequence[Labelled], layer: Layer) -> list[Sums]:
    """Sums over groups of nodes."""
    pool, blocks = current_runner(), smooth_columns(view, "row", layer)
    size = max(LEAST, -(-sum(len(y) for _, y in groups) // pool.num_workers))
    parts = [(at, nodes[p], y[p]) for at, (nodes, y) in enumerate(groups) if len(y) for p in cut(len(y), size)]
    totals = [Sums.empty(layer.width, view.num_features) for _ in groups]
    found = pool.map(_sum_part, parts, pool.share(view), layer, *blocks)
    for (at, *_), part in zip(parts, pool.get(found), strict=True):
        totals[at] = totals[at].merge(part)
    return totals


def _sum_part(part: tuple[int, np.ndarray, np.ndarray], view: GraphView, layer: Layer, *blocks: Block) -> Sums:
    """Sums over a partition."""
    (_, nodes, y), slots = part, given_slots(view, "row", blocks)
    return sum_encoded(lambda rows: encode(slots, nodes[rows], layer, blocks), y, layer.width, view.num_features)


def smooth_columns(view: GraphView, normalization: Normalization, layer: Layer | None = None) -> Sequence[Any]:
    """Smooth all columns of a graph; wide ones are projected for a random layer first, or omitted without one.

    Returns:
        The blocks, if parts run in other processes; in this process they are kept with the view.
    """
    pool, slots = current_runner(), see(view, normalization)
    if slots.is_wide and layer is None:
        return []
    if pool.is_local:
        slots.prepare(LAYER_HOPS, *(layer or (0, 0)))
        return []
    base: Base = layer if slots.is_wide else None
    shared, key = pool.share(view), (normalization, base)
    if key not in pool.kept:
        numbers = range(len(slots.column_parts(base)))
        pool.kept[key] = pool.map(_smooth_block, numbers, shared, normalization, base)
    return pool.kept[key]


def _smooth_block(number: int, view: GraphView, normalization: Normalization, base: Base) -> Block:
    return see(view, normalization).smooth_block(number, max(LAYER_HOPS), base)


def measure_rows(view: GraphView, normalization: Normalization, hop: int, blocks: Sequence[Any]) -> None:
    """Compute the lengths of all smoothed rows, which predictions need, before the columns are dropped."""
    pool, slots = current_runner(), see(view, normalization)
    if not slots.is_wide and hop not in slots.row_lengths:
        parts = cut(view.num_nodes, max(LEAST, -(-view.num_nodes // pool.num_workers)))
        found = pool.map(_measure_part, parts, pool.share(view), normalization, hop, *blocks)
        slots.row_lengths[hop] = np.concatenate(list(pool.get(found)))


def _measure_part(part: slice, view: GraphView, normalization: Normalization, hop: int, *blocks: Block) -> np.ndarray:
    return given_slots(view, normalization, blocks).measure(part, hop)


def given_slots(view: GraphView, normalization: Normalization, blocks: Sequence[Block]) -> Slots:
    """The slots of a view, with the columns that were smoothed elsewhere, if any."""
    slots = see(view, normalization)
    if blocks and not slots.is_wide:
        slots.blocks[None] = list(blocks)
    return slots
