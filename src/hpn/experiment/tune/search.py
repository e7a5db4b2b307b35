"""The settings to try next: always the same ones after the same results.

Settings are proposed in generations of a fixed size. The sampler of a generation is seeded by its number and
knows only the results of earlier generations. So the number of workers, the order in which they finish and
interruptions make no difference.
"""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpn.params import OneOf, SearchChoice

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

GENERATION = 6
# Trials before the sampler begins to learn from results.
RANDOM_TRIALS = 10
MOST_REPEATS = 50
# Significant digits of a value from a range; tuning cannot distinguish more.
DIGITS = 3

Space = Mapping[str, SearchChoice]
Settings = dict[str, Any]


def settings_key(settings: Mapping[str, Any]) -> str:
    """A text that is equal for equal settings."""
    return json.dumps(settings, sort_keys=True)


def next_settings(
    space: Space, tried: Sequence[Settings], values: Sequence[float], *, defaults: Settings, most: int
) -> list[Settings]:
    """The next generation; empty if nothing is left to try. Failed trials have the value ``-inf``.

    Example:
        >>> next_settings({"epochs": OneOf(20, 50)}, [], [], defaults={"epochs": 30}, most=10)
        [{'epochs': 30}, {'epochs': 20}, {'epochs': 50}]
    """
    every = _all_settings(space, defaults, most)
    if every is not None:
        return every[len(tried) : min(most, len(tried) + GENERATION)]
    generation = len(tried) // GENERATION
    end = min(most, (generation + 1) * GENERATION)
    study, distributions = _study(space, tried, values, generation)
    known = {settings_key(settings) for settings in (*tried, defaults)}
    found = [] if tried else [defaults]
    for _ in range(MOST_REPEATS):
        if len(tried) + len(found) >= end:
            break
        params = study.ask(distributions).params
        settings = {name: _round(choice, params[name]) for name, choice in space.items()}
        if settings_key(settings) not in known:
            known.add(settings_key(settings))
            found.append(settings)
    return found


def _all_settings(space: Space, defaults: Settings, most: int) -> list[Settings] | None:
    """The whole space, if it is not larger than ``most``."""
    choices = [choice.values for choice in space.values() if isinstance(choice, OneOf)]
    if len(choices) < len(space) or math.prod(map(len, choices)) > most:
        return None
    others = [dict(zip(space, row, strict=True)) for row in itertools.product(*choices)]
    return [defaults, *(settings for settings in others if settings != defaults)]


def _study(
    space: Space, tried: Sequence[Settings], values: Sequence[float], generation: int
) -> tuple[Study, dict[str, BaseDistribution]]:
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # older versions call some of these options experimental
        sampler = optuna.samplers.TPESampler(
            seed=generation, n_startup_trials=RANDOM_TRIALS, multivariate=True, constant_liar=True
        )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions: dict[str, BaseDistribution] = {
        name: CategoricalDistribution(choice.values)
        if isinstance(choice, OneOf)
        else FloatDistribution(choice.low, choice.high, log=True)
        for name, choice in space.items()
    }
    for settings, value in zip(tried, values, strict=True):
        if all(_contains(choice, settings[name]) for name, choice in space.items()):
            study.add_trial(optuna.trial.create_trial(params=settings, distributions=distributions, value=value))
    return study, distributions


def _contains(choice: SearchChoice, value: Any) -> bool:
    if isinstance(choice, OneOf):
        return value in choice.values
    return isinstance(value, int | float) and choice.low <= value <= choice.high


def _round(choice: SearchChoice, value: Any) -> Any:
    if isinstance(choice, OneOf):
        return value
    return min(max(float(f"{value:.{DIGITS}g}"), choice.low), choice.high)
