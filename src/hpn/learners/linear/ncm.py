"""Nearest class mean on smoothed features.

Keeps one mean per class, over all its nodes so far, so nothing is forgotten, and all classes live in one
space, so that it predicts with or without the task. The cheapest learner that can be right. It is computed
with NumPy and SciPy on the CPU, whatever device is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from hpn.learners.base import Learner, Observer
from hpn.nn.device import CPU
from hpn.nn.encoder import Features, Slots, see
from hpn.nn.smoothing import Normalization
from hpn.streams import Query, Step

DEFAULT_HOPS = 2


@dataclass(kw_only=True, eq=False, repr=False)
class NCM(Learner):
    """Nearest class mean, by cosine, of features smoothed over the graph.

    The number of hops is chosen on the first task's validation nodes and kept: means of later tasks must
    live in the same space.

    Args:
        max_hops: The most hops tried.
        normalization: ``sym`` or ``row``; see :class:`hpn.nn.encoder.Slots`.
        temperature: Turns cosines into probabilities; the answer does not depend on it unless a group's
            task is inferred.
        seed: Unused; every learner has one.

    Attributes:
        means_: Means ``[num_classes, num_features]``, in order of arrival.
        counts_: Training nodes of each class.
        hops_: Chosen number of hops.
    """

    uses_device = False

    max_hops: Annotated[int, Field(ge=0)] = 3
    normalization: Normalization = "sym"
    temperature: Annotated[float, Field(gt=0)] = 0.1

    def _learn(self, step: Step, observer: Observer) -> None:
        slots = see(step.graph, self.normalization)
        if step.index == 0:
            self.means_ = torch.zeros(0, self.num_features_, device=CPU)
            self.counts_: list[int] = []
            self.hops_ = self._choose_hops(slots, step)
        self._add(step, _class_means(slots, self.hops_, step))

    def _add(self, step: Step, means: Tensor) -> None:
        """Let new nodes count as much as those before; a class that is new has none before."""
        at = self._positions(step.classes)
        num_new = len(self.classes_) - len(self.counts_)
        counts = torch.tensor([*self.counts_, *[0] * num_new], device=CPU)
        added = (step.train_y.unsqueeze(1) == torch.tensor(step.classes, device=CPU)).sum(dim=0)
        counts[at] += added
        kept = torch.nn.functional.pad(self.means_, (0, 0, 0, num_new))
        kept[at] = torch.lerp(kept[at], means, (added / counts[at]).unsqueeze(1))
        self.means_, self.counts_ = kept, counts.tolist()

    def _choose_hops(self, slots: Slots, step: Step) -> int:
        """Fewest hops with the best accuracy on validation nodes."""
        if len(step.val) == 0 or len(step.classes) == 1:
            return min(DEFAULT_HOPS, self.max_hops)
        order = torch.tensor(step.classes, device=CPU)
        val = step.val.numpy()
        accuracies = []
        for hop in range(self.max_hops + 1):
            cosine = _cosine(slots.smoothed(hop, val), _unit(_class_means(slots, hop, step)))
            accuracies.append((order[cosine.argmax(dim=1)] == step.val_y).float().mean().item())
        return int(np.argmax(accuracies))

    def _scores(self, query: Query) -> Tensor:
        features = see(query.graph, self.normalization).smoothed(self.hops_, query.nodes.numpy())
        cosine = _cosine(features, _unit(self.means_[self._positions(query.classes)]))
        return (cosine / self.temperature).log_softmax(dim=1)


def _class_means(slots: Slots, hop: int, step: Step) -> Tensor:
    """Mean of the training nodes of each class."""
    means = []
    for label in step.classes:
        members = step.train[step.train_y == label].numpy()
        means.append(np.asarray(slots.smoothed(hop, members).mean(axis=0)).ravel())
    return torch.from_numpy(np.stack(means)).float()


def _cosine(features: Features, means: Tensor) -> Tensor:
    rows = np.asarray(features @ means.numpy().T)
    squares = features.multiply(features) if hasattr(features, "multiply") else features**2
    length = np.sqrt(np.asarray(squares.sum(axis=1))).reshape(-1, 1)
    return torch.from_numpy(rows / np.maximum(length, 1e-12)).float()


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=1, eps=1e-12)
