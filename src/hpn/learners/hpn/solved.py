"""The prototype network that is solved from sums: preset ``best``.

Prototypes on three levels over extractors in closed form. Without a task, predictions use sums over all learned nodes
(:mod:`~hpn.learners.hpn.memory`): they do not depend on the order of tasks or on how nodes were grouped into them.
With the task given, they use the task's own extractor (:mod:`~hpn.learners.hpn.task_extractor`), frozen when it was
learned, so that predictions for the same input stay bit-identical. One model predicts both ways.

Departures from the paper: extractors are solved instead of trained, banks of evidence replace a pool of extractors,
prototypes are angles of a lattice, and the classifier sums evidence. docs/explanation/network.md gives the
reasons.
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
from hpn.learners.hpn.evidence import BANKS, Extractors, Plane
from hpn.learners.hpn.memory import Memory
from hpn.learners.hpn.partitions import Labelled
from hpn.learners.hpn.presets import HPN, Count, Distance, SolvedSettings
from hpn.learners.hpn.statistics import LAYER_HOPS, MEAN_HOPS
from hpn.learners.hpn.task_extractor import TaskExtractor, choose_extractor
from hpn.nn.encoder import ROWS
from hpn.nn.fold import cut, run_threads
from hpn.params import LogRange, OneOf, SearchChoice
from hpn.streams import GraphView, Query, Step
from hpn.theory.memory import LEVELS, MemoryBound

TASK_WEIGHT = 2.0
"""Weight of the evidence of a task's own extractor; the predicted class does not depend on it."""

LOCK = RLock()
"""Held while evidence is computed, because caches of a view and the weights of banks are shared."""

Name = int | str
AnyExtractor = TaskExtractor | Extractors | None
"""The extractor of a task; a single class has none."""
KINDS: dict[str, type[TaskExtractor | Extractors]] = {kind.__name__: kind for kind in (TaskExtractor, Extractors)}


class Evidence(NamedTuple):
    """Evidence of each bank about some nodes."""

    classes: list[int]
    extractors: AnyExtractor
    banks: tuple[str, ...]  # names
    values: np.ndarray  # centred and scaled [num_banks, n, C]
    weights: np.ndarray  # [num_banks]

    def arrange(self, classes: list[int]) -> Evidence:
        """The same with the classes in another order."""
        if classes == self.classes:
            return self
        at = [self.classes.index(label) for label in classes]
        return self._replace(classes=classes, values=self.values[:, :, at])


@dataclass(frozen=True, eq=False)
class TaskPart:
    """Everything that predictions with a task given depend on, frozen when the task was learned.

    The extractor is the task's own one. If the task was learned in several fits, it is the pooled extractors after the
    last one.
    """

    classes: list[int]
    extractor: AnyExtractor
    certificate: str = ""  # hash of both

    def state(self) -> dict[str, Any]:
        """The extractor, as tensors and JSON values."""
        return {} if self.extractor is None else self.extractor.state()

    @property
    def num_stored(self) -> int:
        """Numbers in the tensors of :meth:`state`."""
        return sum(value.numel() for value in self.state().values() if isinstance(value, Tensor))

    def digest(self) -> str:
        """Hash of every number that predictions are computed from."""
        digest = hashlib.sha256(repr(self.classes).encode())
        for key, value in sorted(self.state().items()):
            digest.update(key.encode())
            digest.update(value.numpy().tobytes() if isinstance(value, Tensor) else repr(value).encode())
        return digest.hexdigest()


