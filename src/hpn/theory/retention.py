"""What later tasks change about earlier ones: what is measured, and what is proved.

Theorem 2 states a condition under which nothing changes. Three questions are separate: whether the condition is met,
what happened to every node of every earlier task, and whether predictions are the same to the last bit.
:class:`RetentionStudy` answers all of them after each task. The theorem is about extractors that later tasks train;
it does not apply to a network whose extractors are solved.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hpn.datasets.sparse import select_rows
from hpn.errors import ConfigError
from hpn.nn.hpn.network import PrototypeNetwork
from hpn.streams import GraphView, Query, Stream
from hpn.theory.theorem_two import TheoremTwo, check_theorem_two

if TYPE_CHECKING:
    from hpn.learners.hpn import PaperHPN, SolvedHPN

VECTORS_AT_ONCE = 1 << 14  # matched at once, which bounds the memory

NO_THEOREM = (
    "Theorem 2 does not apply: this network has no block matrix of extractors that tasks share and later tasks train."
)


@dataclass(frozen=True)
class Change:
    """What changed for the nodes of a task until a later one was learned.

    Prototypes have no permanent names, since merging renumbers them. But two prototypes of a level are never within its
    threshold of each other: a match beyond the threshold from the previous one is another prototype. The prototypes of
    a solved network are fixed positions, where every difference is another prototype.
    """

    task: int
    after: int  # the later task
    nodes: int  # all nodes of the earlier task
    touched: int  # nodes whose representation differs in any bit
    rematched: int  # nodes with a prototype beyond its level's threshold from the previous one in its place
    relabelled: int  # nodes whose predicted class differs
    shared: int | None  # nodes with an atomic prototype that the later task uses as well; None for a solved network


@dataclass(frozen=True)
class Proof:
    """Whether the predictions for all nodes of a task are unchanged."""

    task: int
    after: int  # the later task
    before: str  # SHA-256 of log-probabilities and labels when the task was learned
    now: str  # the same after the later task
    is_certified: bool  # whether the hash of everything that the predictions depend on is unchanged

    @property
    def holds(self) -> bool:
        """Whether the predictions are the same to the last bit, and cannot differ."""
        return self.before == self.now and self.is_certified


@dataclass(frozen=True)
class RetentionReport:
    """The result of a study.

    Args:
        retention: ``paper`` or ``certified``.
        theorem: Theorem 2 for each two consecutive tasks, with the extractors after the second; ``None`` where it does
            not apply.
        changes: One per task and later task.
        proofs: Likewise.
    """

    retention: str
    theorem: tuple[TheoremTwo, ...] | None
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
            "theorem": None if self.theorem is None else [entry.to_json() for entry in self.theorem],
            "theorem_note": NO_THEOREM if self.theorem is None else None,
            "changes": [asdict(change) for change in self.changes],
            "proofs": [{**asdict(proof), "holds": proof.holds} for proof in self.proofs],
        }


class _Predictions(NamedTuple):
    """The output of a learner for all nodes of a task at some time."""

    representation: Tensor
    labels: Tensor
    digest: str


class RetentionStudy:
    """Measures what learning changes about earlier tasks, without changing the learner.

    The nodes of a task are all that arrived with it, in a split or not. They are evaluated in the view in which the
    task arrived, with the task given.

    Args:
        learner: The learner.
        stream: The tasks.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.learners import HPN
        >>> from hpn.streams import TaskStream
        >>> stream, learner = TaskStream(load_dataset("digits")), HPN(width=200)
        >>> study = RetentionStudy(learner, stream)
        >>> for index in range(2):
        ...     _ = learner.fit_task(stream.step(index))
        ...     study.after_task(index)
        >>> report = study.report()
        >>> report.is_proved, report.changes[0].touched
        (True, 0)
    """

    def __init__(self, learner: PaperHPN | SolvedHPN, stream: Stream) -> None:
        self.learner = learner
        self.stream = stream
        self._own: list[Tensor] = []
        self._first: list[_Predictions] = []
        self._theorem: list[TheoremTwo] = []
        self._changes: list[Change] = []
        self._proofs: list[Proof] = []

    def after_task(self, index: int) -> None:
        """Evaluate task ``index``, which was just learned, and all earlier ones again.

        Raises:
            ConfigError: If another task is next, or the learner has no representation of the task.
        """
        due = len(self._first)
        if index != due or index >= len(self.stream):
            expected = f"task {due} is next" if due < len(self.stream) else "there is no task left"
            raise ConfigError(f"task {index} is out of order: {expected}; call after_task once per task, in order")
        self._own[index:] = [self._find_own(index)]
        latest = self._evaluate(index)
        network = self._trained_network()
        if network is not None and index > 0:
            self._theorem.append(self._check_theorem(network, index))
        for task, before in enumerate(self._first):
            now = self._evaluate(task)
            touched = rematched = _count_touched(before.representation, now.representation)
            shared = None
            if network is not None:
                rematched = _count_rematched(network, before.representation, now.representation)
                shared = _count_shared(network, now.representation, latest.representation)
            relabelled = int((before.labels != now.labels).sum())
            self._changes.append(Change(task, index, len(now.labels), touched, rematched, relabelled, shared))
            self._proofs.append(Proof(task, index, before.digest, now.digest, self.learner.is_certified(task)))
        self._first.append(latest)

    def report(self) -> RetentionReport:
        """The results so far."""
        return RetentionReport(
            retention=getattr(self.learner, "retention", "certified"),
            theorem=None if self._trained_network() is None else tuple(self._theorem),
            changes=tuple(self._changes),
            proofs=tuple(self._proofs),
        )

    def _trained_network(self) -> PrototypeNetwork | None:
        """The learner's network if its extractors and prototypes are trained."""
        network = getattr(self.learner, "network_", None)
        return network if isinstance(network, PrototypeNetwork) else None

    def _find_own(self, index: int) -> Tensor:
        """The nodes that arrived with a task, as rows of its view."""
        graph = self.stream.step(index).graph
        if index == 0:
            return torch.arange(graph.num_nodes)
        earlier = self.stream.step(index - 1).graph.ids
        return torch.nonzero(~torch.isin(graph.ids, earlier)).flatten()

    def _evaluate(self, task: int) -> _Predictions:
        seen = self.stream.step(task)
        query = Query(seen.graph, self._own[task], seen.classes, task=task)
        representation = self.learner.represent(query)
        if representation is None:
            raise ConfigError(f"the learner has no representation of task {task}; study one with prototypes")
        labels = self.learner.predict(query)
        digest = hashlib.sha256()
        for part in (self.learner.predict_scores(query), labels):
            digest.update(part.contiguous().numpy().tobytes())
        return _Predictions(representation.contiguous(), labels, digest.hexdigest())

    def _check_theorem(self, network: PrototypeNetwork, index: int) -> TheoremTwo:
        features, stay = [], True
        for task in (index - 1, index):
            graph, own = self.stream.step(task).graph, self._own[task]
            features.append(select_rows(graph.x, own))
            stay = stay and _neighbors_stay(graph, own)
        return check_theorem_two(
            network,
            network.atomic_prototypes.threshold,
            *features,
            neighbors_stay=stay,
            slots_are_nodes=getattr(self.learner, "slots", None) == "drawn",
        )


