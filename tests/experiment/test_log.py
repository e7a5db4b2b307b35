from __future__ import annotations

import json
from pathlib import Path

from hpn.experiment.log import EventLog


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
