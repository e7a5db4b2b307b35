r"""Theorem 1 in numbers: how many prototypes there can ever be, and what they take.

With :math:`S(d, t)` the size of the largest spherical code of dimension :math:`d` and cosine distance
:math:`t`, and :math:`l_a = l_r` extractors of each kind,

.. math::
    n_A \le (l_a + l_r)\, S(d, t_A) \qquad n_N \le S(d, t_N) \qquad n_C \le S(d, t_C)

The factor counts one code for each extractor. Here the atomic prototypes of all extractors are a single code
(:class:`hpn.nn.hpn.codebook.Codebook`), so :math:`n_A \le S(d, t_A)` holds as well: ``in_one_set``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hpn.errors import ConfigError
from hpn.theory.spherical_codes import CodeBound, max_code_size

LEVELS = ("atomic", "node", "class")
BYTES = 4
"""Of a number in single precision, which prototypes and extractors are kept in."""

DIMS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
THRESHOLDS = (0.01, *(round(0.05 * step, 2) for step in range(1, 21)))
"""Distances to choose from: those of the paper, and on to a right angle."""

NO_BOUND = 2**63 - 1
"""No memory holds as many prototypes, so a bound from here on bounds nothing."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


@dataclass(frozen=True)
class MemoryBound:
    """The most a model can hold, whatever tasks it meets.

    Args:
        dim: Dimension of every level.
        thresholds: Distances t_A, t_N, t_C.
        num_extractors: Node extractors, and structure extractors: l_a = l_r.
        num_features: Features of a node, to count the extractors themselves; 0 leaves them out.
        in_one_set: Count the atomic prototypes of all extractors as one code, which they are here, instead
            of one code for each extractor, as the theorem does.

    Example:
        >>> bound = MemoryBound(2, (0.3, 0.3, 0.4), num_extractors=22)
        >>> bound.prototypes
        {'atomic': 308, 'node': 7, 'class': 6}
        >>> bound.num_parameters, bound.num_bytes
        (642, 2568)
    """

    dim: int
    thresholds: tuple[float, float, float]
    num_extractors: int
    num_features: int = 0
    in_one_set: bool = False

    def __post_init__(self) -> None:
        if self.num_extractors < 1 or self.num_features < 0:
            raise ConfigError(
                f"there must be 1 extractor of each kind or more, and 0 features or more, "
                f"got {self.num_extractors} and {self.num_features}"
            )

    @property
    def codes(self) -> dict[str, CodeBound]:
        """The largest code of each level."""
        sizes = (max_code_size(self.dim, threshold) for threshold in self.thresholds)
        return dict(zip(LEVELS, sizes, strict=True))

    @property
    def prototypes(self) -> dict[str, int]:
        """The most prototypes of each level."""
        sizes = {level: code.size for level, code in self.codes.items()}
        if not self.in_one_set:
            sizes["atomic"] *= 2 * self.num_extractors
        return sizes

    @property
    def num_parameters(self) -> int:
        """Numbers in all those prototypes, and in the extractors if the features are known."""
        vectors = sum(self.prototypes.values()) + 2 * self.num_extractors * self.num_features
        return vectors * self.dim

    @property
    def num_bytes(self) -> int:
        """What these numbers take."""
        return BYTES * self.num_parameters

    def to_json(self) -> dict[str, Any]:
        """The amounts as plain data; see :func:`cap_bound`."""
        return {
            "prototypes": {level: cap_bound(size) for level, size in self.prototypes.items()},
            "parameters": cap_bound(self.num_parameters),
            "bytes": cap_bound(self.num_bytes),
        }


def cap_bound(bound: int) -> int:
    """A bound as results and JSON have it: what bounds nothing is ``NO_BOUND``, which 64 bits hold.

    Example:
        >>> cap_bound(308), cap_bound(10**19) == NO_BOUND
        (308, True)
    """
    return min(bound, NO_BOUND)


def describe_bound(bound: int | None) -> str:
    """A bound for people: whole, by its power of ten if that is longer than anyone reads, or in words.

    Example:
        >>> describe_bound(12345), describe_bound(3 * 10**15), describe_bound(10**19), describe_bound(None)
        ('12,345', '3.00e15', 'no useful bound', '–')
    """
    if bound is None:
        return "–"
    if bound >= NO_BOUND:
        return "no useful bound"
    if bound < 10**15:
        return f"{bound:,}"
    digits = str(bound)
    return f"{digits[0]}.{digits[1:3]}e{len(digits) - 1}"


def choose(
    budget: int,
    *,
    dims: Sequence[int] = DIMS,
    num_extractors: int = 22,
    num_features: int = 0,
    in_one_set: bool = False,
) -> dict[int, MemoryBound | None]:
    """For each dimension, the smallest distance with which a model can never outgrow a budget.

    Args:
        budget: Bytes.
        dims: Dimensions to look at.
        num_extractors: See :class:`MemoryBound`, here and below.
        num_features: Of a node.
        in_one_set: Whether atomic prototypes are one code.

    Returns:
        The bound by dimension, with one distance of ``THRESHOLDS`` for all levels; ``None`` if even right
        angles take more than the budget.

    Example:
        >>> {dim: bound.thresholds[0] for dim, bound in choose(10**6, dims=(2, 4, 8)).items()}
        {2: 0.01, 4: 0.05, 8: 0.4}
    """

    def bound(dim: int, threshold: float) -> MemoryBound:
        return MemoryBound(dim, (threshold,) * 3, num_extractors, num_features, in_one_set)

    chosen: dict[int, MemoryBound | None] = {}
    for dim in dims:
        fits, low, high = None, 0, len(THRESHOLDS)  # a larger distance never takes more
        while low < high:
            middle = (low + high) // 2
            tried = bound(dim, THRESHOLDS[middle])
            if tried.num_bytes <= budget:
                fits, high = tried, middle
            else:
                low = middle + 1
        chosen[dim] = fits
    return chosen


def parse_bytes(text: str) -> int:
    """Read an amount of memory.

    Raises:
        ConfigError: If it is none.

    Example:
        >>> parse_bytes("1MB"), parse_bytes("64 KiB"), parse_bytes("1.5 GB"), parse_bytes("4096")
        (1000000, 65536, 1500000000, 4096)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(|[kmg]i?)b?\s*", text, flags=re.IGNORECASE)
    amount = math.floor(Fraction(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if amount < 1:
        raise ConfigError(f"{text!r} is no amount of memory; write 1MB, 500kB, 64KiB or a number of bytes")
    return amount
