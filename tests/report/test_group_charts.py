import re

from hpn.report.group_charts import group_charts


def _grown(num_tasks=3, **counts):
    prototypes = counts or None
    return [
        {
            "parameters": 10.0 * k,
            "stored": 20.0 * k,
            "prototypes": prototypes and {level: num * k for level, num in prototypes.items()},
            "most_prototypes": None,
        }
        for k in range(1, num_tasks + 1)
    ]


def _heads(markup):
    return re.findall(r"<figcaption>(.*?)<span>", markup)


def test_old_results_have_no_growth(make_result):
    assert len(_heads(group_charts([make_result()]))) == 4


def test_growth_is_drawn_for_all_and_prototypes_for_those_that_have_them(make_result):
    results = [
        make_result(growth=_grown()),
        make_result(method="hpn", backbone=None, growth=_grown(atomic=5, node=2), bounds={"atomic": 40}),
        make_result(method="ewc"),
    ]
    charts = group_charts(results)
    assert _heads(charts)[4:] == ["Stored numbers after each task", "Prototypes after each task, hpn"]
    assert "finetune · gcn, after task 3: 60" in charts
    assert "ewc · gcn, after task 1: 20" not in charts
    assert "bound 40" in charts
    assert "node, after task 2: 4" in charts


def test_a_run_has_its_colour_in_every_chart(make_result):
    results = [make_result(), make_result(method="ewc", growth=_grown())]
    stored = group_charts(results).split("Stored numbers after each task")[-1]
    assert re.findall(r'<polyline [^>]*class="(line s\d)"', stored) == ["line s1"]


def test_of_many_runs_the_first_four_show_their_prototypes(make_result):
    runs = [make_result(method=f"hpn{i}", growth=_grown(atomic=5)) for i in range(6)]
    charts = group_charts(runs)
    assert sum("Prototypes" in head for head in _heads(charts)) == 4
    assert charts.count("2 more runs not drawn") == 1


def test_one_task_does_not_grow(make_result):
    assert len(_heads(group_charts([make_result(num_tasks=1, growth=_grown(1, atomic=5))]))) == 2


def test_very_different_amounts_are_drawn_by_their_logarithm(make_result):
    small, large = _grown(), [{**entry, "stored": 1e6} for entry in _grown()]
    assert "10⁶" in group_charts([make_result(growth=small), make_result(method="joint", growth=large)])
    assert "10⁶" not in group_charts([make_result(growth=small)])
