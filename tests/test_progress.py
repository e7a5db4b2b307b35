from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpn.evaluation import Row
from hpn.experiment.watch import BatchProgress, BatchWatcher, Watcher
from hpn.learners import Progress
from hpn.progress import LiveComparison, LiveProgress, PlainComparison, PlainProgress


def play(watcher: Watcher) -> None:
    watcher.run_started(Path("runs/x"), num_seeds=2, num_tasks=1)
    watcher.seed_finished(0, reused=True)
    watcher.seed_started(1, first_task=0, first_epoch=3)
    for done in (4, 5):
        watcher.epoch_finished(1, Progress(0, done, 5, {"loss": 0.25}))
    watcher.step_finished(1, 0, Row([80.0, 60.0], [80.0, 60.0]))
    watcher.seed_finished(1, reused=False)


def test_plain_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpn.progress.PLAIN_SECONDS", -1.0)
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


def play_comparison(watcher: BatchWatcher) -> None:
    watcher.moved(BatchProgress(2, 5, ("ewc gcn seed 0", "ncm seed 1")))
    watcher.moved(BatchProgress(3, 5, ("ncm seed 1", "[b]twp"), last="ewc gcn seed 0", remaining=600.0))
    watcher.moved(BatchProgress(4, 5, ("[b]twp",), "ncm seed 1", "no [i]memory", remaining=5.0))
    watcher.moved(BatchProgress(5, 5, (), "[b]twp", remaining=0.0))


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
        bar.moved(BatchProgress(1, 5, ("ewc [b]gcn",), "x", "no [i]memory", remaining=7260.0))
        bar._bars.refresh()
    captured = capsys.readouterr()
    assert captured.out == ""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", captured.err)
    for word in ("cells × seeds", "1/5", "about 2 h 01 min left · ewc [b]gcn", "x failed: no [i]memory"):
        assert word in text
