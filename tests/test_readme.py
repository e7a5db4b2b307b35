"""What the documentation shows can be typed in."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import hpn

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("tutorials", "how-to", "explanation")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for name in FOLDERS for page in (ROOT / "docs" / name).glob("*.md")),
]


def test_the_python_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL):
        exec(compile(example, "README.md", "exec"), names)
    score, *account = capsys.readouterr().out.splitlines()
    assert float(score) > 0.9
    assert account[0].startswith("node 1: one (")


def test_the_example_of_the_estimator(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "classifier.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "the same predictions as one fit gives: True" in out
    assert "node-level prototype" in out
    assert "the loaded model predicts the same: True" in out


def test_the_example_with_your_own_graph(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "own_graph.py"), run_name="__main__")
    first, second = capsys.readouterr().out.splitlines()
    assert float(first.split()[1]) > 80
    assert second == "new accounts: bank, bank, shop"


def test_the_example_with_your_own_learner(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "own_learner.py"), run_name="__main__")
    means = [float(line.split()[2]) for line in capsys.readouterr().out.splitlines()]
    assert means[0] > means[1] > 80


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120


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
