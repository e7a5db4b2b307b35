r"""Learning without forgetting (Li and Hoiem, ECCV 2016).

Before a task is learned, the network as it is becomes the teacher. On the nodes of the new task, the network
is trained to predict as its teacher does,

.. math:: \lambda \sum_t \frac{1}{n} \sum_v - \sum_{c \in t}
    \sigma_c\bigl(z^*(v) / T\bigr) \log \sigma_c\bigl(z(v) / T\bigr)

over earlier tasks t and nodes v, where :math:`z` and :math:`z^*` are the logits of network and teacher and
:math:`\sigma` is the softmax over the columns of task t. In the task scenario tasks share their columns, so
there is one such term, on the very logits that the new labels use; in the class scenario each earlier task
has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from hpn.learners.base import State
from hpn.learners.gnn.finetune import FineTune
from hpn.learners.gnn.training_data import TrainingData
from hpn.nn import Backbone
from hpn.params import LogRange, SearchChoice
from hpn.streams import Step


def distillation(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Cross entropy of the student's softened predictions under the teacher's, mean over rows.

    Example:
        >>> same = torch.tensor([[2.0, 0.0]])
        >>> distillation(same, same, 2.0) < distillation(-same, same, 2.0)
        tensor(True)
    """
    return F.cross_entropy(student / temperature, (teacher / temperature).softmax(dim=1))


@dataclass(kw_only=True, eq=False, repr=False)
class LwF(FineTune):
    """Fine-tuning that keeps the earlier predictions of the network on the nodes of the new task.

    Args:
        strength: Weight of the earlier predictions (λ).
        temperature: Softens the predictions that are compared (T).

    Attributes:
        teacher_: The network before the task in progress; it exists only while a task is learned.
    """

    search_space: ClassVar[Mapping[str, SearchChoice]] = {**FineTune.search_space, "strength": LogRange(0.1, 100.0)}
    tuned_for = "remembering"

    strength: Annotated[float, Field(ge=0)] = 1.0
    temperature: Annotated[float, Field(gt=0)] = 2.0

    def _begin_task(self, step: Step) -> None:
        super()._begin_task(step)
        self.teacher_: Backbone | None = self._restore(self.network_.state_dict()) if step.index > 0 else None

    def _loss(self, batch: TrainingData) -> Tensor:
        if self.teacher_ is None:
            return super()._loss(batch)
        with torch.no_grad():
            taught = self.teacher_(batch.x, batch.adjacency)[batch.nodes]
        said = self.network_(batch.x, batch.adjacency)[batch.nodes]
        loss = F.cross_entropy(said.masked_fill(~batch.allowed, -torch.inf), batch.target)
        old = [distillation(said[:, columns], taught[:, columns], self.temperature) for columns in self._old_columns()]
        return loss + self.strength * torch.stack(old).sum()

    def _old_columns(self) -> list[list[int]]:
        """Columns of each earlier task; of all of them at once where they share their columns."""
        if self._has_shared_head:
            return [list(range(max(len(task) for task in self.tasks_[:-1])))]
        return [self._columns(task) for task in self.tasks_[:-1]]

    def _end_task(self, step: Step, data: TrainingData) -> None:
        self.teacher_ = None

    def _load_state(self, state: State) -> None:
        super()._load_state(state)
        self.teacher_ = self._restore(state["teacher"]) if "teacher" in state else None
