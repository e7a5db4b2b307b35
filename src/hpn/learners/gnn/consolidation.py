r"""Weight consolidation: hold each weight back, the more earlier tasks depend on it.

EWC, MAS and TWP differ in how they measure the dependence, their *importance* :math:`\Omega`; the penalty
is the same,

.. math:: \frac{\lambda}{2} \sum_t \sum_i \Omega_{t,i} (\theta_i - \theta^*_{t,i})^2

over earlier tasks t and weights i, where :math:`\theta^*_t` are the weights after task t. Up to a constant
that is one parabola for each weight, around the mean of the :math:`\theta^*_t` weighted by importance:

.. math:: \frac{\lambda}{2} \sum_i \Omega_i (\theta_i - c_i)^2 \qquad
    \Omega = \sum_t \Omega_t \qquad c = \sum_t \Omega_t \theta^*_t / \Omega

so two numbers per weight are kept, however many tasks there were, and nothing is approximated.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from hpn.learners.gnn.finetune import FineTune
from hpn.learners.gnn.training_data import TrainingData
from hpn.params import LogRange, SearchChoice
from hpn.streams import Step

Weights = dict[str, Tensor]
"""A tensor for each parameter of the network, by name."""


@dataclass(kw_only=True, eq=False, repr=False)
class Consolidation(FineTune):
    """Fine-tuning with a penalty on changes of weights that earlier tasks depend on.

    Args:
        strength: Weight of the penalty (λ).

    Attributes:
        importance_: Importance of each weight (Ω), summed over tasks.
        center_: Where the penalty on each weight is zero (c).
    """

    search_space: ClassVar[Mapping[str, SearchChoice]] = {**FineTune.search_space, "strength": LogRange(1.0, 1e4)}
    tuned_for = "remembering"

    strength: Annotated[float, Field(ge=0)] = 1.0

    @abstractmethod
    def _importance(self, data: TrainingData) -> Weights:
        """How much the task just learned depends on each weight (Ω_t)."""

    def _begin_task(self, step: Step) -> None:
        super()._begin_task(step)
        importance, center = (self.importance_, self.center_) if step.index else ({}, {})
        weights = self._weights()
        self.importance_: Weights = {
            name: _widen(kept, torch.zeros_like(weights[name])) for name, kept in importance.items()
        }
        self.center_: Weights = {name: _widen(kept, weights[name]) for name, kept in center.items()}

    def _loss(self, batch: TrainingData) -> Tensor:
        return super()._loss(batch) + self.strength / 2 * self._penalty()

    def _penalty(self) -> Tensor:
        """The sum over weights of importance times squared distance."""
        weights = dict(self.network_.named_parameters())
        parts = [
            (importance * (weights[name] - self.center_[name]).square()).sum()
            for name, importance in self.importance_.items()
        ]
        return torch.stack(parts).sum() if parts else torch.zeros((), device=self.device)

    def _end_task(self, step: Step, data: TrainingData) -> None:
        weights, new = self._weights(), self._importance(data)
        for name, importance in new.items():
            before = self.importance_.get(name, torch.zeros_like(importance))
            center = self.center_.get(name, weights[name])
            total = before + importance
            share = torch.where(total > 0, importance / total, 1.0)
            self.importance_[name] = total
            self.center_[name] = torch.lerp(center, weights[name], share)

    def _weights(self) -> Weights:
        return {name: weight.detach().clone() for name, weight in self.network_.named_parameters()}

    def _gradients(self, value: Tensor, *, keep: bool = False, differentiable: bool = False) -> Weights:
        """Derivative of ``value`` by each weight, 0 where there is none."""
        weights = dict(self.network_.named_parameters())
        keep = keep or differentiable
        found = torch.autograd.grad(
            value, list(weights.values()), retain_graph=keep, create_graph=differentiable, materialize_grads=True
        )
        return dict(zip(weights, found, strict=True))


def add_scaled(total: Weights, term: Weights, factor: float) -> Weights:
    """``total`` plus ``factor`` times ``term``; an empty total counts as zero."""
    return {name: total.get(name, 0) + factor * entry for name, entry in term.items()}


def _widen(kept: Tensor, like: Tensor) -> Tensor:
    """``kept`` where it has values, ``like`` where the network has grown by :func:`hpn.nn.grow_outputs`."""
    wide = like.clone()
    wide[tuple(slice(size) for size in kept.shape)] = kept
    return wide
