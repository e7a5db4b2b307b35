"""Fine-tuning: train one network on each task in turn, and do nothing against forgetting.

The lower bound of the paper's Table 1 ("None"), and what the methods that do something are built on. One
head is shared by all tasks in the task scenario, as in the paper's supplement; it grows with the classes
in the class scenario, or when a task has more classes than any before. The paper says SGD but gives no
learning rate for the baselines; Adam is the default here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from hpn.learners.base import Learner, Observer, Progress, State
from hpn.learners.gnn.training_data import TrainingData
from hpn.nn import Adjacency, Backbone, SubgraphCutter, grow_outputs, make_backbone
from hpn.nn.device import CPU, move_features
from hpn.params import LogRange, OneOf, SearchChoice
from hpn.streams import Classes, GraphView, Query, Step, stack_graphs


@dataclass(kw_only=True, eq=False, repr=False)
class FineTune(Learner):
    """A graph neural network trained on one task after another.

    The network is on the learner's device, and so is the graph if all nodes are learned at once; with
    mini-batches the graph stays on the CPU, and what a batch needs of it is moved.

    Args:
        backbone: ``gcn`` (16 hidden units), ``gat`` (8 heads of 8) or ``gin`` (32).
        epochs: Passes over each task.
        optimizer: ``adam`` or ``sgd`` (without momentum).
        lr: Learning rate.
        weight_decay: Strength of the L2 penalty on all weights.
        dropout: Share of inputs and hidden units dropped in training.
        batch_size: Nodes per step, each with the part of the graph that it needs; ``None`` for all at once.
        num_neighbors: Neighbours drawn per node of a mini-batch at most; ``None`` for all. Predictions always
            use all.
        seed: Draws initial weights, dropout, mini-batches and neighbours.

    Attributes:
        network_: The network, in evaluation mode between fits.
        epoch_: Finished epochs of the task in progress.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.streams import TaskStream
        >>> stream = TaskStream(load_dataset("digits"))
        >>> learner = FineTune(epochs=30).fit_task(stream.step(0))
        >>> query, key = stream.query(step=0, after=0, evaluate="oracle")
        >>> (learner.predict(query) == key.y).float().mean() > 0.9
        tensor(True)
    """

    search_space: ClassVar[Mapping[str, SearchChoice]] = {
        "epochs": OneOf(20, 50, 100),
        "lr": LogRange(0.001, 0.1),
        "weight_decay": OneOf(0.0, 5e-4, 5e-3),
        "dropout": OneOf(0.0, 0.5),
    }
    tuned_for: ClassVar[Literal["remembering", "learning"]] = "learning"
    answers_ahead = True

    backbone: Literal["gcn", "gat", "gin"] = "gcn"
    epochs: Annotated[int, Field(ge=1)] = 100
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: Annotated[float, Field(gt=0)] = 0.01
    weight_decay: Annotated[float, Field(ge=0)] = 5e-4
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    batch_size: Annotated[int, Field(ge=1)] | None = None
    num_neighbors: Annotated[int, Field(ge=1)] | None = None

    epoch_: int = field(init=False)

    @property
    def num_parameters(self) -> int:
        """Weights of the network."""
        return sum(parameter.numel() for parameter in self.network_.parameters())

    def _learn(self, step: Step, observer: Observer) -> None:
        if not self._is_resumed():
            self._begin_task(step)
        data = self._training_data(step)
        self._recall(step)
        self.network_.train()
        while self.epoch_ < self.epochs:
            loss = self._train_epoch(data)
            self.epoch_ += 1
            self._epoch_done(observer, Progress(step.index, self.epoch_, self.epochs, {"loss": loss}))
        self.network_.eval()
        self._end_task(step, data)
        self.epoch_ = 0
        del self._optimizer

    def _is_resumed(self) -> bool:
        return hasattr(self, "_optimizer")

    def _begin_task(self, step: Step) -> None:
        """Set up for a new task: make or widen the network, start a fresh optimiser."""
        outputs = self._num_outputs()
        if not hasattr(self, "network_"):
            self.network_: Backbone = self._new_network(outputs)
        elif outputs > self.network_.num_outputs:
            self.network_ = grow_outputs(self.network_, outputs).to(self.device)
        self._optimizer = self._new_optimizer()
        self.epoch_ = 0

    def _recall(self, step: Step) -> None:
        """Make ready what was kept of earlier tasks; also after an interruption."""

    def _end_task(self, step: Step, data: TrainingData) -> None:
        """Keep what later tasks will need of this one; the network is in evaluation mode."""

    def _training_data(self, step: Step) -> TrainingData:
        """What an epoch goes over."""
        return self._data_of(*((part.graph, part.train, part.train_y, part.classes) for part in (*step.past, step)))

    def _data_of(self, *parts: tuple[GraphView, Tensor, Tensor, Classes]) -> TrainingData:
        """Training data of some graphs, each with nodes to learn from, their labels and their task."""
        graph, starts = stack_graphs([graph for graph, *_ in parts])
        nodes = torch.cat([nodes + start for (_, nodes, *_), start in zip(parts, starts, strict=True)])
        targets, masks = [], []
        for _, _, y, classes in parts:
            own = torch.tensor(self._columns(classes), device=CPU)
            targets.append(own[(y.unsqueeze(1) == torch.tensor(classes, device=CPU)).int().argmax(dim=1)])
            allowed = torch.zeros(len(y), self.network_.num_outputs, dtype=torch.bool, device=CPU)
            allowed[:, own if self.scenario_ == "task" else self._columns(self.classes_)] = True
            masks.append(allowed)
        return TrainingData(
            graph.features,
            self.network_.prepare(graph.edge_index, graph.num_nodes),
            nodes,
            torch.cat(targets),
            torch.cat(masks),
            num_neighbors=self.num_neighbors,
            sums_neighbors=self.network_.sums_neighbors,
            device=self.device,
        )

    def _train_epoch(self, data: TrainingData) -> float:
        total = 0.0
        for batch in data.batches(self.batch_size):
            self._optimizer.zero_grad()
            loss = self._loss(batch)
            self._backward(loss)
            self._optimizer.step()
            total += loss.item() * len(batch)
        return total / len(data)

    def _loss(self, batch: TrainingData) -> Tensor:
        """What a step makes smaller."""
        return F.cross_entropy(self._logits(batch), batch.target)

    def _backward(self, loss: Tensor) -> None:
        """Leave in each parameter the gradient that the step is to follow."""
        loss.backward()  # type: ignore[no-untyped-call]

    def _logits(self, batch: TrainingData) -> Tensor:
        """Logits of the batch's nodes; columns that are not allowed are −∞."""
        logits: Tensor = self.network_(batch.x, batch.adjacency)[batch.nodes]
        return logits.masked_fill(~batch.allowed, -torch.inf)

    def _scores(self, query: Query) -> Tensor:
        adjacency = self.network_.prepare(query.graph.edge_index, query.graph.num_nodes)
        is_learned = query.task is None or query.task < len(self.tasks_)
        # A head that all tasks share scores tasks to come by position, as far as it is wide enough.
        columns = self._columns(query.classes) if is_learned else list(range(len(query.classes)))
        if self.batch_size is None:
            logits = self._answer(query.graph.x, adjacency, query.nodes)
        else:
            cutter = SubgraphCutter(query.graph.features, adjacency)
            distinct, place = torch.unique(query.nodes, return_inverse=True)
            cuts = (cutter.cut(nodes) for nodes in torch.split(distinct, self.batch_size))
            logits = torch.cat([self._answer(cut.x, cut.adjacency, cut.rows) for cut in cuts])[place]
        missing = max(columns) + 1 - logits.shape[1]
        logits = F.pad(logits, (0, missing), value=-torch.inf) if missing > 0 else logits
        return logits[:, columns].log_softmax(dim=1)

    def _answer(self, x: Tensor, adjacency: Adjacency, rows: Tensor) -> Tensor:
        """Logits of some nodes, computed on the learner's device and returned on the CPU."""
        there = tuple(part.to(self.device) for part in adjacency)
        logits: Tensor = self.network_(move_features(x, self.device), there)
        return logits[rows.to(self.device)].cpu()

    def _num_outputs(self) -> int:
        return max(map(len, self.tasks_)) if self._has_shared_head else len(self.classes_)

    def _new_network(self, num_outputs: int) -> Backbone:
        network = make_backbone(self.backbone, self.num_features_, num_outputs, dropout=self.dropout)
        return network.to(self.device)

    def _new_optimizer(self) -> torch.optim.Optimizer:
        kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.SGD
        return kind(self.network_.parameters(), lr=self.lr, weight_decay=self.weight_decay)

    def _state(self) -> State:
        state = super()._state()
        if self._is_resumed():
            moments = self._optimizer.state_dict()["state"]
            state["optimizer"] = {str(number): dict(entry) for number, entry in moments.items()}
        return state

    def _load_state(self, state: State) -> None:
        rest = dict(state)
        weights, moments = rest.pop("network"), rest.pop("optimizer", None)
        super()._load_state(rest)
        self.network_ = self._restore(weights)
        if moments is not None:
            self._optimizer = self._new_optimizer()
            groups = self._optimizer.state_dict()["param_groups"]
            entries = {int(number): entry for number, entry in moments.items()}
            self._optimizer.load_state_dict({"state": entries, "param_groups": groups})

    def _restore(self, weights: State) -> Backbone:
        """A network in evaluation mode with given weights."""
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn, then overwritten
            network = self._new_network(self._num_outputs()).eval()
        network.load_state_dict(weights)
        return network
