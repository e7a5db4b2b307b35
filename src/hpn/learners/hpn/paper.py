"""Hierarchical prototype networks as in the paper (Zhang, Song and Tao, IEEE TPAMI 2023).

Algorithm 1, with the numbers of the equations in Section 3::

    for each task:                                       fit_task
        get the nodes, edges and features of the task    _inputs        N_sub, before Eq. 2
        select extractors                                _select        Eq. 5
        compute L = HPN(nodes, features, edges)          _loss          Eq. 1-4, 6-13
        optimise L                                       _run_epoch

docs/explanation/paper-network.md lists where the code departs from the paper, or decides what the paper leaves open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from hpn.datasets.sparse import to_csr
from hpn.errors import ConfigError
from hpn.learners.base import Observer, Progress, State
from hpn.learners.hpn.presets import HPN, Count, Distance, Rate
from hpn.nn.device import CPU
from hpn.nn.encoder import is_csr, see
from hpn.nn.hpn.codebook import Codebook, unit
from hpn.nn.hpn.extractors import Inputs
from hpn.nn.hpn.losses import directions, total_loss
from hpn.nn.hpn.network import Forward, Levels, PrototypeNetwork
from hpn.nn.hpn.sampling import NeighborSampler
from hpn.params import OneOf, SearchChoice
from hpn.streams import Classes, GraphView, Query, Step
from hpn.theory.memory import LEVELS, MemoryBound, cap_bound

LOGGER = logging.getLogger(__name__)

DIVERGENCE_EVERY = 10
"""L_div does not depend on the batch and costs more than one: it counts tenfold in every tenth step."""
SHARPNESS = 10.0
"""Weight of the similarity to a task when no task is given."""
QUERY_TURN = 1 << 32
"""The round of drawn neighbours for queries; no training round gets there."""
NODES_AT_ONCE = 8192
"""Nodes predicted at once, and covered at once, which bounds memory."""
THRESHOLDS = OneOf(0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
"""The values from which the paper chooses t_A, t_N and t_C, by validation."""


@dataclass(frozen=True)
class Selection:
    """The extractors and prototypes of a task."""

    node: tuple[int, ...]
    structure: tuple[int, ...]
    visible: tuple[int, ...] = ()  # prototypes of each level when the task was learned
    lengths: tuple[float, ...] = ()  # mean length of its atomic embeddings, per slot


@dataclass(kw_only=True, eq=False, repr=False)
class PaperHPN(HPN):
    """Prototypes on three levels, over linear extractors of a node and its neighbourhood.

    ====================  ==============================
    paper                 here
    ====================  ==============================
    l_a = l_r             ``num_extractors``
    l_a' = l_r'           ``num_selected``
    d_a = d_n = d_c       ``dim``
    t_A, t_N, t_C         ``threshold_atomic``, ``threshold_node``, ``threshold_class``
    h, k_1, ..., k_h      ``drawn``
    α, β                  ``alpha``, ``beta``
    ====================  ==============================

    Args:
        preset: ``paper``.
        num_extractors: Total number of node extractors, and of structure extractors.
        num_selected: Extractors of each kind per task.
        dim: Dimension of every level.
        threshold_atomic: Cosine distance within which an embedding belongs to an atomic prototype.
        threshold_node: The same on the node level.
        threshold_class: The same on the class level.
        levels: Levels in the representation: ``A``, ``AN`` or ``ANC``.
        slots: Inputs of structure extractors: ``drawn`` neighbours, or the ``means`` over hop 1, 2, … up to ``hops``.
        drawn: Neighbours drawn from hop 1, hop 2, …, as in ``5,7``.
        hops: The farthest hop of ``means``.
        selection: ``reserve`` (unused extractors while there are any, then the most similar) or ``similarity`` (always
            those whose embeddings are closest to the prototypes, Eq. 5).
        retention: ``paper`` (later tasks may change what earlier tasks use) or ``certified`` (never: with the task
            given, its predictions stay bit-identical).
        use_cls: Whether the classification loss is used.
        alpha: Weight of the divergence loss; 0 switches it off.
        beta: Weight of the distance loss; 0 switches it off.
        epochs: Epochs per task, warm-up included.
        warmup_epochs: Epochs before there are prototypes.
        late_epoch: From this epoch on, prototypes learn at ``lr_prototypes_late``.
        lr: Learning rate of extractors and layers in the warm-up.
        lr_refine: The same afterwards.
        lr_prototypes: Learning rate of prototypes.
        lr_prototypes_late: The same from ``late_epoch`` on.
        batch_size: Nodes per step.
        seed: Draws initial weights, batches and neighbours.

    Attributes:
        network_: Extractors, prototypes and layers.
        selections_: Extractors and prototypes of each task.
        certificates_: Hash, per task, of everything its predictions depended on when it was learned.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.streams import TaskStream
        >>> stream = TaskStream(load_dataset("digits"))
        >>> learner = PaperHPN().fit_task(stream.step(0)).fit_task(stream.step(1))
        >>> query, key = stream.query(step=0, after=1, evaluate="oracle")
        >>> (learner.predict(query) == key.y).float().mean() > 0.95
        tensor(True)
    """

    search_space: ClassVar[Mapping[str, SearchChoice]] = {f"threshold_{level}": THRESHOLDS for level in LEVELS}

    preset: Literal["paper"] = "paper"
    num_extractors: Count = 22
    num_selected: Count = 1
    dim: Count = 16
    threshold_atomic: Distance = 0.3
    threshold_node: Distance = 0.3
    threshold_class: Distance = 0.4
    levels: Levels = "ANC"
    slots: Literal["drawn", "means"] = "drawn"
    drawn: Annotated[str, Field(pattern=r"^[1-9]\d*(,[1-9]\d*)*$")] = "5,7"
    hops: Count = 2
    selection: Literal["similarity", "reserve"] = "reserve"
    retention: Literal["paper", "certified"] = "paper"
    use_cls: bool = True
    alpha: Rate = 1.0
    beta: Rate = 1.0
    epochs: Annotated[int, Field(ge=0)] = 90
    warmup_epochs: Annotated[int, Field(ge=0)] = 35
    late_epoch: Annotated[int, Field(ge=0)] = 85
    lr: Rate = 0.1
    lr_refine: Rate = 0.001
    lr_prototypes: Rate = 0.1
    lr_prototypes_late: Rate = 0.01
    batch_size: Count = 100

    def __post_init__(self) -> None:
        if self.num_selected > self.num_extractors:
            raise ConfigError(f"num_selected = {self.num_selected} is more than num_extractors = {self.num_extractors}")

    # Algorithm 1

    def _learn(self, step: Step, observer: Observer) -> None:
        if not hasattr(self, "epoch_"):  # otherwise a loaded state resumes in the middle of a task
            self._begin(step)
        data = self._prepare(step)
        while self.epoch_ < self.epochs:
            loss = self._run_epoch(data)
            self.epoch_ += 1
            self._epoch_done(observer, Progress(step.index, self.epoch_, self.epochs, {"loss": loss}))
        self._finish(data)

    def _begin(self, step: Step) -> None:
        """Make or widen the network, and select extractors."""
        if step.index == 0:
            self.network_ = self._new_network(self._num_outputs())
            self.selections_: list[Selection] = []
            self.certificates_: list[str] = []
        self.network_.cpu().grow_head(self._num_outputs())  # a seed draws the same weights there
        self.network_.to(self.device)
        self.selections_.append(self._select(step))
        self.epoch_ = 0

    def _select(self, step: Step) -> Selection:
        """Choose the extractors of a task from its training nodes, once (Eq. 5)."""
        free = [[at for at in range(self.num_extractors) if at not in used] for used in self._used(self.selections_)]
        has_room = all(len(numbers) >= self.num_selected for numbers in free)
        if step.index == 0 or (self.selection == "reserve" and has_room):
            return Selection(*(tuple(numbers[: self.num_selected]) for numbers in free))
        if self.selection == "reserve":
            LOGGER.warning(
                "task %d shares the extractors of earlier tasks, because all %d are in use%s; "
                "a larger num_extractors would give it its own",
                step.index,
                self.num_extractors,
                ", and does not train them" if self.retention == "certified" else "",
            )
        return self._most_similar(self._inputs(step.graph, step.train)(0))

    @torch.no_grad()
    def _most_similar(self, inputs: Inputs) -> Selection:
        r"""The extractors whose embeddings are closest to the atomic prototypes (Eq. 5).

        .. math:: \mathrm{SimMAX}_i = \max_{p \in P_A} \cos(e_i, p)

        averaged over nodes and, for structure extractors, over neighbours.
        """
        network, total = self.network_, torch.zeros(2, self.num_extractors, device=CPU)
        for rows in torch.split(torch.arange(len(inputs), device=CPU), 256):
            atomic = inputs.embed(rows, *network.extractors)
            _, cosine = network.atomic_prototypes.match(unit(atomic.reshape(-1, self.dim)))
            cosine = cosine.view(len(rows), -1, self.num_extractors).cpu()
            total[0] += cosine[:, 0].sum(dim=0)
            total[1] += cosine[:, 1:].mean(dim=1).sum(dim=0)
        node, structure = total.topk(self.num_selected).indices.sort(dim=1).values.tolist()
        return Selection(tuple(node), tuple(structure))

    def _inputs(self, graph: GraphView, nodes: Tensor) -> Callable[[int], Inputs]:
        """The inputs of extractors for some nodes, by round of drawn neighbours."""
        if self.slots == "drawn":
            sampler = NeighborSampler(graph.indptr, graph.indices, nodes, self._counts, self.seed)
            inputs = Inputs(graph.features, nodes.unsqueeze(1), self.device)
            return lambda turn: inputs.redraw(sampler.draw(turn))
        means = [see(graph).smoothed(hop, nodes.numpy()) for hop in range(self.hops + 1)]
        stacked = to_csr(sp.vstack(means)) if is_csr(means[0]) else torch.from_numpy(np.vstack(means))
        inputs = Inputs(stacked, torch.arange(len(stacked), device=CPU).view(len(means), -1).t(), self.device)
        return lambda _: inputs

    def _prepare(self, step: Step) -> _TrainingData:
        """Collect the inputs of all epochs of a task, and enable gradients of what the task may change."""
        network, selection, is_certified = self.network_, self.selections_[-1], self.retention == "certified"
        own = self._extractors(selection)
        used = [set(chosen) for chosen in (selection.node, selection.structure)]
        shares = any(mine & earlier for mine, earlier in zip(used, self._used(self.selections_[:-1]), strict=True))
        for parameter in (*own[0], *own[1]):
            parameter.requires_grad_(not (is_certified and shares))
        network.layers.requires_grad_(not is_certified or step.index == 0)
        others = [
            directions([part for at, part in enumerate(every) if at not in chosen], part)
            for every, chosen, (part, *_) in zip(network.extractors, used, own, strict=True)
        ]
        classes = self._classes_of(next(group for group in self._groups() if group[-1] == step.index))
        columns = self._columns(classes)
        return _TrainingData(
            task=step.index,
            inputs=self._inputs(step.graph, step.train),
            own=own,
            others=others,
            target=(step.train_y.unsqueeze(1) == torch.tensor(classes, device=CPU)).int().argmax(dim=1),
            columns=None if columns == list(range(network.head.out_features)) else columns,
        )

    def _extractors(self, selection: Selection) -> list[list[Tensor]]:
        """The node extractors and the structure extractors of a task."""
        kinds = zip(self.network_.extractors, (selection.node, selection.structure), strict=True)
        return [[every[at] for at in chosen] for every, chosen in kinds]

    def _run_epoch(self, data: _TrainingData) -> float:
        """Optimise the loss in one pass over the training nodes; returns its mean."""
        network, inputs = self.network_, data.inputs(self.epoch_)
        uses_prototypes = self.epoch_ >= self.warmup_epochs
        rate = self.lr_refine if uses_prototypes else self.lr
        # The rate of the shared layers falls once, in the first task; that of extractors in each task.
        layers_rate = rate if data.task == 0 else self.lr_refine
        order = torch.randperm(len(inputs), device=CPU)
        total, output = 0.0, None
        for number, rows in enumerate(torch.split(order, self.batch_size)):
            step = self.epoch_ * -(-len(order) // self.batch_size) + number
            atomic = inputs.embed(rows, *data.own)  # Eq. 1-3
            output = network(atomic, task=data.task if uses_prototypes else None, use_prototypes=uses_prototypes)
            loss = self._loss(data, output, rows, step)
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            _descend([*data.own[0], *data.own[1]], rate)
            _descend(network.layers.parameters(), layers_rate)
            total += loss.item() * len(rows)
        if uses_prototypes and output is not None:
            self._refine(output, data.task)
        return total / max(len(inputs), 1)

    def _loss(self, data: _TrainingData, output: Forward, rows: Tensor, step: int) -> Tensor:
        """The loss of Eq. 13 for a batch."""
        return total_loss(
            output.logits if data.columns is None else output.logits[:, data.columns],
            data.target[rows].to(output.logits.device),
            output.embeddings,
            output.matched,
            list(zip(data.own, data.others, strict=True)),
            use_cls=self.use_cls,
            alpha=self.alpha * DIVERGENCE_EVERY if step % DIVERGENCE_EVERY == 0 else 0.0,
            beta=self.beta,
        )

    def _refine(self, output: Forward, task: int) -> None:
        """Move prototypes by the gradients of an epoch, and restore cover and packing.

        Once per epoch, because every move may violate both properties and must be checked.
        """
        rate = self.lr_prototypes if self.epoch_ < self.late_epoch else self.lr_prototypes_late
        for codebook, embeddings in zip(self.network_.codebooks, output.embeddings, strict=True):
            if codebook.storage.grad is not None:
                codebook.storage.grad[: codebook.num_frozen] = 0.0
            _descend([codebook.storage], rate)
            codebook.refine(embeddings, task)

    @torch.no_grad()
    def _finish(self, data: _TrainingData) -> None:
        """Cover every training node, and record what the task uses."""
        inputs, lengths = data.inputs(max(self.epoch_ - 1, 0)), torch.zeros(self._num_slots, device=CPU)
        for rows in torch.split(torch.arange(len(inputs), device=CPU), NODES_AT_ONCE):
            atomic = inputs.embed(rows, *data.own)
            self.network_(atomic, task=data.task)
            lengths += torch.linalg.vector_norm(atomic, dim=2).sum(dim=0).cpu()
        for codebook in self.network_.codebooks if self.retention == "certified" else ():
            codebook.freeze()
        self.selections_[-1] = replace(
            self.selections_[-1],
            visible=tuple(map(len, self.network_.codebooks)),
            lengths=tuple((lengths / max(len(inputs), 1)).tolist()),
        )
        self.certificates_ = [*self.certificates_, self._certificate(data.task)]
        del self.epoch_

    # Predictions

    def _scores(self, query: Query) -> Tensor:
        groups = self._groups() if query.task is None else [[query.task]]
        by_class: dict[int, Tensor] = {}
        for group in groups:
            classes = self._classes_of(group) if query.task is None else self.tasks_[query.task]
            scores, familiarity = self._predict(query.graph, query.nodes, group[-1], classes)
            if len(groups) > 1:
                scores = scores + SHARPNESS * familiarity.unsqueeze(1)
            for label, column in zip(classes, scores.unbind(dim=1), strict=True):
                by_class[label] = torch.logaddexp(by_class[label], column) if label in by_class else column
        return torch.stack([by_class[label] for label in query.classes], dim=1).log_softmax(dim=1)

    @torch.no_grad()
    def represent(self, query: Query) -> Tensor | None:
        """The prototypes of all levels, concatenated, with the extractors of the given task (Eq. 11)."""
        if query.task is None:
            return None
        inputs = self._inputs(query.graph, query.nodes)(QUERY_TURN)
        return self._forward(inputs, None, self.selections_[query.task])[0].representation

    def is_certified(self, task: int) -> bool:
        """Whether everything the predictions for ``task`` depend on is as it was when it was learned."""
        return self._certificate(task) == self.certificates_[task]

    @torch.no_grad()
    def _predict(self, graph: GraphView, nodes: Tensor, task: int, classes: Classes) -> tuple[Tensor, Tensor]:
        """Log-probabilities of classes, and the similarity of each node to the nodes of the task.

        The latter is the cosine to the prototypes, times the length of the embedding relative to the task's.
        """
        inputs, selection = self._inputs(graph, nodes)(QUERY_TURN), self.selections_[task]
        head, columns = self.network_.head, self._columns(classes)
        usual = torch.tensor(selection.lengths, device=head.weight.device).clamp_min(1e-12)
        results = [torch.zeros(0, len(columns) + 1, device=CPU)]
        for rows in torch.split(torch.arange(len(nodes), device=CPU), NODES_AT_ONCE):
            output, atomic = self._forward(inputs, rows, selection)
            # Only these columns are multiplied: with more of them, the last bits may differ.
            logits = F.linear(output.representation, head.weight[columns], head.bias[columns])
            length = (torch.linalg.vector_norm(atomic, dim=2) / usual).clamp_max(1.0)
            familiarity = (output.cosines[0].view_as(length) * length).mean(dim=1, keepdim=True)
            results.append(torch.cat([logits.log_softmax(dim=1), familiarity], dim=1).cpu())
        result = torch.cat(results)
        return result[:, :-1], result[:, -1]

    def _forward(self, inputs: Inputs, rows: Tensor | None, selection: Selection) -> tuple[Forward, Tensor]:
        atomic = inputs.embed(rows, *self._extractors(selection))
        return self.network_(atomic, visible=selection.visible if self.retention == "certified" else None), atomic

    # Sizes and state

    @property
    def codebooks(self) -> dict[str, Codebook]:
        """The prototypes of each level in use, which :func:`hpn.check_run` examines."""
        return dict(zip(LEVELS, self.network_.codebooks, strict=False))

    @property
    def prototype_counts(self) -> dict[str, int]:
        """Prototypes of each level."""
        return {level: len(codebook) for level, codebook in self.codebooks.items()}

    @property
    def prototype_bounds(self) -> dict[str, int]:
        """The maximum number of prototypes of each level on any stream (Theorem 1)."""
        bounds = self.memory_bound.prototypes
        return {level: cap_bound(bounds[level]) for level in LEVELS[: len(self.levels)]}

    @property
    def memory_bound(self) -> MemoryBound:
        """Theorem 1 for these hyper-parameters; before the first task, without the extractors."""
        return MemoryBound(self.dim, self._thresholds, self.num_extractors, getattr(self, "num_features_", 0))

    @property
    def num_parameters(self) -> int:
        """Extractors in use, prototypes, and the shared layers."""
        return self._count_numbers(sum(map(len, self._used(self.selections_))), sum(self.prototype_counts.values()))

    @property
    def parameter_bound(self) -> int:
        """All extractors, the maximum number of prototypes, and the shared layers (with the current head)."""
        return cap_bound(self._count_numbers(2 * self.num_extractors, sum(self.prototype_bounds.values())))

    @property
    def num_stored(self) -> int:
        """Numbers kept between tasks; unused extractors are not counted, because the seed draws them again."""
        num_unused = 2 * self.num_extractors - sum(map(len, self._used(self.selections_)))
        return super().num_stored - num_unused * self.num_features_ * self.dim

    def _count_numbers(self, num_extractors: int, num_prototypes: int) -> int:
        layers = sum(parameter.numel() for parameter in self.network_.layers.parameters())
        return (num_extractors * self.num_features_ + num_prototypes) * self.dim + layers

    @property
    def _thresholds(self) -> tuple[float, float, float]:
        return self.threshold_atomic, self.threshold_node, self.threshold_class

    @property
    def _counts(self) -> tuple[int, ...]:
        """Neighbours drawn from each hop, the nearest first."""
        return tuple(int(word) for word in self.drawn.split(","))

    @property
    def _num_slots(self) -> int:
        """Atomic embeddings per node."""
        return self.num_selected * (1 + (sum(self._counts) if self.slots == "drawn" else self.hops))

    @staticmethod
    def _used(selections: Sequence[Selection]) -> tuple[set[int], set[int]]:
        """Node and structure extractors of some tasks."""
        return {at for task in selections for at in task.node}, {at for task in selections for at in task.structure}

    def _groups(self) -> list[list[int]]:
        """Tasks with the same extractors, which therefore compete in one head if the head grows."""
        groups: dict[object, list[int]] = {}
        for task, chosen in enumerate(self.selections_):
            key = task if self._has_shared_head else (chosen.node, chosen.structure)
            groups.setdefault(key, []).append(task)
        return list(groups.values())

    def _classes_of(self, tasks: Sequence[int]) -> Classes:
        return tuple(dict.fromkeys(label for task in tasks for label in self.tasks_[task]))

    def _num_outputs(self) -> int:
        return max(len(task) for task in self.tasks_) if self._has_shared_head else len(self.classes_)

    def _new_network(self, num_outputs: int) -> PrototypeNetwork:
        sizes = {"num_extractors": self.num_extractors, "num_slots": self._num_slots, "dim": self.dim}
        with CPU:  # weights are drawn there, whatever the device
            return PrototypeNetwork(
                self.num_features_, num_outputs, **sizes, thresholds=self._thresholds, levels=self.levels
            )

    def _certificate(self, task: int) -> str:
        """Hash of every number that the predictions for ``task`` are computed from."""
        chosen = self.selections_[task]
        visible = chosen.visible if self.retention == "certified" else [*map(len, self.network_.codebooks)]
        return self.network_.digest(chosen.node, chosen.structure, self._columns(self.tasks_[task]), visible)

    def _state(self) -> State:
        return {**super()._state(), "selections": [asdict(selection) for selection in self.selections_]}

    def _load_state(self, state: State) -> None:
        super()._load_state({name: state[name] for name in state if name not in {"network", "selections"}})
        self.network_ = self._new_network(state["network"]["head.weight"].shape[0])
        self.network_.load_state_dict(state["network"])
        self.network_.to(self.device)
        self.selections_ = [Selection(**{key: tuple(value[key]) for key in value}) for value in state["selections"]]


class _TrainingData(NamedTuple):
    """A task prepared for all its epochs."""

    task: int
    inputs: Callable[[int], Inputs]  # of its training nodes, by round of drawn neighbours
    own: list[list[Tensor]]  # its node extractors and its structure extractors, parameters of the network
    others: list[Tensor]  # for L_div: directions of all other extractors of each kind
    target: Tensor  # position of each training node's class among the competing ones [num_train]
    columns: list[int] | None  # head columns that compete; None if all do


@torch.no_grad()
def _descend(parameters: Iterable[Tensor], rate: float) -> None:
    """One step of stochastic gradient descent, after which gradients are cleared.

    ``torch.optim.SGD`` would import PyTorch's compiler, which takes longer than learning a small graph.
    """
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.add_(parameter.grad, alpha=-rate)
            parameter.grad = None
