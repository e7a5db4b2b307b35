"""Joint training: after each task, train a new network on all tasks so far.

The upper bound of the paper's Table 1 ("Join."): every task's data is available at any time, so this is
not continual learning, and nothing can be forgotten. The paper does not say which head it has. A learner
that sees all tasks at once has no reason to make them share two logits, so by default every class has
one; with ``head="shared"``, the tasks share a head as in fine-tuning, which costs accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from hpn.learners.gnn.finetune import FineTune
from hpn.params import OneOf, SearchChoice
from hpn.streams import Step


@dataclass(kw_only=True, eq=False, repr=False)
class Joint(FineTune):
    """The network of fine-tuning, trained from scratch on all tasks so far.

    An epoch goes over the training nodes of all tasks. In the task scenario the classes of
    a task compete with each other only, in training as in testing.

    Args:
        head: ``classes`` (one logit per class) or ``shared`` (the tasks share logits; task scenario only).

    Attributes:
        data_numbers_: Numbers of the data of all tasks so far, which must be available.
    """

    sees_past = True
    answers_ahead = False
    search_space: ClassVar[Mapping[str, SearchChoice]] = {**FineTune.search_space, "epochs": OneOf(50, 100, 200)}
    tuned_for = "remembering"

    head: Literal["classes", "shared"] = "classes"

    @property
    def num_stored(self) -> int:
        """The network, and the data of all tasks so far."""
        return super().num_stored + self.data_numbers_

    @property
    def _has_shared_head(self) -> bool:
        return self.scenario_ == "task" and self.head == "shared"

    def _begin_task(self, step: Step) -> None:
        seen = [*step.past, step]
        graphs = [part.graph for part in seen] if step.edges == "within" else [step.graph]
        labels = sum(len(part.train_y) for part in seen)
        self.data_numbers_ = sum(graph.num_numbers for graph in graphs) + labels
        self.network_ = self._new_network(self._num_outputs())
        super()._begin_task(step)
