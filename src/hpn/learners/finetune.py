"""Fine-tuning: train one network on each task in turn, and do nothing against forgetting.

The lower bound of the paper's Table 1 ("None"). One head is shared by all tasks in the task scenario,
as in the paper's supplement; it grows with the classes in the class scenario, or when a task has more
classes than any before. The paper says SGD but gives no learning rate for the baselines; Adam is used
here. The two were not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from hpn.learners.base import Learner, Observer, Progress, State
from hpn.nn import Adjacency, Backbone, grow_outputs, make_backbone
from hpn.streams import Query, Task, stack_graphs


@dataclass(frozen=True, eq=False)
class Lesson:
    """Training data made ready once for all epochs.

    Shapes:
        - ``x``: ``[num_nodes, num_features]``
        - ``nodes``, ``target``: ``[num_train]``, rows of ``x`` and columns of the head
        - ``allowed``: ``[num_train, num_outputs]``, the columns that the node may be told from
    """

    x: Tensor
    adjacency: Adjacency
    nodes: Tensor
    target: Tensor
    allowed: Tensor


class FineTune(Learner):
    """A graph neural network trained on one task after another.

    Args:
        backbone: ``gcn`` (16 hidden units), ``gat`` (8 heads of 8) or ``gin`` (32).
        epochs: Passes over each task.
        lr: Learning rate of Adam.
        weight_decay: Strength of the L2 penalty on all weights.
        dropout: Share of inputs and hidden units dropped in training.
        seed: Draws initial weights and dropout.

    Attributes:
        network_: The network, in evaluation mode between fits.
        epoch_: Finished epochs of the task in progress.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.streams import TaskStream
        >>> stream = TaskStream(load_dataset("digits"))
        >>> learner = FineTune(epochs=30).fit_task(stream.task(0))
        >>> query, key = stream.query(task=0, after=0, evaluate="oracle")
        >>> (learner.predict(query) == key.y).float().mean() > 0.9
        tensor(True)
    """

    network_: Backbone
    epoch_: int
    _optimizer: torch.optim.Adam

    def __init__(
        self,
        *,
        backbone: Literal["gcn", "gat", "gin"] = "gcn",
        epochs: Annotated[int, Field(ge=1)] = 100,
        lr: Annotated[float, Field(gt=0)] = 0.01,
        weight_decay: Annotated[float, Field(ge=0)] = 5e-4,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.backbone = backbone
        self.epochs = epochs
        self.lr = lr
        self.weight_decay = weight_decay
        self.dropout = dropout

    @property
    def num_parameters(self) -> int:
        """Weights of the network."""
        return sum(parameter.numel() for parameter in self.network_.parameters())

    def _learn(self, task: Task, observer: Observer) -> None:
        if not self._is_resumed():
            self._begin(task)
        lesson = self._lesson(task)
        self.network_.train()
        while self.epoch_ < self.epochs:
            loss = self._train_epoch(lesson)
            self.epoch_ += 1
            self._step_done(observer, Progress(task.index, self.epoch_, self.epochs, {"loss": loss}))
        self.network_.eval()
        self.epoch_ = 0
        del self._optimizer

    def _is_resumed(self) -> bool:
        return hasattr(self, "_optimizer")

    def _begin(self, task: Task) -> None:
        """Set up for a new task: make or widen the network, start a fresh optimiser."""
        outputs = self._num_outputs()
        if not hasattr(self, "network_"):
            self.network_ = self._new_network(outputs)
        elif outputs > self.network_.num_outputs:
            self.network_ = grow_outputs(self.network_, outputs)
        self._optimizer = self._new_optimizer()
        self.epoch_ = 0

    def _lesson(self, task: Task) -> Lesson:
        """What an epoch goes over."""
        return self._make_lesson([task])

    def _make_lesson(self, tasks: Sequence[Task]) -> Lesson:
        graph, starts = stack_graphs([task.graph for task in tasks])
        allowed, target = [], []
        for task in tasks:
            own = self._columns(task.classes)
            rows = torch.zeros(len(task.train), self.network_.num_outputs, dtype=torch.bool)
            rows[:, own if self.scenario_ == "task" else self._columns(self.classes_)] = True
            allowed.append(rows)
            at = (task.train_y.unsqueeze(1) == torch.tensor(task.classes)).int().argmax(dim=1)
            target.append(torch.tensor(own)[at])
        return Lesson(
            x=graph.x,
            adjacency=self.network_.prepare(graph.edge_index, graph.num_nodes),
            nodes=torch.cat([task.train + at for task, at in zip(tasks, starts, strict=True)]),
            target=torch.cat(target),
            allowed=torch.cat(allowed),
        )

    def _train_epoch(self, lesson: Lesson) -> float:
        self._optimizer.zero_grad()
        logits = self.network_(lesson.x, lesson.adjacency)[lesson.nodes]
        loss = F.cross_entropy(logits.masked_fill(~lesson.allowed, -torch.inf), lesson.target)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        return loss.item()

    def _scores(self, query: Query) -> Tensor:
        adjacency = self.network_.prepare(query.graph.edge_index, query.graph.num_nodes)
        logits = self.network_(query.graph.x, adjacency)
        chosen: Tensor = logits[query.nodes][:, self._columns(query.classes)]
        return chosen.log_softmax(dim=1)

    def _num_outputs(self) -> int:
        if self._has_shared_head:
            return max(len(task) for task in self.tasks_)
        return len(self.classes_)

    def _new_network(self, num_outputs: int) -> Backbone:
        return make_backbone(self.backbone, self.num_features_, num_outputs, dropout=self.dropout)

    def _new_optimizer(self) -> torch.optim.Adam:
        return torch.optim.Adam(self.network_.parameters(), lr=self.lr, weight_decay=self.weight_decay)

    def _state(self) -> State:
        state: State = {"network": self.network_.state_dict(), "epoch": self.epoch_}
        if self._is_resumed():
            moments = self._optimizer.state_dict()["state"]
            state["optimizer"] = {str(number): dict(entry) for number, entry in moments.items()}
        return state

    def _load_state(self, state: State) -> None:
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn, then overwritten
            self.network_ = self._new_network(self._num_outputs()).eval()
        self.network_.load_state_dict(state["network"])
        self.epoch_ = state["epoch"]
        if "optimizer" in state:
            self._optimizer = self._new_optimizer()
            moments = {int(number): entry for number, entry in state["optimizer"].items()}
            groups = self._optimizer.state_dict()["param_groups"]
            self._optimizer.load_state_dict({"state": moments, "param_groups": groups})
