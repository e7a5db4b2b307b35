import itertools
import math
import xml.etree.ElementTree as ET

import pytest

from hpn.report.charts import WIDTH
from hpn.report.growth import GrowthLine, growth_svg
from hpn.report.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"


def _draw(*growths, **options):
    return ET.fromstring(growth_svg(growths, **{"title": "Growth", "y_label": "prototypes", **options}))


def _texts(root, cls=None):
    found = [t for t in root.iter(f"{SVG}text") if cls is None or t.attrib.get("class") == cls]
    return ["".join(t.itertext()) for t in found]


def _bounds(root):
    """Height and colour of each dashed line."""
    lines = [e for e in root.iter(f"{SVG}line") if e.attrib["class"].startswith("bound")]
    assert all(line.attrib["y1"] == line.attrib["y2"] for line in lines)
    return [(float(line.attrib["y1"]), line.attrib["class"].split()[-1]) for line in lines]


def _ys(root):
    return [
        [float(pair.split(",")[1]) for pair in p.attrib["points"].split()]
        for p in root.iter(f"{SVG}polyline")
    ]


def _ticks(root):
    grid = [e for e in root.iter(f"{SVG}line") if e.attrib["class"] == "grid"]
    return [float(line.attrib["y1"]) for line in grid]


def test_bound_is_a_line_of_its_own_colour_above_the_data():
    root = _draw(GrowthLine("atomic", [10, 20, 30], 100), GrowthLine("node", [5, 6, 7], 40))
    (atomic, node), lines = _bounds(root), list(root.iter(f"{SVG}polyline"))
    assert atomic[1] in lines[0].attrib["class"].split()
    assert node[1] in lines[1].attrib["class"].split()
    assert atomic[0] < node[0] < min(_ys(root)[0]), "100 is above 40 is above 30"
    assert sorted(_texts(root, "halo")) == ["bound 100", "bound 40"]


def test_values_rise_and_a_linear_axis_starts_at_zero():
    root = _draw(GrowthLine("atomic", [80, 85, 90], 100))
    (ys,) = _ys(root)
    assert ys == sorted(ys, reverse=True)
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.15)
    assert "0" in _texts(root)


def test_an_astronomical_bound_is_written_and_not_drawn():
    root = _draw(GrowthLine("atomic", [10, 2000], 32 * 10**44), GrowthLine("node", [5, 10], 3000))
    assert len(_bounds(root)) == 1
    assert any(text.endswith("atomic, no useful bound") for text in _texts(root, "ink"))
    assert any(text.endswith("node") for text in _texts(root, "ink"))
    beyond = _draw(
        GrowthLine("a", [1.0], 10**400), GrowthLine("b", [1.0], math.inf), GrowthLine("c", [1.0], math.nan)
    )
    assert _bounds(beyond) == []
    assert any(text.endswith("b, no useful bound") for text in _texts(beyond, "ink"))


def test_a_far_bound_makes_the_axis_logarithmic_unless_told_otherwise():
    def step(root):
        ys = _ys(root)[0]
        return ys[0] - ys[1], ys[1] - ys[2]

    growth = GrowthLine("a", [10, 100, 1000], 25_000)
    one, two = step(_draw(growth))
    assert one == pytest.approx(two, abs=0.15), "powers of ten evenly apart"
    one, two = step(_draw(growth, log_y=False))
    assert two == pytest.approx(10 * one, rel=0.1)
    one, two = step(_draw(GrowthLine("a", [10, 100, 1000], 19_000)))
    assert two > 2 * one, "19 times the largest is still linear"


def test_a_long_name_keeps_its_bound():
    (text,) = _texts(_draw(GrowthLine("x" * 60, [1], 10**17)), "ink")
    assert text.endswith("…, bound 1.0 × 10¹⁷")


