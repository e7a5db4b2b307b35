from __future__ import annotations

import json
from collections.abc import Callable

Cli = Callable[..., tuple[int, str, str]]


def test_leaks_as_a_table_and_as_json(cli: Cli) -> None:
    words = ("leaks", "digits", "--method", "ncm", "--quiet", "--workers", "1")
    code, out, _ = cli(*words)
    assert code == 0
    assert out.splitlines()[0] == "ncm on digits no task is given; 1 seed"
    rows = [line.split()[:2] for line in out.splitlines() if line.startswith(("grouped", "global"))]
    assert rows == [["grouped", "within"], ["global", "within"], ["global", "seen"]]
    code, out, _ = cli(*words, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["rows"][0]["am"]["mean"] > found["rows"][2]["am"]["mean"]
    assert found["rows"][0]["task_found"]["mean"] == 100.0


def test_a_method_that_is_not_known_is_one_line(cli: Cli) -> None:
    code, _, err = cli("leaks", "digits", "--method", "nmc")
    assert code == 2
    assert err.startswith("hpn: unknown method 'nmc'; did you mean 'ncm'?")
