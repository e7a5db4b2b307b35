r"""Recursive ridge regression on a frozen random graph encoder.

After any sequence of tasks the weights are those of one ridge regression on all of them together, so nothing
is forgotten that a joint fit would know. The idea is that of ACIL (Zhuang et al., NeurIPS 2022: Analytic
Class-Incremental Learning with Absolute Memorization and Privacy Protection) and RanPAC (McDonnell et al.,
NeurIPS 2023: Random Projections and Pre-trained Models for Continual Learning).

Departures: there is no pre-trained or first-task network, the encoder is a smoothing over the graph and a
random layer; sums are kept and solved anew, as in RanPAC, where ACIL updates an inverse; the regression has
an intercept that is not regularised, rare classes may weigh more, and the strength is never chosen anew.

It is solved with NumPy and SciPy on the CPU, whatever device is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy  # whose parts are imported when they are first used
import torch
from pydantic import Field
from torch import Tensor

from hpn.learners.base import Learner, Observer, State
from hpn.nn.device import CPU
from hpn.nn.encoder import see
from hpn.nn.smoothing import Normalization
from hpn.params import LogRange, OneOf, SearchChoice
from hpn.streams import GraphView, Query, Step

ROWS_AT_ONCE = 1024
"""Nodes encoded at a time, which bounds memory."""


@dataclass(kw_only=True, eq=False, repr=False)
class Ridge(Learner):
    r"""Ridge regression of the classes on random features of a node and its neighbourhood.

    .. math::
        h_v = \max\Bigl(0, \sum_{k=0}^{K} 2^{k-K} P_k^\top u_{v,k}\Bigr) \qquad
        \min_{W, b} \sum_v n_{y_v}^{-\beta} \lVert W^\top h_v + b - e_{y_v} \rVert^2
        + \lambda \lVert W \rVert^2

    where :math:`u_{v,k}` are the features of node v after k hops, scaled to length 1; :math:`P_k` are random
    and drawn anew from the seed whenever they are needed; :math:`n_c` counts the training nodes of class c.
    A farther hop weighs more, because it is smoother. The sums that the solution depends on do not depend on
    how the nodes came in tasks, as long as a class comes whole; where it comes again, :math:`n_c` counts its
    nodes in each step apart. Every class has a column of its own, whatever the scenario.

    Args:
        max_hops: The farthest hop K.
        normalization: ``sym`` or ``row``; see :class:`hpn.nn.encoder.Slots`.
        width: Random features.
        strength: λ as a multiple of the mean squared length of (weighted) h over training nodes.
        balance: β: with 0 every node weighs the same, with 1 every class.
        temperature: Turns outputs into probabilities; the answer does not depend on it unless a group's
            task is inferred.
        seed: Draws the random features.

    Attributes:
        gram_: Weighted sum of :math:`h h^\top`, ``[width + 1, width + 1]``; the last entry of h is 1.
        sums_: Weighted sum of h of each class, ``[width + 1, num_classes]``, in order of arrival.
        num_rows_: Training nodes so far.
        weights_: W above b, ``[width + 1, num_classes]``; a function of the other three.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from hpn.streams import TaskStream
        >>> stream = TaskStream(load_dataset("digits"), scenario="class")
        >>> learner = Ridge(width=200)
        >>> for index in range(len(stream)):
        ...     _ = learner.fit_task(stream.step(index))
        >>> query, key = stream.query(step=None, after=4, evaluate="global")
        >>> (learner.predict(query) == key.y).float().mean() > 0.95
        tensor(True)
    """

    uses_device = False
    search_space: ClassVar[Mapping[str, SearchChoice]] = {
        "max_hops": OneOf(1, 2, 3, 4, 5),
        "normalization": OneOf("sym", "row"),
        "strength": LogRange(0.01, 10.0),
        "balance": OneOf(0.0, 0.25, 0.5, 0.75, 1.0),
    }

    max_hops: Annotated[int, Field(ge=0)] = 3
    normalization: Normalization = "row"
    width: Annotated[int, Field(ge=1)] = 2000
    strength: Annotated[float, Field(gt=0)] = 0.3
    balance: Annotated[float, Field(ge=0, le=1)] = 0.5
    temperature: Annotated[float, Field(gt=0)] = 0.1

    @property
    def num_parameters(self) -> int:
        """Entries of the weights; the seed gives the random features, and ``gram_`` serves learning only."""
        return self.weights_.numel()

    def _learn(self, step: Step, observer: Observer) -> None:
        if step.index == 0:
            self.gram_ = torch.zeros(self.width + 1, self.width + 1, dtype=torch.float64, device=CPU)
            self.sums_ = torch.zeros(self.width + 1, 0, dtype=torch.float64, device=CPU)
            self.num_rows_ = 0
        classes = torch.tensor(step.classes, device=CPU)
        is_class = (step.train_y[:, None] == classes).numpy()  # [num_rows, num_classes]
        weight = is_class.sum(axis=0, dtype=float)[is_class.argmax(axis=1)] ** -self.balance
        gram, sums = self.gram_.numpy().copy(), np.zeros((self.width + 1, len(step.classes)))
        for rows, hidden in self._encode(step.graph, step.train):
            scaled = hidden * np.sqrt(weight[rows, None])
            gram += scaled.T @ scaled
            sums += hidden.T @ (weight[rows, None] * is_class[rows])
        self.gram_ = torch.from_numpy(gram)
        total = np.zeros((self.width + 1, len(self.classes_)))
        total[:, : self.sums_.shape[1]] = self.sums_.numpy()
        total[:, self._positions(step.classes)] += sums
        self.sums_ = torch.from_numpy(total)
        self.num_rows_ += len(step.train)
        self.weights_ = self._solve()

    def _encode(self, graph: GraphView, nodes: Tensor) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield h of some of ``nodes`` after the other, with which of them these are; in float64."""
        slots, numbers = see(graph, self.normalization), nodes.numpy()
        for start in range(0, len(nodes), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            (hidden,) = slots.layers([self.max_hops], numbers[rows], self.width, self.seed)
            yield rows, np.hstack([hidden, np.ones((len(hidden), 1))])

    def _solve(self) -> Tensor:
        """Weights of the regression on all nodes so far."""
        system = self.gram_.numpy().copy()
        entries = np.arange(self.width)  # all but the intercept
        mean_square = system[entries, entries].sum() / max(self.num_rows_, 1)
        system[entries, entries] += max(self.strength * mean_square, 1e-12)
        factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        return torch.from_numpy(scipy.linalg.cho_solve(factor, self.sums_.numpy(), check_finite=False))

    def _scores(self, query: Query) -> Tensor:
        weights = self.weights_[:, self._positions(query.classes)].numpy()
        outputs = [hidden @ weights for _, hidden in self._encode(query.graph, query.nodes)]
        stacked = np.concatenate([np.zeros((0, len(query.classes))), *outputs])
        return torch.from_numpy(stacked / self.temperature).log_softmax(dim=1).float()

    def _state(self) -> State:
        return {name: value for name, value in super()._state().items() if name != "weights"}

    def _load_state(self, state: State) -> None:
        super()._load_state(state)
        self.weights_ = self._solve()