@pytest.mark.parametrize(
    "growths",
    [
        [GrowthLine("a", [9], 10), GrowthLine("b", [4], 10), GrowthLine("c", [2], 10)],
        [GrowthLine("a", [9, 10], 1000), GrowthLine("b", [4, 5], 990), GrowthLine("c", [2, 3], 980)],
        [GrowthLine("a", [500, 600, 990], 1000), GrowthLine("b", [900, 910, 995], 1000)],
        [
            GrowthLine("a", [6000, 8000, 9000], None),
            GrowthLine("b", [1, 2, 3], 6500),
            GrowthLine("c", [5, 6, 7], 6400),
        ],
        [GrowthLine("a", list(range(1, 51)), 50)],
    ],
)
def test_names_of_bounds_neither_overlap_nor_leave_the_chart(growths):
    root = _draw(*growths)
    labels = [t for t in root.iter(f"{SVG}text") if t.attrib.get("class") == "halo"]
    assert len(labels) == len([g for g in growths if g.bound])
    boxes = [
        (float(t.attrib["x"]) - 14, float(t.attrib["y"]), 14 + text_width("".join(t.itertext())))
        for t in labels
    ]
    for (x, y, width), (x2, y2, width2) in itertools.combinations(boxes, 2):
        assert abs(y - y2) >= 12 or x + width <= x2 or x2 + width2 <= x
    for x, y, width in boxes:
        assert x > 30
        assert x + width < WIDTH
        assert min(_ticks(root)) - 30 < y < max(_ticks(root))


def test_a_name_avoids_the_line_of_another():
    root = _draw(GrowthLine("a", [4000, 4200, 4300], None), GrowthLine("b", [1, 2, 3], 3900))
    (label,) = (t for t in root.iter(f"{SVG}text") if t.attrib.get("class") == "halo")
    base = float(label.attrib["y"])
    assert not any(base - 11 < y < base + 3 for y in _ys(root)[0])


@pytest.mark.parametrize("values", [[], [None, None], [math.nan]])
def test_without_values_it_says_so(values):
    root = _draw(GrowthLine("a", values, 10))
    assert "no values" in _texts(root)
    assert _bounds(root) == []


def test_absent_values_are_passed_over():
    root = _draw(GrowthLine("a", [1, None, 3], None), GrowthLine("b", [0, 0, 0], None))
    assert [len(ys) for ys in _ys(root)] == [2, 3]


def test_zero_lies_on_a_logarithmic_axis():
    root = _draw(GrowthLine("a", [0, 10, 100], None), log_y=True)
    (axis,) = (e for e in root.iter(f"{SVG}line") if e.attrib["class"] == "axis")
    assert _ys(root)[0][0] == float(axis.attrib["y1"])


def test_a_thing_without_values_keeps_its_colour():
    root = _draw(GrowthLine("old", [], None), GrowthLine("new", [1, 2], None))
    (line,) = root.iter(f"{SVG}polyline")
    assert line.attrib["class"] == "line s1"
    (named,) = _texts(root, "ink")
    assert named.endswith("new")


def test_legend_can_be_left_to_the_page_but_not_by_a_file():
    growth = GrowthLine("a", [1, 2], None)
    assert not _texts(_draw(growth, has_legend=False, standalone=False), "ink")
    assert _texts(_draw(growth, standalone=False), "ink")
    assert _texts(_draw(growth, has_legend=False), "ink")


def test_tasks_are_labelled_without_crowding():
    assert _texts(_draw(GrowthLine("a", [1] * 50, None)), "tick") == ["1", *map(str, range(5, 51, 5))]
    assert _texts(_draw(GrowthLine("a", [1] * 4, None)), "tick") == ["1", "2", "3", "4"]


def test_tips_and_description():
    root = _draw(GrowthLine("atomic", [10, 1234], 5000), GrowthLine("node", [5, 7], None))
    tips = [title.text for title in root.iter(f"{SVG}title")]
    assert "atomic, after task 2: 1,234" in tips
    assert "atomic, bound 5,000" in tips
    assert root.find(f"{SVG}desc").text == "After the last task: atomic 1,234 (bound 5,000), node 7"


def test_data_cannot_add_elements(hostile):
    plain = _draw(GrowthLine("a", [1, 2], 10**30), GrowthLine("b", [1, 2], 3))
    bad = _draw(
        GrowthLine(hostile, [1, 2], 10**30), GrowthLine(hostile, [1, 2], 3), title=hostile, y_label=hostile
    )
    assert {e.tag for e in bad.iter()} == {e.tag for e in plain.iter()}
