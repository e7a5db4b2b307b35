"""Joint training: after each task, train a new network on all tasks so far.

The upper bound of the paper's Table 1 ("Join."): every task's data is at hand at any time, so this is
no continual learning and nothing can be forgotten. The paper does not say which head it has. A learner
that sees all tasks at once has no reason to make them share two logits, so by default every class has
one; with ``head="shared"``, the tasks share a head as in fine-tuning, which costs accuracy.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from hpn.learners.finetune import FineTune, Lesson
from hpn.streams import Task


class Joint(FineTune):
    """Fine-tuning's network, trained from scratch on the tasks so far, together.

    An epoch is one step on the loss over the training nodes of all tasks. In the task scenario a node is
    told from the other classes of its task only, in training as in testing.

    Args:
        backbone: ``gcn`` (16 hidden units), ``gat`` (8 heads of 8) or ``gin`` (32).
        head: ``classes`` (a logit a class) or ``shared`` (the tasks share logits; task scenario only).
        epochs: Passes over the tasks so far.
        lr: Learning rate of Adam.
        weight_decay: Strength of the L2 penalty on all weights.
        dropout: Share of inputs and hidden units dropped in training.
        seed: Draws initial weights and dropout.
    """

    sees_past: ClassVar[bool] = True

    def __init__(
        self,
        *,
        backbone: Literal["gcn", "gat", "gin"] = "gcn",
        head: Literal["classes", "shared"] = "classes",
        epochs: Annotated[int, Field(ge=1)] = 100,
        lr: Annotated[float, Field(gt=0)] = 0.01,
        weight_decay: Annotated[float, Field(ge=0)] = 5e-4,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5,
        seed: int = 0,
    ) -> None:
        super().__init__(
            backbone=backbone, epochs=epochs, lr=lr, weight_decay=weight_decay, dropout=dropout, seed=seed
        )
        self.head = head

    @property
    def _has_shared_head(self) -> bool:
        return self.scenario_ == "task" and self.head == "shared"

    def _begin(self, task: Task) -> None:
        self.network_ = self._new_network(self._num_outputs())
        super()._begin(task)

    def _lesson(self, task: Task) -> Lesson:
        return self._make_lesson([*task.past, task])
