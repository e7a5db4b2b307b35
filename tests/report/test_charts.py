import itertools
import re
import xml.etree.ElementTree as ET

import pytest

from hpn.metrics import summarize
from hpn.report.charts import WIDTH, Bars, Series, bars_svg, curves_svg, dots_svg, dots_width

SVG = "{http://www.w3.org/2000/svg}"


def _series(num_runs: int, num_tasks: int, spread: float = 2.0) -> list[Series]:
    return [
        Series(f"run {r}", [summarize([60.0 + r - spread, 60.0 + r + spread])] * num_tasks)
        for r in range(num_runs)
    ]


def _ys(element: ET.Element) -> list[float]:
    return [float(pair.split(",")[1]) for pair in element.attrib["points"].split()]


def test_curve_has_a_line_a_band_and_a_tip_for_each_point():
    root = ET.fromstring(curves_svg(_series(3, 5), title="AM"))
    assert len(root.findall(f"{SVG}polyline")) == 3
    assert len([p for p in root.iter(f"{SVG}polygon") if "band" in p.attrib["class"]]) == 3
    tips = [title.text for title in root.iter(f"{SVG}title")]
    assert "run 1, after task 5: 61.0 ± 2.8 %" in tips


def test_band_lies_around_the_line():
    root = ET.fromstring(curves_svg(_series(1, 4), title="AM"))
    band = next(p for p in root.iter(f"{SVG}polygon") if "band" in p.attrib["class"])
    (line,) = (_ys(p) for p in root.findall(f"{SVG}polyline"))
    assert min(_ys(band)) < min(line) <= max(line) < max(_ys(band))


def test_higher_values_are_drawn_higher():
    rising = Series("up", [summarize([value]) for value in (20.0, 50.0, 80.0)])
    root = ET.fromstring(curves_svg([rising], title="AM"))
    ys = _ys(root.findall(f"{SVG}polyline")[0])
    assert ys == sorted(ys, reverse=True)


def test_one_seed_has_no_band_and_no_whisker():
    single = [Series("a", [summarize([50.0])] * 3)]
    assert 'class="band' not in curves_svg(single, title="AM")
    assert '"whisker' not in dots_svg(single, title="end")
    assert '"whisker' in dots_svg(_series(1, 3), title="end")


def test_nothing_to_draw_says_why():
    drawn = curves_svg([Series("a", [None])], title="ARS")
    assert "not defined for these runs" in drawn


@pytest.mark.parametrize("num_tasks", [1, 50])
@pytest.mark.parametrize("num_runs", [1, 20])
def test_dots_do_not_overlap_and_stay_inside(num_tasks, num_runs):
    drawn = dots_svg(_series(num_runs, num_tasks), title="end", standalone=False)
    root = ET.fromstring(drawn)
    xs = sorted(
        float(line.attrib["x1"]) for line in root.iter(f"{SVG}line") if "whisker" in line.attrib["class"]
    )
    assert len(xs) == num_tasks * num_runs
    assert xs[0] > 40
    assert xs[-1] < float(root.attrib["width"])
    assert all(right - left >= 4.5 for left, right in itertools.pairwise(xs))
    assert float(root.attrib["width"]) == pytest.approx(dots_width(num_tasks, num_runs), abs=0.1)


def test_few_dots_keep_the_common_width():
    assert dots_width(5, 3) == WIDTH < dots_width(50, 3)


def test_bars_are_in_proportion_and_absent_values_have_none():
    panel = Bars("Parameters", [50, 100, None], ["50", "100", "–"])
    root = ET.fromstring(bars_svg(["a", "b", "c"], [panel], title="Cost", standalone=False))
    lengths = [float(bar.attrib["width"]) for bar in root.findall(f"{SVG}rect")]
    assert len(lengths) == 2
    assert lengths[1] == pytest.approx(2 * lengths[0])
    assert "–" in [text.text for text in root.iter(f"{SVG}text")]


def test_bars_of_zero_or_nothing_are_drawn():
    for values in ([0, 0], [None, None]):
        assert "<svg" in bars_svg(["a", "b"], [Bars("x", values, ["–", "–"])], title="Cost")


def test_labels_thin_out_with_many_tasks():
    shown = re.findall(r'text-anchor="middle">(\d+)<', curves_svg(_series(1, 50), title="AM"))
    assert shown == ["1", *(str(n) for n in range(5, 51, 5))]
