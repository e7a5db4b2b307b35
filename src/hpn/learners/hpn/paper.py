"""Hierarchical prototype networks (Zhang, Song and Tao, IEEE TPAMI 2023).

Linear extractors turn a node and its neighbourhood into atomic embeddings; each is matched to a prototype
on the unit sphere or founds one; matched prototypes are composed into a node-level and a class-level
prototype, and a classifier sees all three. Each task has extractors of its own, and what earlier tasks use
stays.

Where the code departs from the paper, or decides what the paper leaves open, docs/hpn.md says so.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from hpn.errors import ConfigError
from hpn.learners.base import Observer, Progress, State
from hpn.learners.hpn.accounts import HPNAccounts
from hpn.learners.hpn.reading import Reader
from hpn.learners.hpn.slots import make_slots, most_similar
from hpn.learners.hpn.steps import Lesson
from hpn.learners.hpn.training import Trace, Training
from hpn.nn.device import CPU, to_device
from hpn.nn.network import PrototypeNetwork, Selection
from hpn.nn.processes import ALONE
from hpn.streams import Classes, GraphView, Query, Task

LOGGER = logging.getLogger(__name__)
SHARPNESS = 10.0
"""How firmly the likeliest task is believed when none is given."""


class PaperHPN(HPNAccounts):
    """Prototypes on three levels, over linear extractors of a node and its neighbourhood.

    See :class:`hpn.learners.HPN` for the arguments.

    Attributes:
        network_: Extractors, prototypes and layers.
        selections_: What each task uses.
        certificates_: Hash of everything the predictions for a task depend on, as of when it was learned.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.streams import TaskStream
        >>> stream = TaskStream(load_dataset("digits"))
        >>> learner = PaperHPN(preset="paper").fit_task(stream.task(0)).fit_task(stream.task(1))
        >>> query, key = stream.query(task=0, after=1, evaluate="oracle")
        >>> (learner.predict(query) == key.y).float().mean() > 0.95
        tensor(True)
    """

    certificates_: list[str]
    _trace: Trace

    def effective_params(self) -> dict[str, Any]:
        """Hyper-parameters by name, seed aside, with what the preset stands for written out."""
        return {"preset": self.preset, **asdict(self.settings())}

    @torch.no_grad()
    def represent(self, query: Query) -> Tensor | None:
        """The prototypes of all levels, concatenated, as the task asked about sees the nodes."""
        if query.task is None:
            return None
        return self._reader(query.task).see(query.graph, query.nodes)[0].representation

    def is_certified(self, task: int) -> bool:
        """Whether everything the predictions for ``task`` depend on is as it was when it was learned."""
        return self._certificate(task) == self.certificates_[task]

    def _arrive(self, task: Task) -> None:
        s = self.settings()
        if s.num_selected > s.num_extractors:
            raise ConfigError(
                f"num_selected = {s.num_selected} is more than num_extractors = {s.num_extractors}"
            )
        super()._arrive(task)

    def _learn(self, task: Task, observer: Observer) -> None:
        s = self.settings()
        if not hasattr(self, "_trace"):
            self._begin(task)
        training = Training(
            s,
            self.network_,
            self.selections_[-1],
            self._lesson(task),
            task.index,
            moves_extractors=not self._is_frozen(self.selections_[-1]),
            moves_layers=s.retention == "paper" or task.index == 0,
            is_first=task.index == 0,
            trace=self._trace,
        )
        training.start()
        while self._trace.epoch < s.epochs:
            loss = training.run_epoch()
            self._step_done(observer, Progress(task.index, self._trace.epoch, s.epochs, {"loss": loss}))
        self._finish(training)

    def _begin(self, task: Task) -> None:
        """Make or widen the network, and select extractors."""
        if task.index > 0:
            self.network_.cpu()  # whatever a seed draws is drawn there
        else:
            self.network_ = self._new_network(self._num_outputs())
            # Not used: keeps the random numbers, and so the results, of earlier versions.
            torch.randn(self.network_.dim, self.network_.dim, device=CPU)
            self.selections_, self.certificates_ = [], []
        self.network_.grow_head(self._num_outputs())
        self.selections_.append(self._select(task))
        self.network_.to(self.device)
        self._trace = Trace()

    def _select(self, task: Task) -> Selection:
        """Choose the extractors of a task, once, from its training nodes."""
        s = self.settings()
        free = [[number for number in range(s.num_extractors) if number not in used] for used in self._used()]
        has_room = all(len(numbers) >= s.num_selected for numbers in free)
        if task.index == 0 or (s.selection == "reserve" and has_room):
            return Selection(tuple(free[0][: s.num_selected]), tuple(free[1][: s.num_selected]))
        if s.selection == "reserve":
            LOGGER.warning(
                "task %d shares the extractors of earlier tasks, because all %d are in use; "
                "a larger num_extractors would give it its own",
                task.index,
                s.num_extractors,
            )
        slots = make_slots(s, task.graph, task.train, self.seed, first_round=0)
        return most_similar(s, self.network_, slots)

    def _lesson(self, task: Task) -> Lesson:
        s = self.settings()
        rivals = next(group for group in self._groups() if group[-1] == task.index)
        classes = self._classes_of(rivals)
        own = torch.tensor(classes, device=CPU)
        rounds = max(1, s.epochs)
        return Lesson(
            slots=make_slots(s, task.graph, task.train, self.seed, rounds, first_round=0),
            target=(task.train_y.unsqueeze(1) == own).int().argmax(dim=1),
            val=make_slots(s, task.graph, task.val, self.seed),
            val_target=(task.val_y.unsqueeze(1) == own).int().argmax(dim=1),
            columns=torch.tensor(self._columns(classes), device=CPU),
        )

    def _finish(self, training: Training) -> None:
        """Remember what the task uses, and let none of it be moved if retention is certified."""
        usual = training.finish()
        if self.settings().retention == "certified":
            for book in self.network_.books:
                book.freeze()
        atomic, on_nodes, on_classes = (len(book) for book in self.network_.books)
        visible = (atomic, on_nodes, on_classes)
        self.selections_[-1] = replace(self.selections_[-1], visible=visible, lengths=tuple(usual.tolist()))
        self.certificates_.append(self._certificate(training.task))
        del self._trace

    def _scores(self, query: Query) -> Tensor:
        groups = self._answering(query)
        by_class: dict[int, Tensor] = {}
        for group in groups:
            classes = self._classes_of(group)
            scores, familiarity = self._task_scores(query.graph, query.nodes, group[-1], classes)
            if len(groups) > 1:
                scores = scores + SHARPNESS * familiarity.unsqueeze(1)
            for label, column in zip(classes, scores.unbind(dim=1), strict=True):
                by_class[label] = torch.logaddexp(by_class[label], column) if label in by_class else column
        return torch.stack([by_class[label] for label in query.classes], dim=1).log_softmax(dim=1)

    def _answering(self, query: Query) -> list[list[int]]:
        """Groups of tasks that answer a query, each as far as it is familiar with a node."""
        return self._groups() if query.task is None else [[query.task]]

    def _task_scores(
        self, graph: GraphView, nodes: Tensor, task: int, classes: Classes | None = None
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of a task's classes, and how much a node looks like one of its nodes."""
        columns = self._columns(self.tasks_[task] if classes is None else classes)
        return self._reader(task).answer(graph, nodes, columns)

    def _reader(self, task: int) -> Reader:
        return Reader(self.settings(), self.network_, self.selections_[task], self.seed, ALONE)

    def _groups(self) -> list[list[int]]:
        """Tasks that see nodes through the same extractors, and so compete in one head where that grows."""
        groups: dict[object, list[int]] = {}
        for task, chosen in enumerate(self.selections_):
            key = task if self._has_shared_head else (chosen.node, chosen.structure)
            groups.setdefault(key, []).append(task)
        return list(groups.values())

    def _classes_of(self, tasks: list[int]) -> Classes:
        return tuple(dict.fromkeys(label for task in tasks for label in self.tasks_[task]))

    def _is_frozen(self, selection: Selection) -> bool:
        """Whether an extractor of the selection belongs to an earlier task that must not change."""
        if self.settings().retention == "paper":
            return False
        earlier = [other for other in self.selections_ if other is not selection]
        return any(
            set(selection.node).intersection(other.node)
            or set(selection.structure).intersection(other.structure)
            for other in earlier
        )

    def _num_outputs(self) -> int:
        return max(len(task) for task in self.tasks_) if self._has_shared_head else len(self.classes_)

    def _new_network(self, num_outputs: int) -> PrototypeNetwork:
        s = self.settings()
        with CPU:  # where weights are drawn, whatever the device
            return PrototypeNetwork(
                self.num_features_,
                num_outputs,
                num_extractors=s.num_extractors,
                num_slots=s.num_slots,
                dim=s.dim,
                thresholds=(s.threshold_atomic, s.threshold_node, s.threshold_class),
                levels=s.levels,
            )

    def _certificate(self, task: int) -> str:
        """Hash of every number that the predictions for ``task`` are computed from."""
        return self.network_.digest(self.selections_[task], self._columns(self.tasks_[task]))

    def _state(self) -> State:
        state: State = {
            "network": self.network_.state_dict(),
            "selections": [asdict(selection) for selection in self.selections_],
            "certificates": list(self.certificates_),
        }
        return {**state, "trace": self._trace.state()} if hasattr(self, "_trace") else state

    def _load_state(self, state: State) -> None:
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn, then overwritten
            self.network_ = self._new_network(state["network"]["head.weight"].shape[0])
        self.network_.load_state_dict(state["network"])
        self.network_.to(self.device)
        self.selections_ = [Selection.restore(entry) for entry in state["selections"]]
        self.certificates_ = list(state["certificates"])
        if "trace" in state:
            self._trace = Trace(**to_device(state["trace"], self.device))
