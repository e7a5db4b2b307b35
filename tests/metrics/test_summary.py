from __future__ import annotations

import statistics

import pytest

from hpn.metrics import summarize


def test_mean_and_sample_deviation() -> None:
    values = [93.1, 94.7, 92.0, 95.5, 93.3]
    summary = summarize(values)
    assert summary is not None
    assert summary["mean"] == pytest.approx(statistics.mean(values))
    assert summary["std"] == pytest.approx(statistics.stdev(values))
    assert summary["values"] == values


def test_one_seed_has_no_spread() -> None:
    assert summarize([3.0]) == {"mean": 3.0, "std": 0.0, "values": [3.0]}


def test_what_applies_to_some_seeds_only_is_an_error() -> None:
    with pytest.raises(ValueError, match="every seed or to none"):
        summarize([1.0, None])
