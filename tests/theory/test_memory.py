from __future__ import annotations

from typing import Any

import pytest

from hpn.errors import ConfigError
from hpn.learners import HPN
from hpn.theory import MemoryBound, choose
from hpn.theory.memory import BYTES, NO_BOUND, THRESHOLDS, describe_bound, parse_bytes

PAPER = (0.3, 0.3, 0.4)
KILOBYTE = 1000


def of_one_threshold(dim: int, threshold: float, **others: Any) -> MemoryBound:
    return MemoryBound(dim, (threshold,) * 3, **{"num_extractors": 22, **others})


def test_the_papers_thresholds_on_the_circle_by_hand() -> None:
    """360° / 45.57° = 7.9 and 360° / 53.13° = 6.8, for 22 + 22 extractors."""
    bound = MemoryBound(2, PAPER, num_extractors=22)
    assert [code.size for code in bound.codes.values()] == [7, 7, 6]
    assert bound.prototypes == {"atomic": 44 * 7, "node": 7, "class": 6}
    assert bound.num_parameters == 2 * (308 + 7 + 6) == 642
    assert bound.num_bytes == 4 * 642 == 2568
    one_set = MemoryBound(2, PAPER, num_extractors=22, in_one_set=True)
    assert one_set.prototypes == {"atomic": 7, "node": 7, "class": 6}


@pytest.mark.parametrize("in_one_set", [False, True])
def test_extractors_count_once_their_features_are_known(in_one_set: bool) -> None:
    without = MemoryBound(2, PAPER, num_extractors=3, in_one_set=in_one_set)
    with_them = MemoryBound(2, PAPER, num_extractors=3, num_features=1433, in_one_set=in_one_set)
    assert with_them.prototypes == without.prototypes
    assert with_them.num_parameters - without.num_parameters == (3 + 3) * 1433 * 2
    assert with_them.num_bytes == BYTES * with_them.num_parameters


@pytest.mark.parametrize(
    "params", [{"num_extractors": 0}, {"num_extractors": -2}, {"num_extractors": 2, "num_features": -1}]
)
def test_a_model_without_extractors_or_with_negative_features_is_an_error(params: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="1 extractor of each kind or more, and 0 features or more") as caught:
        MemoryBound(2, PAPER, **params)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("params", [{}, {"num_extractors": 3, "threshold_class": 0.1}])
@pytest.mark.parametrize("levels", ["A", "AN", "ANC"])
def test_a_learner_has_the_same_bounds(levels: str, params: dict[str, Any]) -> None:
    learner = HPN(preset="paper", dim=2, levels=levels, **params)  # type: ignore[arg-type]
    s = learner
    thresholds = (s.threshold_atomic, s.threshold_node, s.threshold_class)
    bound = MemoryBound(2, thresholds, s.num_extractors)
    assert learner.prototype_bounds == dict(list(bound.prototypes.items())[: len(levels)])


@pytest.mark.parametrize("in_one_set", [False, True])
@pytest.mark.parametrize("budget", [500, 20 * KILOBYTE])
def test_every_choice_fits_and_the_next_smaller_distance_does_not(budget: int, in_one_set: bool) -> None:
    dims, options = (1, 2, 3, 4), {"num_extractors": 5, "num_features": 2, "in_one_set": in_one_set}
    chosen = choose(budget, dims=dims, **options)
    assert tuple(chosen) == dims
    for dim, bound in chosen.items():
        if bound is None:
            assert of_one_threshold(dim, THRESHOLDS[-1], **options).num_bytes > budget
            continue
        assert bound == of_one_threshold(dim, bound.thresholds[0], **options)
        assert bound.num_bytes <= budget
        place = THRESHOLDS.index(bound.thresholds[0])
        if place:
            assert of_one_threshold(dim, THRESHOLDS[place - 1], **options).num_bytes > budget


def test_a_budget_met_exactly_is_met() -> None:
    needed = of_one_threshold(2, 0.3).num_bytes
    met, missed = choose(needed, dims=(2,))[2], choose(needed - 1, dims=(2,))[2]
    assert met is not None
    assert missed is not None
    assert met.num_bytes == needed
    assert met.thresholds[0] <= 0.3 < missed.thresholds[0]


@pytest.mark.parametrize("budget", [0, 100, 4 * 3 * 46 * 6 - 1])
def test_when_not_even_right_angles_fit_there_is_no_choice(budget: int) -> None:
    assert choose(budget, dims=(3,)) == {3: None}


AMOUNTS = {
    "1": 1, "4096": 4096, "4096b": 4096, "4096 B": 4096, "1k": 1000, "1kB": 1000, "500 KB": 500_000, "64KiB": 65_536,
    "64 kib": 65_536, "1MB": 10**6, "1 m": 10**6, "2MiB": 2 * 2**20, "1.5 GB": 1_500_000_000, "0.5GiB": 2**29,
    "  1.25 Mi  ": 1_310_720, "0.29kB": 290, "1.9 B": 1, str(10**400 + 1): 10**400 + 1,
}  # fmt: skip
NO_AMOUNTS = ["", " ", "1 2", "MB", "-1MB", "0", "0kB", "0.4", "1TB", "1e6", "1,5MB", "1.MB", ".5MB", "1MBB", "1ib"]


@pytest.mark.parametrize(("text", "expected"), AMOUNTS.items())
def test_amounts_of_memory(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", NO_AMOUNTS)
def test_other_texts_are_not_amounts(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an amount of memory; write 1MB, 500kB, 64KiB") as caught:
        parse_bytes(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_bounds_nothing_fits_into_64_bits_and_is_named() -> None:
    bound = MemoryBound(256, (0.01, 0.5, 1.0), num_extractors=22)
    written = bound.to_json()
    assert bound.prototypes["atomic"] > NO_BOUND
    assert written["prototypes"]["atomic"] == written["bytes"] == NO_BOUND < 2**63
    assert written["prototypes"]["class"] == bound.prototypes["class"] == 512
    assert describe_bound(written["prototypes"]["atomic"]) == describe_bound(10**30) == "no useful bound"
    learner = HPN(preset="paper", dim=256, threshold_atomic=0.01)
    assert learner.prototype_bounds is not None
    assert learner.prototype_bounds["atomic"] == NO_BOUND
