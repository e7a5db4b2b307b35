"""Nodes kept of earlier tasks, for methods that replay them.

Where earlier nodes stay in view (``seen`` edges), a kept node is found again by its id, with the
neighbourhood it has by then. Elsewhere the old graph is gone: what is kept of a node are its features, and it
comes back alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse
from hpn.errors import DataError
from hpn.learners.base import State
from hpn.learners.gnn.finetune import FineTune
from hpn.learners.gnn.training_data import TrainingData
from hpn.nn.device import CPU
from hpn.streams import GraphView, Step


@dataclass(frozen=True, eq=False)
class Kept:
    """Nodes of one task, kept on the CPU.

    Args:
        y: Their class numbers.
        x: Their features, unless they can be found again.
        ids: Their names, if they can be.
    """

    y: Tensor
    x: Tensor | None = None
    ids: Tensor | None = None

    @classmethod
    def of(cls, step: Step, chosen: Tensor) -> Kept:
        """Keep the training nodes at positions ``chosen`` of ``task.train``."""
        nodes, y = step.train[chosen], step.train_y[chosen]
        if step.edges == "seen":
            return cls(y, ids=step.graph.ids[nodes])
        return cls(y, x=step.graph.take(nodes))

    def find(self, step: Step) -> tuple[GraphView, Tensor]:
        """The graph to see them in while ``task`` is learned, and where they are in it."""
        if self.x is not None:
            return _unlinked(self.x), torch.arange(len(self.y), device=CPU)
        assert self.ids is not None  # noqa: S101  (either features are kept, or ids)
        if not bool(torch.isin(self.ids, step.graph.ids).all()):
            raise DataError(f"nodes of earlier tasks are not in the graph of task {step.index}")
        ordered, order = step.graph.ids.sort()
        return step.graph, order[torch.searchsorted(ordered, self.ids)]

    def to_state(self) -> State:
        """As plain tensors."""
        state: State = {"y": self.y}
        if self.ids is not None:
            state["ids"] = self.ids
        elif self.x is not None and is_sparse(self.x):
            state |= {"crow": self.x.crow_indices(), "col": self.x.col_indices(), "value": self.x.values()}
        elif self.x is not None:
            state["x"] = self.x
        return state

    @classmethod
    def from_state(cls, state: State, num_features: int) -> Kept:
        """What :meth:`to_state` returned."""
        x = state.get("x")
        if "crow" in state:
            size = (len(state["y"]), num_features)
            x = torch.sparse_csr_tensor(state["crow"], state["col"], state["value"], size, check_invariants=False)
        return cls(state["y"], x=x, ids=state.get("ids"))


def _unlinked(x: Tensor) -> GraphView:
    return GraphView(x, torch.zeros(2, 0, dtype=torch.int64, device=CPU))


class Replay(FineTune):
    """Fine-tuning that keeps some training nodes of every task.

    Args:
        training: What :class:`FineTune` takes.

    Attributes:
        kept_: Nodes kept of each task so far.
    """

    tuned_for = "remembering"

    kept_: list[Kept]
    _memories: list[TrainingData]

    def _choose(self, step: Step, data: TrainingData) -> Tensor:
        """Positions in ``task.train`` of the nodes to keep."""
        raise NotImplementedError

    def _begin(self, step: Step) -> None:
        super()._begin(step)
        if step.index == 0:
            self.kept_ = []

    def _recall(self, step: Step) -> None:
        """Make training data of what was kept of each earlier task."""
        self._memories = []
        for classes, kept in zip(self.tasks_, self.kept_, strict=False):
            graph, nodes = kept.find(step)
            target, allowed = self._mark(kept.y, classes)
            self._memories.append(self._data_about(graph, nodes, target=target, allowed=allowed))

    def _end(self, step: Step, data: TrainingData) -> None:
        self.kept_ = [*self.kept_, Kept.of(step, self._choose(step, data))]
        del self._memories

    def _state(self) -> State:
        kept = {str(task): part.to_state() for task, part in enumerate(self.kept_)}
        return {**super()._state(), "kept": kept}

    def _load_state(self, state: State) -> None:
        kept = state["kept"]
        super()._load_state(state)
        self.kept_ = [Kept.from_state(kept[str(task)], self.num_features_) for task in range(len(kept))]
