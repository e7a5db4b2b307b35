from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hpn.cli import main

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Run a command in an empty folder; gives its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HPN_DATA", raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hpn", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capfd.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return call
