r"""ER-GNN: experience replay for graph neural networks (Zhou and Cao, AAAI 2021).

Some nodes of each class are kept and learned again with every later task,

.. math:: \beta\, L_{new} + (1 - \beta)\, L_{kept} \qquad \beta = \frac{|B|}{|D| + |B|}

where B are the nodes kept and D those of the new task, so that a small buffer weighs the more. Which nodes
are kept is one of the three strategies of :mod:`hpn.learners.gnn.selection`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from hpn.datasets.sparse import is_sparse, to_scipy
from hpn.learners.gnn.finetune import FineTune
from hpn.learners.gnn.replay import Replay
from hpn.learners.gnn.selection import cover, influence, nearest_to_mean
from hpn.learners.gnn.training_data import TrainingData
from hpn.nn.encoder import Features
from hpn.nn.subgraphs import take_rows
from hpn.params import OneOf, SearchChoice
from hpn.streams import Step


@dataclass(kw_only=True, eq=False, repr=False)
class ERGNN(Replay):
    """Fine-tuning with replay of stored nodes of earlier tasks.

    Args:
        buffer_size: Nodes kept of each class (e).
        selection: ``mean`` (nodes nearest to the mean of their class), ``coverage`` (nodes with the fewest
            nodes of other classes nearby) or ``influence`` (nodes whose loss says most about the task's).
        space: Where ``mean`` and ``coverage`` look: ``features``, or ``embeddings`` of the first layer.
        radius: What is nearby for ``coverage``, as a share of the mean distance between nodes (d).
        new_share: Weight of the new task's loss (β); ``None`` for the paper's.

    Attributes:
        kept_: Nodes kept of each task so far (the experience buffer B).
    """

    search_space: ClassVar[Mapping[str, SearchChoice]] = {
        **FineTune.search_space,
        "selection": OneOf("mean", "coverage", "influence"),
        "new_share": OneOf(None, 0.2, 0.5),
    }

    buffer_size: Annotated[int, Field(ge=1)] = 20
    selection: Literal["mean", "coverage", "influence"] = "mean"
    space: Literal["features", "embeddings"] = "features"
    radius: Annotated[float, Field(gt=0)] = 0.5
    new_share: Annotated[float, Field(ge=0, le=1)] | None = None

    def _loss(self, batch: TrainingData) -> Tensor:
        loss = super()._loss(batch)
        if not self._memories:
            return loss
        kept = [next(memory.batches(self.batch_size)) for memory in self._memories]
        old = sum(F.cross_entropy(self._logits(part), part.target, reduction="sum") for part in kept)
        count = sum(len(part) for part in kept)
        share = count / (len(batch) + count) if self.new_share is None else self.new_share
        return share * loss + (1 - share) * old / count

    def _choose(self, step: Step, data: TrainingData) -> Tensor:
        if self.selection == "influence":
            rank = self._influence(data)
        elif self.selection == "mean":
            rank = nearest_to_mean(self._points(data), data.target)
        else:
            rank = cover(self._points(data), data.target, self.radius)
        kept = []
        for column in torch.unique(data.target):
            members = torch.nonzero(data.target == column).flatten()
            kept.append(members[rank[members].argsort(stable=True)[: self.buffer_size]])
        return torch.cat(kept)

    def _points(self, data: TrainingData) -> Features:
        """Where each node is in the space of features or embeddings."""
        if self.space == "features":
            rows = take_rows(data.features, data.nodes)
            return to_scipy(rows) if is_sparse(rows) else rows.float().numpy()
        network = self.network_
        with torch.no_grad():
            parts = [network.embed(part.x, part.adjacency)[part.nodes].cpu() for part in data.in_order(self.batch_size)]
        return torch.cat(parts).numpy()

    def _influence(self, data: TrainingData) -> Tensor:
        """Influence on the loss over the task, or over the mini-batch that the node is in."""
        weights = list(self.network_.parameters())
        parts = [
            influence(F.cross_entropy(self._logits(part), part.target, reduction="none"), weights)
            for part in data.in_order(self.batch_size)
        ]
        return torch.cat(parts).cpu().double()
