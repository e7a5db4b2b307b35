import re

from hpn.report import render_page


def test_absent_values_are_dashes(make_result):
    absent = dict.fromkeys(
        ("fm", "ars", "parameters", "seconds", "peak_rss_mb", "balanced", "versions", "command")
    )
    row = re.search(r'<th scope="row">.*?</tr>', render_page([make_result(**absent)])).group()
    assert row.count(">–<") == 9


def test_prototypes_stand_next_to_their_bounds(parse_page, make_result):
    counts = {"atomic": 12, "node": 6, "class": 4}
    page = render_page([make_result(prototypes=counts, bounds={"atomic": 4096, "node": 1e15})])
    text = "".join(parse_page(page).text)
    assert "atomic 12 / 4,096" in text
    assert "node 6 / 1.0 × 10¹⁵" in text
    assert "class 4" in text


def test_the_highest_mean_of_a_group_is_bold(make_result):
    low = make_result(am={"mean": 70.0, "std": 1.0, "values": [69.0, 71.0]})
    page = render_page([low, make_result(method="ewc")])
    assert '<td class="num best">81.0 ± 1.4</td>' in page
    assert '<td class="num">70.0 ± 1.0</td>' in page
    assert "num best" not in render_page([low])


def test_one_task_has_no_curves(make_result):
    assert "<polyline" not in render_page([make_result(num_tasks=1)])
    assert "<polyline" in render_page([make_result(num_tasks=2)])


def test_tasks_show_what_was_learned_and_what_is_left(parse_page, make_result):
    matrices = [[[80.0], [60.0, 90.0]]]
    text = " ".join(parse_page(render_page([make_result(2, seeds=[3], matrices=matrices)])).text)
    assert "1 Theory, Rule learning 80.0 60.0 −20.0" in text
    assert "2 class 2, class 3 90.0 90.0 0.0" in text


def test_a_command_keeps_its_characters(parse_page, make_result):
    command = 'hpn run cora \\\n  --out "my runs/<a>"'
    assert command in "".join(parse_page(render_page([make_result(command=command)])).text)
