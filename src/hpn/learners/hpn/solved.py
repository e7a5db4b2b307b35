"""The prototype network that is solved from sums: preset ``best``.

Prototypes on three levels over extractors in closed form. Without a task, answers are made of sums over all
that was learned (:mod:`~hpn.learners.hpn.memory`): they do not depend on the order of tasks or on how nodes
were grouped into them. With the task given, each task has an extractor of its own
(:mod:`~hpn.learners.hpn.task_extractor`), frozen when it was learned, so that the same input is answered
with the same bits for ever. One model answers both ways.

Departures from the paper: extractors are solved and not trained, banks of evidence take the place of a pool
of extractors, prototypes are angles of a lattice, and the classifier adds up evidence.
docs/explanation/network.md has the reasons.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import RLock
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from hpn.learners.base import Observer, Progress, State
from hpn.learners.hpn.evidence import BANKS, LAYER_HOPS, MEAN_HOPS, Extractors, Plane
from hpn.learners.hpn.memory import Memory
from hpn.learners.hpn.partitions import Labelled
from hpn.learners.hpn.presets import HPN, Count, Distance, SolvedSettings
from hpn.learners.hpn.task_extractor import TaskExtractor, choose_extractor
from hpn.nn.encoder import ROWS
from hpn.nn.fold import cut, run_threads
from hpn.params import LogRange, OneOf, SearchChoice
from hpn.streams import GraphView, Query, Step
from hpn.theory.memory import LEVELS, MemoryBound

TASK_WEIGHT = 2.0
"""What the evidence of a task's own extractor weighs; the answer does not depend on it."""

ASKED = RLock()
"""Held while evidence is found, since what is kept of a view and the weights of banks are shared."""

Name = int | str
AnyExtractor = TaskExtractor | Extractors | None
"""Of a task; there is none for a single class."""
KINDS: dict[str, type[TaskExtractor | Extractors]] = {kind.__name__: kind for kind in (TaskExtractor, Extractors)}


class Evidence(NamedTuple):
    """Evidence of each bank about some nodes.

    Args:
        classes: Class numbers.
        extractors: What found it.
        banks: What each bank looks at.
        found: Centred and scaled ``[num_banks, n, C]``.
        weights: What each bank weighs ``[num_banks]``.
    """

    classes: list[int]
    extractors: AnyExtractor
    banks: tuple[str, ...]
    found: np.ndarray
    weights: np.ndarray

    def arrange(self, classes: list[int]) -> Evidence:
        """The same with the classes in another order."""
        if classes == self.classes:
            return self
        at = [self.classes.index(label) for label in classes]
        return self._replace(classes=classes, found=self.found[:, :, at])


@dataclass(frozen=True, eq=False)
class TaskPart:
    """What answers with a task given are made of, frozen when the task was learned.

    Args:
        classes: Classes of the task.
        extractor: Its own extractor; if it was learned in several fits, the pooled extractors as they were
            after the last one; ``None`` for a single class.
        certificate: Hash of both.
    """

    classes: list[int]
    extractor: AnyExtractor
    certificate: str = ""

    def state(self) -> dict[str, Any]:
        """The extractor, as tensors and what JSON can hold."""
        return {} if self.extractor is None else self.extractor.state()

    @property
    def num_stored(self) -> int:
        """Numbers in the tensors of :meth:`state`."""
        return sum(value.numel() for value in self.state().values() if isinstance(value, Tensor))

    def digest(self) -> str:
        """Hash of every number that answers are computed from."""
        digest = hashlib.sha256(repr(self.classes).encode())
        for key, value in sorted(self.state().items()):
            digest.update(key.encode())
            digest.update(value.numpy().tobytes() if isinstance(value, Tensor) else repr(value).encode())
        return digest.hexdigest()


