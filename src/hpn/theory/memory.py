r"""Theorem 1 in numbers: how many prototypes a model can have, and how much memory they take.

With :math:`S(d, t)` the size of the largest spherical code of dimension :math:`d` and cosine distance
:math:`t`, and :math:`l_a = l_r` extractors of each kind,

.. math::
    n_A \le (l_a + l_r)\, S(d, t_A) \qquad n_N \le S(d, t_N) \qquad n_C \le S(d, t_C)

The factor counts one code per extractor. Here the atomic prototypes of all extractors are a single code
(:class:`hpn.nn.hpn.codebook.Codebook`), so :math:`n_A \le S(d, t_A)` holds as well: ``in_one_set``.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from hpn.errors import ConfigError
from hpn.theory.spherical_codes import CodeBound, max_code_size

LEVELS = ("atomic", "node", "class")
BYTES = 4  # per number: prototypes and extractors have single precision
DIMS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
THRESHOLDS = (0.01, *(round(0.05 * step, 2) for step in range(1, 21)))  # the paper's, and further up to a right angle
NO_BOUND = 2**63 - 1  # more prototypes than any memory holds: a bound from here on is not useful

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


@dataclass(frozen=True)
class MemoryBound:
    """The most that a model can hold, whatever the tasks.

    Args:
        dim: Dimension of every level.
        thresholds: Distances t_A, t_N, t_C.
        num_extractors: Number of node extractors and of structure extractors: l_a = l_r.
        num_features: Features per node, to count the extractors as well; 0 leaves them out.
        in_one_set: Count the atomic prototypes of all extractors as one code, which they are here. By default there
            is one code per extractor, as in the theorem.

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
        """Memory of these numbers."""
        return BYTES * self.num_parameters

    def to_json(self) -> dict[str, Any]:
        """The amounts as plain data; see :func:`cap_bound`."""
        return {
            "prototypes": {level: cap_bound(size) for level, size in self.prototypes.items()},
            "parameters": cap_bound(self.num_parameters),
            "bytes": cap_bound(self.num_bytes),
        }


def cap_bound(bound: int) -> int:
    """A bound as results and JSON have it: at most ``NO_BOUND``, which fits into 64 bits."""
    return min(bound, NO_BOUND)


def describe_bound(bound: int | None) -> str:
    """A bound as text: 12,345, 3.00e15, or ``no useful bound``."""
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
    """For each dimension, the smallest distance with which a model never exceeds a memory budget.

    Args:
        budget: Bytes.
        dims: Dimensions to consider.
        num_extractors: See :class:`MemoryBound`, here and below.
        num_features: Features per node.
        in_one_set: Whether the atomic prototypes are one code.

    Returns:
        The bound by dimension, with one distance of ``THRESHOLDS`` for all levels; ``None`` if even right angles
        exceed the budget.

    Example:
        >>> {dim: bound.thresholds[0] for dim, bound in choose(10**6, dims=(2, 4, 8)).items()}
        {2: 0.01, 4: 0.05, 8: 0.4}
    """
    model = partial(MemoryBound, num_extractors=num_extractors, num_features=num_features, in_one_set=in_one_set)
    chosen: dict[int, MemoryBound | None] = {}
    for dim in dims:
        bounds = [model(dim, (threshold,) * 3) for threshold in THRESHOLDS]
        at = bisect_left(bounds, True, key=lambda bound: bound.num_bytes <= budget)  # fewer bytes for larger distances
        chosen[dim] = bounds[at] if at < len(bounds) else None
    return chosen


def parse_bytes(text: str) -> int:
    """Read an amount of memory.

    Raises:
        ConfigError: If the text is not an amount of memory.

    Example:
        >>> parse_bytes("1MB"), parse_bytes("64 KiB"), parse_bytes("1.5 GB"), parse_bytes("4096")
        (1000000, 65536, 1500000000, 4096)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(|[kmg]i?)b?\s*", text, flags=re.IGNORECASE)
    amount = math.floor(Fraction(match[1]) * _UNITS[match[2].lower()]) if match else 0
    if amount < 1:
        raise ConfigError(f"{text!r} is not an amount of memory; write 1MB, 500kB, 64KiB or a number of bytes")
    return amount
