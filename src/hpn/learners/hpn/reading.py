"""Seeing nodes through the eyes of a learned task."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hpn.learners.hpn.pieces import cut
from hpn.learners.hpn.presets import Settings
from hpn.learners.hpn.slots import make_slots
from hpn.nn.device import CPU
from hpn.nn.extractors import Slots
from hpn.nn.network import Pass, PrototypeNetwork, Selection
from hpn.nn.processes import Processes
from hpn.streams import GraphView

READ_AT_ONCE = 8192
"""Nodes that are answered about at once, which bounds the memory, and is what processes share."""


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads nodes with what one task uses.

    Args:
        s: Settings.
        network: The network.
        selection: What the task uses.
        seed: Of drawn neighbours.
        processes: Those that share the nodes.
    """

    s: Settings
    network: PrototypeNetwork
    selection: Selection
    seed: int
    processes: Processes

    def see(self, graph: GraphView, nodes: Tensor) -> tuple[Pass, Tensor]:
        """A pass of all nodes at once, and their atomic embeddings."""
        return self._pass(self._slots(graph, nodes), None)

    def answer(self, graph: GraphView, nodes: Tensor, columns: list[int]) -> tuple[Tensor, Tensor]:
        """Log-probabilities of some columns of the head, and how much a node looks like one of the task.

        Shapes:
            - result: ``[len(nodes), len(columns)]`` and ``[len(nodes)]``
        """
        slots = self._slots(graph, nodes)
        parts = cut(torch.arange(len(nodes), device=CPU), READ_AT_ONCE, is_even=True)
        mine = self.processes.share(len(parts))
        found = [self._answer_part(slots, parts[number], columns).cpu() for number in mine]
        told = self.processes.line_up(found, [len(part) for part in parts], len(columns) + 1)
        return told[:, :-1], told[:, -1]

    def _slots(self, graph: GraphView, nodes: Tensor) -> Slots:
        return make_slots(self.s, graph, nodes, self.seed)

    @torch.no_grad()
    def _pass(self, slots: Slots, rows: Tensor | None) -> tuple[Pass, Tensor]:
        raw = slots.embed(rows, 0, *self.network.get_extractors(self.selection))
        visible = self.selection.visible if self.s.retention == "certified" else None
        passed: Pass = self.network(raw, visible)
        return passed, raw

    @torch.no_grad()
    def _answer_part(self, slots: Slots, rows: Tensor, columns: list[int]) -> Tensor:
        """Log-probabilities, and in the last column how familiar a node is."""
        passed, raw = self._pass(slots, None if len(rows) == len(slots) else rows)
        # Only these columns are multiplied: with more of them, the last bits could come out differently.
        head = self.network.head
        logits = F.linear(passed.representation, head.weight[columns], head.bias[columns])
        usual = torch.tensor(self.selection.lengths, device=raw.device)
        length = (torch.linalg.vector_norm(raw, dim=2) / usual.clamp_min(1e-12)).clamp_max(1.0)
        cosine = passed.levels[0].cosine.view(raw.shape[:2])
        familiarity = (cosine * length).mean(dim=1, keepdim=True)
        return torch.cat([logits.log_softmax(dim=1), familiarity], dim=1)
