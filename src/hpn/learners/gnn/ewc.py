r"""Elastic weight consolidation (Kirkpatrick et al., PNAS 2017).

The importance of a weight is its entry of the diagonal of the Fisher information matrix,

.. math:: F_i = \frac{1}{n} \sum_v \sum_c p(c \mid v)
    \Bigl(\frac{\partial \log p(c \mid v)}{\partial \theta_i}\Bigr)^2

over nodes v and classes c: each node's gradient is squared before the mean is taken, and the classes are
those the network believes in, not the labels. To square the gradient of the whole task's loss instead would
be cheaper, but that is another quantity and nearly zero after training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from hpn.learners.gnn.consolidation import Consolidation, Weights, add_scaled
from hpn.learners.gnn.training_data import TrainingData


@dataclass(kw_only=True, eq=False, repr=False)
class EWC(Consolidation):
    """Fine-tuning with a penalty on changes of weights by their Fisher information.

    Args:
        strength: Weight of the penalty (λ).
        num_samples: Training nodes that the information is averaged over, at most.

    Attributes:
        importance_: Fisher information of each weight (F), summed over tasks.
        center_: Where the penalty on each weight is zero.
    """

    strength: Annotated[float, Field(ge=0)] = 100.0
    num_samples: Annotated[int, Field(ge=1)] = 100

    def _importance(self, data: TrainingData) -> Weights:
        information: Weights = {}
        singles = list(data.singles(self.num_samples))
        for single in singles:
            log_p = self._logits(single).log_softmax(dim=1)[0]
            for column in torch.nonzero(single.allowed[0]).flatten():
                gradients = self._gradients(log_p[column], keep=True)
                squares = {name: gradient.square() for name, gradient in gradients.items()}
                information = add_scaled(information, squares, log_p[column].exp().item() / len(singles))
        return information
