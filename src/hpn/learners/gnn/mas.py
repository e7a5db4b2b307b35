r"""Memory aware synapses (Aljundi et al., ECCV 2018).

The importance of a weight is how much the network's output changes with it,

.. math:: \Omega_i = \frac{1}{n} \sum_v \Bigl| \frac{\partial \lVert f(v) \rVert^2}{\partial \theta_i} \Bigr|

over nodes v, where f are the logits; no label is used. It adds up over tasks, and the penalty is on the
distance from the weights after the last task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from hpn.learners.gnn.consolidation import Consolidation, Weights, add_scaled
from hpn.learners.gnn.finetune import FineTune
from hpn.learners.gnn.training_data import TrainingData
from hpn.params import LogRange, SearchChoice
from hpn.streams import Step


@dataclass(kw_only=True, eq=False, repr=False)
class MAS(Consolidation):
    """Fine-tuning with a penalty on changes of weights that the output depends on.

    Args:
        strength: Weight of the penalty (λ).
        num_samples: Training nodes that the importance is averaged over, at most.

    Attributes:
        importance_: Importance of each weight (Ω), summed over tasks.
        center_: The weights after the last task while another is learned; empty in between.
    """

    search_space: ClassVar[Mapping[str, SearchChoice]] = {**FineTune.search_space, "strength": LogRange(0.01, 100.0)}

    strength: Annotated[float, Field(ge=0)] = 0.5
    num_samples: Annotated[int, Field(ge=1)] = 100

    def _begin_task(self, step: Step) -> None:
        super()._begin_task(step)
        self.center_ = self._weights() if self.importance_ else {}

    def _importance(self, data: TrainingData) -> Weights:
        importance: Weights = {}
        singles = list(data.singles(self.num_samples))
        for single in singles:
            logits = self._logits(single)[0][single.allowed[0]]
            gradients = self._gradients(logits.square().sum())
            sizes = {name: gradient.abs() for name, gradient in gradients.items()}
            importance = add_scaled(importance, sizes, 1 / len(singles))
        return importance

    def _end_task(self, step: Step, data: TrainingData) -> None:
        super()._end_task(step, data)
        self.center_ = {}  # they are the network's own weights until the next task begins