class SolvedNetwork:
    """A prototype network over sums: learns labelled nodes of graphs, with or without tasks, in any order.

    The model behind the learner ``hpn`` (preset ``best``) and :class:`hpn.HPNClassifier`.

    Args:
        settings: Hyper-parameters.
        num_features: Features of a node.
        seed: Draws the random layers.

    Attributes:
        memory: What answers without a task are made of.
        tasks: What answers with a task given are made of, by name. Both are replaced and never changed.
    """

    def __init__(self, settings: SolvedSettings, num_features: int, seed: int) -> None:
        self.settings = settings
        self.memory = Memory.empty(settings, num_features, seed)
        self.tasks: dict[Name, TaskPart] = {}
        self.planes = {level: Plane(getattr(settings, f"threshold_{level}")) for level in LEVELS}

    def learn(self, view: GraphView, train: Labelled, val: Labelled, task: Name | None = None) -> None:
        """Learn nodes of a graph; ``val`` may be empty."""
        # What is learned without a task comes first, while columns are smoothed with means.
        memory, tasks = self.memory.learn(view, train, val), self.tasks
        if task is not None:
            known = memory.counts.keys() & tasks[task].classes if task in tasks else set()
            classes = sorted(known.union(train[1].tolist()))
            extractor: AnyExtractor = None
            if len(classes) > 1 and task in tasks:
                extractor = memory.extractors(view).restrict(classes)
            elif len(classes) > 1:
                extractor = self._choose_extractor(view, train, val, classes)
            part = TaskPart(classes, extractor)
            tasks = {**tasks, task: replace(part, certificate=part.digest())}
        self.memory, self.tasks = memory, tasks

    def _choose_extractor(self, view: GraphView, train: Labelled, val: Labelled, classes: list[int]) -> TaskExtractor:
        """The extractor of a task, and the atomic prototypes that its nodes are matched to."""
        is_known = np.isin(val[1], classes)
        places = [np.searchsorted(classes, y) for y in (train[1], val[1][is_known])]
        extractor = choose_extractor(view, (train[0], places[0]), (val[0][is_known], places[1]), len(classes))
        positions = np.unique(self.planes["atomic"].match(extractor.evidence(view, train[0])))
        return replace(extractor, positions=positions)

    def is_certified(self, task: Name) -> bool:
        """Whether answers with ``task`` given are frozen, and made of what they were when it was learned."""
        return task in self.tasks and self.tasks[task].digest() == self.tasks[task].certificate

    def find_evidence(self, view: GraphView, nodes: np.ndarray, task: Name | None = None) -> Evidence:
        """Evidence of each bank for the classes of a task, or for all, in order of their numbers."""
        with ASKED:
            if task not in self.tasks:
                pooled = self.memory.extractors(view)
                part = TaskPart(pooled.classes, pooled)
            else:
                part = self.tasks[task]
            classes, extractor = part.classes, part.extractor
            if extractor is None:
                found = np.zeros((1, len(nodes), len(classes)))
                return Evidence(classes, None, ("nothing",), found, np.ones(1))
            found = extractor.evidence(view, nodes)
            if isinstance(extractor, Extractors):
                return Evidence(classes, extractor, BANKS, found, extractor.weights)
            return Evidence(classes, extractor, (extractor.describe(),), found[None], np.array([TASK_WEIGHT]))

    def combine(self, evidence: Evidence) -> np.ndarray:
        """Logits ``[n, C]``: the weighted evidence of the matched atomic prototypes."""
        plane = self.planes["atomic"]

        def add(rows: slice) -> np.ndarray:
            total = np.zeros(evidence.found[0, rows].shape)
            for weight, part in zip(evidence.weights, evidence.found[:, rows], strict=True):
                total += weight * plane.snap(part)  # node by node the same sum, whatever else is asked about
            return total

        return np.concatenate(run_threads(add, cut(evidence.found.shape[1], ROWS)))

    def match_upper(self, evidence: Evidence) -> dict[str, np.ndarray]:
        """Positions of the node- and class-level prototypes for each class ``[n, C]``."""
        combined = self.combine(evidence) / max(float(evidence.weights.sum()), 1e-9)
        node = self.planes["node"].match(combined)
        return {"node": node, "class": self.planes["class"].match(self.planes["node"].evidence(node))}

    def represent(self, evidence: Evidence) -> np.ndarray:
        """Matched prototypes of all levels for each class: their coordinate along the evidence.

        Shapes:
            - result: ``[n, (num_banks + 2) * C]``
        """
        atomic, upper = self.planes["atomic"], self.match_upper(evidence)
        angles = [atomic.angle(atomic.match(part)) for part in evidence.found]
        angles += [self.planes[level].angle(position) for level, position in upper.items()]
        return np.asarray(np.sin(np.concatenate(angles, axis=1)))

    @property
    def prototype_counts(self) -> dict[str, int]:
        """Prototypes of each level: positions that the average node of a class, or a task's nodes, need."""
        pooled = self.memory.typical_evidence()
        own = (part.extractor for part in self.tasks.values())
        atomic = self.planes["atomic"]
        found = [atomic.evidence(part.positions) for part in own if isinstance(part, TaskExtractor)]
        upper = [np.mean(pooled, axis=0)] if pooled else []
        counts = {}
        for level, plane in self.planes.items():
            used = [plane.match(part).ravel() for part in (pooled if level == "atomic" else upper) + found]
            counts[level] = len(np.unique(np.concatenate(used))) if used else 0
        return counts

    @property
    def num_parameters(self) -> int:
        """Solved extractors of the pooled banks and of the tasks, weights of banks, and prototypes."""
        pooled = len(LAYER_HOPS) * (self.memory.layer.width + 1) + len(MEAN_HOPS) * self.memory.num_features
        own = sum(part.num_stored for part in self.tasks.values())
        prototypes = 2 * sum(self.prototype_counts.values())
        return len(self.memory.counts) * pooled + 2 * len(BANKS) + own + prototypes

    def state(self) -> dict[str, Any]:
        """Everything, as tensors and what JSON can hold."""
        tasks = [
            {
                "name": name,
                "classes": part.classes,
                "kind": None if part.extractor is None else type(part.extractor).__name__,
                "certificate": part.certificate,
            }
            for name, part in self.tasks.items()
        ]
        parts = enumerate(self.tasks.values())
        own = {str(at): part.state() for at, part in parts if part.extractor is not None}
        return {"memory": self.memory.state(), "tasks": tasks, "extractors": own}

    def load(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        tasks: dict[Name, TaskPart] = {}
        for at, entry in enumerate(state["tasks"]):
            kind = None if entry["kind"] is None else KINDS[entry["kind"]]
            extractor = None if kind is None else kind.restore(state["extractors"][str(at)])
            tasks[entry["name"]] = TaskPart(list(entry["classes"]), extractor, entry["certificate"])
        self.memory, self.tasks = self.memory.load(state["memory"]), tasks


class SolvedHPN(HPN):
    """Prototypes on three levels over extractors that are solved from sums.

    ================================  ================================================================
    paper                             here
    ================================  ================================================================
    AFE node, AFE struct              banks of :class:`~hpn.learners.hpn.evidence.Extractors`
    selection of extractors           ``weights`` of the banks, by remembered nodes
    P_A, P_N, P_C; t_A, t_N, t_C      ``planes`` of :class:`SolvedNetwork`; ``threshold_*``
    ================================  ================================================================

    Args:
        preset: ``best``.
        width: Random features of each bank of evidence; by default chosen by the number of nodes of the graph
            that is learned first, see :meth:`SolvedSettings.fit_to`.
        strength: Regularisation of least squares, as a multiple of the mean squared length of the encoded
            training nodes.
        balance: How much rare classes weigh; with 0 every node weighs the same, with 1 every class.
        threshold_atomic: Cosine distance t_A within which evidence belongs to an atomic prototype.
        threshold_node: The same on the node level, t_N.
        threshold_class: The same on the class level, t_C.
        seed: Draws random features.

    Attributes:
        network_: The network.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.streams import TaskStream
        >>> stream = TaskStream(load_dataset("digits"))
        >>> learner = SolvedHPN(width=500).fit_task(stream.step(0)).fit_task(stream.step(1))
        >>> query, key = stream.query(step=0, after=1, evaluate="oracle")
        >>> (learner.predict(query) == key.y).float().mean() > 0.95
        tensor(True)
        >>> learner.is_certified(0)
        True
    """

    folds: ClassVar[bool] = True
    search_space: ClassVar[Mapping[str, SearchChoice]] = {
        "strength": LogRange(0.01, 1.0),
        "balance": OneOf(0.0, 0.5, 0.75, 1.0),
    }

    network_: SolvedNetwork

    def __init__(
        self,
        *,
        preset: Literal["best"] = "best",
        width: Count | None = None,
        strength: Annotated[float, Field(gt=0)] = 0.1,
        balance: Annotated[float, Field(ge=0, le=1)] = 0.75,
        threshold_atomic: Distance = 0.003,
        threshold_node: Distance = 0.01,
        threshold_class: Distance = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.preset = preset
        self.width = width
        self.strength = strength
        self.balance = balance
        self.threshold_atomic = threshold_atomic
        self.threshold_node = threshold_node
        self.threshold_class = threshold_class

    def settings(self) -> SolvedSettings:
        """What the network is made with."""
        return SolvedSettings(**{name: getattr(self, name) for name in SolvedSettings.__dataclass_fields__})

    def is_certified(self, task: int) -> bool:
        """Whether all that answers with ``task`` given are made of is as it was when it was learned.

        Then the same input is answered with the same bits. When the graph around a node grows, its input
        changes, and so may the answer.
        """
        return self.network_.is_certified(task)

    @property
    def certificates_(self) -> list[str]:
        """Hash of what answers with each task given are made of, as of when it was learned."""
        return [part.certificate for part in self.network_.tasks.values()]

    @property
    def codebooks(self) -> dict[str, Plane]:
        """The prototypes of each level, which :func:`hpn.check_run` looks at."""
        return self.network_.planes

    def _learn(self, step: Step, observer: Observer) -> None:
        if step.index == 0:
            settings = self.settings().fit_to(step.graph.num_nodes)
            self.network_ = SolvedNetwork(settings, self.num_features_, self.seed)
        train, val = (step.train.numpy(), step.train_y.numpy()), (step.val.numpy(), step.val_y.numpy())
        self.network_.learn(step.graph, train, val, step.index if step.scenario == "task" else None)
        # Every view of a stream has nodes to weigh banks by.
        self.network_.memory = self.network_.memory.without_last()
        self.in_progress_ = False
        self._epoch_done(observer, Progress(step.index, 1, 1))

    def _scores(self, query: Query) -> Tensor:
        evidence = self.network_.find_evidence(query.graph, query.nodes.numpy(), query.task)
        logits = self.network_.combine(evidence)
        at = [evidence.classes.index(label) for label in query.classes]
        return torch.from_numpy(logits[:, at]).log_softmax(dim=1).float()

    def represent(self, query: Query) -> Tensor | None:
        """The prototypes of all levels, side by side; see :meth:`SolvedNetwork.represent`."""
        evidence = self.network_.find_evidence(query.graph, query.nodes.numpy(), query.task)
        return torch.from_numpy(self.network_.represent(evidence)).float()

    @property
    def num_parameters(self) -> int:
        """Solved extractors, weights of banks, and prototypes."""
        return self.network_.num_parameters

    @property
    def prototype_counts(self) -> dict[str, int]:
        """Prototypes of each level."""
        return self.network_.prototype_counts

    @property
    def prototype_bounds(self) -> dict[str, int]:
        """The most prototypes of each level that any stream could lead to (Theorem 1, exact in a plane)."""
        return self.memory_bound.prototypes

    @property
    def memory_bound(self) -> MemoryBound:
        """Theorem 1 for these hyper-parameters: one plane for all banks, classes and tasks."""
        s = self.settings()
        thresholds = (s.threshold_atomic, s.threshold_node, s.threshold_class)
        return MemoryBound(2, thresholds, 1, in_one_set=True)

    @property
    def num_stored(self) -> int:
        """Numbers that must be kept between tasks; counted without writing them out."""
        return self.network_.memory.num_stored + sum(part.num_stored for part in self.network_.tasks.values())

    def _state(self) -> State:
        return {"network": self.network_.state(), "width": self.network_.settings.width}

    def _load_state(self, state: State) -> None:
        settings = replace(self.settings(), width=state["width"])
        self.network_ = SolvedNetwork(settings, self.num_features_, self.seed)
        self.network_.load(state["network"])
