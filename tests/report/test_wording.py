import pytest

from hpn.experiment.run.result import Views
from hpn.metrics import summarize
from hpn.report import Run
from hpn.report.wording import explanation, headline, lead, setting, terms


def test_setting_names_what_a_group_shares(make_result):
    shared = ["class-incremental", "global evaluation", "edges: within", "3 tasks"]
    assert setting(make_result()) == shared
    assert setting(make_result(scenario="domain"))[0] == "domain"


@pytest.mark.parametrize(
    ("mode", "says"), [("oracle", "is given"), ("global", "comes alone"), ("grouped", "arrive together")]
)
def test_each_evaluation_is_explained(make_result, mode, says):
    assert says in explanation(make_result(evaluate=mode))


def test_an_unknown_evaluation_is_not_explained(make_result):
    assert explanation(make_result(evaluate="x", edges="y")) == ""


def test_headline_names_few_data_sets_and_counts_many(make_result):
    results = [make_result(dataset=name) for name in ("a", "b", "a", "c", "d")]
    assert headline(results[:4]) == "Continual learning on a, b and c"
    assert headline(results) == "Continual learning on 4 data sets"


def test_lead_warns_of_different_settings():
    assert "2 settings" in lead(3, 2)
    assert "settings" not in lead(3, 1)


def test_only_what_is_shown_is_explained(make_result):
    names = [name for name, _ in terms([Run(make_result())])]
    assert not {"Stored", "Bound", "t-SNE"} & set(names)
    grown = [{"parameters": 1, "stored": 2}] * 3
    full = Run(make_result(growth=grown, bounds={"atomic": 3}), Views(seeds=[0], views=[[]]))
    assert [name for name, _ in terms([Run(make_result()), full])] == [*names, "Stored", "Bound", "t-SNE"]


def test_metrics_are_explained_with_their_unit_and_direction(make_result):
    said = dict(terms([Run(make_result(intransigence=summarize([1.0])))]))
    assert said["AM"] == "Average accuracy after the last task (in percent). Higher is better."
    assert said["intransigence"].endswith("(in points). Lower is better.")


def test_a_stream_by_time_has_steps(make_time_result):
    assert setting(make_time_result())[-2:] == ["stream: time", "3 steps"]