def _neighbors_stay(graph: GraphView, own: Tensor) -> bool:
    """Whether no edge connects a node in ``own`` with another node."""
    is_own = torch.zeros(graph.num_nodes, dtype=torch.bool)
    is_own[own] = True
    source, target = is_own[graph.edge_index]
    return bool((source == target).all())


def _count_touched(before: Tensor, now: Tensor) -> int:
    """Rows that differ in any bit; all rows if their lengths differ."""
    if before.shape != now.shape:
        return len(now)
    return int((before.view(torch.int32) != now.view(torch.int32)).any(dim=1).sum())


def _count_rematched(network: PrototypeNetwork, before: Tensor, now: Tensor) -> int:
    dim, (atomic, *above) = network.dim, (codebook.threshold for codebook in network.codebooks)
    num_slots = before.shape[1] // dim - len(above)
    thresholds = torch.tensor([atomic] * num_slots + above, dtype=torch.float64)
    size = max(1, VECTORS_AT_ONCE // len(thresholds))
    changed = 0
    for parts in zip(torch.split(before, size), torch.split(now, size), strict=True):
        old, new = (rows.double().view(len(rows), -1, dim) for rows in parts)
        cosine = F.cosine_similarity(old, new, dim=2)  # of the vectors in the same place
        changed += int((cosine < 1 - thresholds).any(dim=1).sum())
    return changed


def _count_shared(network: PrototypeNetwork, now: Tensor, latest: Tensor) -> int:
    """Rows with an atomic prototype that a row of ``latest`` has as well."""
    found = torch.isin(_atomic_numbers(network, now), _atomic_numbers(network, latest))
    return int(found.any(dim=1).sum())


def _atomic_numbers(network: PrototypeNetwork, representation: Tensor) -> Tensor:
    """The atomic prototype that each slot holds a copy of, ``[num_nodes, num_slots]``."""
    num_slots = representation.shape[1] // network.dim - (len(network.levels) - 1)
    vectors = representation[:, : num_slots * network.dim].reshape(-1, network.dim)
    parts = torch.split(vectors, VECTORS_AT_ONCE)
    numbers = torch.cat([network.atomic_prototypes.match(part)[0] for part in parts])
    return numbers.view(len(representation), num_slots)
