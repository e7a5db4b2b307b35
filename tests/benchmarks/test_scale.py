"""The benchmark suite: what it computes from results, and one small cell from start to page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPO))


def _suite(work: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.scale", "--quick", "--threads", "1", "--work", str(work)]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, cwd=work, env=environment, check=True
    )


@pytest.mark.slow
def test_a_finished_cell_is_kept_and_shown(tmp_path: Path) -> None:
    first = _suite(tmp_path, "--only", "fit/arxiv-like")
    assert "store/arxiv-like" in first.stderr
    assert "fit/arxiv-like" in first.stderr
    content = json.loads((tmp_path / "quick/results/fit--arxiv-like.json").read_text())
    values = content["values"]
    assert values["ratio"] == pytest.approx(values["nodes_per_second"] / values["gather_per_second"])
    assert values["peak_mb"] > 50
    page = (tmp_path / "quick/page/README.md").read_text()
    assert "HPN, prototype phase" in page
    assert "`growth/tasks`: not run" in page
    assert (tmp_path / "quick/page/speeds.svg").read_text().startswith("<svg")
    again = _suite(tmp_path, "--only", "fit/arxiv-like")
    assert "…" not in again.stderr, "what is kept is not measured again"


def test_every_cell_names_a_function_and_comes_after_what_it_needs() -> None:
    from benchmarks.scale.plan import plan_cells

    seen: set[str] = set()
    for cell in plan_cells():
        module, name = cell.call.split(":")
        source = (REPO / "benchmarks" / "scale" / f"{module}.py").read_text()
        assert f"def {name}(" in source
        assert seen.issuperset(cell.needs), cell.name
        assert cell.name not in seen
        seen.add(cell.name)


def test_the_exponent_of_a_power_law_is_found() -> None:
    from benchmarks.scale.asked import fit_exponent

    xs = [10.0, 300.0, 4000.0]
    exponent, factor = fit_exponent(xs, [0.5 * x**1.25 for x in xs])
    assert exponent == pytest.approx(1.25)
    assert factor == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("cell", "values", "words", "verdict"),
    [
        ("run/products-like", {"seconds": 359.0, "peak_mb": 5000.0}, "the whole run", "met"),
        ("run/products-like", {"seconds": 359.0, "peak_mb": 5000.0}, "memory of the run", "**not met**"),
        ("fit/products-like", {"ratio": 0.249, "indexing_ratio": 0.249}, "phase, 2 threads", "**not met**"),
        ("tasks/batch-4000", {"nodes_per_second": 212_000.0}, "batch 4,000", "met"),
        ("growth/tasks", {"ratio": 1.15}, "tasks seen", "met"),
        ("sample/arxiv-like", {}, "tasks seen", "–"),
    ],
)
def test_a_figure_is_met_or_not_by_what_was_measured(
    cell: str, values: dict[str, Any], words: str, verdict: str
) -> None:
    from benchmarks.scale.asked import list_asked

    rows = [asked.row({cell: values}, quick=False) for asked in list_asked(2, quick=False) if cell]
    found = {row[3] for row in rows if words in row[0] and "AM" not in row[0]}
    assert found == {verdict}


def test_a_cell_that_fails_is_told_and_not_kept(tmp_path: Path) -> None:
    from benchmarks.scale.plan import Cell, Setup
    from benchmarks.scale.suite import kept, run_cells

    cells = [Cell("bad", "stores:no_such_function"), Cell("after", "stores:make_store", needs=("bad",))]
    setup = Setup(tmp_path, quick=True)
    outcomes = run_cells(cells, setup, fresh=False, limit=60)
    assert "no_such_function" in outcomes["bad"].note
    assert outcomes["after"].note.startswith("bad: failed")
    assert kept(cells[0], setup) is None


def test_a_cell_that_hangs_is_ended(tmp_path: Path) -> None:
    from benchmarks.scale.plan import Cell, Setup
    from benchmarks.scale.suite import run_cells

    slow = Cell("slow", "stores:make_store", {"dataset": "arxiv-like"})
    outcome = run_cells([slow], Setup(tmp_path, quick=True), fresh=False, limit=0.3)["slow"]
    assert outcome.note == "not finished within 0 s"
