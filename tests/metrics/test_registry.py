"""Every metric against an independent reference, and what the registry promises."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpn.metrics import METRICS, Matrix, Measured, retaining_ratios, summarize

Array = np.ndarray
REFERENCES: dict[str, Callable[[Array, Array, Array, Array], float]] = {
    "am": lambda a, *_: a[-1].mean(),
    "fm": lambda a, *_: (a[-1] - a.diagonal())[:-1].mean(),
    "ars": lambda a, *_: 100 * (a[-1] / a.diagonal())[:-1].mean(),
    "aaa": lambda a, *_: np.mean([a[i, : i + 1].mean() for i in range(len(a))]),
    "bwt": lambda a, *_: (a - a.diagonal())[np.tril_indices(len(a), -1)].mean(),
    "fwt": lambda a, chance, *_: (a - chance).diagonal(1).mean(),
    "intransigence": lambda a, _, best, __: (best - a).diagonal().mean(),
    "balanced_am": lambda _, __, ___, balanced: balanced[-1].mean(),
}


@st.composite
def squares(draw: st.DrawFn) -> list[Array]:
    """Four matrices of one size, with accuracies on all tasks after each."""
    size = draw(st.integers(2, 6))
    row = st.lists(st.floats(1, 100), min_size=size, max_size=size)
    return [np.array(draw(st.lists(row, min_size=size, max_size=size))) for _ in range(4)]


def triangle(matrix: Array, ahead: int = 0) -> Matrix:
    return [row[: i + 1 + ahead].tolist() for i, row in enumerate(matrix)]


@given(squares(), st.integers(0, 6))
def test_every_metric_agrees_with_its_reference_however_far_ahead_it_looks(squares: list[Array], ahead: int) -> None:
    assert set(REFERENCES) == set(METRICS)
    matrix, chance, reference, balanced = squares
    measured = Measured(triangle(matrix, ahead), triangle(balanced), triangle(chance, ahead), triangle(reference))
    for name, metric in METRICS.items():
        if name == "fwt" and not ahead:
            assert metric(measured) is None
        else:
            assert metric(measured) == pytest.approx(REFERENCES[name](matrix, chance, reference, balanced))
        last = metric.curve(measured)[-1]
        assert last == pytest.approx(metric(measured)) if last is not None else metric(measured) is None


@given(squares())
def test_a_curve_is_the_metric_after_each_step(squares: list[Array]) -> None:
    matrix = triangle(squares[0], ahead=2)
    for metric in METRICS.values():
        early = metric.curve(Measured(matrix))[1]
        assert early == metric([row[:2] for row in matrix[:2]])


def test_a_single_task_and_a_learner_that_cannot_forget_have_no_forgetting() -> None:
    forgetting = {"fm", "ars", "bwt"}
    for measured in (Measured([[80.0]]), Measured([[80.0], [70.0, 90.0]], forgets=False)):
        assert {name for name, metric in METRICS.items() if metric(measured) is None} >= forgetting
        assert METRICS["am"](measured) == 80.0


def test_metrics_without_what_they_need_do_not_apply() -> None:
    matrix = [[80.0], [70.0, 90.0]]
    missing = {name for name, metric in METRICS.items() if metric(matrix) is None}
    assert missing == {"fwt", "intransigence", "balanced_am"}


def test_a_task_never_answered_right_has_nothing_to_retain() -> None:
    assert retaining_ratios([[0.0], [10.0, 50.0]], after=1) == [1.0]


@pytest.mark.parametrize("matrix", [[], [[]], [[1.0, 2.0]], [[1.0], [1.0]], [[1.0], [1.0, 2.0, 3.0]]])
def test_other_shapes_are_refused(matrix: Matrix) -> None:
    with pytest.raises(ValueError, match="got rows of"):
        Measured(matrix)


def test_every_metric_can_be_read() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.unit in {"%", "points"}
        assert metric.title == f"{metric.label} ({metric.definition})"
        assert "\n" not in metric.definition
    assert [name for name, metric in METRICS.items() if not metric.higher_is_better] == ["intransigence"]


def test_mean_and_sample_deviation() -> None:
    values = [93.1, 94.7, 92.0, 95.5, 93.3]
    summary = summarize(values)
    assert summary is not None
    assert (summary.mean, summary.std) == (
        pytest.approx(statistics.mean(values)),
        pytest.approx(statistics.stdev(values)),
    )
    assert summarize([3.0]).std == 0  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="every seed or to none"):
        summarize([1.0, None])
