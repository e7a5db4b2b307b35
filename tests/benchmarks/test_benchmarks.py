"""The benchmark command: verdicts, the page, and small measurements."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPO))


@pytest.mark.parametrize(
    ("value", "least", "most", "target", "verdict"),
    [
        (3.99, 4, None, "at least 4", "not met"),
        (4.0, 4, None, "at least 4", "met"),
        (360.1, None, 360, "at most 360", "not met"),
        (1.0, 0.9, 1.1, "at least 0.9, at most 1.1", "met"),
        (1.2, 0.9, 1.1, "at least 0.9, at most 1.1", "not met"),
        (7.0, None, None, "", ""),
    ],
)
def test_a_row_is_met_or_not(value: float, least: float | None, most: float | None, target: str, verdict: str) -> None:
    from benchmarks.rows import Row

    assert Row("x", value, least=least, most=most).cells[2:] == (target, verdict)


def test_every_figure_has_a_function_and_a_note() -> None:
    from benchmarks.figures import FIGURES, find_figure

    assert all(find_figure(name).__doc__ for name in FIGURES)


def _main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    from benchmarks import __main__ as command

    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    return command.main()


def test_an_unknown_figure_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _main(monkeypatch, "startp")
    assert "unknown figure 'startp'; known: startup" in capsys.readouterr().err


def test_the_page_keeps_other_figures_and_a_failure_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from benchmarks import __main__ as command
    from benchmarks.rows import Row

    value = 2.0

    def measure(name: str, work: Path) -> list[Row]:
        if name == "import":
            raise OSError("no space left")
        return [Row(f"of {name}", value, most=2.5)]

    monkeypatch.setattr(command, "measure", measure)
    page = str(tmp_path / "page.md")
    assert _main(monkeypatch, "import", "startup", "commands", "--page", page) == 1
    assert "import: not measured (OSError: no space left)" in capsys.readouterr().err
    value = 3.0
    assert _main(monkeypatch, "startup", "--page", page) == 0
    text = Path(page).read_text(encoding="utf-8")
    assert "| `startup` | of startup | 3 | at most 2.5 | not met |" in text
    assert "| `commands` | of commands | 2 | at most 2.5 | met |" in text
    assert text.count("| `startup` |") == 1
    assert "**`startup`.** Wall time of short commands" in text
    assert "| `import` |" not in text


@pytest.mark.slow
def test_a_command_is_measured_in_a_process_of_its_own(tmp_path: Path) -> None:
    from benchmarks.rows import run_hpn

    done = run_hpn("import", "digits", tmp_path / "store")
    assert done.result["nodes"] == 1797
    assert 0.01 < done.peak_gb < 2
    with pytest.raises(RuntimeError, match=r"hpn import no-such-data .* ended with exit code 2"):
        run_hpn("import", "no-such-data", tmp_path / "other")


def test_growth_is_measured_at_any_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from benchmarks import solved

    monkeypatch.setattr(solved, "NODES", (200, 400))
    monkeypatch.setattr(solved, "NUM_TASKS", 10)
    monkeypatch.setattr(solved, "TASK_NODES", 100)
    monkeypatch.setattr(solved, "WIDTH", 20)
    exponent, ratio = solved.growth(tmp_path)
    assert exponent.cells[2] == "at least 0.9, at most 1.1"
    assert ratio.value > 0
