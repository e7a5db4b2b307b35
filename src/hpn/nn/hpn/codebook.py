r"""One level of prototypes: unit vectors that cover the embeddings and stay apart (Eq. 6, 7, 9 and 10).

With the threshold :math:`t`, a cosine distance, a codebook has two properties after every growth and every refinement,
where :math:`E` are the latest embeddings:

.. math::
    \text{cover:}\quad \forall e \in E\; \exists p \in P: \cos(e, p) \ge 1 - t
    \qquad
    \text{packing:}\quad \forall p \ne q \in P: \cos(p, q) < 1 - t

Packing makes the prototypes a spherical code, so their number is bounded for every stream (Theorem 1). The paper
writes the test as :math:`\cos \ge t_A`; its theorem and its study of the threshold need the distance.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

AT_ONCE = 512
"""Candidates compared with each other at once, which bounds the memory of growth."""
ROUNDING = 1e-5
"""More than any rounding error of a cosine in single precision."""
OFFSET = 1e-10
"""Added to the first entry of vectors before they are scaled, so that a zero vector has a direction."""
DEBUG = os.environ.get("HPN_DEBUG", "") not in {"", "0"}
"""Whether both properties are checked after every change (slow); from the environment variable."""


def unit(vectors: Tensor) -> Tensor:
    """Scale rows to length 1; a zero row becomes the first axis."""
    vectors = vectors + _offset(vectors.shape[-1], vectors.device)
    scaled: Tensor = vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return scaled


@lru_cache
def _offset(dim: int, device: torch.device) -> Tensor:
    return OFFSET * torch.eye(1, dim, device=device)


class Codebook(nn.Module):
    """The prototypes of one level, the oldest first.

    The first ``num_frozen`` never move and are never merged.

    Args:
        dim: Dimension of the unit vectors.
        threshold: Cosine distance :math:`t` within which an embedding belongs to a prototype.

    Attributes:
        storage: The prototypes ``[len(self), dim]``; replaced when their number changes.
        tasks: The task in which each prototype was added ``[len(self)]``.
    """

    def __init__(self, dim: int, threshold: float) -> None:
        super().__init__()
        self.dim, self.threshold, self.num_frozen = dim, threshold, 0
        self.storage = nn.Parameter(torch.zeros(0, dim))
        self.tasks = torch.zeros(0, dtype=torch.long)

    def __len__(self) -> int:
        return len(self.storage)

    @property
    def vectors(self) -> Tensor:
        """The prototypes without gradient ``[len(self), dim]``."""
        return self.storage.detach()

    def match(self, embeddings: Tensor, visible: int | None = None) -> tuple[Tensor, Tensor]:
        """Find the nearest prototype of each embedding (Eq. 6); of equally near ones the oldest.

        Args:
            embeddings: Unit vectors ``[n, dim]``.
            visible: Match to the first ``visible`` prototypes only.

        Returns:
            Index and cosine, ``[n]`` each.
        """
        cosine = embeddings.detach() @ self.vectors[:visible].t()
        if cosine.device.type == "cpu":
            # NumPy's argmax is vectorised; PyTorch's takes several times as long as the product.
            return torch.from_numpy(cosine.numpy().argmax(axis=1)), cosine.amax(dim=1)
        nearest, index = cosine.max(dim=1)
        return index, nearest

    @torch.no_grad()
    def grow(self, embeddings: Tensor, task: int) -> tuple[Tensor, Tensor]:
        """Add prototypes for uncovered embeddings (Eq. 7, 9 and 10), then match all embeddings.

        Args:
            embeddings: Unit vectors ``[n, dim]``.
            task: The task they belong to.

        Returns:
            The result of :meth:`match`.
        """
        new = embeddings.detach()
        if len(self) and len(new):
            index, cosine = self.match(new)
            surely = 1 - self.threshold + ROUNDING  # covered despite any rounding
            if float(cosine.min()) >= surely:
                return index, cosine
            new = new[cosine < surely]  # E_new
        self._append(_distinct(new, self.vectors, self.threshold), task)
        if DEBUG:
            self.check(embeddings)
        return self.match(embeddings)

    @torch.no_grad()
    def refine(self, embeddings: Tensor, task: int) -> None:
        """Restore the properties after an optimiser has moved the prototypes.

        They are scaled to length 1, each that came too close to an older one is merged into it, and ``embeddings``
        that are no longer covered get new prototypes.

        Args:
            embeddings: Unit vectors that must be covered ``[n, dim]``.
            task: The task they belong to.
        """
        self.storage[self.num_frozen :] = unit(self.vectors[self.num_frozen :])
        self._merge()
        self.grow(embeddings, task)
        if DEBUG:
            self.check(embeddings)

    def freeze(self) -> None:
        """Never move or merge the current prototypes again."""
        self.num_frozen = len(self)

    def closest_cosine(self) -> float:
        """The largest cosine of two prototypes; −1 if there are fewer than two."""
        if len(self) < 2:
            return -1.0
        exact = self.vectors.cpu().double()  # not every device has double precision
        two = [(part @ exact.t()).topk(2, dim=1).values[:, 1].max() for part in torch.split(exact, AT_ONCE)]
        return float(max(two))

    def check(self, embeddings: Tensor | None = None, tolerance: float = 1e-6) -> None:
        """Assert that prototypes have length 1, are packed, and cover ``embeddings``.

        Raises:
            AssertionError: If a property does not hold.
        """
        exact = self.vectors.cpu().double()
        broken = []
        if len(self) and float((exact.norm(dim=1) - 1).abs().max()) > ROUNDING:
            broken.append("unit length")
        if self.closest_cosine() >= 1 - self.threshold + tolerance:
            broken.append("packing")
        if embeddings is not None and len(embeddings):
            near = (embeddings.detach().cpu().double() @ exact.t()).amax(dim=1)
            if float(near.min()) < 1 - self.threshold - tolerance:
                broken.append("cover")
        if broken:
            raise AssertionError(f"{self} does not keep: {', '.join(broken)}")

    def extra_repr(self) -> str:
        """The arguments and the number of prototypes."""
        return f"dim={self.dim}, threshold={self.threshold}, size={len(self)}"

    def _append(self, vectors: Tensor, task: int) -> None:
        """Add prototypes; an accumulated gradient is kept."""
        gradient, count = self.storage.grad, len(vectors)
        self.storage = nn.Parameter(torch.cat([self.vectors, vectors]))
        if gradient is not None:
            self.storage.grad = F.pad(gradient, (0, 0, 0, count))
        self.tasks = F.pad(self.tasks, (0, count), value=task)

    def _merge(self) -> None:
        """Drop every prototype that came too close to an older one that is kept."""
        exact = self.vectors.cpu().double()
        stays = torch.ones(len(self), dtype=torch.bool, device=exact.device)
        for first in range(0, len(self), AT_ONCE):
            close = (exact[first : first + AT_ONCE] @ exact.t() >= 1 - self.threshold).tril_(first - 1)
            for row in close.any(dim=1).nonzero().flatten().tolist():
                stays[first + row] = first + row < self.num_frozen or not bool((close[row] & stays).any())
        self.storage = nn.Parameter(self.vectors[stays.to(self.storage.device)])
        self.tasks = self.tasks[stays]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "vectors"] = self.vectors.clone()
        destination[prefix + "tasks"] = self.tasks.clone()
        destination[prefix + "num_frozen"] = torch.tensor(self.num_frozen, device="cpu")

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        self.storage = nn.Parameter(state_dict[prefix + "vectors"].clone().to(self.storage.device))
        self.tasks = state_dict[prefix + "tasks"].clone()
        self.num_frozen = int(state_dict[prefix + "num_frozen"])


def _distinct(candidates: Tensor, known: Tensor, threshold: float) -> Tensor:
    """A maximal subset E'_new of the candidates, far from ``known`` and from each other (Eq. 9).

    Greedy: the candidate with the most uncovered neighbours within the threshold is chosen first.
    """
    device, chosen = candidates.device, []
    candidates, known = candidates.cpu().double(), known.cpu().double()
    while True:
        if len(known):
            candidates = candidates[(candidates @ known.t()).amax(dim=1) < 1 - threshold]
        if len(candidates) == 0:
            break
        some, candidates = candidates[:AT_ONCE], candidates[AT_ONCE:]
        known = some[_choose(some @ some.t() >= 1 - threshold)]
        chosen.append(known)
    return (torch.cat(chosen) if chosen else candidates).float().to(device)


def _choose(is_close: Tensor) -> list[int]:
    """Rows of a symmetric matrix, greedily, until every row is close to a chosen one."""
    is_close.fill_diagonal_(True)
    weight = is_close.float()
    uncovered = torch.ones(len(weight), device=weight.device)
    chosen = []
    while bool(uncovered.any()):
        best = int(((weight @ uncovered) * uncovered).argmax())
        chosen.append(best)
        uncovered.masked_fill_(is_close[best], 0.0)
    return chosen
