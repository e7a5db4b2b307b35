from __future__ import annotations

import time

import pytest

from hpn.experiment.run.environment import Stopwatch, peak_rss_mb


def test_seconds_add_up_over_a_crash() -> None:
    watch = Stopwatch({"fit": 10.0, "predict": 1.0, "total": 12.0})
    with watch.measure("fit"):
        time.sleep(0.02)
        inside = watch.read()
    after = watch.read()
    assert 10.015 < inside["fit"] <= after["fit"] < 11
    assert after["predict"] == 1.0
    assert after["total"] >= 12.0 + (after["fit"] - 10.0)


def test_peak_memory_grows_with_what_is_held() -> None:
    before = peak_rss_mb()
    if before is None:
        pytest.skip("this system does not tell")
    held = b"x" * int((before + 64) * (1 << 20))
    after = peak_rss_mb()
    assert after is not None
    assert after > before + 32
    del held
