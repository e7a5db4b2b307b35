from hpn.report.studies import find_studies

BASE = {"preset": "paper", "num_extractors": 22, "dim": 16, "alpha": 1.0, "beta": 1.0, "use_cls": True}


def _runs(make_result, changes, **fields):
    return [
        make_result(method="hpn", backbone=None, params={**BASE, **change}, out=f"runs/{i}", **fields)
        for i, change in enumerate(changes)
    ]


def test_three_runs_over_one_setting_are_a_sweep(make_result):
    runs = _runs(make_result, [{"dim": dim} for dim in (16, 2, 4)])
    (study,) = find_studies(runs)
    assert (study.method, study.names) == ("hpn", ("dim",))


def test_two_runs_or_two_methods_are_none(make_result):
    assert find_studies(_runs(make_result, [{"dim": 2}, {"dim": 4}])) == []
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


def test_lines_whose_names_would_agree_stay_apart(make_result):
    changes = [{"dim": d, "lr": lr} for lr in (0.12345671, 0.12345672) for d in (2, 4, 8)]
    changes = [{**change, "preset": str(change["lr"])} for change in changes]  # no grid: two settings differ
    (study,) = find_studies(_runs(make_result, changes))
    assert len(study.lines) == 2
