from __future__ import annotations

import json
import time
from pathlib import Path

from hpn.experiment.run.environment import Stopwatch, peak_rss_mb
from hpn.experiment.run.seed import EventLog


def test_events_after_the_checkpoint_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = EventLog(path, keep=1000)
    log.write("step", done=1)
    known = log.size()
    assert path.read_bytes().startswith(b"{"), "a log shorter than the checkpoint states is not padded"
    log.write("step", done=2)
    log.close()
    with path.open("ab") as file:
        file.write(b'{"event": "st')  # a crash in the middle of a line
    log = EventLog(path, keep=known)
    log.write("resumed")
    log.close()
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["step", "resumed"]


def test_seconds_add_up_over_a_crash() -> None:
    watch = Stopwatch({"fit": 10.0, "predict": 1.0, "total": 12.0})
    with watch.measure("fit"):
        time.sleep(0.02)
        inside = watch.read()
    after = watch.read()
    assert 10.015 < inside["fit"] <= after["fit"] < 11
    assert after["predict"] == 1.0
    assert after["total"] >= 12.0 + (after["fit"] - 10.0)


def test_peak_memory_is_in_megabytes() -> None:
    peak = peak_rss_mb()
    assert peak is None or 50 < peak < 100_000
