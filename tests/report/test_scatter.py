import random
import re
import xml.etree.ElementTree as ET

import pytest

from hpn.report.charts import WIDTH
from hpn.report.scatter import Panel, scatter_svg
from hpn.report.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"


def _panel(num_groups=3, num=20, head="after task 1", first=0, scale=10.0):
    rng = random.Random(first)
    groups = [first + k % num_groups for k in range(num)]
    return Panel(head, [(rng.gauss(0, scale), rng.gauss(0, scale)) for _ in groups], groups)


def _draw(panels, **options):
    return ET.fromstring(scatter_svg(panels, **{"labels": {}, "title": "t-SNE", **options}))


def _frames(root):
    return [
        tuple(float(r.attrib[name]) for name in ("x", "y", "width", "height"))
        for r in root.iter(f"{SVG}rect")
        if r.attrib["class"] == "frame"
    ]


def _starts(path):
    return [(float(x), float(y)) for x, y in re.findall(r"M(\S+?) ([^hlM]+)", path.attrib["d"])]


def _shape(path):
    """What is drawn at each point."""
    (shape,) = set(re.findall(r"M[^hl]+([hl][^M]*)", path.attrib["d"]))
    return shape


def test_every_point_is_inside_its_panel():
    panels = [_panel(num=50, head=f"after task {k}", first=k) for k in range(3)]
    root = _draw(panels)
    clouds = [g for g in root.iter(f"{SVG}g") if g.attrib.get("class") == "cloud"]
    assert len(clouds) == 3
    for cloud, (x, y, width, height) in zip(clouds, _frames(root), strict=True):
        points = [point for path in cloud for point in _starts(path)]
        assert len(points) == 50
        assert all(x + 3 < px < x + width - 3 and y + 3 < py < y + height - 3 for px, py in points)


def test_groups_differ_in_colour_and_shape_and_keep_them_in_all_panels():
    root = _draw([_panel(num_groups=3), _panel(num_groups=5, num=25)])
    one, two = (list(g) for g in root.iter(f"{SVG}g"))
    looks = [(path.attrib["class"][1:], _shape(path)) for path in two]
    assert len({colour for colour, _ in looks}) == len({shape for _, shape in looks}) == 5
    assert [(path.attrib["class"][1:], _shape(path)) for path in one] == looks[:3]


def test_both_axes_have_one_scale_and_up_is_up():
    root = _draw([Panel("", [(0, 0), (40, 0), (0, 10)], [1, 1, 1])])
    (path,) = next(root.iter(f"{SVG}g"))
    (x0, y0), (x1, y1), (x2, y2) = _starts(path)
    assert x1 - x0 == pytest.approx(4 * (y0 - y2), abs=0.3)
    assert y1 == y0
    assert y2 < y0
    assert x2 == x0


def test_a_tall_cloud_is_inside_too():
    root = _draw([Panel("", [(0, 0), (1, 0), (0, 100)], [1, 1, 1])])
    ((_, top, _, height),) = _frames(root)
    (path,) = next(root.iter(f"{SVG}g"))
    assert all(top < y < top + height for _, y in _starts(path))


@pytest.mark.parametrize("points", [[(3.0, 4.0)], [(3.0, 4.0)] * 5])
def test_points_at_one_place_are_in_the_middle(points):
    root = _draw([Panel("", points, [0] * len(points))])
    ((x, y, width, height),) = _frames(root)
    (path,) = next(root.iter(f"{SVG}g"))
    assert all(start == pytest.approx((x + width / 2, y + height / 2)) for start in _starts(path))


def test_panels_wrap_and_stay_within_the_width():
    frames = _frames(_draw([_panel()] * 5))
    assert len({x for x, *_ in frames}) == 2
    assert len({y for _, y, *_ in frames}) == 3
    assert all(x + width <= WIDTH for x, _, width, _ in frames)
    assert len({x for x, *_ in _frames(_draw([_panel()]))}) == 1
    ((_, _, wide, _),) = _frames(_draw([_panel()]))
    assert wide > 300
    assert len({y for _, y, *_ in _frames(_draw([_panel()] * 3, columns=3))}) == 1


def test_legend_names_the_classes_there_are():
    root = _draw([_panel(num_groups=2)], labels={0: "Theory", 1: "x" * 80, 7: "absent"})
    names = [t for t in root.iter(f"{SVG}text") if t.attrib.get("class") == "ink"]
    shown = [t.find(f"{SVG}title").tail for t in names]
    assert shown == ["Theory", "x" * 33 + "…"]
    assert all(float(t.attrib["x"]) + text_width(s) <= WIDTH for t, s in zip(names, shown, strict=True))
    unnamed = ET.tostring(_draw([_panel(num_groups=2, first=5)]), encoding="unicode")
    assert ">class 5<" in unnamed


def test_absent_classes_do_not_move_the_colours():
    labels = {k: str(k) for k in range(6)}
    (path,) = next(_draw([Panel("", [(0, 0), (1, 1)], [4, 4])], labels=labels).iter(f"{SVG}g"))
    assert path.attrib["class"] == "f4"


def test_a_thousand_points_stay_small():
    size = len(scatter_svg([_panel(num_groups=7, num=1000)], labels={}, title="t", standalone=False))
    assert size < 60_000


def test_nothing_to_draw_and_what_is_no_number():
    assert "no points" in "".join(_draw([Panel("a", [], [])]).itertext())
    (path,) = next(_draw([Panel("a", [(float("nan"), 1.0), (2.0, 3.0)], [0, 0])]).iter(f"{SVG}g"))
    assert len(_starts(path)) == 1
    assert _draw([]).tag == f"{SVG}svg"


def test_a_point_without_a_class_is_refused():
    with pytest.raises(ValueError, match="zip"):
        _draw([Panel("a", [(0.0, 1.0), (2.0, 3.0)], [0])])


def test_description_counts_the_classes_and_says_there_are_no_units():
    desc = _draw([_panel(num_groups=2, num=5)], labels={0: "Theory"}).find(f"{SVG}desc").text
    assert "no units" in desc
    assert desc.endswith("after task 1: Theory 3, class 1 2")


def test_data_cannot_add_elements(hostile):
    bad = _draw([_panel(head=hostile)], labels={0: hostile}, title=hostile)
    assert {e.tag for e in bad.iter()} == {e.tag for e in _draw([_panel()]).iter()}
