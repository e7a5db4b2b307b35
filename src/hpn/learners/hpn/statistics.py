r"""Sums over training nodes, from which extractors are solved.

For each bank of evidence, the counts and sums of each class are kept and, for banks with a random layer h, the Gram
matrix :math:`\sum h h^\top`. Encoded nodes are whole numbers, so the sums are exact (up to :math:`2^{53}`): they do not
depend on the order of arrival or on how nodes were grouped into fits, and nodes can be added and subtracted again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy  # whose parts are imported when they are first used
import torch

from hpn.nn.device import CPU
from hpn.nn.encoder import Features, is_csr
from hpn.nn.fold import cut, run_threads

EXACT_ROWS = 1024
"""Nodes whose products, or slots, are summed in single precision, which is exact for this many."""
LEAST_FOR_BYTES = 64
"""Products of 8-bit numbers are used for at least this many columns."""
INTEGER_ROWS = 1 << 16
"""Nodes whose products are summed in 32-bit numbers, which is exact for this many."""


def add_gram(gram: np.ndarray, rows: np.ndarray, sign: int = 1) -> None:
    """Add ``sign * rows.T @ rows`` to a Gram matrix, exactly, for whole numbers from 0 to 127.

    Processors with instructions for products of 8-bit numbers do this several times as fast.
    """
    uses_bytes = len(gram) >= LEAST_FOR_BYTES and _has_exact_bytes()
    for part in cut(len(rows), INTEGER_ROWS if uses_bytes else EXACT_ROWS):
        some = torch.from_numpy(rows[part]).to(torch.int8 if uses_bytes else torch.float32)
        product = torch._int_mm(some.T, some) if uses_bytes else some.T @ some
        torch.from_numpy(gram).add_(product, alpha=sign)


def add_by_class(rows: Features, place: np.ndarray, num_classes: int) -> np.ndarray:
    """Sums of rows of whole numbers up to 2**12 by class ``[num_classes, dim]``, exactly."""
    total = np.zeros((num_classes, rows.shape[1]))
    for part in cut(rows.shape[0], EXACT_ROWS):
        is_class = np.eye(num_classes, dtype=np.float32)[:, place[part]]
        total += is_class @ (rows[part] if is_csr(rows) else rows[part].astype(np.float32, copy=False))
    return total


@lru_cache(maxsize=1)
def _has_exact_bytes() -> bool:
    """Whether products of 8-bit numbers are exact here; without the right instructions they saturate."""
    rows = torch.full((256, 64), 127, dtype=torch.int8, device=CPU)
    try:
        return bool((torch._int_mm(rows.T, rows) == 256 * 127**2).all())
    except (AttributeError, RuntimeError):
        return False


@dataclass(eq=False)
class ClassSums:
    """Counts and sums of encoded nodes by class; exact, additive."""

    dim: int  # length of an encoded node
    has_gram: bool
    sums: dict[int, np.ndarray] = field(default_factory=dict)  # by class, [dim] in double precision
    counts: dict[int, int] = field(default_factory=dict)
    _gram: np.ndarray | None = None
    _packed: np.ndarray | None = None  # lower half of a loaded Gram matrix

    @property
    def gram(self) -> np.ndarray | None:
        """The Gram matrix ``[dim, dim]``; of loaded sums it is unpacked when it is first needed."""
        if self._packed is not None:
            gram = np.zeros((self.dim, self.dim))
            gram[_lower_half(self.dim)] = self._packed
            self._gram, self._packed = np.maximum(gram, gram.T), None  # entries are never negative
        return self._gram

    @gram.setter
    def gram(self, gram: np.ndarray) -> None:
        self._gram, self._packed = gram, None

    def add(self, rows: Features, y: np.ndarray, sign: int = 1) -> None:
        """Add encoded nodes ``[n, dim]`` of classes ``[n]``; ``sign=-1`` subtracts them."""
        if self.has_gram:
            gram = np.zeros((self.dim, self.dim)) if self.gram is None else self.gram
            add_gram(gram, rows, sign)
            self.gram = gram
        labels, place, counts = np.unique(y, return_inverse=True, return_counts=True)
        totals = add_by_class(rows, place, len(labels))
        for label, total, count in zip(labels.tolist(), totals, counts.tolist(), strict=True):
            self._shift(label, sign * total, sign * count)

    def merge(self, other: ClassSums, sign: int = 1) -> ClassSums:
        """Add other sums; ``sign=-1`` subtracts them."""
        if other.gram is not None:
            self.gram = sign * other.gram if self.gram is None else self.gram + sign * other.gram
        for label, total in other.sums.items():
            self._shift(label, sign * total, sign * other.counts[label])
        return self

    def drop(self, label: int) -> None:
        """Drop the sum and count of a class; its contribution to the Gram matrix stays."""
        self.sums.pop(label, None)
        self.counts.pop(label, None)
        if not self.counts:
            self._gram = self._packed = None

    def copy(self) -> ClassSums:
        """A copy that shares nothing that is changed in place."""
        gram = None if self._gram is None else self._gram.copy()
        return ClassSums(self.dim, self.has_gram, dict(self.sums), dict(self.counts), gram, self._packed)

    def _shift(self, label: int, total: np.ndarray, count: int) -> None:
        self.sums[label] = self.sums.get(label, 0.0) + total
        self.counts[label] = self.counts.get(label, 0) + count
        if self.counts[label] == 0 and not self.sums[label].any():
            self.drop(label)

    def means(self, classes: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Counts ``[C]`` and means ``[C, dim]``."""
        counts = np.array([self.counts[label] for label in classes], dtype=float)
        return counts, np.stack([self.sums[label] for label in classes]) / counts[:, None]

    def state(self) -> dict[str, Any]:
        """As tensors; classes in order of their numbers, and the lower half of the Gram matrix."""
        labels = sorted(self.sums)
        sums = np.stack([self.sums[label] for label in labels]) if labels else np.zeros((0, self.dim))
        kept = {"sums": torch.from_numpy(sums)}
        if self._packed is not None:
            kept["gram"] = torch.from_numpy(self._packed)
        elif self.gram is not None:
            lower = self.gram[_lower_half(self.dim)]
            kept["gram"] = torch.from_numpy(lower.astype(np.int32) if lower.max() < 2**31 else lower)
        kept["labels"] = torch.tensor(labels, dtype=torch.int64, device=CPU)
        counts = [self.counts[label] for label in labels]
        kept["counts"] = torch.tensor(counts, dtype=torch.int64, device=CPU)
        return kept

    @property
    def num_stored(self) -> int:
        """Numbers in :meth:`state`."""
        half = self.dim * (self.dim + 1) // 2 if self.has_gram and self.counts else 0
        return half + len(self.sums) * (self.dim + 2)

    @classmethod
    def restore(cls, dim: int, state: dict[str, Any]) -> ClassSums:
        """The sums of which :meth:`state` was the result."""
        labels, packed = state["labels"].tolist(), None
        if "gram" in state:
            packed = state["gram"].numpy()
            if packed.shape != (dim * (dim + 1) // 2,):
                raise ValueError(f"a Gram matrix has {packed.size} entries")
        sums = dict(zip(labels, state["sums"].numpy().copy(), strict=True))
        counts = dict(zip(labels, state["counts"].tolist(), strict=True))
        return cls(dim, packed is not None, sums, counts, None, packed)


@lru_cache(maxsize=1)
def _lower_half(dim: int) -> np.ndarray:
    return np.tri(dim, dtype=bool)


@dataclass(frozen=True, eq=False)
class LeastSquares:
    r"""Extractors of a bank with a random layer: evidence :math:`W^\top h + b`."""

    weight: np.ndarray  # [dim, C]
    bias: np.ndarray  # [C]

    def __call__(self, hidden: np.ndarray) -> np.ndarray:
        """Evidence ``[n, C]``."""
        return np.asarray(hidden.astype(np.float32) @ self.weight.astype(np.float32) + self.bias)


def solve(sums: ClassSums, classes: list[int], *, strength: float, balance: float) -> LeastSquares:
    r"""Regularised least squares of class membership on h, with an intercept that is not regularised.

    A node of class c has the weight :math:`w_c = n_c^{-\beta}`. With the pooled scatter within classes, no Gram matrix
    per class is needed:

    .. math:: G_\beta = \frac{\sum_c w_c n_c}{N} \Bigl(G - \sum_c n_c \mu_c \mu_c^\top\Bigr)
              + \sum_c w_c n_c\, \mu_c \mu_c^\top

    Args:
        sums: Sums with a Gram matrix :math:`G`.
        classes: Columns of the result.
        strength: :math:`\lambda`, as a multiple of the mean squared length of (weighted) h.
        balance: :math:`\beta`.
    """
    assert sums.gram is not None  # noqa: S101  (nodes were added)
    counts, means = sums.means(classes)
    weight = counts ** (1 - balance)  # w_c n_c
    total = weight.sum()
    center = weight @ means / total
    share = total / counts.sum()
    factor = np.append(weight - share * counts, -total)  # of the class means, and of their centre
    vectors = np.vstack([means, center])
    system = share * sums.gram
    length = (np.trace(system) + factor[:-1] @ (means**2).sum(axis=1)) / counts.sum()
    system += (vectors.T * factor) @ vectors
    system.flat[:: len(system) + 1] += max(strength * length, 1e-9)
    right = (means - center).T * weight
    # The transpose of a symmetric matrix is in LAPACK's order.
    lower = scipy.linalg.cholesky(system.T, lower=True, overwrite_a=True, check_finite=False)
    solved = scipy.linalg.cho_solve((lower, True), right, check_finite=False)
    # In the order of a loaded model, so that products are rounded alike.
    return LeastSquares(np.ascontiguousarray(solved), weight / total - center @ solved)


def solve_all(banks: Sequence[ClassSums], classes: list[int], *, strength: float, balance: float) -> list[LeastSquares]:
    """Solve several banks at once, one thread per bank: threads that share a factorisation wait for each other."""
    return run_threads(partial(solve, classes=classes, strength=strength, balance=balance), banks)


@dataclass(frozen=True, eq=False)
class ClassMeans:
    r"""Extractors of a bank of class means: the cosine of :math:`u - m` and :math:`\mu_c - m`."""

    center: np.ndarray  # m, the mean of the class means [dim]
    directions: np.ndarray  # of length 1 [C, dim]

    @property
    def vectors(self) -> np.ndarray:
        """The factors of a slot: the directions, then the centre ``[C + 1, dim]``."""
        return np.vstack([self.directions, self.center])

    def __call__(self, products: np.ndarray) -> np.ndarray:
        """Evidence ``[n, C]`` from the products of slots (of length 1) with :attr:`vectors`."""
        offset = self.directions @ self.center
        return np.asarray((products[:, :-1] - offset) / self.distance(products))

    def distance(self, products: np.ndarray) -> np.ndarray:
        """Distance of slots from the centre ``[n, 1]``."""
        square = 1 - 2 * products[:, -1:] + float(self.center @ self.center)
        return np.asarray(np.sqrt(np.maximum(square, 1e-6)))


def average(sums: ClassSums, classes: list[int], scale: float) -> ClassMeans:
    """Class means of slots that were summed as multiples of ``scale``."""
    _, means = sums.means(classes)
    means = means * scale
    center = means.mean(axis=0)
    directions = means - center
    length = np.linalg.norm(directions, axis=1, keepdims=True)
    return ClassMeans(center, directions / np.maximum(length, 1e-12))
