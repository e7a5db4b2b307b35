"""The scripts in ``examples/`` run and print what the documentation says of them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import hpn

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_estimator(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "classifier.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "the same predictions as one fit gives: True" in out
    assert "node-level prototype" in out
    assert "the loaded model predicts the same: True" in out


def test_a_graph_of_your_own(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "own_graph.py"), run_name="__main__")
    first, second = capsys.readouterr().out.splitlines()
    assert float(first.split()[1]) > 80
    assert second == "new accounts: bank, bank, shop"


def test_a_learner_of_your_own(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "own_learner.py"), run_name="__main__")
    checked, *runs = capsys.readouterr().out.splitlines()
    assert checked == "0 checks failed"
    means = [float(line.split()[2]) for line in runs]
    assert means[0] > means[1] > 80


def test_public_names() -> None:
    for name in hpn.__all__:
        assert hasattr(hpn, name)
    assert set(dir(hpn)) == set(hpn.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hpn.nothing  # type: ignore[attr-defined]
