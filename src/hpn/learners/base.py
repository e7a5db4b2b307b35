"""The contract of every learner: learn a task, answer a query, save and load all state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from hpn.errors import ConfigError, DataError, NotFittedError
from hpn.nn.device import CPU, choose_device, generator_states, own_generator, to_cpu
from hpn.params import SearchChoice, declared_params, resolve_params
from hpn.streams import Classes, Query, Scenario, Step

State = dict[str, Any]

_SHARED = ("tasks", "scenario", "num_features", "in_progress", "rng")
"""What every learner has in its state, random generators among it."""


@dataclass(frozen=True)
class Progress:
    """How far a task is: ``done`` of ``total`` epochs, or whatever a learner counts."""

    task: int
    done: int
    total: int
    metrics: Mapping[str, float] = field(default_factory=dict)


class Observer:
    """Watches a learner: progress bars, logs and checkpoints are observers. It never changes learning."""

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        """Called when an epoch is finished and the learner's ``state_dict`` is complete."""


@dataclass(kw_only=True, eq=False, repr=False)
class Learner(ABC):
    """Base class of all learners: learns tasks one after another and answers queries.

    A subclass has a keyword-only constructor that only stores its arguments (it is the only list of
    hyper-parameters, ranges included), keeps what it learns in attributes ending in ``_``, and implements two
    hooks: :meth:`_learn` and :meth:`_scores`. One that is trained in epochs reports each with
    :meth:`_epoch_done`, so that it can be resumed from there. ``examples/own_learner.py`` is a complete one.

    Randomness comes from a generator of the learner's own: a fit neither reads nor moves PyTorch's
    global one.

    Tasks, queries, predictions and ``state_dict`` are on the CPU; a learner moves what it needs to its device.
    The device is not a hyper-parameter: what was learned on one can be resumed on another. A resumed fit equals
    an uninterrupted one bit for bit on the CPU, and elsewhere as far as operations are deterministic.

    Attributes:
        device: Where it computes; see :meth:`to`.
        tasks_: Classes of each step learned so far, in order.
        scenario_: ``task`` or ``class``.
        num_features_: Features per node.
        in_progress_: Whether the last step is only partly learned (between two epochs).
    """

    sees_past: ClassVar[bool] = False
    """Whether earlier tasks are shown again: joint training, which is not continual learning."""

    needs_tasks: ClassVar[bool] = False
    """Whether every step must be a task, with classes that no other step has."""

    answers_ahead: ClassVar[bool] = False
    """Whether it predicts for tasks that it has not learned, if they are given: one head for all tasks."""

    uses_device: ClassVar[bool] = True
    """Whether it computes on the device that it is sent to; otherwise it stays on the CPU."""

    search_space: ClassVar[Mapping[str, SearchChoice]] = {}
    """What ``hpn tune`` searches, by hyper-parameter."""

    tuned_for: ClassVar[Literal["remembering", "learning"]] = "remembering"
    """What ``hpn tune`` chooses by: accuracy on all tasks after the last one, or on each as it is learned."""

    device = CPU

    seed: int = 0

    @classmethod
    def variant(cls, params: Mapping[str, Any]) -> type[Learner]:  # noqa: ARG003
        """The class that some hyper-parameters are for, where a class stands for several."""
        return cls

    def get_params(self) -> dict[str, Any]:
        """Hyper-parameters by name."""
        return {name: getattr(self, name) for name in declared_params(type(self))}

    def effective_params(self) -> dict[str, Any]:
        """Hyper-parameters by name, seed aside, with the values that take effect."""
        return {name: value for name, value in self.get_params().items() if name != "seed"}

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({params})"

    def to(self, device: str | torch.device) -> Learner:
        """Compute on ``device`` from now on; what has been learned moves there.

        Args:
            device: A device, or a word that :func:`hpn.nn.device.choose_device` takes.

        Raises:
            ConfigError: If there is no such device.
        """
        chosen = choose_device(device) if isinstance(device, str) else device
        if self.uses_device and chosen != self.device:
            state = self.state_dict()
            self.device = chosen
            self.load_state_dict(state)
        return self

    @property
    def classes_(self) -> Classes:
        """Every class seen so far, in order of arrival."""
        return tuple(dict.fromkeys(label for task in self.tasks_ for label in task))

    def fit_task(self, step: Step, observer: Observer | None = None) -> Learner:
        """Learn the next step of a stream, or resume one whose state was loaded between two epochs.

        Raises:
            ConfigError: If a hyper-parameter is out of range, the step is not the next one, or it is not a
                task and the learner needs tasks.
            DataError: If its nodes have other features than those of earlier steps.
        """
        if not hasattr(self, "tasks_"):
            resolve_params(type(self), self.get_params(), owner=type(self).__name__)
        self._arrive(step)
        observer, self._has_reported = observer or Observer(), False
        states = getattr(self, "rng_", {})
        with torch.random.fork_rng(devices=[]), own_generator(self.device, self.seed, states):
            if CPU.type in states:
                torch.set_rng_state(states[CPU.type])
            else:
                torch.default_generator.manual_seed(self.seed)
            self._learn(step, observer)
            self.in_progress_ = False
            self._keep_random()
            if not self._has_reported:
                self._epoch_done(observer, Progress(step.index, 1, 1))
        return self

    def predict(self, query: Query) -> Tensor:
        """Answer a query with one class number per node, always one of ``query.classes``."""
        scores = self.predict_scores(query)
        if query.grouped:
            scores = self._restrict_to_likeliest_task(scores, query)
        return torch.tensor(query.classes, device=CPU)[scores.argmax(dim=1)]

    @torch.no_grad()
    def predict_scores(self, query: Query) -> Tensor:
        """Log-probability of each of ``query.classes`` for each query node.

        Shapes:
            - result: ``[len(query.nodes), len(query.classes)]``

        Raises:
            NotFittedError: If no task was learned yet.
            DataError: If the nodes have other features than those learned from.
        """
        if not getattr(self, "tasks_", None):
            raise NotFittedError(f"{type(self).__name__} has learned no task yet; call fit_task first")
        if query.graph.num_features != self.num_features_:
            raise DataError(
                f"nodes have {query.graph.num_features} features, but {self.num_features_} were learned from"
            )
        scores: Any = self._scores(query)
        shape = (len(query.nodes), len(query.classes))
        if not isinstance(scores, Tensor) or scores.shape != shape:
            found = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise ConfigError(
                f"{type(self).__name__}._scores should return a tensor of shape {shape}, nodes by classes, got {found}"
            )
        return scores.cpu()

    def state_dict(self) -> State:
        """Everything learned: nested dictionaries of CPU tensors, numbers, strings and lists of those."""
        if not hasattr(self, "tasks_"):
            return {}
        shared = {name: getattr(self, f"{name}_") for name in _SHARED}
        return {**to_cpu({**shared, **self._state()}), "tasks": [list(task) for task in self.tasks_]}

    def load_state_dict(self, state: State) -> Learner:
        """Take over what another learner of the same hyper-parameters has learned, on whatever device."""
        if state:
            if not isinstance(state["rng"], Mapping):
                raise ValueError("rng should hold the state of each random generator by kind of device")
            for name in _SHARED:
                setattr(self, f"{name}_", copy_state(state[name], CPU))
            self.tasks_: list[Classes] = [tuple(task) for task in state["tasks"]]
            with torch.random.fork_rng(devices=[]):  # a network that is made again draws weights, then overwritten
                self._load_state(state)
        return self

    @property
    def num_parameters(self) -> int:
        """Numbers that must be kept to answer queries after the tasks so far; by default all that is learned."""
        return self.num_stored

    @property
    def num_stored(self) -> int:
        """Numbers that must be kept between tasks: all entries of all tensors learned.

        One rule for every learner: weights, importances, buffers and prototypes alike. The random
        generator's state is left out.
        """
        return _count_entries(self._state())

    @property
    def prototype_counts(self) -> dict[str, int] | None:
        """Prototypes of each level, for a learner that has any."""
        return None

    @property
    def prototype_bounds(self) -> dict[str, int] | None:
        """The most prototypes of each level that any stream could lead to."""
        return None

    @property
    def parameter_bound(self) -> int | None:
        """The most that ``num_parameters`` could come to, for a learner that has such a bound."""
        return None

    def represent(self, query: Query) -> Tensor | None:
        """A representation of each query node, one row per node; ``None`` if the learner has none."""
        return None

    @abstractmethod
    def _learn(self, step: Step, observer: Observer) -> None:
        """Learn ``step``, the last of ``tasks_``; under the learner's own random generator."""

    @abstractmethod
    def _scores(self, query: Query) -> Tensor:
        """Log-probabilities of ``query.classes``; changes nothing, random generators included."""

    def _state(self) -> State:
        """The learner's part of ``state_dict``, on any device; by default all attributes that end in ``_``.

        They must be tensors, numbers, text, or lists and dictionaries of these. Of a network, its ``state_dict``
        is saved, which a subclass must load by itself. ``None`` is not saved.
        """
        own = {name[:-1]: value for name, value in vars(self).items() if name.endswith("_")}
        networks = [name for name, value in own.items() if isinstance(value, torch.nn.Module)]
        if networks and type(self)._load_state is Learner._load_state:
            name = networks[0]
            raise ConfigError(
                f"{type(self).__name__} has the network {name}_, but not how to load it: define _load_state(state), "
                f"which makes the network again and loads state[{name!r}] into it"
            )
        return {
            name: value.state_dict() if isinstance(value, torch.nn.Module) else value
            for name, value in own.items()
            if name not in _SHARED and value is not None
        }

    def _load_state(self, state: State) -> None:
        """Take over what ``_state`` returned, which is on the CPU by now, to the learner's device."""
        for name, value in state.items():
            if name not in _SHARED:
                setattr(self, f"{name}_", copy_state(value, self.device))

    @property
    def _has_shared_head(self) -> bool:
        """Whether a column of the head means another class in every task."""
        return self.scenario_ == "task"

    def _columns(self, classes: Classes) -> list[int]:
        """Columns of the head that stand for ``classes``.

        In a shared head, a column means the class at that position of the task at hand; otherwise every
        class has a column of its own, in order of arrival.
        """
        if not self._has_shared_head:
            return self._positions(classes)
        for task in self.tasks_:
            if set(classes) <= set(task):
                return [task.index(label) for label in classes]
        raise ConfigError("a head shared by all tasks cannot answer unless the task is given")

    def _positions(self, classes: Classes) -> list[int]:
        """Positions of some classes in order of arrival."""
        position = {label: at for at, label in enumerate(self.classes_)}
        return [position[label] for label in classes]

    def _epoch_done(self, observer: Observer, progress: Progress) -> None:
        """Notify the observer, with the random state as it is now."""
        self._keep_random()
        self._has_reported = True
        observer.after_epoch(self, progress)

    def _keep_random(self) -> None:
        self.rng_: dict[str, Tensor] = {CPU.type: torch.get_rng_state(), **generator_states(self.device)}

    def _arrive(self, step: Step) -> None:
        known = getattr(self, "tasks_", [])
        if known and self.in_progress_ and step.index == len(known) - 1:
            return  # it is resumed
        if step.index != len(known):
            raise ConfigError(f"expected task {len(known)} next, got task {step.index}")
        if known and step.graph.num_features != self.num_features_:
            raise DataError(
                f"task {step.index} has {step.graph.num_features} features per node, "
                f"earlier tasks had {self.num_features_}"
            )
        if self.needs_tasks and not step.is_task:
            raise ConfigError(f"{type(self).__name__} needs tasks: steps with classes that no other step has")
        repeated = {label for earlier in known for label in earlier}.intersection(step.classes)
        if repeated and step.is_task:
            raise ConfigError(f"task {step.index} repeats class {min(repeated)} of an earlier task")
        if not known:
            self.scenario_: Scenario = step.scenario
            self.num_features_: int = step.graph.num_features
        self.tasks_ = [*known, step.classes]
        self.in_progress_ = True

    def _restrict_to_likeliest_task(self, scores: Tensor, query: Query) -> Tensor:
        r"""Keep the classes of the task that makes the group likeliest.

        .. math:: \arg\max_t \sum_v \log \sum_{c \in t} p(c \mid v)
        """
        position = {label: at for at, label in enumerate(query.classes)}
        groups = [[position[label] for label in task] for task in self.tasks_]
        likelihood = torch.stack([scores[:, group].logsumexp(dim=1).sum() for group in groups])
        kept = torch.full_like(scores, -torch.inf)
        chosen = groups[int(likelihood.argmax())]
        kept[:, chosen] = scores[:, chosen]
        return kept


def copy_state(state: Any, device: torch.device) -> Any:
    """A copy of nested dictionaries and lists whose tensors are on ``device``."""
    if isinstance(state, Tensor):
        return state.to(device, copy=True)
    if isinstance(state, dict):
        return {name: copy_state(value, device) for name, value in state.items()}
    return [copy_state(value, device) for value in state] if isinstance(state, list) else state


def _count_entries(state: Any) -> int:
    if isinstance(state, Tensor):
        return state.numel()
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, list) else ()
    return sum(map(_count_entries, parts))
