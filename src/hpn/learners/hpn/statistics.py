r"""Sums over training nodes, from which extractors are solved.

For each bank of evidence, the counts and sums of each class are kept and, for banks with a random layer h, the Gram
matrix :math:`\sum h h^\top`. Encoded nodes are whole numbers, so the sums are exact (up to :math:`2^{53}`): they do not
depend on the order of arrival or on how nodes were grouped into fits, and nodes can be added and subtracted again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import scipy  # whose parts are imported when they are first used
import torch

from hpn.nn.device import CPU
from hpn.nn.encoder import ROWS, Features, is_csr
from hpn.nn.fold import cut

LAYER_HOPS = (0, 2, 3)
"""The farthest hop of each bank with a random layer, which come first."""
MEAN_HOPS = (0, 1, 2)
"""The hop of each bank of class means, which come next."""
EXACT_ROWS = 1024
"""Nodes whose products, or slots, are summed in single precision, which is exact for this many."""
LEAST_FOR_BYTES = 64
"""Products of 8-bit numbers are used for at least this many columns."""
INTEGER_ROWS = 1 << 16
"""Nodes whose products are summed in 32-bit numbers, which is exact for this many."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Counts and sums of encoded nodes by class, in all banks; exact, additive, and never changed."""

    labels: np.ndarray  # class numbers, sorted [C]
    counts: np.ndarray  # nodes of each class [C]
    totals: Sequence[np.ndarray]  # of each bank [C, dim], in double precision
    grams: Sequence[np.ndarray] = ()  # lower half of the Gram matrix of each random layer; none without nodes

    @classmethod
    def empty(cls, width: int, num_features: int) -> Sums:
        """Sums without nodes, for random layers of a width."""
        none = np.zeros(0, np.int64)
        return cls(none, none, [np.zeros((0, dim)) for dim in _dims(width, num_features)])

    @property
    def by_label(self) -> dict[int, int]:
        """The number of nodes of each class."""
        return dict(zip(self.labels.tolist(), self.counts.tolist(), strict=True))

    def merge(self, other: Sums, sign: int = 1) -> Sums:
        """The sum of both; ``sign=-1`` subtracts the other."""
        labels = np.union1d(self.labels, other.labels)
        counts = np.zeros(len(labels), np.int64)
        totals = [np.zeros((len(labels), part.shape[1])) for part in self.totals]
        for sums, factor in ((self, 1), (other, sign)):
            at = np.searchsorted(labels, sums.labels)
            counts[at] += factor * sums.counts
            for total, part in zip(totals, sums.totals, strict=True):
                total[at] += factor * part
        grams = [mine + sign * theirs for mine, theirs in zip_longest(self.grams, other.grams, fillvalue=np.zeros(1))]
        return Sums(labels, counts, totals, grams)._keep(counts != 0)

    def drop(self, label: int) -> Sums:
        """The same without the sum and count of a class; its contribution to the Gram matrices stays."""
        return self._keep(self.labels != label)

    def _keep(self, stays: np.ndarray) -> Sums:
        totals = [part[stays] for part in self.totals]
        return Sums(self.labels[stays], self.counts[stays], totals, self.grams if stays.any() else ())

    def means(self) -> list[np.ndarray]:
        """Class means in each bank ``[C, dim]``."""
        return [part / self.counts[:, None] for part in self.totals]

    def state(self) -> dict[str, Any]:
        """As tensors, by bank."""
        state: dict[str, Any] = {}
        for bank, total in enumerate(self.totals):
            arrays = {"sums": total, "labels": self.labels, "counts": self.counts}
            if bank < len(self.grams):
                gram = self.grams[bank]
                arrays["gram"] = gram.astype(np.int32) if gram.max() < 2**31 else gram
            state[str(bank)] = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        return state

    @classmethod
    def restore(cls, width: int, num_features: int, state: dict[str, Any]) -> Sums:
        """The sums of which :meth:`state` was the result."""
        labels, counts = (state["0"][name].numpy().copy() for name in ("labels", "counts"))
        dims = _dims(width, num_features)
        totals = [state[str(bank)]["sums"].numpy().copy() for bank in range(len(dims))]
        grams = [state[str(bank)]["gram"].numpy().astype(float) for bank in range(len(LAYER_HOPS))]
        found = [part.shape for part in (counts, *totals, *grams)]
        if found != [labels.shape, *((len(labels), dim) for dim in dims), *[(_half(width),)] * len(grams)]:
            raise ValueError(f"sums have the shapes {found}")
        return cls(labels, counts, totals, grams)

    @property
    def num_stored(self) -> int:
        """Numbers in :meth:`state`."""
        dims = [part.shape[1] for part in self.totals]
        return int(sum(len(self.labels) * (dim + 2) for dim in dims) + sum(map(len, self.grams)))


def _dims(width: int, num_features: int) -> list[int]:
    return [width] * len(LAYER_HOPS) + [num_features] * len(MEAN_HOPS)


def _half(dim: int) -> int:
    return dim * (dim + 1) // 2


def sum_encoded(encode: Callable[[slice], Sequence[Features]], y: np.ndarray, width: int, num_features: int) -> Sums:
    """Sum nodes of classes ``y``; ``encode`` gives some of them, as encoded for each bank."""
    if len(y) == 0:
        return Sums.empty(width, num_features)
    labels, place, counts = np.unique(y, return_inverse=True, return_counts=True)
    totals = [np.zeros((len(labels), dim)) for dim in _dims(width, num_features)]
    grams = [np.zeros((width, width)) for _ in LAYER_HOPS]
    for part in cut(len(y), ROWS):
        encoded = encode(part)
        for bank, rows in enumerate(encoded):
            totals[bank] += sum_by_class(rows, place[part], len(labels))
        for gram, rows in zip(grams, encoded, strict=False):
            add_gram(gram, rows)
    return Sums(labels, counts, totals, [gram[_lower_half(width)] for gram in grams])


