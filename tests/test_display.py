from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hpn.display import (
    LiveComparison,
    LiveProgress,
    PlainComparison,
    PlainProgress,
    print_comparison,
    print_result,
)
from hpn.evaluation import Row
from hpn.experiment import ComparisonProgress, ComparisonWatcher, Watcher
from hpn.learners import Progress


def play(watcher: Watcher) -> None:
    watcher.run_started(Path("runs/x"), num_seeds=2, num_tasks=1)
    watcher.seed_finished(0, reused=True)
    watcher.seed_started(1, first_task=0, first_step=3)
    for done in (4, 5):
        watcher.step_finished(1, Progress(0, done, 5, {"loss": 0.25}))
    watcher.task_finished(1, 0, Row([80.0, 60.0], [80.0, 60.0]))
    watcher.seed_finished(1, reused=False)


def test_plain_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpn.display.PLAIN_SECONDS", -1.0)
    play(PlainProgress())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "run folder: runs/x; 2 seed(s), 1 task(s)",
        "seed 0: finished before, result reused (--fresh runs it again)",
        "seed 1: going on at task 1, after epoch 3",
        "seed 1: task 1/1, epoch 4/5",
        "seed 1: task 1/1, epoch 5/5",
        "seed 1: task 1/1 learned, AM so far 70.0 %",
    ]


def test_bars_go_to_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with LiveProgress() as bars:
        play(bars)
        bars._bars.refresh()
    captured = capsys.readouterr()
    assert captured.out == ""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", captured.err)
    for word in ("seeds", "tasks", "epochs", "2/2", "1/1", "5/5", "loss 0.250", "AM so far 70.0 %"):
        assert word in text


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


def play_comparison(watcher: ComparisonWatcher) -> None:
    watcher.moved(ComparisonProgress(2, 5, ("ewc gcn seed 0", "ncm seed 1")))
    watcher.moved(ComparisonProgress(3, 5, ("ncm seed 1", "[b]twp"), last="ewc gcn seed 0", remaining=600.0))
    watcher.moved(ComparisonProgress(4, 5, ("[b]twp",), "ncm seed 1", "no [i]memory", remaining=5.0))
    watcher.moved(ComparisonProgress(5, 5, (), "[b]twp", remaining=0.0))


def test_plain_lines_of_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    play_comparison(PlainComparison())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "2/5: 2 finished before",
        "3/5: ewc gcn seed 0 done, about 10 min left",
        "4/5: ncm seed 1 failed (no [i]memory), less than a minute left",
        "5/5: [b]twp done",
    ]


def test_the_bar_of_a_comparison(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with LiveComparison() as bar:
        bar.moved(ComparisonProgress(1, 5, ("ewc [b]gcn",), "x", "no [i]memory", remaining=7260.0))
        bar._bars.refresh()
    captured = capsys.readouterr()
    assert captured.out == ""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", captured.err)
    for word in ("cells × seeds", "1/5", "about 2 h 01 min left · ewc [b]gcn", "x failed: no [i]memory"):
        assert word in text


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
