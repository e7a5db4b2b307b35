import itertools
import xml.etree.ElementTree as ET

import pytest

from hpn.metrics import summarize
from hpn.report.charts import WIDTH
from hpn.report.grid import grid_svg
from hpn.report.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"


def _draw(means, **options):
    cells = [[None if m is None else summarize([m - 1, m + 1]) for m in row] for row in means]
    names = {
        "rows": [f"r{i}" for i in range(len(means))],
        "columns": [f"c{j}" for j in range(len(means[0]))],
        "row_label": "extractors",
        "column_label": "dim",
        "title": "AM",
    }
    return ET.fromstring(grid_svg(cells, **{**names, **options}))


def _cells(root):
    """Shade and tip of each cell."""
    return {
        rect.find(f"{SVG}title").text: rect.attrib["class"]
        for rect in root.iter(f"{SVG}rect")
        if rect.find(f"{SVG}title") is not None
    }


def _texts(root):
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def test_shades_span_the_values():
    cells = _cells(_draw([[70.0, 71.0], [72.0, 73.0]]))
    assert cells == {
        "extractors r0, dim c0: 70.0 ± 1.4 %": "h0",
        "extractors r0, dim c1: 71.0 ± 1.4 %": "h6",
        "extractors r1, dim c0: 72.0 ± 1.4 %": "h13",
        "extractors r1, dim c1: 73.0 ± 1.4 %": "h19",
    }


def test_legend_names_the_lowest_and_the_highest_with_their_unit():
    texts = _texts(_draw([[-12.5, -3.0], [-1.25, 2.0]], unit="points"))
    assert "−12.5 points" in texts
    assert "2.0 points" in texts


def test_an_absent_value_is_a_dash_without_a_shade():
    root = _draw([[70.0, None], [72.0, 73.0]])
    assert _cells(root)["extractors r0, dim c1: no value"] == "stripe"
    assert any(text.endswith("–") for text in _texts(root))


def test_equal_values_share_a_shade_and_say_so():
    root = _draw([[70.0, 70.0], [70.0, 70.0]])
    assert len(set(_cells(root).values())) == 1
    assert "all 70.0 %" in _texts(root)


def test_no_values_at_all_are_drawn():
    root = _draw([[None, None]])
    assert set(_cells(root).values()) == {"stripe"}


@pytest.mark.parametrize(("num_rows", "num_columns"), [(1, 1), (4, 5), (9, 8)])
def test_cells_are_apart_and_inside(num_rows, num_columns):
    root = _draw([[10.0 * i + j for j in range(num_columns)] for i in range(num_rows)])
    cells = [r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    assert len(cells) == num_rows * num_columns
    xs = sorted({float(cell.attrib["x"]) for cell in cells})
    width = float(cells[0].attrib["width"])
    assert len(xs) == num_columns
    assert all(b - a > width for a, b in itertools.pairwise(xs))
    assert xs[-1] + width <= float(root.attrib["width"]) == WIDTH


@pytest.mark.parametrize("means", [[[-12.34, 100.0]] * 2, [[123456.0, 3.0]] * 2])
def test_numbers_fit_their_cells(means):
    root = _draw([row * 4 for row in means])
    cell = next(r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None)
    numbers = [t for t in root.iter(f"{SVG}text") if t.attrib.get("class", "").startswith("v")]
    tails = [number.find(f"{SVG}title").tail for number in numbers]
    assert len(tails) == 16
    assert all(text_width(tail) < float(cell.attrib["width"]) for tail in tails)


def test_long_names_are_shortened_and_told_in_full():
    root = _draw([[1.0, 2.0]], rows=["a very long name of a row"], columns=["c", "x" * 40])
    drawn = ET.tostring(root, encoding="unicode")
    assert "a very long n…" in drawn
    assert "<ns0:title>a very long name of a row<" in drawn
    assert f"<ns0:title>{'x' * 40}<" in drawn
    assert f">{'x' * 40}</ns0:text>" not in drawn


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="cells must be 2 rows of 1"):
        _draw([[1.0, 2.0]], rows=["a", "b"], columns=["c"])


def test_description_tells_every_value():
    desc = _draw([[70.0, None]]).find(f"{SVG}desc").text
    assert desc == "Rows: extractors. Columns: dim. r0: c0: 70.0 ± 1.4, c1: –"


def test_data_cannot_add_elements(hostile):
    names = {"rows": [hostile], "columns": [hostile, hostile]}
    texts = dict.fromkeys(("row_label", "column_label", "title", "unit"), hostile)
    bad = _draw([[1.0, 2.0]], **names, **texts)
    assert {e.tag for e in bad.iter()} == {e.tag for e in _draw([[1.0, 2.0]]).iter()}
