r"""Spherical codes that exist: how many unit vectors keep a distance from each other at least.

A code that was found proves that the largest one, the :math:`S` of the paper's Theorem 1, has no fewer
vectors. Where the optimum is known, it is built: regular polygons, simplices, cross-polytopes. Elsewhere the
largest code of several attempts counts: vectors taken from random ones, from short integer vectors and from
the :math:`E_8` lattice, and then as many more as fit in when all may move.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.optimize import OptimizeResult, minimize
from threadpoolctl import threadpool_limits

from hpn.errors import ConfigError

Vectors = NDArray[np.float64]

SLACK = 1e-10
"""Share of the distance that rounding may take away."""
CHUNK = 256
"""Candidates compared with each other at a time."""
MAX_CANDIDATES = 35_000
"""Vectors to choose from, in up to 32 dimensions; fewer in more."""
WORK = 1.2e9
"""Effort to relax codes, in multiplications: it stops where it stops on every machine."""
SHAPES = ((1,), (1, 1), (1, 1, 1), (1, 1, 1, 1), (2, 1), (2, 1, 1), (1,) * 5, (1,) * 6, (1,) * 7, (1,) * 8)
"""Integer vectors, up to signs, order and zeros."""


def find_code(
    dim: int, min_cosine_distance: float, *, seed: int = 0, max_points: int = 2000
) -> NDArray[np.float64]:
    r"""Unit vectors with pairwise inner products of at most :math:`1 - t` (checked, up to 1e-9).

    Their number is a lower bound on the size of the largest such code. It is the optimum for
    :math:`d \le 2` and for :math:`t \ge 1`.

    Args:
        dim: Dimension :math:`d` of the vectors.
        min_cosine_distance: The distance :math:`t`, above 0 and at most 2.
        seed: Draws the random vectors.
        max_points: Stop at this many vectors. A code of this size is truncated: more may well fit.

    Raises:
        ConfigError: An argument is out of its range.

    Shapes:
        ``[num_vectors, dim]``.

    Example:
        >>> len(find_code(2, 0.3)), len(find_code(8, 0.5))
        (7, 240)
        >>> code = find_code(3, 0.3)
        >>> bool(np.triu(code @ code.T, 1).max() <= 0.7 + 1e-9)
        True
    """
    if dim < 1:
        raise ConfigError(f"dim must be at least 1, got {dim}: give the length of the vectors")
    if not 0 < min_cosine_distance <= 2:
        raise ConfigError(
            f"min_cosine_distance must be above 0 and at most 2, got {min_cosine_distance}: give 1 - cosine"
        )
    if max_points < 1 or seed < 0:
        raise ConfigError(f"max_points must be at least 1 and seed at least 0, got {max_points} and {seed}")
    cosine = 1 - min_cosine_distance * (1 - SLACK)
    if dim == 2:
        code = _polygon(min_cosine_distance, max_points)
    elif min_cosine_distance > 1:
        code = _simplex(dim, min_cosine_distance, max_points)
    elif dim == 1 or min_cosine_distance == 1:
        code = _cross_polytope(dim, max_points)
    else:
        with threadpool_limits(1):  # the products are small: threads only wait for each other
            code = _search(dim, cosine, max_points, np.random.default_rng(seed))
    return _extend(np.empty((0, dim)), code, cosine, max_points)  # drops what is too close, if anything


def _polygon(distance: float, limit: int) -> Vectors:
    smallest = 2 * math.asin(math.sqrt(distance * (1 - SLACK)) * math.sqrt(0.5))
    sides = int(min(limit, 2 * math.pi / smallest))
    angles = 2 * math.pi / sides * np.arange(sides)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _simplex(dim: int, distance: float, limit: int) -> Vectors:
    """Vectors with inner products :math:`-1 / (n - 1)`, as many as ``distance`` allows (Rankin, 1955)."""
    size = int(min(max(2, limit), dim + 1, 1 + 1 / ((distance - 1) * (1 - SLACK))))
    code = np.zeros((size, dim))
    code[:, : size - 1] = _unit(helmert(size).T)
    return code


def _cross_polytope(dim: int, limit: int) -> Vectors:
    axes = np.eye(min(dim, limit), dim)
    return np.concatenate([axes, -axes])[:limit]


def _search(dim: int, cosine: float, limit: int, rng: np.random.Generator) -> Vectors:
    """The largest code of all attempts; none follows one that reaches ``limit``."""
    best = _cross_polytope(dim, limit)
    for code in _greedy_codes(dim, cosine, limit, rng):
        best = max(best, code, key=len)
        if len(best) == limit:
            return best
    return _grow(best, cosine, limit, rng)


def _greedy_codes(dim: int, cosine: float, limit: int, rng: np.random.Generator) -> Iterator[Vectors]:
    nothing = code = np.empty((0, dim))
    sixty_degrees = 0.5 + SLACK
    for _ in range(5):
        drawn = _unit(rng.standard_normal((min(4000, _room(dim)), dim)))
        drawn = drawn[np.argsort(-drawn[:, 0])]  # from one pole to the other: denser than as drawn
        code = _extend(code, drawn, cosine, limit)
    yield code
    for shells in (_integer_shells(dim), _e8_shells(dim)):
        for first in range(len(shells)):
            candidates = _concatenate([shells[first], *shells[:first], *shells[first + 1 :]], _room(dim))
            yield _extend(nothing, candidates, cosine, limit)
            if cosine > sixty_degrees:  # as if for them, where the best lattice codes are; then fill the gaps
                code = _extend(nothing, candidates, sixty_degrees, limit)
                yield _extend(code, candidates, cosine, limit)


def _room(dim: int) -> int:
    return MAX_CANDIDATES * 32 // max(32, dim) + 1


def _concatenate(shells: Sequence[Vectors], room: int) -> Vectors:
    """The first ``room`` rows of all, without a copy of the rest."""
    rows: list[Vectors] = []
    for shell in shells:
        rows.append(shell[:room])
        room -= len(rows[-1])
    return np.concatenate(rows)


def _extend(code: Vectors, candidates: Vectors, cosine: float, limit: int) -> Vectors:
    """Add each candidate that is far enough from the code and from those added before it."""
    new = code
    while len(code) < limit:
        if len(new):
            blocks = [candidates[i : i + 4096] for i in range(0, len(candidates), 4096)]
            far = [(block @ new.T).max(axis=1) <= cosine for block in blocks]
            candidates = candidates[np.concatenate([*far, np.empty(0, dtype=bool)])]
        if len(candidates) == 0:
            break
        chunk, candidates = candidates[:CHUNK], candidates[CHUNK:]
        new = chunk[_choose_first(chunk @ chunk.T > cosine)]
        code = np.concatenate([code, new])
    return code[:limit]


def _choose_first(close: NDArray[np.bool_]) -> list[int]:
    chosen: list[int] = []
    free = np.ones(len(close), dtype=bool)
    for index in range(len(close)):
        if free[index]:
            chosen.append(index)
            free &= ~close[index]
    return chosen


def _integer_shells(dim: int) -> list[Vectors]:
    """Directions of short integer vectors, one list for each shape; on the first coordinates if too many."""
    shells = []
    for shape in SHAPES:
        entries = _signed_orders(shape)
        most = _room(dim) // len(entries)
        places = max((k for k in range(min(dim, most) + 1) if math.comb(k, len(shape)) <= most), default=0)
        if places >= len(shape):
            shells.append(_unit(_spread(entries, places, dim)))
    return shells


def _signed_orders(shape: Sequence[int]) -> Vectors:
    signs = itertools.product((1, -1), repeat=len(shape))
    orders = sorted(set(itertools.permutations(shape))) if len(set(shape)) > 1 else [shape]
    return np.array([np.multiply(*pair) for pair in itertools.product(orders, signs)], dtype=np.float64)


def _spread(entries: Vectors, num_places: int, dim: int) -> Vectors:
    """Put each row of ``entries`` on each choice of the first ``num_places`` coordinates, and 0 elsewhere."""
    places = np.array(list(itertools.combinations(range(num_places), entries.shape[1])))
    vectors = np.zeros((len(places), len(entries), dim))
    np.put_along_axis(vectors, places[:, None, :], entries[None], axis=2)
    return vectors.reshape(-1, dim)


def _e8_shells(dim: int) -> list[Vectors]:
    r"""Directions of the 240 shortest and the 2,160 next vectors of :math:`E_8`, one list for each length.

    Below eight dimensions they are projected to where the first ``9 - dim`` coordinates are equal; some are
    there already, among them the roots of :math:`E_7`, :math:`E_6` and :math:`D_5`.
    """
    if not 3 <= dim <= 8:
        return []
    halves = _signed_orders((1,) * 8) / 2
    halves = halves[halves.sum(axis=1) % 2 == 0]
    longer = (halves[:, None, :] * (1 - 4 * np.eye(8))).reshape(-1, 8)  # one entry of 3/2
    integers = [_spread(_signed_orders(shape), 8, 8) for shape in ((1, 1), (2,), (1, 1, 1, 1))]
    vectors = np.concatenate([halves, longer, *integers])
    equal = 9 - dim
    first = vectors[:, :equal].sum(axis=1, keepdims=True) / math.sqrt(equal)
    vectors = np.unique(np.concatenate([first, vectors[:, equal:]], axis=1).round(12), axis=0)
    lengths = np.linalg.norm(vectors, axis=1).round(9)
    return [_unit(vectors[lengths == length]) for length in np.unique(lengths) if length > 0]


def _grow(code: Vectors, cosine: float, limit: int, rng: np.random.Generator) -> Vectors:
    """Throw in more vectors and let all move until none are too close; on failure, try with fewer more."""
    work, more, dim = WORK, max(1, len(code) // 4), code.shape[1]
    for attempt in itertools.count():
        more = min(more, limit - len(code))
        size = len(code) + more
        cost = size**2 * (dim + 10) + 100 * size * dim + 300_000
        if more == 0 or work < 30 * cost:
            break
        start = np.concatenate([code, _unit(rng.standard_normal((more, dim)))])
        if attempt % 2:
            start = _unit(start + 0.05 * rng.standard_normal(start.shape))
        moved, steps = _relax(start, cosine, min(300, int(work / cost)))
        work -= steps * cost
        if len(_extend(code[:0], moved, cosine, size)) == size:
            code, more = moved, more + more // 2
        else:
            more = max(1, more // 2)
    return code


def _relax(start: Vectors, cosine: float, max_steps: int) -> tuple[Vectors, int]:
    r"""Minimise :math:`\sum_{i<j} \max(0, x_i \cdot x_j - c)^2` over unit vectors.

    Returns:
        Where the vectors came to rest, and how often the sum was computed.
    """
    energies: list[float] = []

    def energy(flat: Vectors) -> tuple[float, Vectors]:
        vectors = flat.reshape(start.shape)
        length = np.linalg.norm(vectors, axis=1, keepdims=True)
        x = vectors / length
        excess = x @ x.T
        excess -= cosine
        np.maximum(excess, 0.0, out=excess)
        np.fill_diagonal(excess, 0.0)
        slope = 2 * excess @ x
        slope -= (slope * x).sum(axis=1, keepdims=True) * x  # along the sphere
        return float(np.vdot(excess, excess)) / 2, (slope / length).ravel()

    def stop_when_stuck(intermediate_result: OptimizeResult) -> None:
        energies.append(float(intermediate_result.fun))
        if len(energies) > 30 and energies[-1] > max(1e-12, 0.8 * energies[-31]):
            raise StopIteration

    result = minimize(
        energy,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=stop_when_stuck,
        options={"maxiter": max_steps, "maxfun": max_steps, "ftol": 0.0, "gtol": 1e-14},
    )
    return _unit(result.x.reshape(start.shape)), int(result.nfev)


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
