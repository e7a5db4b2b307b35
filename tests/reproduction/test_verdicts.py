from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpn.datasets import CATALOG
from hpn.errors import ConfigError
from hpn.experiment.compare.cells import ORDER
from hpn.metrics import summarize
from hpn.reproduction import verdicts
from hpn.reproduction.content import Section
from hpn.reproduction.experiments import EXPERIMENTS, PACKAGE
from hpn.reproduction.rules import RULES, Finding
from hpn.reproduction.verdicts import Judged, Note, find_notes, judge_section, read_claims, read_notes

Json = dict[str, Any]


def learner(method: str, backbone: str | None = None, preset: str | None = None) -> Json:
    return {"method": method, "backbone": backbone, "preset": preset}


PAPER, BEST, EWC, GAT = (
    *(learner("hpn", preset="paper"), learner("hpn", preset="best")),
    *(learner("ewc", "gcn"), learner("finetune", "gat")),
)


def result(label: Json, am: float | None = 93.0, fm: float | None = 0.0, **fields: Any) -> Json:
    scores = {
        name: None if mean is None else summarize([mean - 9, mean + 9])
        for name, mean in (("am", am), ("fm", fm))
    }
    method = {"method": label.get("method", "hpn"), "backbone": label.get("backbone")}
    return {"case": label, **method, **scores, "command": "hpn run", **fields}


def section(*cases: Json, dataset: str = "cora", paper: bool = True) -> Section:
    known = {"nodes": 9, "classes": {}, "tasks": [[0], [1], [2]], "seeds": [], "command": "", "versions": {}}
    return Section.model_validate(
        {**known, "dataset": dataset, "is_paper_protocol": paper, "cases": list(cases)}
    )


def judged(verdict: Any = "better", label: Json = EWC, metric: str = "am", **where: str) -> Judged:
    where = {"experiment": "comparison", "dataset": "cora", **where}
    return Judged(**where, case=label, metric=metric, verdict=verdict, **NUMBERS)


NUMBERS: Json = {"ours": summarize([90.0]), "paper_mean": 63.1, "paper_std": 1.2, "difference": 26.9}


@pytest.mark.parametrize(
    ("ours", "paper", "deviation", "verdict"),
    [
        *((ours, 93.7, 1.5, "within") for ours in (93.7, 96.7, 90.7)),
        (59.6, 56.8, 1.4, "within"),  # 2.8 apart, a little more in floating point
        (96.71, 93.7, 1.5, "better"),
        (90.69, 93.7, 1.5, "worse"),
        (-7.0, -42.3, 0.4, "better"),
        (-50.0, -42.3, 0.4, "worse"),
    ],
)
def test_two_deviations(ours: float, paper: float, deviation: float, verdict: str) -> None:
    assert verdicts.judge(ours, paper, deviation) == verdict


@pytest.mark.parametrize(
    ("experiment", "case", "expected"),
    [
        # Our own deviation, twelve points here, does not count beside the paper's.
        ("comparison", result(learner("mas", "gat"), 84.0, -20.0), [("am", "within"), ("fm", "worse")]),
        ("comparison", result(learner("joint", "gcn"), 97.0, None), [("am", "better")]),
        ("comparison", result(BEST, 99.0), [("am", "better"), ("fm", "within")]),
        ("comparison", result(learner("probe")), []),
        ("comparison", result(PAPER, error="out of memory"), []),
        ("memory", result(PAPER), []),
        ("ablation-levels", result({"preset": "paper", "levels": "A"}), [("am", 89.2), ("fm", -0.1)]),
        ("ablation-losses", result({"preset": "best", "losses": "cls+dis"}), [("am", 92.8), ("fm", 0.0)]),
    ],
)
def test_judge_section(experiment: str, case: Json, expected: list[tuple[str, Any]]) -> None:
    found = judge_section(experiment, section(case))
    assert [(one.metric, one.verdict) for one in found] == [
        (metric, known if isinstance(known, str) else one.verdict)
        for one, (metric, known) in zip(found, expected, strict=True)
    ]
    assert all(one.paper_mean in (known, *[one.paper_mean] * isinstance(known, str)) for one, (_, known) in [])
    for one in found:
        assert (one.experiment, one.dataset, one.case) == (experiment, "cora", case["case"])
        assert one.difference == pytest.approx(one.ours.mean - one.paper_mean)
    assert judge_section(experiment, section(case, paper=False)) == []
    assert judge_section(experiment, section(case, dataset="digits")) == []
