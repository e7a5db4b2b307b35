from __future__ import annotations

import math
from typing import Any

import pytest

from hpn.experiment.tune.search import GENERATION, RANDOM_TRIALS, Settings, next_settings, settings_key
from hpn.params import LogRange, OneOf

SPACE = {"lr": LogRange(0.001, 0.1), "epochs": OneOf(20, 50, 100)}
DEFAULTS = {"lr": 0.01, "epochs": 30}


def value_of(settings: Settings) -> float:
    """Best at a rate of 0.02; long training fails."""
    settings = {**DEFAULTS, **settings}
    return -math.inf if settings["epochs"] == 100 else -abs(math.log(settings["lr"] / 0.02))


def search(most: int, **changes: Any) -> list[Settings]:
    space, defaults = changes.get("space", SPACE), changes.get("defaults", DEFAULTS)
    tried: list[Settings] = []
    while batch := next_settings(space, tried, [value_of(s) for s in tried], defaults=defaults, most=most):
        assert len(batch) <= GENERATION
        tried += batch
    return tried


def test_defaults_come_first_and_nothing_comes_twice() -> None:
    tried = search(20)
    assert tried[0] == DEFAULTS
    assert len({settings_key(settings) for settings in tried}) == len(tried) == 20
    for settings in tried[1:]:
        assert 0.001 <= settings["lr"] <= 0.1
        assert settings["lr"] == float(f"{settings['lr']:.3g}")
        assert settings["epochs"] in (20, 50, 100)


def test_the_same_again_and_more_trials_begin_with_the_same() -> None:
    assert search(20) == search(20)
    assert search(10) == search(20)[:10]


def test_results_lead_the_way() -> None:
    later = search(40)[RANDOM_TRIALS:]
    close = [settings for settings in later if value_of(settings) > -0.7]
    assert len(close) > len(later) / 2


def test_a_space_that_can_be_tried_out_is() -> None:
    space = {"epochs": OneOf(20, 50), "lr": OneOf(0.1, 0.2, 0.3)}
    tried = search(20, space=space)
    assert tried[0] == DEFAULTS
    assert {settings_key(settings) for settings in tried[1:]} == {
        settings_key({"epochs": epochs, "lr": lr}) for epochs in (20, 50) for lr in (0.1, 0.2, 0.3)
    }
    inside = search(20, space=space, defaults={"epochs": 50, "lr": 0.2})
    assert len(inside) == 6
    assert len(search(6, space=space)) == 6


@pytest.mark.parametrize("most", [1, 9])
def test_with_nothing_to_search_there_are_the_defaults(most: int) -> None:
    assert search(most, space={}, defaults={}) == [{}]


def test_a_space_almost_used_up_does_not_go_on_for_ever() -> None:
    space = {"lr": LogRange(0.01, 0.0102), "epochs": OneOf(20)}  # three values of three digits
    tried = search(30, space=space)
    assert 2 <= len(tried) <= 4
