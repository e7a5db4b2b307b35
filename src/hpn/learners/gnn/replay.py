"""Nodes kept of earlier tasks, for methods that replay them.

Where earlier nodes stay in view (``seen`` edges), a kept node is found again by its id, with the
neighbourhood it has by then. Elsewhere the old graph is gone: what is kept of a node are its features, and it
comes back alone.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from hpn.datasets.sparse import csr_parts, csr_tensor, is_sparse
from hpn.errors import DataError
from hpn.learners.base import State, copy_state
from hpn.learners.gnn.finetune import FineTune
from hpn.learners.gnn.training_data import TrainingData
from hpn.nn.device import CPU
from hpn.streams import GraphView, Step


@dataclass(kw_only=True, eq=False, repr=False)
class Replay(FineTune):
    """Fine-tuning that keeps some training nodes of every task.

    Attributes:
        kept_: Nodes kept of each task so far: their labels ``y``, and their ``ids`` or features ``x``.
    """

    tuned_for = "remembering"

    @abstractmethod
    def _choose(self, step: Step, data: TrainingData) -> Tensor:
        """Positions in ``step.train`` of the nodes to keep."""

    def _begin_task(self, step: Step) -> None:
        super()._begin_task(step)
        if step.index == 0:
            self.kept_: list[State] = []

    def _recall(self, step: Step) -> None:
        """Make training data of what was kept of each earlier task."""
        pairs = zip(self.tasks_, self.kept_, strict=False)
        self._memories = [self._data_of((*find(kept, step), kept["y"], classes)) for classes, kept in pairs]

    def _end_task(self, step: Step, data: TrainingData) -> None:
        self.kept_ = [*self.kept_, keep(step, self._choose(step, data))]
        del self._memories

    def _load_state(self, state: State) -> None:
        super()._load_state(state)
        self.kept_ = copy_state(state["kept"], CPU)


def keep(step: Step, chosen: Tensor) -> State:
    """What is kept, on the CPU, of the training nodes at positions ``chosen`` of ``step.train``."""
    nodes, y = step.train[chosen], step.train_y[chosen]
    if step.edges == "seen":
        return {"y": y, "ids": step.graph.ids[nodes]}
    x = step.graph.take(nodes)
    return {"y": y, "x": list(csr_parts(x)) if is_sparse(x) else x}


def find(kept: State, step: Step) -> tuple[GraphView, Tensor]:
    """The graph to see kept nodes in while ``step`` is learned, and where they are in it."""
    if "ids" in kept:
        if not bool(torch.isin(kept["ids"], step.graph.ids).all()):
            raise DataError(f"nodes of earlier tasks are not in the graph of task {step.index}")
        ordered, order = step.graph.ids.sort()
        return step.graph, order[torch.searchsorted(ordered, kept["ids"])]
    x, count = kept["x"], len(kept["y"])
    if isinstance(x, list):
        crow, col, values = x
        x = csr_tensor(crow, col, values, (count, step.graph.num_features))
    return GraphView(x, torch.zeros(2, 0, dtype=torch.int64, device=CPU)), torch.arange(count, device=CPU)
