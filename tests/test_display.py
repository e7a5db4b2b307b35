from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hpn.display import LiveProgress, PlainProgress, print_result
from hpn.evaluation import Row
from hpn.experiment import Watcher
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
