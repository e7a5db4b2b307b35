import re
import xml.etree.ElementTree as ET

import pytest

from hpn.report import matrix_svg

SVG = "{http://www.w3.org/2000/svg}"


def _cells(drawing: str) -> list[ET.Element]:
    rects = ET.fromstring(drawing).iter(f"{SVG}rect")
    return [rect for rect in rects if rect.find(f"{SVG}title") is not None]


@pytest.mark.parametrize("num_tasks", [1, 3, 8, 9, 20, 50])
def test_every_cell_of_the_lower_triangle_is_drawn(make_result, num_tasks):
    cells = _cells(matrix_svg(make_result(num_tasks=num_tasks)))
    assert len(cells) == num_tasks * (num_tasks + 1) // 2
    columns = sorted({float(cell.attrib["x"]) for cell in cells})
    rows = sorted({float(cell.attrib["y"]) for cell in cells})
    assert len(columns) == len(rows) == num_tasks
    for cell in cells:
        x, y = float(cell.attrib["x"]), float(cell.attrib["y"])
        assert columns.index(x) <= rows.index(y), "tested before it was learned"


def test_cell_shows_the_mean_over_seeds_and_its_tip_the_deviation(make_result):
    matrices = [[[80.0], [60.0, 90.0]], [[60.0], [20.0, 70.0]]]
    drawing = matrix_svg(make_result(num_tasks=2, matrices=matrices))
    tips = {cell.find(f"{SVG}title").text: cell.attrib["class"] for cell in _cells(drawing)}
    assert tips == {
        "after task 1, task 1: 70.0 ± 14.1 %": "h14",
        "after task 2, task 1: 40.0 ± 28.3 %": "h8",
        "after task 2, task 2: 80.0 ± 14.1 %": "h16",
    }
    assert re.search(r'class="v8" text-anchor="middle"><title>[^<]*</title>40.0<', drawing)


def test_numbers_leave_small_cells_but_stay_in_the_tips(make_result):
    small, large = (matrix_svg(make_result(num_tasks=num)) for num in (50, 8))
    assert 'class="v' in large
    assert 'class="v' not in small
    assert "after task 50, task 50:" in small


def test_the_picture_stays_small_enough_for_a_page(make_result):
    for num_tasks in (1, 8, 14, 22, 50):
        drawing = matrix_svg(make_result(num_tasks=num_tasks), standalone=False)
        assert float(ET.fromstring(drawing).attrib["width"]) < 580


def test_legend_shows_the_whole_scale(make_result):
    drawing = matrix_svg(make_result(num_tasks=1))
    assert all(f'class="h{k}"' in drawing for k in range(20))
    assert all(f">{end} %<" in drawing for end in (0, 50, 100))


def test_steps_still_to_come_are_outlined(make_time_result, make_result):
    cells = _cells(matrix_svg(make_time_result()))
    ahead = [cell for cell in cells if "still to come" in cell.find(f"{SVG}title").text]
    assert [cell.attrib["class"] for cell in ahead] == ["frame", "frame"]
    assert len(cells) == 6 + 2
    assert "outlined: steps still to come" in matrix_svg(make_time_result())
    assert "to come" not in matrix_svg(make_result())
