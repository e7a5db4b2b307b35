"""What the documentation shows can be typed in."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import hpn
from hpn.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def test_the_python_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL):
        exec(compile(example, "README.md", "exec"), names)
    score, *account = capsys.readouterr().out.splitlines()
    assert float(score) > 0.9
    assert account[0].startswith("node 1: one (")
    assert [len(row.split()) for row in account[-5:]] == [1, 2, 3, 4, 5]


def mask(text: str) -> list[str]:
    """Lines without their numbers, up to an ellipsis, which machines need not agree on."""
    return [re.sub(r"[-+]?\d[\d.,]*", "#", line.partition(", …")[0]) for line in text.splitlines()]


def test_the_tutorial_runs_as_written(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tutorial.md").read_text()
    printed: list[str] = []
    for kind, block in re.findall(r"```(sh|text|python)\n(.*?)```", page, flags=re.DOTALL):
        if kind == "text":
            for line in mask(block):
                assert any(found.startswith(line) for found in printed), line
            continue
        if kind == "python":
            exec(compile(block, "tutorial.md", "exec"), {})
        for command in block.splitlines() if kind == "sh" else []:
            name, *words = command.split()
            if name == "hpn":
                monkeypatch.setattr(sys, "argv", [name, *words])
                with pytest.raises(SystemExit) as stop:
                    main()
                assert not stop.value.code, command
            elif name == "python":
                runpy.run_path(str(ROOT / words[0]), run_name="__main__")
            else:
                subprocess.run(command, shell=True, check=True)
        printed = mask(capfd.readouterr().out)
    assert (tmp_path / "python-model").is_dir()
    predictions = (tmp_path / "predictions.csv").read_text().splitlines()
    assert predictions[0] == "id,class,probability,second_class,second_probability"
    assert len(predictions) == 1 + 480


def test_the_examples_of_the_theory_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "theory.md").read_text()
    for example in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(example, "theory.md", "exec"), {})
    assert capsys.readouterr().out.startswith("True (")


def test_the_example_of_the_estimator(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "classifier.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "the same answers as when all is learned at once: True" in out
    assert "node-level prototype" in out
    assert "the loaded model answers the same: True" in out


def test_the_example_with_data_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "own_graph.py"), run_name="__main__")
    first, second = capsys.readouterr().out.splitlines()
    assert float(first.split()[1]) > 80
    assert second == "new accounts: bank, bank, shop"


def test_the_example_with_a_learner_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "own_learner.py"), run_name="__main__")
    means = [float(line.split()[2]) for line in capsys.readouterr().out.splitlines()]
    assert means[0] > means[1] > 80


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_public_names() -> None:
    for name in hpn.__all__:
        assert hasattr(hpn, name)
    assert set(dir(hpn)) == set(hpn.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hpn.nothing  # type: ignore[attr-defined]
