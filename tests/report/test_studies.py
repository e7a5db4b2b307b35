import itertools
import re
import xml.etree.ElementTree as ET

from hpn.metrics import summarize
from hpn.report.studies import find_studies, sensitivity_block

LABELS = ("AM", "FM", "ARS", "AAA", "BWT", "balanced AM")
BASE = {"preset": "paper", "num_extractors": 22, "dim": 16, "alpha": 1.0, "beta": 1.0, "use_cls": True}


def _runs(make_result, changes, **fields):
    return [
        make_result(method="hpn", backbone=None, params={**BASE, **change}, out=f"runs/{i}", **fields)
        for i, change in enumerate(changes)
    ]


def _drawings(markup):
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", markup)]


def _heads(markup):
    return re.findall(r"<figcaption>(.*?)<span>", markup)


def test_three_runs_over_one_setting_are_a_sweep(make_result):
    runs = _runs(make_result, [{"dim": dim} for dim in (16, 2, 4)])
    (study,) = find_studies(runs)
    assert (study.method, study.names) == ("hpn", ("dim",))
    assert _heads(sensitivity_block(runs)) == [f"{label} by dim, hpn" for label in LABELS]


def test_two_runs_or_two_methods_are_none(make_result):
    assert sensitivity_block(_runs(make_result, [{"dim": 2}, {"dim": 4}])) == ""
    runs = _runs(make_result, [{"dim": 2}, {"dim": 4}, {"dim": 8}])
    runs[2] = runs[2].model_copy(update={"backbone": "gcn"})
    assert find_studies(runs) == []


def test_what_is_not_a_number_is_no_axis(make_result):
    assert find_studies(_runs(make_result, [{"preset": name} for name in "abc"])) == []
    assert find_studies(_runs(make_result, [{"use_cls": x} for x in (True, False, None)])) == []
    assert find_studies(_runs(make_result, [{"dim": x} for x in (None, 4, 8)])) == []


def test_runs_that_differ_in_more_do_not_join(make_result):
    changes = [{"dim": 2}, {"dim": 4}, {"dim": 8}, {"dim": 16, "preset": "best"}]
    (study,) = find_studies(_runs(make_result, changes))
    ((_, runs),) = study.lines
    assert [run.params["dim"] for run in runs] == [2, 4, 8]


def test_atomic_prototypes_are_drawn_where_there_are_any(make_result):
    runs = _runs(make_result, [{"dim": dim} for dim in (2, 4, 8)], prototypes={"atomic": 30.5})
    assert _heads(sensitivity_block(runs))[-1] == "Atomic prototypes by dim, hpn"
    assert "dim 4: 30.5 (atomic prototypes)" in sensitivity_block(runs)


def test_forgetting_that_was_not_measured_is_not_drawn(make_result):
    runs = _runs(make_result, [{"dim": dim} for dim in (2, 4, 8)], fm=None, ars=None)
    assert _heads(sensitivity_block(runs)) == [
        f"{label} by dim, hpn" for label in ("AM", "AAA", "balanced AM")
    ]


def test_a_wide_setting_is_drawn_by_its_logarithm(make_result):
    wide = sensitivity_block(_runs(make_result, [{"alpha": 10.0**k} for k in range(-4, 4)]))
    assert ">10⁻⁴<" in wide
    narrow = sensitivity_block(_runs(make_result, [{"alpha": a} for a in (0.0, 0.5, 1000.0)]))
    assert ">10⁻" not in narrow, "0 has no logarithm"


def test_a_grid_of_two_settings_is_a_heat_map(make_result):
    changes = [{"num_extractors": e, "dim": d} for e, d in itertools.product((1, 4, 16), (2, 8))]
    runs = _runs(make_result, changes[:-1])
    (study,) = find_studies(runs)
    assert study.names == ("num_extractors", "dim")
    block = sensitivity_block(runs)
    assert _heads(block) == [f"{label} by num_extractors and dim, hpn" for label in LABELS]
    assert "num_extractors 16, dim 2: 81.0 ± 1.4 %" in block
    assert "num_extractors 16, dim 8: no value" in block
    assert "num_extractors 4, dim 8: −10.5 ± 0.0 points" in block


def test_the_longer_axis_of_a_heat_map_runs_down(make_result):
    changes = [{"num_extractors": e, "dim": d} for e, d in itertools.product((1, 4), (2, 4, 8))]
    assert _heads(sensitivity_block(_runs(make_result, changes)))[0] == "AM by dim and num_extractors, hpn"


def test_a_cross_of_two_settings_is_two_sweeps(make_result):
    values = (0.01, 0.1, 10.0)
    changes = [{}, *({"alpha": v} for v in values), *({"beta": v} for v in values)]
    studies = find_studies(_runs(make_result, changes))
    assert [study.names for study in studies] == [("alpha",), ("beta",)]
    assert [len(runs) for study in studies for _, runs in study.lines] == [4, 4], "(1, 1) belongs to both"


def test_lines_over_one_setting_share_a_chart_and_are_named(make_result):
    changes = [{"dim": d, "preset": p} for p in ("paper", "best") for d in (2, 4, 8)]
    runs = _runs(make_result, changes)
    (study,) = find_studies(runs)
    assert [name for name, _ in study.lines] == ["preset paper", "preset best"]
    assert all(f">{name}</text>" in sensitivity_block(runs) for name in ("preset paper", "preset best"))


def test_lines_whose_names_would_agree_stay_apart(make_result):
    changes = [{"dim": d, "lr": lr} for lr in (0.12345671, 0.12345672) for d in (2, 4, 8)]
    changes = [{**change, "preset": str(change["lr"])} for change in changes]  # no grid: two settings differ
    (study,) = find_studies(_runs(make_result, changes))
    assert len(study.lines) == 2


def test_the_page_shows_the_block_in_its_group(parse_page, make_result, render):
    runs = _runs(make_result, [{"dim": dim} for dim in (2, 4, 8)])
    page = parse_page(render([*runs, make_result()]))
    text = "".join(page.text)
    assert text.count("Sensitivity") == 1
    assert "hpn (dim 2)" in text
    assert "Sensitivity" not in "".join(parse_page(render([make_result()])).text)


def test_every_drawing_is_well_formed_whatever_the_names(make_result, hostile):
    am = [summarize([50.0 + i]) for i in range(4)]
    sweep = [{hostile: i} for i in range(4)]
    grid = [{hostile: i // 2, "dim": i % 2} for i in range(4)]
    for settings in (sweep, grid):
        runs = [make_result(params=params, am=score) for params, score in zip(settings, am, strict=True)]
        drawings = _drawings(sensitivity_block(runs))
        assert len(drawings) == len(LABELS)
        assert all(
            not element.tag.endswith(("script", "img")) for root in drawings for element in root.iter()
        )