def add_gram(gram: np.ndarray, rows: np.ndarray) -> None:
    """Add ``rows.T @ rows`` to a Gram matrix, exactly, for whole numbers from 0 to 127.

    Processors with instructions for products of 8-bit numbers do this several times as fast.
    """
    uses_bytes = len(gram) >= LEAST_FOR_BYTES and _has_exact_bytes()
    for part in cut(len(rows), INTEGER_ROWS if uses_bytes else EXACT_ROWS):
        some = torch.from_numpy(rows[part]).to(torch.int8 if uses_bytes else torch.float32)
        torch.from_numpy(gram).add_(torch._int_mm(some.T, some) if uses_bytes else some.T @ some)


@lru_cache(maxsize=1)
def _has_exact_bytes() -> bool:
    """Whether products of 8-bit numbers are exact here; without the right instructions they saturate."""
    rows = torch.full((256, 64), 127, dtype=torch.int8, device=CPU)
    try:
        return bool((torch._int_mm(rows.T, rows) == 256 * 127**2).all())
    except (AttributeError, RuntimeError):
        return False


def sum_by_class(rows: Features, place: np.ndarray, num_classes: int) -> np.ndarray:
    """Sums of rows of whole numbers up to 2**12 by class ``[num_classes, dim]``, exactly."""
    total = np.zeros((num_classes, rows.shape[1]))
    for part in cut(rows.shape[0], EXACT_ROWS):
        is_class = np.eye(num_classes, dtype=np.float32)[:, place[part]]
        total += is_class @ (rows[part] if is_csr(rows) else rows[part].astype(np.float32, copy=False))
    return total


@lru_cache(maxsize=1)
def _lower_half(dim: int) -> np.ndarray:
    return np.tri(dim, dtype=bool)


class LeastSquares(NamedTuple):
    r"""Extractors of a bank with a random layer: evidence :math:`W^\top h + b`."""

    weight: np.ndarray  # [dim, C]
    bias: np.ndarray  # [C]

    def evidence(self, hidden: np.ndarray) -> np.ndarray:
        """Evidence ``[n, C]``."""
        return np.asarray(hidden.astype(np.float32) @ self.weight.astype(np.float32) + self.bias)


def solve(bank: int, sums: Sums, *, strength: float, balance: float) -> LeastSquares:
    r"""Regularised least squares of class membership on h, with an intercept that is not regularised.

    A node of class c has the weight :math:`w_c = n_c^{-\beta}`. With the pooled scatter within classes, no Gram matrix
    per class is needed:

    .. math:: G_\beta = \frac{\sum_c w_c n_c}{N} \Bigl(G - \sum_c n_c \mu_c \mu_c^\top\Bigr)
              + \sum_c w_c n_c\, \mu_c \mu_c^\top

    Args:
        bank: The position of a bank with a Gram matrix :math:`G`.
        sums: The sums of all banks.
        strength: :math:`\lambda`, as a multiple of the mean squared length of (weighted) h.
        balance: :math:`\beta`.
    """
    counts, means = sums.counts.astype(float), sums.means()[bank]
    weight = counts ** (1 - balance)  # w_c n_c
    total = weight.sum()
    center = weight @ means / total
    share = total / counts.sum()
    factor = np.append(weight - share * counts, -total)  # of the class means, and of their centre
    vectors = np.vstack([means, center])
    system = np.zeros((means.shape[1],) * 2)
    system.T[_lower_half(len(system))] = share * sums.grams[bank]  # the other half is never read
    length = (np.trace(system) + factor[:-1] @ (means**2).sum(axis=1)) / counts.sum()
    system += (vectors.T * factor) @ vectors
    system.flat[:: len(system) + 1] += max(strength * length, 1e-9)
    right = (means - center).T * weight
    # The transpose of a symmetric matrix is in LAPACK's order.
    lower = scipy.linalg.cholesky(system.T, lower=True, overwrite_a=True, check_finite=False)
    solved = scipy.linalg.cho_solve((lower, True), right, check_finite=False)
    # In the order of a loaded model, so that products are rounded alike.
    return LeastSquares(np.ascontiguousarray(solved), weight / total - center @ solved)


class ClassMeans(NamedTuple):
    r"""Extractors of a bank of class means: the cosine of :math:`u - m` and :math:`\mu_c - m`."""

    center: np.ndarray  # m, the mean of the class means [dim]
    directions: np.ndarray  # of length 1 [C, dim]

    @classmethod
    def of(cls, means: np.ndarray) -> ClassMeans:
        """Of means of slots ``[C, dim]``."""
        center = means.mean(axis=0)
        directions = means - center
        length = np.linalg.norm(directions, axis=1, keepdims=True)
        return cls(center, directions / np.maximum(length, 1e-12))

    @property
    def vectors(self) -> np.ndarray:
        """The factors of a slot: the directions, then the centre ``[C + 1, dim]``."""
        return np.vstack([self.directions, self.center])

    def evidence(self, products: np.ndarray) -> np.ndarray:
        """Evidence ``[n, C]`` from the products of slots (of length 1) with :attr:`vectors`."""
        offset = self.directions @ self.center
        return np.asarray((products[:, :-1] - offset) / self.distance(products))

    def distance(self, products: np.ndarray) -> np.ndarray:
        """Distance of slots from the centre ``[n, 1]``."""
        square = 1 - 2 * products[:, -1:] + float(self.center @ self.center)
        return np.asarray(np.sqrt(np.maximum(square, 1e-6)))
