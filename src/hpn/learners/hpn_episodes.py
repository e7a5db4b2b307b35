"""Hierarchical prototype networks without a stream: tasks have names, and tasks and classes may come again.

The learner behind :class:`hpn.HPNClassifier`. What a stream calls a task is an *episode* here: a task is made
of all episodes of its name, and what one of them learned is never moved by the next.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor

from hpn.errors import ConfigError
from hpn.learners.base import State
from hpn.learners.hpn import HPN
from hpn.nn.device import CPU
from hpn.nn.network import Pass
from hpn.streams import Classes, GraphView, Query, Scenario, Task
from hpn.streams.given import Labelled

Name = int | str
Slot = tuple[str | None, int | None]


class EpisodicHPN(HPN):
    """Prototypes on three levels, learned episode by episode.

    Attributes:
        names_: The task that each episode belongs to; numbers of the episodes if tasks have no names.
    """

    repeats_classes: ClassVar[bool] = True

    names_: list[Name]

    def fit_episode(self, name: Name | None, graph: GraphView, train: Labelled, val: Labelled) -> EpisodicHPN:
        """Learn the next episode.

        Raises:
            ConfigError: If only some of the tasks have names, or a class belongs to a task of another name.
        """
        names, earlier = getattr(self, "names_", []), getattr(self, "tasks_", [])
        classes: Classes = tuple(sorted(set(train.y.tolist())))
        scenario: Scenario = "class" if name is None else "task"
        if names and scenario != self.scenario_:
            rule = "leave task out" if name is not None else "name the task"
            raise ConfigError(f"{rule}, as in the first fit; fit instead of partial_fit starts over")
        name = len(names) if name is None else _read_name(name)
        for other, theirs in zip(names, earlier, strict=True):
            shared = set(classes).intersection(theirs)
            if shared and other != name and scenario == "task":
                raise ConfigError(
                    f"class {min(shared)} belongs to task {other!r}; "
                    "fit it under that name, or give it another number"
                )
        self.names_ = [*names, name]
        self.fit_task(Task(len(names), classes, scenario, graph, train.nodes, train.y, val.nodes, val.y))
        return self

    def episodes(self, task: Name | None) -> list[int]:
        """The episodes of a task, or all of them."""
        found = [episode for episode, name in enumerate(self.names_) if task is None or name == task]
        if not found:
            known = ", ".join(repr(name) for name in dict.fromkeys(self.names_))
            raise ConfigError(f"there is no task {task!r}; those fitted are {known}")
        return found

    def known_classes(self, task: Name | None) -> Classes:
        """The classes of a task, or all of them, sorted."""
        return tuple(sorted({label for episode in self.episodes(task) for label in self.tasks_[episode]}))

    def passes(
        self, graph: GraphView, nodes: Tensor, task: Name | None
    ) -> Iterator[tuple[int, Tensor, Pass]]:
        """Let each node be seen by the episode that finds it most familiar.

        Yields:
            An episode, the positions in ``nodes`` of those it is to see, and how it sees them.
        """
        episodes = self.episodes(task)
        choice = torch.zeros(len(nodes), dtype=torch.long, device=CPU)
        if len(episodes) > 1:
            familiarity = [self._task_scores(graph, nodes, episode)[1] for episode in episodes]
            choice = torch.stack(familiarity).argmax(dim=0)
        for at, episode in enumerate(episodes):
            mine = (choice == at).nonzero().flatten()
            if len(mine):
                yield episode, mine, self._reader(episode).see(graph, nodes[mine])[0]

    def atomic_slots(self, episode: int) -> list[Slot]:
        """What each atomic embedding of a node stands for, and the extractor that makes it."""
        s, selection = self.settings(), self.selections_[episode]
        around = {
            "drawn": [f"neighbor {number}" for number in range(1, sum(s.counts) + 1)],
            "means": [f"hop {hop}" for hop in range(1, s.hops + 1)],
            "reach": [f"hop {selection.reach}"],
        }[s.slots]
        slots: list[Slot] = [("node", extractor) for extractor in selection.node]
        return slots + [(slot, extractor) for slot in around for extractor in selection.structure]

    def _answering(self, query: Query) -> list[list[int]]:
        """Where a task has several episodes, all of them answer."""
        if query.task is None:
            return super()._answering(query)
        return [[episode] for episode in self.episodes(self.names_[query.task])]

    def _state(self) -> State:
        return {**super()._state(), "names": list(self.names_)}

    def _load_state(self, state: State) -> None:
        super()._load_state(state)
        self.names_ = list(state["names"])


def _read_name(name: Name) -> Name:
    try:
        return str(name) if isinstance(name, str) else operator.index(name)
    except TypeError:
        raise ConfigError(f"task = {name!r}: expected a string or a whole number") from None
