"""From a graph and a task's selection to the slots its extractors look at."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from hpn.datasets.sparse import to_csr
from hpn.learners.hpn.presets import Settings
from hpn.nn.device import CPU
from hpn.nn.encoder import Features, see
from hpn.nn.extractors import DrawnSlots, MeanSlots, Slots
from hpn.nn.neighborhoods import NeighborSampler
from hpn.nn.network import PrototypeNetwork, Selection
from hpn.nn.snapping import unit
from hpn.streams import GraphView

QUERY_TURN = 1 << 32
"""The round of drawn neighbours that queries see; no training round gets there."""

DRAWN_AT_ONCE = 1 << 25
"""Neighbours drawn ahead at most."""

DRAWN_TOGETHER = 1 << 15
"""Nodes to draw a neighbour for at once, so that what this takes stays in the processor's cache."""

MOSTLY_FULL = 0.2
"""Share of entries from which on smoothed sparse features are kept dense."""


def make_slots(
    s: Settings,
    graph: GraphView,
    nodes: Tensor,
    seed: int,
    rounds: int = 1,
    first_round: int = QUERY_TURN,
) -> Slots:
    """Make the slots of some nodes.

    Args:
        s: Settings, of which those about slots count.
        graph: The graph.
        nodes: Nodes of it.
        seed: Of drawn neighbours.
        rounds: How often neighbours are drawn.
        first_round: Number of the first draw.
    """
    if s.slots == "drawn":
        sampler = NeighborSampler(graph.indptr, graph.indices, s.counts, seed)
        return DrawnSlots(graph, nodes, Draws(sampler, nodes, rounds, first_round))
    return MeanSlots([_to_tensor(see(graph).smoothed(hop, nodes.numpy())) for hop in range(s.hops + 1)])


class Draws:
    """Neighbours of some nodes, drawn when they are asked for.

    Beyond the first hop many rounds are drawn at once, because finding out who is there costs more than
    drawing.

    Args:
        sampler: Who draws.
        nodes: Whose neighbours.
        rounds: How many rounds there are.
        first_round: Number of the first.
    """

    def __init__(self, sampler: NeighborSampler, nodes: Tensor, rounds: int, first_round: int) -> None:
        self.sampler = sampler
        self.nodes = nodes
        self.rounds = rounds
        self.first_round = first_round
        self._block: tuple[range, Tensor] = (range(0), nodes)
        self._ahead: tuple[int, Tensor] | None = None

    def look_ahead(self, rows: Tensor, turn: int) -> None:
        """Draw for the nodes at ``rows`` at once if they fit, which is faster than a few at a time."""
        self._ahead = None
        if len(self.sampler.counts) > 1 or len(self.nodes) * self.sampler.counts[0] > DRAWN_AT_ONCE:
            return
        drawn = torch.full((len(self.nodes), self.sampler.counts[0]), -1, dtype=torch.long, device=CPU)
        for part in torch.split(rows, DRAWN_TOGETHER):
            drawn[part] = self(part, turn)
        self._ahead = turn, drawn

    def __call__(self, rows: Tensor | None, turn: int) -> Tensor:
        """The neighbours of the nodes at ``rows`` (all if ``None``) in a round ``[len(rows), num_drawn]``."""
        if self._ahead is not None and turn == self._ahead[0] and rows is not None:
            drawn = self._ahead[1].index_select(0, rows)
            if len(drawn) == 0 or int(drawn.min()) >= 0:
                return drawn
        if len(self.sampler.counts) == 1:
            nodes = self.nodes if rows is None else self.nodes.index_select(0, rows)
            return self.sampler.draw(nodes, 1, self.first_round + turn)[0]
        if turn not in self._block[0]:
            size = max(1, DRAWN_AT_ONCE // max(1, len(self.nodes) * sum(self.sampler.counts)))
            turns = range(turn, min(turn + size, max(self.rounds, turn + 1)))
            drawn = self.sampler.draw(self.nodes, len(turns), self.first_round + turn)
            self._block = turns, drawn
        drawn = self._block[1][turn - self._block[0].start]
        return drawn if rows is None else drawn[rows]


@torch.no_grad()
def most_similar(s: Settings, network: PrototypeNetwork, slots: Slots) -> Selection:
    r"""The extractors whose embeddings of the nodes are closest to the prototypes.

    .. math:: \mathrm{SimMAX}_i = \max_{p \in P_A} \cos(e_i, p)

    averaged over nodes and, for structure extractors, slots.
    """
    total = torch.zeros(2, s.num_extractors, device=CPU)
    node, structure = network.node_extractors, network.structure_extractors
    for rows in batches(len(slots), 256):
        raw = slots.embed(rows, 0, node, structure).reshape(len(rows), -1, s.num_extractors, s.dim)
        _, cosine = network.atomic_prototypes.match(unit(raw.reshape(-1, s.dim)))
        cosine = cosine.view(len(rows), -1, s.num_extractors).cpu()
        total[0] += cosine[:, 0].sum(dim=0)
        total[1] += cosine[:, 1:].mean(dim=1).sum(dim=0)
    best = total.topk(s.num_selected).indices.sort(dim=1).values.tolist()
    return Selection(tuple(best[0]), tuple(best[1]))


def batches(count: int, size: int, order: Tensor | None = None) -> Iterable[Tensor]:
    """Numbers below ``count``, in order or in the order given, so many at a time."""
    return torch.split(torch.arange(count, device=CPU) if order is None else order, size)


def _to_tensor(layer: Features) -> Tensor:
    if hasattr(layer, "toarray"):
        if layer.nnz < MOSTLY_FULL * np.prod(layer.shape):
            return to_csr(layer)
        layer = layer.toarray()
    return torch.from_numpy(np.ascontiguousarray(layer))
