r"""One level of prototypes: a set of unit vectors that covers what was seen and stays sparse.

A book of threshold :math:`t` keeps two invariants, where :math:`E` are the embeddings shown last:

.. math::
    \text{cover:}\quad \forall e \in E\; \exists p \in P: \cos(e, p) \ge 1 - t
    \qquad
    \text{packing:}\quad \forall p \ne q \in P: \cos(p, q) < 1 - t

Packing makes the prototypes a spherical code, so their number is bounded whatever the stream brings
(Theorem 1). The paper writes the test as :math:`\cos \ge t_A`; its theorem and its study of the threshold
need the distance, which is what :math:`t` is here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpn.nn.snapping import unit

CHUNK = 512
"""Candidates compared with each other at once, which bounds the memory of growth."""

ROUNDING = 1e-5
"""Wider than any rounding error of a cosine in single precision."""

DEBUG = bool(os.environ.get("HPN_DEBUG"))
"""Check the invariants after every change (slow); set by the environment variable ``HPN_DEBUG``."""


class PrototypeBook(nn.Module):
    """The prototypes of one level, in order of foundation.

    Storage doubles when it is full, so that founding a prototype copies nothing most of the time. The
    first ``num_frozen`` prototypes never move and are never merged away.

    Args:
        dim: Dimension of the unit vectors.
        threshold: Cosine distance :math:`t` within which an embedding belongs to a prototype.

    Shapes:
        - ``vectors``: ``[len(book), dim]``
        - ``founders``: ``[len(book)]``, the task that founded each

    Example:
        >>> book = PrototypeBook(dim=2, threshold=0.3)
        >>> book.grow(torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), task=0)
        2
        >>> index, cosine = book.match(torch.tensor([[0.6, 0.8]]))
        >>> cosine.item() >= 1 - book.threshold
        True
    """

    _vectors: Tensor
    _founders: Tensor

    def __init__(self, dim: int, threshold: float) -> None:
        super().__init__()
        self.dim = dim
        self.threshold = threshold
        self.num_frozen = 0
        self._size = 0
        self.register_buffer("_vectors", torch.zeros(0, dim), persistent=False)
        self.register_buffer("_founders", torch.zeros(0, dtype=torch.long), persistent=False)

    def __len__(self) -> int:
        return self._size

    @property
    def vectors(self) -> Tensor:
        """The prototypes; a view, not to be written to."""
        return self._vectors[: self._size]

    @property
    def founders(self) -> Tensor:
        """The task that founded each prototype."""
        return self._founders[: self._size]

    def match(self, embeddings: Tensor, visible: int | None = None) -> tuple[Tensor, Tensor]:
        """Find the nearest prototype of each embedding.

        Args:
            embeddings: Unit vectors ``[n, dim]``.
            visible: Look at the first so many prototypes only.

        Returns:
            Index and cosine, ``[n]`` each; ties go to the older prototype.
        """
        cosine = embeddings.detach() @ self.vectors[:visible].t()
        if cosine.device.type == "cpu":
            # NumPy's argmax is vectorised; PyTorch's takes several times as long as the product.
            index = torch.from_numpy(cosine.numpy().argmax(axis=1))
        else:
            index = cosine.argmax(dim=1)
        return index, cosine.gather(1, index.unsqueeze(1)).squeeze(1)

    def cover(self, embeddings: Tensor, task: int) -> tuple[Tensor, Tensor]:
        """Found prototypes where embeddings are not covered, then match.

        The founders are a maximal subset of the embeddings that are far from all prototypes and from
        each other, taken greedily: the one with the most uncovered company first. Neither the order of the
        embeddings nor repeated ones make a difference.

        Args:
            embeddings: Unit vectors ``[n, dim]``.
            task: In whose name prototypes are founded.

        Returns:
            Index and cosine, ``[n]`` each, as :meth:`match` gives them.
        """
        if len(embeddings) == 0:
            return embeddings.new_zeros(0, dtype=torch.long), embeddings.new_zeros(0)
        strangers = self.strangers(embeddings)
        if len(strangers):
            self.found(self.choose_founders(strangers), task)
            if DEBUG:
                self.check(embeddings)
        return self.match(embeddings)

    def strangers(self, embeddings: Tensor) -> Tensor:
        """The embeddings that no prototype covers, or that are so near the edge that rounding decides."""
        embeddings = embeddings.detach()
        if self._size == 0 or len(embeddings) == 0:
            return embeddings
        return embeddings[self.match(embeddings)[1] < self.nearly]

    @property
    def nearly(self) -> float:
        """The cosine from which on an embedding is covered beyond doubt."""
        return 1 - self.threshold + ROUNDING

    def choose_founders(self, strangers: Tensor) -> Tensor:
        """Which strangers are to become prototypes; see :meth:`cover`."""
        return _choose_founders(strangers, self.vectors, self.threshold)

    def found(self, vectors: Tensor, task: int) -> None:
        """Add prototypes, in the name of ``task``."""
        needed = self._size + len(vectors)
        capacity = len(self._vectors)
        if needed > capacity:
            grown = max(needed, 2 * capacity, 16)
            self._vectors = torch.cat([self.vectors, self._vectors.new_zeros(grown - self._size, self.dim)])
            self._founders = torch.cat([self.founders, self._founders.new_zeros(grown - self._size)])
        self._vectors[self._size : needed] = vectors
        self._founders[self._size : needed] = task
        self._size = needed

    def grow(self, embeddings: Tensor, task: int) -> int:
        """Found prototypes where embeddings are not covered; see :meth:`cover`.

        Returns:
            The number of new prototypes.
        """
        before = self._size
        self.cover(embeddings, task)
        return self._size - before

    def refine(self, moved: Tensor, embeddings: Tensor, index: Tensor, task: int) -> None:
        """Move prototypes, then restore packing (by merging) and the cover of ``embeddings``.

        Args:
            moved: Where each prototype should go ``[len(book), dim]``, of any length.
            embeddings: The embeddings they were moved for ``[n, dim]``.
            index: The prototype each of them was matched to ``[n]``.
            task: The task that founds what is needed to restore the cover.
        """
        if self.move(moved) or self.loses(embeddings, index):
            self.cover(embeddings, task)
        if DEBUG:
            self.check(embeddings)

    @torch.no_grad()
    def move(self, moved: Tensor) -> bool:
        """Move prototypes and merge those that came too close; frozen ones stay.

        Args:
            moved: Where each prototype should go ``[len(book), dim]``, of any length.

        Returns:
            Whether any was merged away, so that numbers of prototypes have changed.
        """
        self._vectors[self.num_frozen : self._size] = unit(moved[self.num_frozen :])
        return self.merge() > 0

    def merge(self) -> int:
        """Drop every prototype that came too close to an older one.

        Returns:
            The number of dropped prototypes.
        """
        if self._size < 2 or not self._is_crowded():
            return 0
        exact = self.vectors.double()
        close = ((exact @ exact.t()) >= 1 - self.threshold).tril_(-1)
        dropped = torch.zeros(self._size, dtype=torch.bool, device=close.device)
        for young in close.any(dim=1).nonzero().flatten().tolist():
            dropped[young] = bool((close[young] & ~dropped).any())
        dropped[: self.num_frozen] = False
        kept = ~dropped
        size = int(kept.sum())
        self._vectors[:size] = self.vectors[kept]
        self._founders[:size] = self.founders[kept]
        removed, self._size = self._size - size, size
        return removed

    def freeze(self) -> None:
        """Let nothing founded so far be moved or merged away any more."""
        self.num_frozen = self._size

    def closest_cosine(self) -> float:
        """Cosine of the two prototypes nearest to each other; −1 if there are fewer than two."""
        exact = self.vectors.double()
        cosine = exact @ exact.t()
        cosine.fill_diagonal_(-1)
        return float(cosine.max()) if self._size > 1 else -1.0

    def check(self, embeddings: Tensor | None = None, tolerance: float = 1e-6) -> None:
        """Assert that the prototypes are unit vectors, packed, and cover ``embeddings``."""
        exact = self.vectors.double()
        broken = []
        if self._size and float((exact.norm(dim=1) - 1).abs().max()) > 1e-5:
            broken.append("unit length")
        if self.closest_cosine() >= 1 - self.threshold + tolerance:
            broken.append("packing")
        if embeddings is not None and len(embeddings):
            near = (embeddings.detach().double() @ exact.t()).amax(dim=1)
            if float(near.min()) < 1 - self.threshold - tolerance:
                broken.append("cover")
        if broken:
            raise AssertionError(f"{self} does not keep: {', '.join(broken)}")

    def extra_repr(self) -> str:
        """The arguments and the number of prototypes."""
        return f"dim={self.dim}, threshold={self.threshold}, size={self._size}"

    def loses(self, embeddings: Tensor, index: Tensor) -> bool:
        """Whether an embedding is out of reach of the prototype it was matched to."""
        if len(index) == 0:
            return False
        near = (embeddings * self.vectors.index_select(0, index)).sum(dim=1)
        return float(near.min()) < self.nearly

    def _is_crowded(self) -> bool:
        """Whether two prototypes may be too close; cheaper than the exact test, and never wrong to say no."""
        cosine = self.vectors @ self.vectors.t()
        cosine.fill_diagonal_(-1)
        return float(cosine.max()) >= 1 - self.threshold - ROUNDING

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "vectors"] = self.vectors.clone()
        destination[prefix + "founders"] = self.founders.clone()
        destination[prefix + "num_frozen"] = torch.tensor(self.num_frozen, device="cpu")

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        self._vectors = state_dict[prefix + "vectors"].clone().to(self._vectors.device)
        self._founders = state_dict[prefix + "founders"].clone().to(self._founders.device)
        self.num_frozen = int(state_dict[prefix + "num_frozen"])
        self._size = len(self._vectors)


def _choose_founders(embeddings: Tensor, known: Tensor, threshold: float) -> Tensor:
    """A maximal subset, far from ``known`` and from each other; the same for any order of the rows."""
    rest = torch.from_numpy(np.unique(embeddings.cpu().numpy(), axis=0)).double()
    known, founders = known.cpu().double(), []
    while True:
        if len(known):
            rest = rest[(rest @ known.t()).amax(dim=1) < 1 - threshold]
        if len(rest) == 0:
            break
        chunk, rest = rest[:CHUNK], rest[CHUNK:]
        known = chunk[_choose_distinct(chunk, threshold)]
        founders.append(known)
    return torch.cat(founders).float().to(embeddings.device) if founders else embeddings[:0]


def _choose_distinct(vectors: Tensor, threshold: float) -> list[int]:
    close = vectors @ vectors.t() >= 1 - threshold
    close.fill_diagonal_(True)
    weight = close.float()
    uncovered = torch.ones(len(vectors), device=vectors.device)
    chosen = []
    while bool(uncovered.any()):
        company = (weight @ uncovered) * uncovered
        best = int(company.argmax())
        chosen.append(best)
        uncovered.masked_fill_(close[best], 0.0)
    return chosen
