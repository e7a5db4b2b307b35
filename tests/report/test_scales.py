import itertools
import math

import pytest

from hpn.report.scales import Scale, fit_range, log_range, log_ticks, number_ticks, plain, value_ticks
from hpn.report.svg import text_width


@pytest.mark.parametrize(
    "values",
    [
        [0.0],
        [83.1, 83.4],
        [100.0, 100.0],
        [-0.3, 0.2],
        [-31.0, -2.5],
        [-5.0, -5.0],
        [99.0, 131.0],
        [3.0, 61234.0],
        [0.31, 0.33],
    ],
)
def test_range_holds_its_values_and_ends_on_ticks(values):
    low, high = fit_range(values, least=0.01)
    assert low - 1e-9 <= min(values) <= max(values) <= high + 1e-9
    ticks = [value for value, _ in value_ticks(Scale(low, high, 0, 1))]
    assert ticks[0] == pytest.approx(low)
    assert ticks[-1] == pytest.approx(high)
    assert 3 <= len(ticks) <= 8


def test_range_is_never_narrower_than_asked():
    low, high = fit_range([80.0, 80.2], least=4.0)
    assert high - low >= 4


def test_range_passes_zero_only_with_its_values():
    assert fit_range([0.1, 0.3], least=4.0)[0] == 0
    assert fit_range([-0.3, -0.1], least=4.0)[1] == 0
    low, high = fit_range([-0.3, 0.1], least=4.0)
    assert low < 0 < high


def test_range_stays_below_its_ceiling():
    low, high = fit_range([97.0, 104.0], least=4.0, ceiling=100.0)
    assert high == 100
    assert low <= 97


@pytest.mark.parametrize("values", [[1.0], [3.0, 4200.0], [0.0, 7.0, 9.0], [1e-4, 1e3], [1e-30, 1e40]])
def test_log_range_holds_its_positive_values(values):
    low, high = log_range(values)
    positive = [value for value in values if value > 0]
    assert 0 < low <= min(positive) * (1 + 1e-9)
    assert high >= max(positive) * (1 - 1e-9)
    assert high / low >= 10 * (1 - 1e-9)


def test_places_run_along_the_axis_and_stop_at_its_ends():
    scale = Scale(1.0, 1000.0, 100.0, 400.0, is_log=True)
    assert [scale.place(value) for value in (1, 10, 100, 1000)] == pytest.approx([100, 200, 300, 400])
    assert scale.place(-3.0) == scale.place(0.0) == 100
    assert scale.place(1e9) == 400
    assert Scale(5.0, 5.0, 0.0, 10.0).place(5.0) == 5.0


@pytest.mark.parametrize("is_log", [True, False])
@pytest.mark.parametrize(
    "xs",
    [
        [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.2],
        [2, 4, 8, 16, 32],
        [10.0**k for k in range(-4, 4)],
        [10.0**k for k in range(-30, 30, 3)],
        [3.0],
        [4.0, 4.5],
        [100_000, 200_000, 300_000, 300_001],
        list(range(1, 60)),
    ],
)
def test_labels_along_the_axis_do_not_overlap(xs, is_log):
    scale = Scale(xs[0], xs[-1], 58.0, 388.0, is_log=is_log)
    ticks = number_ticks(xs, scale)
    assert ticks
    spans = [(scale.place(value), text_width(name) / 2) for value, name in ticks]
    assert all(a + half < b - other for (a, half), (b, other) in itertools.pairwise(spans))
    slack = 1e-6 * xs[-1]
    assert all(xs[0] - slack <= value <= xs[-1] + slack for value, _ in ticks)


def test_few_settings_are_written_as_they_are_and_many_are_not():
    few = [1, 3, 4, 7]
    assert [name for _, name in number_ticks(few, Scale(1, 7, 58, 388))] == ["1", "3", "4", "7"]
    many = [k / 50 for k in range(51)]
    assert len(number_ticks(many, Scale(0, 1, 58, 388))) < 12


def test_logarithmic_axis_is_labelled_at_powers_of_ten():
    xs = [10.0**k for k in range(-4, 4)]
    names = [name for _, name in number_ticks(xs, Scale(xs[0], xs[-1], 58, 388, is_log=True))]
    assert names == ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹", "10²", "10³"]


def test_a_narrow_logarithmic_axis_has_ticks_between_the_powers():
    assert len(log_ticks(Scale(20.0, 90.0, 0, 1, is_log=True), 7)) >= 2


def test_numbers_of_an_axis_show_their_step():
    assert [name for _, name in value_ticks(Scale(0.3, 0.34, 0, 1))] == [
        "0.30",
        "0.31",
        "0.32",
        "0.33",
        "0.34",
    ]
    assert next(name for _, name in value_ticks(Scale(-4.0, 0.0, 0, 1))) == "−4"


@pytest.mark.parametrize("value", [0.1 + 0.2, 1 / 3, 12345.678, 1e-9, 3e20, -7e-12, math.pi * 1e6])
def test_settings_are_written_short(value):
    assert 0 < len(plain(value)) <= 14
    assert "e" not in plain(value)
    assert "-" not in plain(value)
