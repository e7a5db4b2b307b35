import re

from hpn.experiment.run.result import Views
from hpn.metrics import summarize
from hpn.report import Run


def test_absent_values_are_dashes(make_result, render):
    absent = dict.fromkeys(
        ("fm", "ars", "parameters", "seconds", "peak_rss_mb", "balanced", "versions", "command")
    )
    row = re.search(r'<th scope="row">.*?</tr>', render([make_result(**absent)])).group()
    assert row.count(">–<") == 6, "parameters, prototypes, three times, memory; metrics without values go"


def test_prototypes_stand_next_to_their_bounds(parse_page, make_result, render):
    counts = {"atomic": 12, "node": 6, "class": 4}
    page = render([make_result(prototypes=counts, bounds={"atomic": 4096, "node": 1e15, "class": None})])
    text = "".join(parse_page(page).text)
    assert "atomic 12 / 4,096" in text
    assert "node 6 / 1.0 × 10¹⁵" in text
    assert "class 4 / no useful bound" in text


def test_the_highest_mean_of_a_group_is_bold(make_result, render):
    low = make_result(am={"mean": 70.0, "std": 1.0, "values": [69.0, 71.0]})
    page = render([low, make_result(method="ewc")])
    assert '<td class="num best">81.0 ± 1.4</td>' in page
    assert '<td class="num">70.0 ± 1.0</td>' in page
    assert "num best" not in render([low])
    far, near = (
        make_result(method=name, intransigence=summarize([score])) for name, score in (("a", 2), ("b", 1))
    )
    assert '<td class="num best">+1.0</td>' in render([far, near]), "less of it is better"


def test_one_task_has_no_curves(make_result, render):
    assert "<polyline" not in render([make_result(num_tasks=1)])
    assert "<polyline" in render([make_result(num_tasks=2)])


def test_tasks_show_what_was_learned_and_what_is_left(parse_page, make_result, render):
    matrices = [[[80.0], [60.0, 90.0]]]
    text = " ".join(parse_page(render([make_result(2, seeds=[3], matrices=matrices, balanced=None)])).text)
    assert "1 Theory, Rule learning 80.0 60.0 −20.0" in text
    assert "2 class 2, class 3 90.0 90.0 0.0" in text


def test_a_command_keeps_its_characters(parse_page, make_result, render):
    command = 'hpn run cora \\\n  --out "my runs/<a>"'
    assert command in "".join(parse_page(render([make_result(command=command)])).text)


def test_parameters_stand_above_their_bound(parse_page, make_result, render):
    text = "".join(parse_page(render([make_result(parameter_bound=10**17)])).text)
    assert "92,231≤ 1.0 × 10¹⁷" in text
    assert "≤" not in "".join(parse_page(render([make_result()])).text)


def _views(num_views, seed=7):
    views = [
        {
            "after": k,
            "points": [[k + i, i * i] for i in range(6)],
            "classes": [0, 1, 0, 1, 4, 5],
            "silhouette": 0.25 + k,
            "neighbors": 80.0,
        }
        for k in range(num_views)
    ]
    return Views.model_validate({"seeds": [seed, 8], "views": [views, []]})


def test_views_of_the_first_seed_are_drawn_with_the_names_of_the_classes(parse_page, make_result, render):
    page = parse_page(render([Run(make_result(), _views(3)), make_result(method="ewc")]))
    text = "|".join(page.text)
    assert text.count("Test nodes as the learner sees them") == 1
    assert "t-SNE, seed 7; at the end: silhouette 2.25, 80.0 % of the nodes" in text
    assert [f"after task {k}" in page.text for k in (1, 2, 3, 4)] == [True, True, True, False]
    assert "Theory" in page.text
    assert "class 5" in page.text
    assert ("g", "class", "cloud") in page.attributes


def test_of_many_views_six_are_drawn_and_the_last_is_among_them(parse_page, make_result, render):
    page = parse_page(render([Run(make_result(num_tasks=23), _views(23))]))
    shown = [text for text in page.text if text.startswith("after task ") and text[11:].isdigit()]
    assert len(set(shown)) == 6
    assert {"after task 1", "after task 23"} <= set(shown)


def test_no_views_of_the_first_seed_are_none(parse_page, make_result, render):
    views = Views(seeds=[0], views=[[]])
    assert "learner sees" not in "".join(parse_page(render([Run(make_result(), views)])).text)


def test_every_metric_of_a_run_is_shown_with_its_unit(parse_page, make_result, render):
    text = "".join(parse_page(render([make_result()])).text)
    assert "AM 81.0 ± 1.4 % · FM −10.5 ± 0.0 points · ARS" in text


def test_a_single_class_is_not_measured(parse_page, make_result, render):
    none = dict.fromkeys(("am", "fm", "ars", "aaa", "bwt", "balanced_am"))
    trivial = make_result(1, **none, chance=[[[100.0]]] * 2, matrices=[[[100.0]]] * 2)
    text = "".join(parse_page(render([trivial])).text)
    assert "Accuracy is not measured: there is a single class to choose from" in text
    assert "AM" not in text.split("Summary")[1].split("cora")[0], "there is no column of it"


def test_a_stream_by_time_has_steps_with_names_and_shows_those_to_come_apart(
    parse_page, make_time_result, render
):
    markup = render([make_time_result()])
    text = "".join(parse_page(markup).text)
    for said in (
        "time 2004: Theory, Rule learning",
        "AM after each step",
        "outlined: steps still to come",
        "FWT",
    ):
        assert said in text
    assert "after step 1, step 2, still to come: 60.0 ± 0.0 %" in text
