r"""Topology-aware weight preserving (Liu, Yang and Wang, AAAI 2021).

The importance of a weight has two parts: how much the loss depends on it, and how much what the layers take
from the topology does,

.. math::
    \Omega_i = \lambda_l \Bigl| \frac{\partial L}{\partial \theta_i} \Bigr|
    + \lambda_t \Bigl| \frac{\partial T}{\partial \theta_i} \Bigr| \qquad
    T = \frac{1}{n} \sum_l \sum_v \lVert e^{(l)}_v \rVert^2

where :math:`e^{(l)}_v` are the attention coefficients of v's neighbours in layer l before the softmax (GAT),
or the features summed over v's neighbourhood (GCN, GIN). While a task is learned,
:math:`\beta \lVert \Omega \rVert_1` is added to the loss, so that few weights become important and room is
left for later tasks; its gradient needs second derivatives, which are exact here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from hpn.learners.gnn.consolidation import Consolidation, Weights, add_scaled
from hpn.learners.gnn.finetune import FineTune
from hpn.learners.gnn.training_data import TrainingData
from hpn.params import LogRange, OneOf, SearchChoice


@dataclass(kw_only=True, eq=False, repr=False)
class TWP(Consolidation):
    """Fine-tuning with a penalty on changes of weights that the loss and the topology depend on.

    Args:
        loss_strength: Weight of the loss-preserving part (λ_l).
        topology_strength: Weight of the topology-preserving part (λ_t).
        sparsity: Weight of the importance that the task at hand is allowed to build up (β).
        strength: Factor of the whole penalty.

    Attributes:
        importance_: Importance of each weight (Ω), summed over tasks.
        center_: Where the penalty on each weight is zero.
    """

    search_space: ClassVar[Mapping[str, SearchChoice]] = {
        **FineTune.search_space,
        "loss_strength": LogRange(1.0, 1e4),
        "topology_strength": LogRange(1e-3, 100.0),
        "sparsity": OneOf(0.0, 1e-4),
    }

    loss_strength: Annotated[float, Field(ge=0)] = 100.0
    topology_strength: Annotated[float, Field(ge=0)] = 0.1
    sparsity: Annotated[float, Field(ge=0)] = 0.0

    def _loss(self, batch: TrainingData) -> Tensor:
        loss = F.cross_entropy(self._logits(batch), batch.target)
        total = loss + self.strength / 2 * self._penalty()
        if self.sparsity == 0:
            return total
        of_loss = self._gradients(loss, differentiable=True)
        of_topology = self._gradients(self._topology(batch), differentiable=True)
        built_up = [part.sum() for part in self._combine(of_loss, of_topology).values()]
        return total + self.sparsity * torch.stack(built_up).sum()

    def _importance(self, data: TrainingData) -> Weights:
        of_loss: Weights = {}
        of_topology: Weights = {}
        for batch in data.in_order(self.batch_size):
            share = len(batch) / len(data)
            loss = F.cross_entropy(self._logits(batch), batch.target)
            of_loss = add_scaled(of_loss, self._gradients(loss), share)
            of_topology = add_scaled(of_topology, self._gradients(self._topology(batch)), share)
        return self._combine(of_loss, of_topology)

    def _combine(self, of_loss: Weights, of_topology: Weights) -> Weights:
        return {
            name: self.loss_strength * of_loss[name].abs() + self.topology_strength * of_topology[name].abs()
            for name in of_loss
        }

    def _topology(self, batch: TrainingData) -> Tensor:
        """Mean over nodes of the squared length of what each takes from its neighbours (T).

        In a mini-batch, over the nodes whose neighbours are there.
        """
        layers = self.network_.structure(batch.x, batch.adjacency)
        count = batch.x.shape[0] if batch.num_complete is None else batch.num_complete
        kept = [layer[:count] if self.network_.sums_neighbors else layer for layer in layers]
        return torch.stack([layer.square().sum() for layer in kept]).sum() / count
