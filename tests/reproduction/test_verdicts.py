from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from hpn.datasets import CATALOG
from hpn.experiment.compare.cells import ORDER
from hpn.metrics import summarize
from hpn.reproduction import verdicts
from hpn.reproduction.content import Section
from hpn.reproduction.experiments import EXPERIMENTS
from hpn.reproduction.rules import RULES
from hpn.reproduction.verdicts import Judged, Note, find_notes, judge_section

Json = dict[str, Any]
EWC, GAT = {"method": "ewc", "backbone": "gcn"}, {"method": "finetune", "backbone": "gat"}
MAS = {"method": "mas", "backbone": "gat"}
PAPER, BEST = ({"method": "hpn", "backbone": None, "preset": preset} for preset in ("paper", "best"))
LEVELS, LOSSES = {"preset": "paper", "levels": "A"}, {"preset": "best", "losses": "cls+dis"}
ROWS = [[94.0], [48.0, 93.0], [71.0, 49.0, 60.0]]  # the paper: 94.12; 47.96, 93.30; 71.49, 49.68, 94.44


def result(label: Json, am: float | None = 93.0, fm: float | None = 0.0, **fields: Any) -> Json:
    """Our deviation is large: it must not count beside the paper's."""
    means = {"am": am, "fm": fm}
    scores = {name: None if mean is None else summarize([mean - 9, mean + 9]) for name, mean in means.items()}
    known = {"method": label.get("method", "hpn"), "backbone": label.get("backbone"), "command": "hpn run"}
    return {"case": label, **known, **scores, **fields}


def section(*cases: Json, dataset: str = "cora", paper: bool = True) -> Section:
    known = {"nodes": 9, "classes": {}, "tasks": [[0], [1], [2]], "seeds": [0, 1], "command": "", "versions": {}}
    return Section.model_validate({**known, "dataset": dataset, "is_paper_protocol": paper, "cases": cases})


def judged(verdict: Any = "better", case: Json = EWC, metric: str = "am", **where: str) -> Judged:
    place = {"experiment": "comparison", "dataset": "cora", **where}.values()
    return Judged(*place, case, metric, summarize([90.0]), 63.1, 1.2, verdict)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ours", "paper", "deviation", "verdict"),
    [
        *((ours, 93.7, 1.5, "within") for ours in (93.7, 96.7, 90.7)),
        (59.6, 56.8, 1.4, "within"),  # 2.8 apart, a little more in floating point
        *((96.71, 93.7, 1.5, "better"), (90.69, 93.7, 1.5, "worse")),
        *((-7.0, -42.3, 0.4, "better"), (-50.0, -42.3, 0.4, "worse")),
    ],
)
def test_two_deviations(ours: float, paper: float, deviation: float, verdict: str) -> None:
    assert verdicts.judge(ours, paper, deviation) == verdict


@pytest.mark.parametrize(
    ("experiment", "case", "expected"),
    [
        ("comparison", result(MAS, 84.0, -20.0), [("am", 84.7, "within"), ("fm", -5.6, "worse")]),
        ("comparison", result(EWC | {"method": "joint"}, 97.0, None), [("am", 93.7, "better")]),
        ("comparison", result(BEST, 99.0), [("am", 93.7, "better"), ("fm", 0.6, "within")]),
        ("comparison", result({"method": "probe"}), []),
        ("comparison", result(PAPER, error="out of memory"), []),
        ("memory", result(PAPER), []),
        ("ablation-levels", result(LEVELS), [("am", 89.2, "better"), ("fm", -0.1, "within")]),
        ("ablation-losses", result(LOSSES, fm=-9.0), [("am", 92.8, "within"), ("fm", 0.0, "worse")]),
    ],
)
def test_judge_section(experiment: str, case: Json, expected: list[tuple[str, float, str]]) -> None:
    found = judge_section(experiment, section(case))
    assert [(one.metric, one.paper_mean, one.verdict) for one in found] == expected
    for one in found:
        assert (one.experiment, one.dataset, one.case) == (experiment, "cora", case["case"])
        assert one.difference == pytest.approx(one.ours.mean - one.paper_mean)
    assert judge_section(experiment, section(case, paper=False)) == []
    assert judge_section(experiment, section(case, dataset="digits")) == []


