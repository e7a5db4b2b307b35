"""Which seeds a run has."""

from __future__ import annotations

from collections.abc import Sequence

from hpn.errors import ConfigError


def check_seeds(seeds: int | Sequence[int]) -> list[int]:
    """Seeds 0, 1, … if given how many, else those given.

    Raises:
        ConfigError: If there are none, or one is negative or given twice.
    """
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen or len(set(chosen)) != len(chosen) or min(chosen) < 0:
        raise ConfigError(f"seeds must be one or more different numbers from 0 up, got {seeds}")
    return chosen


def seed_words(seeds: Sequence[int]) -> list[str]:
    """Seeds as words of a command line.

    Example:
        >>> seed_words([0, 1]), seed_words([3])
        (['--seeds', '2'], ['--seed', '3'])
    """
    if list(seeds) == list(range(len(seeds))):
        return ["--seeds", str(len(seeds))]
    return [word for seed in seeds for word in ("--seed", str(seed))]
