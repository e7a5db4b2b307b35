from __future__ import annotations

import json
from pathlib import Path

from hpn.experiment.run.seed import EventLog


def test_what_the_checkpoint_does_not_know_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = EventLog(path, keep=0)
    log.write("step", done=1)
    known = log.size()
    log.write("step", done=2)
    log.close()
    with path.open("ab") as file:
        file.write(b'{"event": "st')  # a crash in the middle of a line
    log = EventLog(path, keep=known)
    log.write("resumed")
    log.close()
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["step", "resumed"]


def test_a_log_shorter_than_the_checkpoint_says_is_not_filled_up(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log.jsonl", keep=1000)
    log.write("resumed")
    log.close()
    assert (tmp_path / "log.jsonl").read_bytes().startswith(b"{")
