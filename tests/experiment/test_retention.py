from __future__ import annotations

from typing import Any

import pytest

from hpn.evaluation import Row
from hpn.experiment.retention import study_retention
from hpn.experiment.run.runner import run
from hpn.experiment.watch import Watcher
from hpn.learners import Progress

SETTINGS: dict[str, Any] = {
    **{"data.num_nodes": 150, "data.num_links": 500, "data.num_classes": 6, "data.num_features": 8}
}
PAPER = {**SETTINGS, "preset": "paper", "epochs": 3, "warmup_epochs": 1, "drawn": "2", "num_extractors": 2}


class Counter(Watcher):
    def __init__(self) -> None:
        self.steps = 0
        self.tasks = 0

    def epoch_finished(self, seed: int, progress: Progress) -> None:
        self.steps += 1

    def step_finished(self, seed: int, task: int, row: Row) -> None:
        self.tasks += 1


@pytest.mark.parametrize(
    ("settings", "has_theorem"),
    [({**SETTINGS, "width": 50}, False), ({**PAPER, "retention": "certified"}, True)],
    ids=["best", "paper"],
)
def test_certified_retention_is_proved(settings: dict[str, Any], has_theorem: bool) -> None:
    study = study_retention("synthetic", settings=settings)
    report, content = study.report, study.to_json()
    assert content["retention"] == report.retention == "certified"
    assert (content["theorem"] is not None) == (report.theorem is not None) == has_theorem
    assert (content["theorem_note"] is None) == has_theorem
    assert content["is_proved"]
    assert report.is_proved
    assert [(row.task, row.after) for row in report.changes] == [(0, 1), (0, 2), (1, 2)]
    assert all(proof["before"] == proof["now"] for proof in content["proofs"])


def test_the_papers_retention_is_measured_and_not_proved() -> None:
    counter = Counter()
    study = study_retention("synthetic", settings=PAPER, watcher=counter)
    assert study.report.retention == "paper"
    assert not study.report.is_proved
    assert any(row.touched for row in study.report.changes)
    assert study.report.theorem is not None
    assert len(study.report.theorem) == 2
    assert (counter.tasks, counter.steps) == (3, 9)


def test_it_learns_what_a_run_learns(tmp_path: Any) -> None:
    study = study_retention("synthetic", settings=PAPER, seed=1)
    assert study.matrix == run("synthetic", settings=PAPER, seeds=[1], out=tmp_path).matrices[0]


def test_where_the_rank_condition_can_hold_it_is_evaluated() -> None:
    theorem, _ = study_retention("synthetic", settings={**PAPER, "dim": 8}).report.theorem or ()
    assert theorem.can_have_full_rank
    assert theorem.eigenvalue > 0
    assert theorem.right_proved > 0
