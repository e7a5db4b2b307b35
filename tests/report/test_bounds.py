from __future__ import annotations

import xml.etree.ElementTree as ET

from hpn.report.bounds import MOST, bounds_svg

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {2: [(0.01, 44.0), (0.1, 13.0), (1.0, 4.0)], 32: [(0.01, 1e33), (0.1, 1e10), (1.0, 64.0)]}


def drawn() -> ET.Element:
    return ET.fromstring(bounds_svg(SIZES, title="Bounds"))


def test_a_line_falls_as_its_bound_does() -> None:
    first = next(drawn().iter(f"{SVG}polyline"))
    places = [tuple(map(float, pair.split(","))) for pair in first.attrib["points"].split()]
    assert places == sorted(places)
    assert [y for _, y in places] == sorted(y for _, y in places)


def test_lines_begin_where_a_bound_is_one() -> None:
    lines = [line.attrib["points"].split() for line in drawn().iter(f"{SVG}polyline")]
    assert [len(line) for line in lines[:2]] == [3, sum(size <= MOST for _, size in SIZES[32])]


def test_every_dimension_is_named_and_told() -> None:
    words = ["".join(element.itertext()) for element in drawn().iter(f"{SVG}text")]
    assert {"0.01", "0.1", "1"} <= set(words)
    assert {"dimension 2", "dimension 32"} <= {"".join(e.itertext()) for e in drawn().iter()}
    desc = "".join(next(drawn().iter(f"{SVG}desc")).itertext())
    assert "dimension 32: 10³³ at 0.01, 64 at 1" in desc
