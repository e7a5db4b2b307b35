import itertools
import re
import xml.etree.ElementTree as ET

import pytest

from hpn.metrics import summarize
from hpn.report.charts import WIDTH
from hpn.report.svg import text_width
from hpn.report.sweeps import Sweep, sweep_svg

SVG = "{http://www.w3.org/2000/svg}"
XS = [0.05, 0.1, 0.3, 0.5, 1.2]


def _sweep(means, xs=XS, label="cora", spread=1.0):
    values = [None if mean is None else summarize([mean - spread, mean + spread]) for mean in means]
    return Sweep(label, xs, values)


def _draw(*sweeps, **options):
    names = {"title": "AM by threshold", "x_label": "threshold", "y_label": "AM, %"}
    return ET.fromstring(sweep_svg(list(sweeps), **{**names, **options}))


def _points(element):
    return [tuple(map(float, pair.split(","))) for pair in element.attrib["points"].split()]


def _line(root):
    (found,) = root.iter(f"{SVG}polyline")
    return _points(found)


def _texts(root, cls=None):
    return [e for e in root.iter(f"{SVG}text") if cls is None or e.attrib.get("class") == cls]


def _words(element):
    return "".join(element.itertext())


def test_line_runs_from_left_to_right_whatever_the_order_of_the_settings():
    shuffled = _sweep([70.0, 75.0, 80.0], xs=[3.0, 1.0, 2.0])
    xs, ys = zip(*_line(_draw(shuffled)), strict=True)
    assert list(xs) == sorted(xs)
    assert ys[1] < ys[0] < ys[2], "75, 80, 70 in the order of the settings"


def test_band_is_around_the_line():
    root = _draw(_sweep([70.0, 75.0, 80.0, 78.0, 60.0], spread=2.0))
    (band,) = (_points(p) for p in root.iter(f"{SVG}polygon") if "band" in p.attrib["class"])
    upper, lower = band[:5], band[5:][::-1]
    for (x, y), above, below in zip(_line(root), upper, lower, strict=True):
        assert above[0] == below[0] == x
        assert above[1] < y < below[1]


def test_one_seed_has_no_band_and_one_setting_a_whisker():
    single = Sweep("a", XS, [summarize([70.0])] * 5)
    assert "band" not in ET.tostring(_draw(single, standalone=False), encoding="unicode")
    point = ET.tostring(_draw(_sweep([70.0], xs=[3.0]), standalone=False), encoding="unicode")
    assert "whisker" in point
    assert "band" not in point


def test_noise_is_not_stretched_over_the_chart():
    ys = [y for _, y in _line(_draw(_sweep([80.0, 80.2, 80.1, 80.0, 80.2], spread=0.05)))]
    assert max(ys) - min(ys) <= 200 * 0.2 / 4 + 0.1
    counts = _line(_draw(_sweep([1000.0, 1001.0], xs=[1, 2], spread=0.0), y_label="prototypes"))
    assert abs(counts[0][1] - counts[1][1]) < 5


@pytest.mark.parametrize(
    ("means", "options"),
    [
        ([-30.0, -12.0, -4.0, 0.0, 2.0], {"y_label": "FM, points"}),
        ([99.0, 104.0, 131.0, 100.0, 98.0], {"y_label": "ARS, %"}),
        ([50.0] * 5, {}),
        ([0.0] * 5, {}),
        ([None, 60.0, None, 70.0, None], {}),
        ([7000.0, 900.0, 60.0, 3.0, 0.0], {"log_y": True, "y_label": "atomic prototypes"}),
        ([0.0] * 5, {"log_y": True, "y_label": "atomic prototypes"}),
        ([99.0, 99.5, 99.9, 99.9, 99.9], {"ceiling": 100.0}),
        ([60.0, 61.0, 62.0, 63.0, 64.0], {"log_x": True, "reference": 55.0}),
    ],
)
def test_everything_stays_inside(means, options):
    root = _draw(_sweep(means), **options)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert width == WIDTH
    (axis,) = (e for e in root.iter(f"{SVG}line") if e.attrib["class"] == "axis")
    left, right, bottom = (float(axis.attrib[name]) for name in ("x1", "x2", "y1"))
    for x, y in _line(root):
        assert left < x < right
        assert bottom - 200.1 <= y <= bottom + 0.1
    for element in _texts(root):
        half = text_width(_words(element))
        x, anchor = float(element.attrib["x"]), element.attrib.get("text-anchor", "start")
        start = x - {"start": 0, "middle": half / 2, "end": half}[anchor]
        assert start >= 0, _words(element)
        assert start + half <= width, _words(element)
        assert float(element.attrib["y"]) < height


