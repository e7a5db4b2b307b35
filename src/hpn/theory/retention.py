"""What later tasks did to earlier ones: what is measured, and what is proved.

Theorem 2 states a condition under which nothing happens. Whether it is met, what happened to every node of
every earlier task, and whether answers are the same to the last bit are three questions;
:class:`RetentionStudy` puts all of them to a learner after each task.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from hpn.datasets.sparse import select_rows
from hpn.errors import ConfigError
from hpn.nn.network import PrototypeNetwork
from hpn.nn.prototypes import PrototypeBook
from hpn.streams import GraphView, Query, TaskStream
from hpn.theory.theorem_two import TheoremTwo, check_theorem_two

VECTORS_AT_ONCE = 1 << 14
"""Prototypes of nodes compared at once, which bounds the memory."""


class PrototypeSettings(Protocol):
    """Hyper-parameters that retention depends on."""

    @property
    def dim(self) -> int:
        """Dimension of every level."""

    @property
    def threshold_atomic(self) -> float:
        """Cosine distance t_A."""

    @property
    def threshold_node(self) -> float:
        """Cosine distance t_N."""

    @property
    def threshold_class(self) -> float:
        """Cosine distance t_C."""

    @property
    def retention(self) -> str:
        """``paper`` or ``certified``."""

    @property
    def slots(self) -> str:
        """What structure extractors see; single nodes if it is ``drawn``."""


class PrototypeLearner(Protocol):
    """A learner that answers through prototypes, such as :class:`hpn.learners.HPN`."""

    network_: PrototypeNetwork

    def predict(self, query: Query) -> Tensor:
        """One class number a node."""

    def predict_scores(self, query: Query) -> Tensor:
        """Log-probabilities of the classes."""

    def represent(self, query: Query) -> Tensor | None:
        """The matched prototypes of each node, side by side: of its slots, then of the levels above."""

    def is_certified(self, task: int) -> bool:
        """Whether all that the answers about a task depend on is as it was."""

    def settings(self) -> PrototypeSettings:
        """Every hyper-parameter."""


@dataclass(frozen=True)
class Change:
    """What became of the nodes of a task by the time a later one was learned.

    Prototypes have no names that last, since merging renumbers them. But two of a level are never within its
    threshold of each other: what is matched beyond the threshold from where it was is another prototype.

    Args:
        task: The earlier task.
        after: The later one.
        nodes: All nodes of the earlier task.
        touched: Nodes whose representation differs in any bit.
        rematched: Nodes with a prototype beyond its level's threshold from the one in its place before.
        relabelled: Nodes for which the answer is another class.
        shared: Nodes with an atomic prototype that a node of the later task has as well, as matched now.
    """

    task: int
    after: int
    nodes: int
    touched: int
    rematched: int
    relabelled: int
    shared: int


@dataclass(frozen=True)
class Proof:
    """Whether the answers about all nodes of a task are what they were.

    Args:
        task: The earlier task.
        after: The later one.
        before: SHA-256 of log-probabilities and labels when the task was learned.
        now: The same after the later task.
        is_certified: Whether everything the answers depend on hashes as it did.
    """

    task: int
    after: int
    before: str
    now: str
    is_certified: bool

    @property
    def holds(self) -> bool:
        """Whether the answers are the same to the last bit, and can only be so."""
        return self.before == self.now and self.is_certified


@dataclass(frozen=True)
class RetentionReport:
    """All that a study found.

    Args:
        retention: ``paper`` or ``certified``.
        theorem: Theorem 2 for each two consecutive tasks, with the extractors as they were after the second.
        changes: One for each task and each later one.
        proofs: Likewise.
    """

    retention: str
    theorem: tuple[TheoremTwo, ...]
    changes: tuple[Change, ...]
    proofs: tuple[Proof, ...]

    @property
    def is_proved(self) -> bool:
        """Whether retention is certified and every proof holds."""
        return self.retention == "certified" and all(proof.holds for proof in self.proofs)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "retention": self.retention,
            "is_proved": self.is_proved,
            "theorem": [condition.to_json() for condition in self.theorem],
            "changes": [asdict(change) for change in self.changes],
            "proofs": [{**asdict(proof), "holds": proof.holds} for proof in self.proofs],
        }


@dataclass(eq=False)
class _Answers:
    """What a learner makes of all nodes of a task at some time."""

    representation: Tensor
    labels: Tensor
    digest: str


class RetentionStudy:
    """Watches what learning does to earlier tasks. It asks, and changes nothing.

    A task's nodes are all that came with it, whether they are in a split or not; they are asked about in the
    view in which the task arrived, and the task is given.

    Args:
        learner: Who learns.
        stream: The tasks.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.learners import HPN
        >>> stream, learner = TaskStream(load_dataset("digits")), HPN(epochs=0)
        >>> study = RetentionStudy(learner, stream)
        >>> for index in range(2):
        ...     _ = learner.fit_task(stream.task(index))
        ...     study.after_task(index)
        >>> report = study.report()
        >>> report.is_proved, report.changes[0].touched
        (True, 0)
    """

    def __init__(self, learner: PrototypeLearner, stream: TaskStream) -> None:
        self.learner = learner
        self.stream = stream
        self._own: list[Tensor] = []
        self._first: list[_Answers] = []
        self._theorem: list[TheoremTwo] = []
        self._changes: list[Change] = []
        self._proofs: list[Proof] = []

    def after_task(self, index: int) -> None:
        """Ask about task ``index``, which was just learned, and again about all before it.

        Raises:
            ConfigError: If it is not the turn of that task, or the learner has no representation of it.
        """
        due = len(self._first)
        if index != due or index >= len(self.stream):
            expected = f"task {due} is next" if due < len(self.stream) else "there is no task left"
            raise ConfigError(
                f"task {index} is out of order: {expected}; call after_task once a task, in order"
            )
        self._own[index:] = [self._find_own(index)]
        latest = self._ask(index)
        if index > 0:
            self._theorem.append(self._check_theorem(index))
        used = torch.zeros(len(self.learner.network_.atomic_prototypes), dtype=torch.bool)
        used[self._atomic_numbers(latest)] = True
        for task, before in enumerate(self._first):
            now = self._ask(task)
            shared = used[self._atomic_numbers(now)].any(dim=1)
            self._changes.append(
                Change(
                    task=task,
                    after=index,
                    nodes=len(now.labels),
                    touched=_count_touched(before.representation, now.representation),
                    rematched=self._count_rematched(before.representation, now.representation),
                    relabelled=int((before.labels != now.labels).sum()),
                    shared=int(shared.sum()),
                )
            )
            self._proofs.append(
                Proof(task, index, before.digest, now.digest, self.learner.is_certified(task))
            )
        self._first.append(latest)

    def report(self) -> RetentionReport:
        """All that was found so far."""
        return RetentionReport(
            retention=self.learner.settings().retention,
            theorem=tuple(self._theorem),
            changes=tuple(self._changes),
            proofs=tuple(self._proofs),
        )

    def _find_own(self, index: int) -> Tensor:
        """The nodes that came with a task, as rows of its view."""
        graph = self.stream.task(index).graph
        if graph.ids is None or index == 0:
            return torch.arange(graph.num_nodes)
        earlier = self.stream.task(index - 1).graph.ids
        assert earlier is not None  # noqa: S101  (views of one stream have names or have none)
        return torch.nonzero(~torch.isin(graph.ids, earlier)).flatten()

    def _ask(self, task: int) -> _Answers:
        seen = self.stream.task(task)
        query = Query(seen.graph, self._own[task], seen.classes, task=task)
        representation = self.learner.represent(query)
        if representation is None:
            raise ConfigError(f"the learner has no representation of task {task}; study one with prototypes")
        labels = self.learner.predict(query)
        digest = hashlib.sha256()
        for part in (self.learner.predict_scores(query), labels):
            digest.update(part.contiguous().numpy().tobytes())
        return _Answers(representation.contiguous(), labels, digest.hexdigest())

    def _check_theorem(self, index: int) -> TheoremTwo:
        s, features, stay = self.learner.settings(), [], True
        for task in (index - 1, index):
            graph, own = self.stream.task(task).graph, self._own[task]
            features.append(select_rows(graph.x, own))
            stay = stay and _neighbors_stay(graph, own)
        return check_theorem_two(
            self.learner.network_,
            s.threshold_atomic,
            *features,
            neighbors_stay=stay,
            slots_are_nodes=s.slots == "drawn",
        )

    def _count_rematched(self, before: Tensor, now: Tensor) -> int:
        s, levels = self.learner.settings(), len(self.learner.network_.levels)
        num_slots = before.shape[1] // s.dim - (levels - 1)
        above = (s.threshold_node, s.threshold_class)[: levels - 1]
        thresholds = torch.tensor([s.threshold_atomic] * num_slots + list(above), dtype=torch.float64)
        size = max(1, VECTORS_AT_ONCE // len(thresholds))
        pairs = zip(torch.split(before, size), torch.split(now, size), strict=True)
        return sum(int((_cosines(old, new, s.dim) < 1 - thresholds).any(dim=1).sum()) for old, new in pairs)

    def _atomic_numbers(self, answers: _Answers) -> Tensor:
        """Which atomic prototype is in which slot of each node, ``[num_nodes, num_slots]``."""
        network = self.learner.network_
        width = answers.representation.shape[1] - network.dim * (len(network.levels) - 1)
        vectors = answers.representation[:, :width].reshape(-1, network.dim)
        return _numbers(network.atomic_prototypes, vectors).view(len(answers.labels), width // network.dim)


def _neighbors_stay(graph: GraphView, own: Tensor) -> bool:
    """Whether no edge leads from a node in ``own`` to another."""
    is_own = torch.zeros(graph.num_nodes, dtype=torch.bool)
    is_own[own] = True
    source, target = is_own[graph.edge_index]
    return bool((source == target).all())


def _count_touched(before: Tensor, now: Tensor) -> int:
    """Rows that differ in any bit."""
    return int((before.view(torch.int32) != now.view(torch.int32)).any(dim=1).sum())


def _cosines(before: Tensor, now: Tensor, dim: int) -> Tensor:
    """Cosine between the vectors in the same place, ``[n, num_places]``."""
    old, new = (rows.double().view(len(rows), rows.shape[1] // dim, dim) for rows in (before, now))
    lengths: Tensor = torch.linalg.vector_norm(old, dim=2) * torch.linalg.vector_norm(new, dim=2)
    return (old * new).sum(dim=2).div_(lengths)


def _numbers(book: PrototypeBook, vectors: Tensor) -> Tensor:
    """Which prototype each vector, a copy of one, is: no other is within the threshold."""
    return torch.cat([book.match(part)[0] for part in torch.split(vectors, VECTORS_AT_ONCE)])
