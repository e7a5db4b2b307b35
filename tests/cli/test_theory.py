"""``hpn theory`` as a user meets it."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpn.experiment.run.runner import run
from hpn.learners.hpn import PaperHPN, SolvedHPN

Cli = Callable[..., tuple[int, str, str]]
DATA = {"data.num_nodes": 120, "data.num_links": 400, "data.num_classes": 4}
SETTINGS = {**DATA, "preset": "paper", "epochs": 1}
CERTIFIED = {**SETTINGS, "retention": "certified"}
SOLVED = {**DATA, "width": 50}


def words_of(settings: dict[str, Any]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def shown(cli: Cli, *words: str) -> str:
    code, out, err = cli("theory", *words)
    assert code == 0, err
    return out


def read_json(cli: Cli, *words: str) -> Any:
    return json.loads(shown(cli, *words, "--json"))


def test_the_bound_in_two_dimensions_is_the_papers(cli: Cli) -> None:
    found = read_json(cli, "bound", "--dim", "2", "--threshold", "0.3", "--threshold-class", "0.4")
    assert found["prototypes"] == {"atomic": 44 * 7, "node": 7, "class": 6}
    assert found["parameters"] == 2 * (44 * 7 + 7 + 6)
    assert found["bytes"] == 4 * found["parameters"]
    assert found["levels"]["atomic"]["name"] == "circle"
    assert found["levels"]["node"]["code"] == 7
    assert found["one_set"]["prototypes"]["atomic"] == 7
    out = shown(cli, "bound", "--dim", "4", "--threshold", "0.5", "--extractors", "3")
    for words in ("n_A", "n_N", "n_C", "150", "25", "linear programming", "bytes"):
        assert words in out


def test_what_is_chosen_fits_the_budget(cli: Cli) -> None:
    found = read_json(cli, "choose", "--budget", "20kB", "--dim", "2", "--dim", "4", "--dim", "1024")
    assert found["budget"] == 20_000
    for row in found["choices"][:2]:
        assert row["theorem"]["bytes"] <= 20_000
        assert row["one_set"]["bytes"] <= 20_000
        assert row["one_set"]["threshold"] <= row["theorem"]["threshold"]
    assert found["choices"][2]["theorem"] is None
    out = shown(cli, "choose", "--budget", "20kB", "--dim", "2", "--dim", "1024")
    assert "none" in out
    assert "20,000 bytes" in out


def test_the_picture_has_a_line_for_each_dimension(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("theory", "plot", "--dim", "2", "--dim", "16", "--out", "x.svg")
    assert code == 0
    assert out.strip() == "x.svg"
    assert "dimension 16" in err
    drawn = ET.parse(tmp_path / "x.svg").getroot()
    lines = [part for part in drawn.iter() if "mark-line" in part.get("class", "")]
    assert len(lines) >= 2


@pytest.mark.parametrize("settings", [SETTINGS, SOLVED], ids=["paper", "best"])
def test_a_run_is_checked_task_by_task(cli: Cli, settings: dict[str, Any]) -> None:
    run("synthetic", settings=settings, seeds=2, out="r")
    found = read_json(cli, "check", "r")
    assert found["holds"]
    assert {(row["seed"], row["task"]) for row in found["growth"]} == {(s, t) for s in (0, 1) for t in (0, 1)}
    out = shown(cli, "check", "r")
    assert "after task 2" in out
    assert "every bound is kept" in out


def test_a_run_above_its_bound_fails(cli: Cli, tmp_path: Path) -> None:
    run("synthetic", settings={**SETTINGS, "dim": 2, "threshold_node": 0.3}, out="r")
    for file in (tmp_path / "r" / "seed-0").glob("*.json"):
        file.unlink()
    growth = [{"prototypes": {"atomic": 84, "node": 8, "class": 1}}]
    (tmp_path / "r" / "seed-0" / "result.json").write_text(json.dumps({"growth": growth}))
    code, out, err = cli("theory", "check", "r")
    assert code == 1
    assert "8 node prototypes after task 1" in out
    assert "breaks a bound" in err
    most = math.floor(2 * math.pi / math.acos(0.7))
    assert f"Theorem 1 allows {most}" in err


@pytest.mark.parametrize("settings", [CERTIFIED, SOLVED], ids=["paper", "best"])
def test_retention_is_reported_and_proved(cli: Cli, settings: dict[str, Any]) -> None:
    words = ("retention", "synthetic", *words_of(settings), "--quiet")
    found, out = read_json(cli, *words), shown(cli, *words)
    assert found["is_proved"]
    assert "proved same" in out
    assert found["proofs"][0]["now"][:12] in out
    if settings is SOLVED:
        assert found["theorem"] is None
        assert "Theorem 2 does not apply" in out
    else:
        assert found["changes"] == [{**found["changes"][0], "touched": 0, "rematched": 0, "relabelled": 0}]
        assert not found["theorem"][0]["is_satisfied"]
        assert found["theorem"][0]["reasons"]


@pytest.mark.parametrize(("kind", "settings"), [(PaperHPN, CERTIFIED), (SolvedHPN, SOLVED)])
def test_a_failed_proof_is_exit_code_1(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, kind: Any, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(kind, "is_certified", lambda *_: False)
    code, out, err = cli("theory", "retention", "synthetic", *words_of(settings), "--quiet")
    assert code == 1
    assert "a proof failed" in out
    assert "has changed" in err


def test_a_bound_that_bounds_nothing_is_named(cli: Cli) -> None:
    words = ("bound", "--dim", "256", "--threshold", "0.01")
    assert "prototypes at most: no useful bound" in shown(cli, *words)
    found = read_json(cli, *words)
    numbers = [found["bytes"], found["parameters"], *found["prototypes"].values()]
    numbers += [level[key] for level in found["levels"].values() for key in ("bound", "code")]
    assert max(numbers) < 2**63
