from __future__ import annotations

import re
from typing import Any

import pytest

from hpn.display import print_comparison, print_result


def result(num_tasks: int) -> dict[str, Any]:
    matrix = [[90.0 - j for j in range(i + 1)] for i in range(num_tasks)]
    spread = {"mean": 88.04, "std": 1.26, "values": [88.04]}
    return {
        "method": "joint",
        "backbone": "gcn",
        "dataset": "[red]odd[/red]",
        "scenario": "task",
        "edges": "within",
        "evaluate": "oracle",
        "seeds": [0, 1],
        "tasks": [[i] for i in range(num_tasks)],
        "am": spread,
        "fm": None,
        "ars": None,
        "balanced": {"am": spread},
        "parameters": 12345,
        "seconds": {"fit": 1.0, "predict": 2.0, "total": 3.0},
        "peak_rss_mb": None,
        "matrices": [matrix],
        "out": "runs/x",
    }


def test_the_result_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(result(3))
    out = capsys.readouterr().out
    assert "joint gcn on [red]odd[/red]" in out, "markup in names is text"
    assert "88.0 ± 1.3 %" in out
    assert "12,345" in out
    assert re.search(r"3 +90\.0 +89\.0 +88\.0", out)


def test_many_tasks_are_cut_and_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_result(result(30))
    assert "the first 12 of 30 tasks" in capsys.readouterr().out


def comparison() -> dict[str, Any]:
    spread = {"mean": 88.04, "std": 1.26, "values": [87.0, 89.0]}
    paper = {"am": {"mean": 70.0, "std": 2.0}, "fm": {"mean": -9.0, "std": 1.0}}
    row = {"name": "ewc-gcn", "method": "ewc", "backbone": "gcn", "sees_past": False, "parameters": 1074}
    row |= {"am": spread, "fm": spread, "ars": spread, "stored": 3222, "error": None}
    row |= {"seconds": {"fit": 1.0, "predict": 0.5}, "published": paper, "difference": 18.04}
    return {
        "dataset": "[red]odd[/red]",
        "scenario": "task",
        "edges": "within",
        "evaluate": "oracle",
        "seeds": [0, 1],
        "rows": [row, {**row, "method": "hpn", "backbone": None, "am": None, "error": "no [i]memory"}],
        "published_parameters": {"values": {"ewc-gcn": 46720}},
        "published_source": "the table",
        "note": None,
        "out": "runs/compare",
    }


def test_the_comparison_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(comparison())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[red]odd[/red] · task-incremental, within edges, asked oracle · seeds 0,1"
    ours = next(line for line in lines if line.startswith("ewc · gcn"))
    assert re.search(r"88\.0 ± 1\.3 +70\.0 ± 2\.0 +\+18\.0 .* 1,074 +3,222 +46,720 +1\.50", ours)
    assert next(line for line in lines if line.startswith("hpn")).split()[1:3] == ["failed", "–"]
    assert "hpn failed: no [i]memory" in lines
    assert "comparison.md, .html, .csv and .json in runs/compare" in lines[-1]


def test_a_narrow_terminal_gets_fewer_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "70")
    print_comparison(comparison())
    out = capsys.readouterr().out
    ours = next(line for line in out.splitlines() if "ewc · gcn" in line)
    assert len(ours) <= 70
    for kept, dropped in (("88.0 ± 1.3", "46,720"), ("70.0 ± 2.0", "1,074"), ("3,222", "−9.0")):
        assert kept in ours
        assert dropped not in ours