class SolvedNetwork:
    """A prototype network over sums: learns labelled nodes of graphs, with or without tasks, in any order.

    The model behind the learner ``hpn`` (preset ``best``) and :class:`hpn.HPNClassifier`. ``memory`` serves predictions
    without a task, ``tasks`` those with a task given, by name. Both are replaced, never changed.
    """

    def __init__(self, settings: SolvedSettings, num_features: int, seed: int) -> None:
        self.settings = settings
        self.memory = Memory.empty(settings, num_features, seed)
        self.tasks: dict[Name, TaskPart] = {}
        self.planes = {level: Plane(getattr(settings, f"threshold_{level}")) for level in LEVELS}

    def learn(self, view: GraphView, train: Labelled, val: Labelled, task: Name | None = None) -> None:
        """Learn nodes of a graph; ``val`` may be empty."""
        # The memory learns first, because it smooths the columns that the task needs.
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
        """The extractor of a task, with the atomic prototypes of its training nodes."""
        is_known = np.isin(val[1], classes)
        places = [np.searchsorted(classes, y) for y in (train[1], val[1][is_known])]
        extractor = choose_extractor(view, (train[0], places[0]), (val[0][is_known], places[1]), len(classes))
        positions = np.unique(self.planes["atomic"].match(extractor.evidence(view, train[0])))
        return replace(extractor, positions=positions)

    def is_certified(self, task: Name) -> bool:
        """Whether everything that predictions with ``task`` given depend on is as it was when it was learned."""
        return task in self.tasks and self.tasks[task].digest() == self.tasks[task].certificate

    def find_evidence(self, view: GraphView, nodes: np.ndarray, task: Name | None = None) -> Evidence:
        """Evidence of each bank for the classes of a task, or for all, in order of their numbers."""
        with LOCK:
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
            total = np.zeros(evidence.values[0, rows].shape)
            for weight, part in zip(evidence.weights, evidence.values[:, rows], strict=True):
                total += weight * plane.snap(part)  # the same sum per node, whatever the other query nodes
            return total

        return np.concatenate(run_threads(add, cut(evidence.values.shape[1], ROWS)))

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
        angles = [atomic.angle(atomic.match(part)) for part in evidence.values]
        angles += [self.planes[level].angle(position) for level, position in upper.items()]
        return np.asarray(np.sin(np.concatenate(angles, axis=1)))

    @property
    def prototype_counts(self) -> dict[str, int]:
        """Prototypes of each level: those of the average node of a class, and of the nodes of tasks."""
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
        """Everything, as tensors and JSON values."""
        tasks, extractors = [], {}
        for at, (name, part) in enumerate(self.tasks.items()):
            kind = None if part.extractor is None else type(part.extractor).__name__
            tasks.append({"name": name, "classes": part.classes, "kind": kind, "certificate": part.certificate})
            if part.extractor is not None:
                extractors[str(at)] = part.state()
        return {"memory": self.memory.state(), "tasks": tasks, "extractors": extractors}

    def load(self, state: dict[str, Any]) -> None:
        """Load the result of :meth:`state`."""
        tasks: dict[Name, TaskPart] = {}
        for at, entry in enumerate(state["tasks"]):
            kind = None if entry["kind"] is None else KINDS[entry["kind"]]
            extractor = None if kind is None else kind.restore(state["extractors"][str(at)])
            tasks[entry["name"]] = TaskPart(list(entry["classes"]), extractor, entry["certificate"])
        self.memory, self.tasks = self.memory.load(state["memory"]), tasks


@dataclass(kw_only=True, eq=False, repr=False)
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
        width: Random features of each bank of evidence; by default chosen by the number of nodes of the first graph,
            see :meth:`SolvedSettings.fit_to`.
        strength: Regularisation of least squares, as a multiple of the mean squared length of encoded training nodes.
        balance: Weight of rare classes; with 0 every node has the same weight, with 1 every class.
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

    preset: Literal["best"] = "best"
    width: Count | None = None
    strength: Annotated[float, Field(gt=0)] = 0.1
    balance: Annotated[float, Field(ge=0, le=1)] = 0.75
    threshold_atomic: Distance = 0.003
    threshold_node: Distance = 0.01
    threshold_class: Distance = 0.1

    def settings(self) -> SolvedSettings:
        """The hyper-parameters of the network."""
        return SolvedSettings(**{name: getattr(self, name) for name in SolvedSettings.__dataclass_fields__})

    def is_certified(self, task: int) -> bool:
        """Whether everything that predictions with ``task`` given depend on is as it was when it was learned.

        Then predictions for the same input are bit-identical. When the graph around a node grows, its input changes,
        and so may its prediction.
        """
        return self.network_.is_certified(task)

    @property
    def certificates_(self) -> list[str]:
        """Hash, per task, of everything its predictions depended on when it was learned."""
        return [part.certificate for part in self.network_.tasks.values()]

    @property
    def codebooks(self) -> dict[str, Plane]:
        """The prototypes of each level, which :func:`hpn.check_run` examines."""
        return self.network_.planes

    def _learn(self, step: Step, observer: Observer) -> None:
        if step.index == 0:
            settings = self.settings().fit_to(step.graph.num_nodes)
            self.network_ = SolvedNetwork(settings, self.num_features_, self.seed)
        train, val = (step.train.numpy(), step.train_y.numpy()), (step.val.numpy(), step.val_y.numpy())
        self.network_.learn(step.graph, train, val, step.index if step.scenario == "task" else None)
        # Every view of a stream has remembered nodes.
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
        """The maximum number of prototypes of each level on any stream (Theorem 1, exact in a plane)."""
        return self.memory_bound.prototypes

    @property
    def memory_bound(self) -> MemoryBound:
        """Theorem 1 for these hyper-parameters: one plane for all banks, classes and tasks."""
        thresholds = (self.threshold_atomic, self.threshold_node, self.threshold_class)
        return MemoryBound(2, thresholds, 1, in_one_set=True)

    @property
    def num_stored(self) -> int:
        """Numbers that must be kept between tasks, counted without computing the state."""
        return self.network_.memory.num_stored + sum(part.num_stored for part in self.network_.tasks.values())

    def _state(self) -> State:
        return {"network": self.network_.state(), "width": self.network_.settings.width}

    def _load_state(self, state: State) -> None:
        settings = replace(self.settings(), width=state["width"])
        self.network_ = SolvedNetwork(settings, self.num_features_, self.seed)
        self.network_.load(state["network"])
