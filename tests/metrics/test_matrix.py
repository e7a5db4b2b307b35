from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpn.metrics import (
    accuracy_mean,
    accuracy_means,
    average_retaining,
    average_retainings,
    forgetting_mean,
    retaining_ratios,
)


@st.composite
def matrices(draw: st.DrawFn) -> list[list[float]]:
    size = draw(st.integers(1, 6))
    cell = st.floats(1, 100)
    return [draw(st.lists(cell, min_size=i + 1, max_size=i + 1)) for i in range(size)]


@given(matrices())
def test_a_learner_that_forgets_nothing(matrix: list[list[float]]) -> None:
    kept = [[matrix[j][j] for j in range(i + 1)] for i in range(len(matrix))]
    assert forgetting_mean(kept) in (None, 0)
    assert average_retaining(kept) in (None, pytest.approx(1))


@given(matrices())
def test_am_is_the_last_of_the_ams_and_lies_between_its_cells(matrix: list[list[float]]) -> None:
    am = accuracy_mean(matrix)
    assert am == accuracy_means(matrix)[-1]
    assert min(matrix[-1]) - 1e-9 <= am <= max(matrix[-1]) + 1e-9


def test_one_task_has_no_forgetting() -> None:
    assert forgetting_mean([[80.0]]) is None
    assert average_retainings([[80.0]]) == [None]


def test_a_task_never_answered_right_has_nothing_to_retain() -> None:
    assert retaining_ratios([[0.0], [10.0, 50.0]], after=1) == [1.0]


@pytest.mark.parametrize("matrix", [[], [[1.0, 2.0]], [[1.0], [1.0]], [[1.0], [1.0, 2.0, 3.0]]])
def test_other_shapes_are_refused(matrix: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="lower triangular"):
        accuracy_mean(matrix)
