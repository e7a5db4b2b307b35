r"""How many unit vectors can keep a distance from each other (the paper's Theorem 1).

A set of unit vectors whose pairwise inner products are below :math:`1 - t` is a spherical code.
"""

from __future__ import annotations

import math

from scipy.special import betainc


def max_code_size(dim: int, min_cosine_distance: float) -> int:
    r"""An upper bound on the size of a spherical code.

    Exact in one and two dimensions, where it is :math:`\lfloor 2\pi / \arccos(1-t) \rfloor`. Beyond, caps of
    half the smallest angle :math:`\theta = \arccos(1-t)` around the vectors are disjoint, so their number is
    at most

    .. math:: 2 \,/\, I_{\sin^2(\theta/2)}\bigl(\tfrac{d-1}{2}, \tfrac12\bigr)

    where :math:`I` is the regularised incomplete beta function: twice the share of the sphere in a cap.

    Args:
        dim: Dimension :math:`d` of the vectors.
        min_cosine_distance: The distance :math:`t`, above 0 and at most 1.

    Example:
        >>> max_code_size(2, 0.3), max_code_size(2, 0.4)
        (7, 6)
    """
    if dim == 1:
        return 2
    angle = math.acos(1 - min_cosine_distance)
    if dim == 2:
        return math.floor(2 * math.pi / angle * (1 + 1e-12))
    cap = float(betainc((dim - 1) / 2, 0.5, math.sin(angle / 2) ** 2))
    if cap < 1e-300:  # too small for floating point: balls around the vectors are disjoint as well
        return int(math.ceil(1 + 2 / math.sqrt(2 * min_cosine_distance)) ** dim)
    return math.floor(2 / cap * (1 + 1e-9))