def test_no_values_says_so():
    assert "no values" in "".join(_draw(_sweep([None] * 5)).itertext())
    assert "no values" in "".join(_draw().itertext())


def test_tick_labels_do_not_overlap():
    for options in ({}, {"log_x": True}):
        ticks = _texts(_draw(_sweep([70.0] * 5), **options), "tick")
        spans = sorted((float(t.attrib["x"]), text_width(_words(t)) / 2) for t in ticks)
        assert len(spans) > 1
        assert all(a + half < b - other for (a, half), (b, other) in itertools.pairwise(spans))


def test_a_logarithmic_axis_spaces_powers_of_ten_evenly():
    xs = [10.0**k for k in range(-4, 4)]
    root = _draw(_sweep([70.0] * 8, xs=xs), log_x=True)
    gaps = [b[0] - a[0] for a, b in itertools.pairwise(_line(root))]
    assert gaps == pytest.approx([gaps[0]] * 7, abs=0.15)
    assert [_words(t) for t in _texts(root, "tick")][:2] == ["10⁻⁴", "10⁻³"]


def test_a_logarithmic_axis_needs_positive_settings():
    with pytest.raises(ValueError, match="log_x needs settings above 0, got 0"):
        _draw(_sweep([70.0, 71.0], xs=[0.0, 1.0]), log_x=True)


def test_lines_differ_in_colour_and_marker_and_are_named():
    root = _draw(*(_sweep([70.0 + i] * 5, label=f"line {i}") for i in range(3)))
    colours = {p.attrib["class"] for p in root.iter(f"{SVG}polyline")}
    assert len(colours) == 3
    shapes = [e.tag if e.tag.endswith("circle") else len(_points(e)) for e in _markers(root)]
    assert len(set(shapes)) == 3
    assert {"line 0", "line 1", "line 2"} <= {_words(t)[len("line 0") :] for t in _texts(root, "ink")}


def _markers(root):
    return [e for e in root.iter() if "marker" in e.attrib.get("class", "").split()]


def test_tips_and_description_tell_the_values():
    root = _draw(_sweep([70.0, None, 75.0, 80.0, 60.0]))
    tips = {_words(title) for title in root.iter(f"{SVG}title")}
    assert "cora, threshold 0.05: 70.0 ± 1.4 (AM, %)" in tips
    desc = root.find(f"{SVG}desc").text
    assert (
        desc
        == "AM, % by threshold. cora: 0.05: 70.0 ± 1.4, 0.3: 75.0 ± 1.4, 0.5: 80.0 ± 1.4, 1.2: 60.0 ± 1.4"
    )


def test_reference_is_a_line_across_with_its_name():
    root = _draw(_sweep([70.0] * 5), reference=60.0, reference_label="paper")
    (rule,) = (e for e in root.iter(f"{SVG}line") if "bound" in e.attrib["class"])
    assert rule.attrib["y1"] == rule.attrib["y2"]
    assert float(rule.attrib["y1"]) > max(y for _, y in _line(root)), "60 is below 70"
    assert "paper 60" in [_words(t) for t in _texts(root)]


def test_inside_a_page_there_is_no_title_and_a_legend_only_for_several():
    one = _draw(_sweep([70.0] * 5), standalone=False)
    assert not _texts(one, "head")
    assert not _texts(one, "ink")
    two = _draw(_sweep([70.0] * 5), _sweep([75.0] * 5, label="citeseer"), standalone=False)
    assert len(_texts(two, "ink")) == 2


def test_a_long_title_wraps():
    root = _draw(_sweep([70.0] * 5), title="a rather long title " * 5)
    rows = [_words(t) for t in _texts(root, "head")]
    assert len(rows) > 1
    assert all(len(row) * 7.8 < WIDTH for row in rows)


def test_data_cannot_add_elements(hostile):
    plain = _draw(_sweep([70.0] * 5))
    bad = _draw(_sweep([70.0] * 5, label=hostile), title=hostile, x_label=hostile, y_label=hostile)
    assert {e.tag for e in bad.iter()} == {e.tag for e in plain.iter()}
    assert not re.search(r"<(script|img)", ET.tostring(bad, encoding="unicode"))
