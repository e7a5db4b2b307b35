from __future__ import annotations

import math

import pytest

from hpn.metrics import summarize
from hpn.reproduction.page_cells import Verdicts
from hpn.reproduction.page_tables import (
    ablation_table,
    dynamics_table,
    paired_difference,
    separation_table,
    steps_table,
    sweep_table,
)
from hpn.reproduction.results import Section


def test_ablation_beside_the_paper(make_section, tables_of):
    section = make_section("ablation-levels")
    for number, case in enumerate(section["cases"]):
        case["am"] = summarize([89.2 + number, 89.2 + number])
    (table,) = tables_of(ablation_table(Verdicts("ablation-levels", Section.model_validate(section)), "am"))
    assert table == [
        ["AM", "ours", "the paper", "Δ", "verdict"],
        ["A", "89.2 ± 0.0", "89.2 ± 1.3", "0.0", "within 2 sd"],
        ["AN", "90.2 ± 0.0", "91.7 ± 1.1", "−1.5", "within 2 sd"],
        ["ANC", "91.2 ± 0.0", "93.7 ± 1.5", "−2.5", "within 2 sd"],
    ]


def test_ablation_without_the_papers_numbers(make_section, tables_of):
    section = make_section("ablation-losses", "digits", is_paper=False)
    (table,) = tables_of(ablation_table(Verdicts("ablation-losses", Section.model_validate(section)), "fm"))
    assert table[0] == ["FM", "ours"]
    (steps,) = tables_of(steps_table(Verdicts("ablation-losses", Section.model_validate(section))))
    assert steps[0] == ["step", "AM, ours", "FM, ours"]


def test_ablation_with_a_missing_and_a_failed_case(make_section, fail, tables_of):
    section = make_section("ablation-levels")
    fail(section, 1)
    (table,) = tables_of(ablation_table(Verdicts("ablation-levels", Section.model_validate(section)), "am"))
    assert table[2][1].startswith("failed: ")
    assert table[2][2:] == ["91.7 ± 1.1", "–", "–"]
    (steps,) = tables_of(steps_table(Verdicts("ablation-levels", Section.model_validate(section))))
    assert [row[1] == "–" for row in steps[1:]] == [True, True, False], "A → AN, AN → ANC, A → ANC"
    assert steps[1][3] == "+2.5", "the paper’s is there"
    del section["cases"][1]
    (steps,) = tables_of(steps_table(Verdicts("ablation-levels", Section.model_validate(section))))
    assert [row[0] for row in steps[1:]] == ["A → ANC"]


def test_steps_are_paired_by_seed(make_section, tables_of):
    section = make_section("ablation-levels")
    values = {"A": [90.0, 80.0], "AN": [91.0, 83.0], "ANC": [92.0, 83.0]}
    for case in section["cases"]:
        case["am"] = summarize(values[case["case"]["levels"]])
    (table,) = tables_of(steps_table(Verdicts("ablation-levels", Section.model_validate(section))))
    assert [row[0] for row in table[1:]] == ["A → AN", "AN → ANC", "A → ANC"]
    assert [row[1] for row in table[1:]] == ["+2.0 ± 1.0", "+0.5 ± 0.5", "+2.5 ± 0.5"]
    assert [row[3] for row in table[1:]] == ["+2.5", "+2.0", "+4.5"], "the paper's own means"


def test_steps_of_losses_are_from_each_to_each_that_has_more(make_section, tables_of):
    (table,) = tables_of(
        steps_table(Verdicts("ablation-losses", Section.model_validate(make_section("ablation-losses"))))
    )
    assert {row[0] for row in table[1:]} == {
        *("cls → cls+div", "cls → cls+dis", "cls → cls+div+dis"),
        *("cls+div → cls+div+dis", "cls+dis → cls+div+dis"),
    }


def test_paired_difference():
    before, after = summarize([1.0, 2.0, 3.0]), summarize([2.0, 2.0, 5.0])
    assert paired_difference(before, after) == f"+1.0 ± {1 / math.sqrt(3):.1f}"
    assert paired_difference(summarize([1.0]), summarize([0.0])) == "−1.0"
    assert paired_difference(before, summarize([1.0])) == "–"
    assert paired_difference(None, after) == "–"


@pytest.mark.parametrize(
    ("num_tasks", "shown"), [(2, [2]), (3, [2, 3]), (5, [2, 3, 5]), (20, [2, 11, 20]), (1, [])]
)
def test_dynamics_after_the_second_middle_and_last_task(num_tasks, shown, make_section, tables_of):
    section = make_section("dynamics", num_tasks=num_tasks)
    (table,) = tables_of(dynamics_table(Section.model_validate(section)))
    assert table[0][1:-2] == [f"ARS after task {task} (%)" for task in shown]


def test_dynamics_are_of_the_matrix(make_section, tables_of):
    section = make_section("dynamics")
    section["cases"][0]["matrices"] = [[[80.0], [60.0, 90.0], [40.0, 90.0, 70.0]]] * 2
    (table,) = tables_of(dynamics_table(Section.model_validate(section)))
    assert table[1][1:3] == ["75.0 ± 0.0", "75.0 ± 0.0"]


def test_sweep(make_section, fail, tables_of):
    section = make_section("sensitivity-threshold")
    fail(section, 2)
    (table,) = tables_of(sweep_table(Section.model_validate(section), {"threshold_atomic": "t"}))
    assert table[0] == ["t", "AM (%)", "FM (points)", "atomic", "node", "class", "parameters"]
    assert [row[0] for row in table[1:4]] == ["0.01", "0.05", "0.1"]
    assert table[1][3:] == ["4", "8", "12", "1,234"]
    assert table[3][2:] == ["–"] * 5


def test_separation(make_section, tables_of):
    section = make_section("visualization")
    del section["cases"][1]["separation"][2]
    (table,) = tables_of(separation_table(Section.model_validate(section)))
    apart = ["silhouette", "neighbours (%)", "within a task (%)"]
    assert table[0] == [
        "after task",
        *[f"hpn (paper) {apart[0]}", *apart[1:]],
        f"hpn (best) {apart[0]}",
        *apart[1:],
    ]
    numbers = ["0.51 ± 0.01", "90.5 ± 0.7", "97.5 ± 0.7"]
    assert table[1] == ["1", *numbers, *numbers]
    assert table[3][4:] == ["–", "–", "–"]
