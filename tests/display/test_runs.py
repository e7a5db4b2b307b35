from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hpn.display.runs import print_comparison, print_result
from hpn.experiment.compare.result import Comparison
from hpn.experiment.run.result import RunResult

MakeResult = Callable[..., RunResult]


@pytest.fixture
def comparison(make_comparison: Callable[..., Comparison]) -> Comparison:
    changes = {3: {"error": "no [i]memory", "am": None}}
    return make_comparison(changes, dataset="[red]odd[/red]", out="runs/compare")


def test_the_result_table(make_result: MakeResult, capsys: pytest.CaptureFixture[str]) -> None:
    print_result(make_result(dataset="[red]odd[/red]", parameters=12345, stored=67890, recipe="cora/x"))
    out = capsys.readouterr().out
    assert "finetune gcn on [red]odd[/red]" in out, "markup in names is text"
    assert re.search(r"AM \(average accuracy after the last task\) +81\.0 ± 1\.4 %", out)
    assert re.search(r"FM \(.*negative is forgetting\) +−10\.5 ± 0\.0 points", out)
    assert re.search(r"parameters +12,345", out)
    assert re.search(r"stored between tasks +67,890 numbers", out)
    assert re.search(r"3 +75\.0 +81\.0 +87\.0", out)
    assert "Edges within a task reveal the task" in out


def test_what_does_not_apply_is_not_shown(make_result: MakeResult, capsys: pytest.CaptureFixture[str]) -> None:
    print_result(make_result(fm=None, ars=None, seconds=None, peak_rss_mb=None, parameters=None))
    out = capsys.readouterr().out
    assert "FM" not in out
    assert "ARS" not in out
    assert re.search(r"parameters +–", out)


def test_many_tasks_are_cut_and_it_says_so(make_result: MakeResult, capsys: pytest.CaptureFixture[str]) -> None:
    print_result(make_result(30))
    assert "the first 12 of 30 tasks" in capsys.readouterr().out


def test_a_single_class_is_not_measured(make_result: MakeResult, capsys: pytest.CaptureFixture[str]) -> None:
    none = dict.fromkeys(("am", "fm", "ars", "aaa", "bwt", "balanced_am"))
    print_result(make_result(1, 1, **none, matrices=[[[100.0]]], chance=[[[100.0]]]))
    out = capsys.readouterr().out
    assert "accuracy is not measured: there is a single class to choose from" in out
    assert "AM" not in out


def test_steps_by_time_have_names_and_those_to_come_are_told_apart(
    make_time_result: MakeResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_result(make_time_result())
    out = capsys.readouterr().out
    assert re.search(r"after step +1: time 2003 +2: time 2004 +3: time 2007", out)
    assert re.search(r"1 +80\.0 +60\.0", out)
    assert "right of the step learned last: steps still to come" in out
    assert re.search(r"FWT \(.*\) +\+12\.5 ± 0\.0 points", out)


def test_the_comparison_table(comparison: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    print_comparison(comparison)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[red]odd[/red] · task-incremental, within edges, oracle evaluation · seeds 0,1"
    ours = next(line for line in lines if line.startswith("ewc · gcn"))
    assert re.search(r"63\.3 ± 1\.4 +63\.1 ± 0\.5 +\+0\.2 .* 1,234 +98,765 +46,720 +12\.8", ours)
    assert next(line for line in lines if line.startswith("joint")).split()[3:5] == ["failed", "–"]
    assert "joint · gcn failed: no [i]memory" in lines
    assert "AM (average accuracy after the last task)" in lines
    assert not any(line.startswith("left out") for line in lines)
    assert "comparison.md, .html, .csv and .json in runs/compare" in lines[-1]


def test_a_narrow_terminal_gets_fewer_columns(
    comparison: Comparison, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    print_comparison(comparison)
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "left out for the width of the terminal: paper, ARS, parameters, paper" in " ".join(out.split())
    ours = next(line for line in out.splitlines() if "ewc · gcn" in line)
    assert len(ours) <= 80
    for kept, dropped in (("63.3 ± 1.4", "46,720"), ("63.1 ± 0.5", "1,234"), ("98,765", "95.0 ± 1.4")):
        assert kept in ours
        assert dropped not in ours
