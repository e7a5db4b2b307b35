r"""How many unit vectors can keep a distance from each other (the paper's Theorem 1).

Unit vectors whose pairwise inner products are at most :math:`s = 1 - t` are a spherical code. The prototypes of a
level are one, so the largest code bounds their number for every stream. The paper has a formula for two dimensions;
this module has a bound for any.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import scipy  # whose parts are imported when they are first used

from hpn.errors import ConfigError
from hpn.theory.levenshtein import levenshtein_bound

ROUNDING = 1e-12
"""Added to the largest inner product, so that 1 − t is not rounded to the unsafe side."""


@dataclass(frozen=True)
class CodeBound:
    """An upper bound on the size of a spherical code.

    Args:
        size: No code has more members.
        name: Name of the bound.
        value: The bound before it is rounded down; infinite if it exceeds the range of floating-point numbers.
        is_exact: Whether a code of that size exists.
    """

    size: int
    name: str
    value: float
    is_exact: bool = False


@functools.lru_cache(maxsize=4096)
def max_code_size(dim: int, min_cosine_distance: float) -> CodeBound:
    """The best known upper bound on the size of a spherical code.

    Exact in one and two dimensions and from a distance of 1 on; otherwise the best of :func:`upper_bounds`.

    Args:
        dim: Dimension of the vectors.
        min_cosine_distance: The smallest distance :math:`t` between two members, above 0 and at most 2.

    Raises:
        ConfigError: If the dimension or the distance is out of range.

    Example:
        >>> max_code_size(2, 0.3)
        CodeBound(size=7, name='circle', value=7.899..., is_exact=True)
        >>> max_code_size(8, 0.5).size, max_code_size(16, 1.0).name
        (240, 'Rankin')
    """
    return min(upper_bounds(dim, min_cosine_distance), key=lambda bound: bound.size)


def upper_bounds(dim: int, min_cosine_distance: float) -> list[CodeBound]:
    """Every bound that applies: the exact one where there is one, otherwise all others.

    Raises:
        ConfigError: If the dimension or the distance is out of range.

    Example:
        >>> {bound.name: bound.size for bound in upper_bounds(4, 0.5)}
        {'linear programming': 25, 'Levenshtein': 26, 'Rankin': 32, 'cap area': 34}
    """
    if dim < 1:
        raise ConfigError(f"dim must be at least 1, got {dim}")
    if not 0 < min_cosine_distance <= 2:
        raise ConfigError(f"a cosine distance is above 0 and at most 2, got {min_cosine_distance}")
    if min_cosine_distance < 4 * ROUNDING:
        raise ConfigError(f"a cosine distance of {min_cosine_distance} is too close to 0; choose a larger one")
    cosine = 1 - min_cosine_distance + ROUNDING
    if dim == 1:
        return [CodeBound(2, "line", 2.0, is_exact=True)]
    if dim == 2:
        return [circle_bound(min_cosine_distance)]
    if cosine <= 2 * ROUNDING:
        return [simplex_bound(dim, cosine)]
    # Imported here: fitting a learner should not wait for a solver to load.
    from hpn.theory.linear_programming import linear_programming_bound

    program, closed_form = linear_programming_bound(dim, cosine), levenshtein_bound(dim, cosine)
    found = (
        _round_down(Fraction(program.value), "linear programming") if program else None,
        _round_down(closed_form, "Levenshtein") if closed_form else None,
        rankin_bound(dim, cosine),
        cap_area_bound(dim, cosine),
    )
    return [bound for bound in found if bound is not None]


def circle_bound(distance: float) -> CodeBound:
    r"""In two dimensions: the regular polygon, :math:`\lfloor 2\pi / \arccos(1 - t) \rfloor` vertices."""
    angle = 2 * math.asin(math.sqrt(distance / 2))  # which keeps the digits that 1 − t loses
    value = 2 * math.pi / angle * (1 + ROUNDING)
    return CodeBound(math.floor(value), "circle", value, is_exact=True)


def simplex_bound(dim: int, cosine: float) -> CodeBound:
    r"""Right angles and larger ones (R. A. Rankin, Proc. Glasgow Math. Assoc. 2, 1955).

    Codes with :math:`s < 0` have at most :math:`1 - 1/s` members and at most :math:`d + 1` (a simplex); those with
    :math:`s = 0` at most :math:`2d` (the axes and their opposites). Such codes exist.
    """
    value = 2.0 * dim if cosine >= -2 * ROUNDING else min(1 - 1 / cosine, dim + 1.0)
    return CodeBound(math.floor(value), "Rankin", value, is_exact=True)


def rankin_bound(dim: int, cosine: float) -> CodeBound | None:
    r"""Smaller angles, from the same paper: caps may overlap if they weigh less towards their rims.

    .. math::
        N \le \frac{\sin\beta \tan\beta \int_0^{\pi/2} \sin^{d-2}\varphi\, d\varphi}
                  {\int_0^\beta \sin^{d-2}\varphi\, (\cos\varphi - \cos\beta)\, d\varphi}
        \qquad \sin\beta = \sqrt{1 - s}

    ``None`` where rounding leaves nothing of the lower integral.
    """
    distance, rim = 1 - cosine, math.sqrt(cosine)
    log_half = float(scipy.special.betaln((dim - 1) / 2, 0.5)) - math.log(2)
    whole = math.exp((dim - 1) / 2 * math.log(distance) - math.log(dim - 1) - log_half)
    share = whole - rim * float(scipy.special.betainc((dim - 1) / 2, 0.5, distance))
    if share < max(1e-290, 1e-6 * whole):
        return None
    lost = 1e-9 + 1e-11 * whole / share  # more than the difference has lost of its digits
    return _round_down(Fraction(distance / (rim * share) * (1 + lost)), "Rankin")


def cap_area_bound(dim: int, cosine: float) -> CodeBound:
    r"""Caps of half the smallest angle :math:`\theta = \arccos s` around the members are disjoint.

    Their number is at most :math:`2 / I_{\sin^2(\theta/2)}\bigl(\tfrac{d-1}{2}, \tfrac12\bigr)`, where :math:`I` is the
    regularised incomplete beta function: twice the share of the sphere in a cap.
    """
    distance = 1 - cosine
    cap = float(scipy.special.betainc((dim - 1) / 2, 0.5, distance / 2))
    if cap < 1e-290:  # too small for floating-point numbers: balls around the members are disjoint as well
        radius = Fraction(math.sqrt(2 * distance) / 2 * (1 - 1e-12))
        return _round_down((1 + 1 / radius) ** dim, "balls")
    return _round_down(Fraction(2 / cap * (1 + 1e-9)), "cap area")


def _round_down(value: Fraction, name: str) -> CodeBound:
    try:
        as_float = float(value)
    except OverflowError:
        as_float = math.inf
    return CodeBound(math.floor(value), name, as_float)
