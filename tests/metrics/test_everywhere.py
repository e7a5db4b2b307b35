"""A metric is added in one place and shown everywhere."""

from __future__ import annotations

import csv
from collections.abc import Callable

import pytest

from hpn.display.runs import print_comparison, print_result
from hpn.experiment.compare.result import Comparison
from hpn.experiment.run.result import RunResult
from hpn.metrics import METRICS, Measured, Metric, metric, metrics_table, summarize
from hpn.report import Run, render_page
from hpn.report.comparison import comparison_csv, comparison_markdown
from hpn.report.page import comparison_page


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Metric:
    """Another metric, on the list until the test ends."""
    monkeypatch.setitem(METRICS, "worst", METRICS["am"])  # so that it is gone afterwards

    @metric("worst", "%", "lowest accuracy on any task after the last task")
    def worst(measured: Measured) -> float:
        return min(measured.matrix[-1])

    return METRICS["worst"]


def test_a_result_has_it(
    added: Metric, make_result: Callable[..., RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    result = make_result(worst=summarize([70.25, 72.25]))
    assert result.to_json()["worst"] == {"mean": 71.25, "std": pytest.approx(2**0.5), "values": [70.25, 72.25]}
    print_result(result)
    line = next(line for line in capsys.readouterr().out.splitlines() if added.title in line)
    assert line.removeprefix(added.title).strip() == "71.2 ± 1.4 %"
    page = render_page([Run(result)])
    assert ">worst</button><small>%</small></th>" in page, "the head of the table"
    assert "worst <b>71.2 ± 1.4</b> %" in page
    assert "Lowest accuracy on any task after the last task" in page


def test_a_comparison_has_it(
    added: Metric, make_comparison: Callable[..., Comparison], capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = make_comparison({4: {"worst": summarize([70.25, 72.25])}})
    assert comparison.to_json()["rows"][4]["worst"]["mean"] == 71.25
    *_, last = csv.DictReader(comparison_csv(comparison).splitlines())
    assert float(last["worst_mean"]) == 71.25
    print_comparison(comparison)
    for text in (comparison_markdown(comparison), comparison_page(comparison), capsys.readouterr().out):
        assert "71.2 ± 1.4" in text
        assert added.title in text


def test_the_table_of_the_documentation_has_it(added: Metric) -> None:
    *_, new = metrics_table().splitlines()
    assert new == "| worst | `worst` | % | higher | lowest accuracy on any task after the last task |"
