from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpn.display.progress import LiveProgress, PlainProgress
from hpn.evaluation import Row
from hpn.experiment.watch import JobsProgress, TrialsProgress, Watcher
from hpn.learners import Progress


def play_run(watcher: Watcher) -> None:
    watcher.run_started(Path("runs/x"), num_seeds=2, num_tasks=1)
    watcher.seed_finished(0, reused=True)
    watcher.seed_started(1, first_task=0, first_epoch=3)
    for done in (4, 5):
        watcher.epoch_finished(1, Progress(0, done, 5, {"loss": 0.25}))
    row = [70.0, 5.0]  # the second is of a step still to come
    watcher.step_finished(1, 0, Row(row, row, row))
    watcher.seed_finished(1, reused=False)


def play_jobs(watcher: Watcher) -> None:
    watcher.jobs_moved(JobsProgress(2, 5, ("ewc gcn seed 0", "ncm seed 1")))
    watcher.jobs_moved(JobsProgress(3, 5, ("ncm seed 1", "[b]twp"), last="ewc gcn seed 0", remaining=7260.0))
    watcher.jobs_moved(JobsProgress(4, 5, ("[b]twp",), "ncm seed 1", "no [i]memory", remaining=5.0))
    watcher.jobs_moved(JobsProgress(5, 5, (), "[b]twp", remaining=0.0))


def play_trials(watcher: Watcher) -> None:
    watcher.jobs_moved(JobsProgress(0, 9, trials=TrialsProgress(0, 4)))
    watcher.jobs_moved(JobsProgress(3, 9, ("x",), "x", remaining=600.0, trials=TrialsProgress(1, 4, 91.26)))
    watcher.jobs_moved(JobsProgress(9, 9, trials=TrialsProgress(4, 4, 93.0, is_chosen=True)))


def play_reading(watcher: Watcher) -> None:
    advance = watcher.reading(40_000_000)
    advance(10_000_000)
    advance(20_000_000)


RUN = """run folder: runs/x; 2 seeds, 1 task
seed 0: finished before, result reused (--fresh runs it again)
seed 1: resuming at task 1, after epoch 3
seed 1: task 1/1, epoch 4/5
seed 1: task 1/1, epoch 5/5
seed 1: task 1/1 learned, AM so far 70.0 %
"""
JOBS = """2/5: 2 finished before
3/5: ewc gcn seed 0 done, about 2 h 01 min left
4/5: ncm seed 1 failed (no [i]memory), less than a minute left
5/5: [b]twp done
"""
TRIALS = """0/4 trials
1/4 trials, best validation AM 91.3 %, about 10 min left
4/4 trials, best validation AM 93.0 %, testing the chosen settings
"""


@pytest.mark.parametrize(
    ("play", "lines"),
    [
        *((play_run, RUN), (play_jobs, JOBS), (play_trials, TRIALS)),
        (play_reading, "25 % of 40 MB read\n75 % of 40 MB read\n"),
    ],
)
def test_plain_lines(
    play: Callable[[Watcher], None], lines: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpn.display.progress.PLAIN_SECONDS", -1.0)
    play(PlainProgress())
    assert capsys.readouterr() == ("", lines)


def test_small_things_are_shown_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    for play, lines in ((play_run, 4), (play_trials, 2), (play_reading, 0)):
        play(PlainProgress())
        assert len(capsys.readouterr().err.splitlines()) == lines


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (play_run, ["seeds", "tasks", "epochs", "2/2", "1/1", "5/5", "loss 0.250", "AM so far 70.0 %"]),
        (play_jobs, ["jobs", "5/5", "ncm seed 1 failed: no [i]memory"]),
        (play_trials, ["9/9", "4/4 trials, best validation AM 93.0 %, testing the chosen settings"]),
        (play_reading, ["MB read", "30/40"]),
    ],
)
def test_bars_go_to_standard_error(
    play: Callable[[Watcher], None],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    with LiveProgress() as bars:
        play(bars)
    captured = capsys.readouterr()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", captured.err)
    assert captured.out == ""
    assert all(word in text for word in words), text
