"""Hierarchical prototype networks as the paper has them (Zhang, Song and Tao, IEEE TPAMI 2023).

Algorithm 1, with the numbers of the equations in Section 3::

    for each task:                                       fit_task
        get the nodes, edges and features of the task    _inputs        N_sub, before Eq. 2
        select extractors                                _select        Eq. 5
        compute L = HPN(nodes, features, edges)          _loss          Eq. 1-4, 6-13
        optimise L                                       _run_epoch

Where the code departs from the paper, or decides what the paper leaves open, docs/explanation/network.md states it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor
from torch.optim.sgd import sgd

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
"""L_div depends on no batch and costs more than one: it counts tenfold in every tenth step."""
SHARPNESS = 10.0
"""How firmly the likeliest task is believed when none is given."""
QUERY_TURN = 1 << 32
"""The round of drawn neighbours that queries see; no training round gets there."""
NODES_AT_ONCE = 8192
"""Nodes answered at once, and covered at once, which bounds memory."""
THRESHOLDS = OneOf(0.01, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
"""What the paper chooses t_A, t_N and t_C from, by validation."""


@dataclass(frozen=True)
class Selection:
    """What a task uses.

    Args:
        node: Its node extractors.
        structure: Its structure extractors.
        visible: Prototypes of each level that existed when it was learned.
        lengths: Usual length of its atomic embeddings, one per slot.
    """

    node: tuple[int, ...]
    structure: tuple[int, ...]
    visible: tuple[int, ...] = ()
    lengths: tuple[float, ...] = ()


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
        num_extractors: Node extractors, and structure extractors, in all.
        num_selected: Extractors of each kind that a task uses.
        dim: Dimension of every level.
        threshold_atomic: Cosine distance within which an embedding belongs to an atomic prototype.
        threshold_node: The same on the node level.
        threshold_class: The same on the class level.
        levels: Levels in the representation: ``A``, ``AN`` or ``ANC``.
        slots: What structure extractors see: ``drawn`` neighbours, or the ``means`` over hop 1, 2, … up to
            ``hops``.
        drawn: Neighbours drawn from hop 1, hop 2, …, as in ``5,7``.
        hops: The farthest hop of ``means``.
        selection: ``reserve`` (unused extractors while there are any, then the most similar) or
            ``similarity`` (always those whose embeddings are closest to the prototypes, Eq. 5).
        retention: ``paper`` (later tasks may move what earlier ones use) or ``certified`` (never: with the
            task given, its predictions stay bit-identical).
        use_cls: Whether the classification loss is used.
        alpha: Weight of the divergence loss; 0 switches it off.
        beta: Weight of the distance loss; 0 switches it off.
        epochs: Passes over each task, warm-up included.
        warmup_epochs: Passes before there are prototypes.
        late_epoch: From this pass on, prototypes learn at ``lr_prototypes_late``.
        lr: Learning rate of extractors and layers in the warm-up.
        lr_refine: The same afterwards.
        lr_prototypes: Learning rate of prototypes.
        lr_prototypes_late: The same from ``late_epoch`` on.
        batch_size: Nodes of a step.
        seed: Draws initial weights, batches and neighbours.

    Attributes:
        network_: Extractors, prototypes and layers.
        selections_: What each task uses.
        certificates_: Hash of everything the predictions for a task depend on, as of when it was learned.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.streams import TaskStream
        >>> stream = TaskStream(load_dataset("digits"))
        >>> learner = PaperHPN().fit_task(stream.step(0)).fit_task(stream.step(1))
        >>> query, key = stream.query(step=0, after=1, evaluate="oracle")
        >>> (learner.predict(query) == key.y).float().mean() > 0.95
        tensor(True)
    """

    search_space: ClassVar[Mapping[str, SearchChoice]] = {
        "threshold_atomic": THRESHOLDS,
        "threshold_node": THRESHOLDS,
        "threshold_class": THRESHOLDS,
    }

    network_: PrototypeNetwork
    selections_: list[Selection]
    certificates_: list[str]
    epoch_: int

    def __init__(
        self,
        *,
        preset: Literal["paper"] = "paper",
        num_extractors: Count = 22,
        num_selected: Count = 1,
        dim: Count = 16,
        threshold_atomic: Distance = 0.3,
        threshold_node: Distance = 0.3,
        threshold_class: Distance = 0.4,
        levels: Levels = "ANC",
        slots: Literal["drawn", "means"] = "drawn",
        drawn: Annotated[str, Field(pattern=r"^[1-9]\d*(,[1-9]\d*)*$")] = "5,7",
        hops: Count = 2,
        selection: Literal["similarity", "reserve"] = "reserve",
        retention: Literal["paper", "certified"] = "paper",
        use_cls: bool = True,
        alpha: Rate = 1.0,
        beta: Rate = 1.0,
        epochs: Annotated[int, Field(ge=0)] = 90,
        warmup_epochs: Annotated[int, Field(ge=0)] = 35,
        late_epoch: Annotated[int, Field(ge=0)] = 85,
        lr: Rate = 0.1,
        lr_refine: Rate = 0.001,
        lr_prototypes: Rate = 0.1,
        lr_prototypes_late: Rate = 0.01,
        batch_size: Count = 100,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.preset = preset
        self.num_extractors = num_extractors
        self.num_selected = num_selected
        self.dim = dim
        self.threshold_atomic = threshold_atomic
        self.threshold_node = threshold_node
        self.threshold_class = threshold_class
        self.levels = levels
        self.slots = slots
        self.drawn = drawn
        self.hops = hops
        self.selection = selection
        self.retention = retention
        self.use_cls = use_cls
        self.alpha = alpha
        self.beta = beta
        self.epochs = epochs
        self.warmup_epochs = warmup_epochs
        self.late_epoch = late_epoch
        self.lr = lr
        self.lr_refine = lr_refine
        self.lr_prototypes = lr_prototypes
        self.lr_prototypes_late = lr_prototypes_late
        self.batch_size = batch_size
        if num_selected > num_extractors:
            raise ConfigError(f"num_selected = {num_selected} is more than num_extractors = {num_extractors}")

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
            self.selections_, self.certificates_ = [], []
        self.network_.cpu().grow_head(self._num_outputs())  # a seed draws the same weights there
        self.network_.to(self.device)
        self.selections_.append(self._select(step))
        self.epoch_ = 0

    def _select(self, step: Step) -> Selection:
        """Choose the extractors of a task from its training nodes, once (Eq. 5)."""
        free = [[at for at in range(self.num_extractors) if at not in used] for used in self._used()]
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
            atomic = inputs.embed(rows, list(network.node_extractors), list(network.structure_extractors))
            _, cosine = network.atomic_prototypes.match(unit(atomic.reshape(-1, self.dim)))
            cosine = cosine.view(len(rows), -1, self.num_extractors).cpu()
            total[0] += cosine[:, 0].sum(dim=0)
            total[1] += cosine[:, 1:].mean(dim=1).sum(dim=0)
        node, structure = total.topk(self.num_selected).indices.sort(dim=1).values.tolist()
        return Selection(tuple(node), tuple(structure))

    def _inputs(self, graph: GraphView, nodes: Tensor) -> Callable[[int], Inputs]:
        """What extractors see of some nodes, by round of drawn neighbours."""
        if self.slots == "drawn":
            sampler = NeighborSampler(graph.indptr, graph.indices, nodes, self._counts, self.seed)
            inputs = Inputs(graph.features, nodes.unsqueeze(1), self.device)
            return lambda turn: inputs.redraw(sampler.draw(turn))
        rows = nodes.numpy()
        means = [see(graph).smoothed(hop, rows) for hop in range(self.hops + 1)]
        if all(is_csr(mean) for mean in means):
            stacked = to_csr(sp.vstack(means))
        else:
            stacked = torch.from_numpy(np.vstack([m.toarray() if is_csr(m) else m for m in means]))
        index = torch.arange(stacked.shape[0], device=CPU).view(len(means), -1).t()
        inputs = Inputs(stacked, index, self.device)
        return lambda _: inputs

    def _prepare(self, step: Step) -> _TrainingData:
        """Collect what the epochs of a task need, and let what it may move have gradients."""
        selection, network = self.selections_[-1], self.network_
        kinds = (network.node_extractors, selection.node), (network.structure_extractors, selection.structure)
        chosen = [[every[at] for at in numbers] for every, numbers in kinds]
        others = [[part for at, part in enumerate(every) if at not in numbers] for every, numbers in kinds]
        is_certified = self.retention == "certified"
        for parameter in (*chosen[0], *chosen[1]):
            parameter.requires_grad_(not (is_certified and self._shares_extractors()))
        network.layers.requires_grad_(not is_certified or step.index == 0)
        rivals = next(group for group in self._groups() if group[-1] == step.index)
        classes = self._classes_of(rivals)
        columns = self._columns(classes)
        return _TrainingData(
            task=step.index,
            inputs=self._inputs(step.graph, step.train),
            node=chosen[0],
            structure=chosen[1],
            extractors=[(used, directions(rest, used[0])) for used, rest in zip(chosen, others, strict=True)],
            target=(step.train_y.unsqueeze(1) == torch.tensor(classes, device=CPU)).int().argmax(dim=1),
            columns=None if columns == list(range(network.head.out_features)) else columns,
        )

    def _run_epoch(self, data: _TrainingData) -> float:
        """Optimise the loss in one pass over the training nodes; returns its mean."""
        network, inputs = self.network_, data.inputs(self.epoch_)
        uses_prototypes = self.epoch_ >= self.warmup_epochs
        rates = self._rates(data)
        order = torch.randperm(len(inputs), device=CPU)
        total, output = 0.0, None
        for number, rows in enumerate(torch.split(order, self.batch_size)):
            step = self.epoch_ * -(-len(order) // self.batch_size) + number
            atomic = inputs.embed(rows, data.node, data.structure)  # Eq. 1-3
            output = network(atomic, task=data.task if uses_prototypes else None, use_prototypes=uses_prototypes)
            loss = self._loss(data, output, rows, step)
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            for parameters, rate in rates:
                _descend(parameters, rate)
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
            data.extractors,
            use_cls=self.use_cls,
            alpha=self.alpha * DIVERGENCE_EVERY if step % DIVERGENCE_EVERY == 0 else 0.0,
            beta=self.beta,
        )

    def _rates(self, data: _TrainingData) -> list[tuple[list[Tensor], float]]:
        """Extractors and shared layers, each with the learning rate of this epoch.

        Shared layers cool down once, with the first task; the extractors of each task with it.
        """
        is_warm = self.epoch_ < self.warmup_epochs
        layers: list[Tensor] = list(self.network_.layers.parameters())
        return [
            ([*data.node, *data.structure], self.lr if is_warm else self.lr_refine),
            (layers, self.lr if is_warm and data.task == 0 else self.lr_refine),
        ]

    def _refine(self, output: Forward, task: int) -> None:
        """Move prototypes by the gradients of an epoch, and restore cover and packing.

        Once per epoch, because every move may break the two and has to be checked.
        """
        rate = self.lr_prototypes if self.epoch_ < self.late_epoch else self.lr_prototypes_late
        for codebook, embeddings in zip(self.network_.codebooks, output.embeddings, strict=True):
            if codebook.storage.grad is not None:
                codebook.storage.grad[: codebook.num_frozen] = 0.0
            _descend([codebook.storage], rate)
            codebook.refine(embeddings, task)

    @torch.no_grad()
    def _finish(self, data: _TrainingData) -> None:
        """Cover every training node, and note what the task uses."""
        inputs, lengths = data.inputs(max(self.epoch_ - 1, 0)), torch.zeros(self._num_slots, device=CPU)
        for rows in torch.split(torch.arange(len(inputs), device=CPU), NODES_AT_ONCE):
            atomic = inputs.embed(rows, data.node, data.structure)
            self.network_(atomic, task=data.task)
            lengths += torch.linalg.vector_norm(atomic, dim=2).sum(dim=0).cpu()
        for codebook in self.network_.codebooks:
            if self.retention == "certified":
                codebook.freeze()
        self.selections_[-1] = replace(
            self.selections_[-1],
            visible=tuple(len(codebook) for codebook in self.network_.codebooks),
            lengths=tuple((lengths / max(len(inputs), 1)).tolist()),
        )
        self.certificates_.append(self._certificate(data.task))
        del self.epoch_

    # Answers

    def _scores(self, query: Query) -> Tensor:
        groups = self._groups() if query.task is None else [[query.task]]
        by_class: dict[int, Tensor] = {}
        for group in groups:
            classes = self._classes_of(group) if query.task is None else self.tasks_[query.task]
            scores, familiarity = self._answer(query.graph, query.nodes, group[-1], classes)
            if len(groups) > 1:
                scores = scores + SHARPNESS * familiarity.unsqueeze(1)
            for label, column in zip(classes, scores.unbind(dim=1), strict=True):
                by_class[label] = torch.logaddexp(by_class[label], column) if label in by_class else column
        return torch.stack([by_class[label] for label in query.classes], dim=1).log_softmax(dim=1)

    @torch.no_grad()
    def represent(self, query: Query) -> Tensor | None:
        """The prototypes of all levels, concatenated, as the task asked about sees the nodes (Eq. 11)."""
        if query.task is None:
            return None
        inputs = self._inputs(query.graph, query.nodes)(QUERY_TURN)
        return self._see(inputs, None, self.selections_[query.task])[0].representation

    def is_certified(self, task: int) -> bool:
        """Whether everything the predictions for ``task`` depend on is as it was when it was learned."""
        return self._certificate(task) == self.certificates_[task]

    @torch.no_grad()
    def _answer(self, graph: GraphView, nodes: Tensor, task: int, classes: Classes) -> tuple[Tensor, Tensor]:
        """Log-probabilities of classes, and how much each node looks like a node of the task.

        The latter is the cosine to the prototypes, times the length of the embedding relative to the task's.
        """
        inputs, selection = self._inputs(graph, nodes)(QUERY_TURN), self.selections_[task]
        head, columns = self.network_.head, self._columns(classes)
        usual = torch.tensor(selection.lengths, device=head.weight.device).clamp_min(1e-12)
        found = [torch.zeros(0, len(columns) + 1, device=CPU)]
        for rows in torch.split(torch.arange(len(nodes), device=CPU), NODES_AT_ONCE):
            output, atomic = self._see(inputs, rows, selection)
            # Only these columns are multiplied: with more of them, the last bits could come out differently.
            logits = F.linear(output.representation, head.weight[columns], head.bias[columns])
            length = (torch.linalg.vector_norm(atomic, dim=2) / usual).clamp_max(1.0)
            familiarity = (output.cosines[0].view_as(length) * length).mean(dim=1, keepdim=True)
            found.append(torch.cat([logits.log_softmax(dim=1), familiarity], dim=1).cpu())
        answers = torch.cat(found)
        return answers[:, :-1], answers[:, -1]

    def _see(self, inputs: Inputs, rows: Tensor | None, selection: Selection) -> tuple[Forward, Tensor]:
        network = self.network_
        node = [network.node_extractors[at] for at in selection.node]
        structure = [network.structure_extractors[at] for at in selection.structure]
        atomic = inputs.embed(rows, node, structure)
        visible = selection.visible if self.retention == "certified" else None
        return network(atomic, visible=visible), atomic

    # Sizes and state

    @property
    def codebooks(self) -> dict[str, Codebook]:
        """The prototypes of each level in use, which :func:`hpn.check_run` looks at."""
        return dict(zip(LEVELS, self.network_.codebooks, strict=False))

    @property
    def prototype_counts(self) -> dict[str, int]:
        """Prototypes of each level."""
        return {level: len(codebook) for level, codebook in self.codebooks.items()}

    @property
    def prototype_bounds(self) -> dict[str, int]:
        """The most prototypes of each level that any stream could lead to (Theorem 1)."""
        most = self.memory_bound.prototypes
        return {level: cap_bound(most[level]) for level in LEVELS[: len(self.levels)]}

    @property
    def memory_bound(self) -> MemoryBound:
        """Theorem 1 for these hyper-parameters; before the first task, without the extractors."""
        thresholds = (self.threshold_atomic, self.threshold_node, self.threshold_class)
        return MemoryBound(self.dim, thresholds, self.num_extractors, getattr(self, "num_features_", 0))

    @property
    def num_parameters(self) -> int:
        """Extractors in use, prototypes, and the shared layers."""
        return self._count_numbers(sum(map(len, self._used())), sum(self.prototype_counts.values()))

    @property
    def parameter_bound(self) -> int:
        """Every extractor, as many prototypes as fit, and the shared layers (with the head as it is)."""
        return cap_bound(self._count_numbers(2 * self.num_extractors, sum(self.prototype_bounds.values())))

    @property
    def num_stored(self) -> int:
        """What must be kept between tasks; extractors that no task uses yet are what the seed draws."""
        num_unused = 2 * self.num_extractors - sum(map(len, self._used()))
        return super().num_stored - num_unused * self.num_features_ * self.dim

    def _count_numbers(self, num_extractors: int, num_prototypes: int) -> int:
        layers = sum(parameter.numel() for parameter in self.network_.layers.parameters())
        return (num_extractors * self.num_features_ + num_prototypes) * self.dim + layers

    @property
    def _counts(self) -> tuple[int, ...]:
        """Neighbours drawn from each hop, the nearest first."""
        return tuple(int(word) for word in self.drawn.split(","))

    @property
    def _num_slots(self) -> int:
        """Atomic embeddings of a node."""
        return self.num_selected * (1 + (sum(self._counts) if self.slots == "drawn" else self.hops))

    def _used(self) -> tuple[set[int], set[int]]:
        """Node and structure extractors that a task uses."""
        node = {number for selection in self.selections_ for number in selection.node}
        return node, {number for selection in self.selections_ for number in selection.structure}

    def _groups(self) -> list[list[int]]:
        """Tasks that see nodes through the same extractors, and so compete in one head where that grows."""
        groups: dict[object, list[int]] = {}
        for task, chosen in enumerate(self.selections_):
            key = task if self._has_shared_head else (chosen.node, chosen.structure)
            groups.setdefault(key, []).append(task)
        return list(groups.values())

    def _classes_of(self, tasks: Sequence[int]) -> Classes:
        return tuple(dict.fromkeys(label for task in tasks for label in self.tasks_[task]))

    def _shares_extractors(self) -> bool:
        """Whether an extractor of the task at hand belongs to an earlier one as well."""
        own, earlier = self.selections_[-1], self.selections_[:-1]
        return any(
            set(own.node).intersection(other.node) or set(own.structure).intersection(other.structure)
            for other in earlier
        )

    def _num_outputs(self) -> int:
        return max(len(task) for task in self.tasks_) if self._has_shared_head else len(self.classes_)

    def _new_network(self, num_outputs: int) -> PrototypeNetwork:
        with CPU:  # where weights are drawn, whatever the device
            return PrototypeNetwork(
                self.num_features_,
                num_outputs,
                num_extractors=self.num_extractors,
                num_slots=self._num_slots,
                dim=self.dim,
                thresholds=(self.threshold_atomic, self.threshold_node, self.threshold_class),
                levels=self.levels,
            )

    def _certificate(self, task: int) -> str:
        """Hash of every number that the predictions for ``task`` are computed from."""
        chosen, sizes = self.selections_[task], [len(codebook) for codebook in self.network_.codebooks]
        visible = chosen.visible if self.retention == "certified" else sizes
        return self.network_.digest(chosen.node, chosen.structure, self._columns(self.tasks_[task]), visible)

    def _state(self) -> State:
        state: State = {
            "network": self.network_.state_dict(),
            "selections": [asdict(selection) for selection in self.selections_],
            "certificates": list(self.certificates_),
        }
        return {**state, "epoch": self.epoch_} if hasattr(self, "epoch_") else state

    def _load_state(self, state: State) -> None:
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn, then overwritten
            self.network_ = self._new_network(state["network"]["head.weight"].shape[0])
        self.network_.load_state_dict(state["network"])
        self.network_.to(self.device)
        self.selections_ = [
            Selection(**{name: tuple(value) for name, value in entry.items()}) for entry in state["selections"]
        ]
        self.certificates_ = list(state["certificates"])
        if "epoch" in state:
            self.epoch_ = state["epoch"]


@dataclass(frozen=True, eq=False)
class _TrainingData:
    """A task made ready for all its epochs.

    Args:
        task: Its number.
        inputs: What extractors see of its training nodes, by round of drawn neighbours.
        node: Its node extractors, which are parameters of the network.
        structure: Its structure extractors.
        extractors: For L_div, per kind, its extractors and the directions of all others.
        target: Which of the competing classes each training node has ``[num_train]``.
        columns: Columns of the head that compete; ``None`` if all do.
    """

    task: int
    inputs: Callable[[int], Inputs]
    node: list[Tensor]
    structure: list[Tensor]
    extractors: list[tuple[list[Tensor], Tensor]]
    target: Tensor
    columns: list[int] | None


def _descend(parameters: list[Tensor], rate: float) -> None:
    """One step of stochastic gradient descent, which uses up the gradients.

    In its functional form, because ``torch.optim.SGD`` imports PyTorch's compiler when it is first used. That
    takes longer than learning a small graph.
    """
    moving = [parameter for parameter in parameters if parameter.grad is not None]
    gradients = [parameter.grad for parameter in moving if parameter.grad is not None]
    with torch.no_grad():
        sgd(
            moving,
            gradients,
            [None] * len(moving),
            foreach=False,
            weight_decay=0.0,
            momentum=0.0,
            lr=rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
    for parameter in moving:
        parameter.grad = None
