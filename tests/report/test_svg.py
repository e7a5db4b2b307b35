import itertools

import pytest

from hpn.report.svg import Plot, heading, is_labelled, label_step, legend, nice_range, nice_step, y_axis


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, 0.0), (100.0, 100.0), (93.7, 93.7), (3.0, 97.0), (61.0, 99.5), (0.0, 4.0)],
)
def test_range_holds_its_values_and_ends_on_ticks(low, high):
    bottom, top = nice_range(low, high, ceiling=100.0)
    assert 0.0 <= bottom <= low <= high <= top <= 100.0
    assert top - bottom >= 10
    step = nice_step(top - bottom)
    assert bottom / step == pytest.approx(round(bottom / step))
    assert top / step == pytest.approx(round(top / step))


def test_heights_run_upwards_and_stop_at_the_edges():
    plot = Plot(left=40, top=10, width=100, height=200, low=50, high=100)
    assert (plot.y(50), plot.y(75), plot.y(100)) == (210, 110, 10)
    assert (plot.y(20), plot.y(130)) == (210, 10)


def test_axis_names_its_ends():
    axis = y_axis(Plot(left=40, top=10, width=100, height=200, low=60, high=100))
    assert [f">{n}<" in axis for n in (60, 70, 80, 90, 100, 50)] == [True] * 5 + [False]


@pytest.mark.parametrize("num", [1, 2, 5, 12, 20, 50, 137, 1000])
def test_labels_keep_their_distance(num):
    space = 366 / num
    step = label_step(num, space)
    shown = [i for i in range(num) if is_labelled(i, step)]
    assert shown[0] == 0
    gaps = [(b - a) * space for a, b in itertools.pairwise(shown)]
    assert all(gap >= 18 for gap in gaps)


def test_legend_wraps_and_shortens():
    names = [f"method {i}" for i in range(20)] + ["x" * 90]
    drawn, height = legend(names, left=16, top=0, right=406)
    assert height > 20 * 5
    assert "x" * 33 + "…" in drawn
    assert f"<title>{'x' * 90}</title>" in drawn


def test_legend_keeps_the_styles_it_is_given():
    drawn, _ = legend(["a", "b"], left=16, top=0, right=406, styles=[3, 5], has_lines=False)
    assert 'class="marker f3"' in drawn
    assert 'class="marker f5"' in drawn
    assert "<line" not in drawn


def test_heading_wraps_to_the_width():
    one, low = heading("short", 420)
    two, high = heading("word " * 20, 420)
    assert one.count("<text") == 1
    assert two.count("<text") >= 2
    assert high == low + 18 * (two.count("<text") - 1)
