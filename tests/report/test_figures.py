import xml.etree.ElementTree as ET

import pytest

from hpn.experiment.run.result import Views
from hpn.report import (
    Run,
    accuracy_svg,
    cost_svg,
    final_svg,
    matrix_svg,
    prototypes_svg,
    retaining_svg,
    stored_svg,
    views_svg,
)

CHARTS = [accuracy_svg, retaining_svg, final_svg, cost_svg]
SVG = "{http://www.w3.org/2000/svg}"


def _drawings(result):
    return [chart([result]) for chart in CHARTS] + [matrix_svg(result)]


@pytest.mark.parametrize("num_tasks", [1, 3, 50])
def test_a_file_renders_by_itself(make_result, num_tasks):
    for drawing in _drawings(make_result(num_tasks=num_tasks)):
        root = ET.fromstring(drawing)
        assert root.tag == f"{SVG}svg"
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-label"]
        assert root[0].tag == f"{SVG}title"
        assert root[1].tag == f"{SVG}desc"
        css = root.find(f"{SVG}style").text
        assert "font-family" in css
        assert "prefers-color-scheme:dark" in css


def test_inside_a_page_it_has_no_style_of_its_own(make_result):
    for chart in CHARTS:
        assert "<style" not in chart([make_result()], standalone=False)


def test_data_cannot_add_elements(make_result, hostile):
    names = {str(i): hostile for i in range(6)}
    fields = {"dataset": hostile, "method": hostile, "backbone": hostile, "out": hostile}
    for plain, drawing in zip(
        _drawings(make_result()),
        _drawings(make_result(**fields, class_names=names)),
        strict=True,
    ):
        found = {element.tag for element in ET.fromstring(drawing).iter()}
        assert found == {element.tag for element in ET.fromstring(plain).iter()}
        for element in ET.fromstring(drawing).iter():
            assert not [name for name in element.attrib if name.startswith("on")]


def test_description_tells_the_end(make_result):
    root = ET.fromstring(accuracy_svg([make_result(), make_result(method="ewc", backbone=None)]))
    desc = root.find(f"{SVG}desc").text
    assert "finetune · gcn 81.0 ± 1.4," in desc
    assert "ewc 81.0 ± 1.4" in desc


def test_retaining_is_in_per_cent(make_result):
    matrices = [[[80.0], [60.0, 90.0]]] * 2
    assert "task 2: 75.0 ± 0.0 %" in retaining_svg([make_result(num_tasks=2, matrices=matrices)])


def test_time_is_a_seed(make_result):
    drawn = cost_svg(
        [make_result(num_seeds=4, seconds={"fit": 48.0, "predict": 1.0, "total": 50.0})], panels=["fit"]
    )
    assert ">12.0<" in drawn


def test_cost_draws_the_panels_asked_for(make_result):
    drawn = cost_svg([make_result(seconds=None)], panels=["fit"])
    assert "Time to fit" in drawn
    assert "Parameters" not in drawn
    assert "–" in drawn


def test_growth_and_views_render_as_files(make_result):
    step = {"parameters": 1, "stored": 2, "prototypes": {"atomic": 3}, "most_prototypes": None}
    view = {"after": 0, "points": [[1, 2], [3, 4]], "classes": [0, 1], "silhouette": 0.1, "neighbors": 5}
    result = make_result(growth=[step] * 3, bounds={"atomic": 40})
    run = Run(result, Views.model_validate({"seeds": [0], "views": [[view]]}))
    for drawing in (stored_svg([result]), prototypes_svg(result), views_svg(run)):
        root = ET.fromstring(drawing)
        assert root.find(f"{SVG}style") is not None
        assert root.find(f"{SVG}desc").text
    assert "finetune · gcn on cora" in prototypes_svg(result)
    assert "finetune · gcn on cora" in views_svg(run)
    assert "finetune · gcn" in stored_svg([result]), "a file names its lines"