@pytest.mark.parametrize(
    ("label", "matrices", "expected"),
    [
        (GAT, [ROWS] * 2, ["within"] * 5 + ["worse"]),  # the AM of GAT varies by 3.8 in the paper
        # That of GAT with MAS varies by 0.7; ours by √2 times the shift.
        *(
            (MAS, [[[90.12 + sign], [90.5, 78.0], [90.0, 70.0, 93.0]] for sign in (-shift, shift)], [verdict])
            for shift, verdict in ((0.5, "worse"), (2.0, "within"))
        ),
        *((GAT, matrices, []) for matrices in (None, [], [ROWS])),  # one seed has no deviation
    ],
)
def test_matrices_are_judged_entry_by_entry(label: Json, matrices: Any, expected: list[str]) -> None:
    found = judge_section("accuracy-matrices", section(result(label, matrices=matrices)))
    assert [one.verdict for one in found][: len(expected) or None] == expected
    entries = [f"task {j} after task {i}" for i in (1, 2, 3) for j in range(1, i + 1)] if expected else []
    assert [(one.metric, one.paper_std) for one in found] == [(entry, None) for entry in entries]


def test_counts_and_filters() -> None:
    found = [judged("within", PAPER), judged(case=BEST), judged()]
    assert verdicts.count_verdicts(found) == {"within": 1, "better": 2, "worse": 0}
    assert [verdicts.is_hpn(one) for one in found] == [True, True, False]
    assert [verdicts.is_hpn(one, "paper") for one in found] == [True, False, False]


@pytest.mark.parametrize(
    ("field", "right", "wrong"),
    [
        ("experiment", ["dynamics", "comparison"], ["dynamics"]),
        ("dataset", ["actor", "cora"], ["actor"]),
        *(("metric", "am", "fm"), ("verdict", "better", "worse")),
        ("case", {"method": ["mas", "ewc"], "backbone": ["gcn"]}, {"method": ["ewc"], "backbone": ["gat"]}),
        ("case", {"preset": [None]}, {"levels": ["A"]}),
    ],
)
def test_notes_apply_to_what_they_name(field: str, right: Any, wrong: Any) -> None:
    for value, is_right in ((right, True), (wrong, False)):
        note = Note.model_validate({"experiment": ["comparison"], "text": "a", field: value})
        assert note.applies(judged()) == is_right
        assert not note.applies(judged("within"))


def test_packaged_files_name_what_exists() -> None:
    assert any("tuned" in text for text in find_notes(judged()))
    assert any("certified" in text for text in find_notes(judged("worse", BEST, "fm")))
    assert find_notes(judged("worse")) == ()
    for note in verdicts.NOTES:
        assert {*note.experiment} <= {*EXPERIMENTS}
        assert {*(note.dataset or [])} <= {*CATALOG}
        assert {*note.case.get("method", [])} <= {*ORDER}
        assert {*note.case.get("preset", [])} <= {"paper", "best"}
        assert {*note.case} <= {"method", "backbone", "preset", "levels", "losses"}
        assert re.fullmatch(r"\D+\.", note.text), "numbers come from the results"
    assert {claim.rule for claim in verdicts.CLAIMS} == {*RULES}
    for claim in verdicts.CLAIMS:
        assert claim.experiment in EXPERIMENTS
        inspect.signature(RULES[claim.rule]).bind(None, **claim.args)
        assert {text[-1] for text in (claim.statement, claim.criterion, claim.remark or ".")} == {"."}
        assert "{" not in claim.name + claim.statement + claim.criterion
