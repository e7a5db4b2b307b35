from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph, Masks
from hpn.errors import ConfigError
from hpn.learners.hpn import PaperHPN, SolvedHPN
from hpn.nn.hpn.network import PrototypeNetwork
from hpn.streams import Query, TaskStream
from hpn.theory.retention import Change, RetentionReport, RetentionStudy
from hpn.theory.theorem_two import check_theorem_two

NUM_FEATURES, NODES = 5, 24
BRIEF: dict[str, Any] = {
    "preset": "paper", "dim": 6, "num_extractors": 3, "drawn": "2", "epochs": 4, "warmup_epochs": 2,
    "late_epoch": 3, "lr_refine": 0.1, "batch_size": 16,
}  # fmt: skip
CERTIFIED: dict[str, Any] = {**BRIEF, "retention": "certified"}


def make_graph(*, scale: float = 1.0, masks: Masks | None = None) -> Graph:
    """Six classes of 24 nodes with a direction of features each; links lead anywhere."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(6).repeat_interleave(NODES)
    means = 3 * torch.randn(6, NUM_FEATURES, generator=generator)
    x = scale * (means[y] + torch.randn(len(y), NUM_FEATURES, generator=generator))
    links = torch.randint(len(y), (2, 400), generator=generator)
    return Graph.build("small", x=x, links=links, y=y, masks=masks, class_order=range(6))


def study_all(
    learner: PaperHPN | SolvedHPN, stream: TaskStream, between: Callable[[int], None] = lambda index: None
) -> RetentionReport:
    study = RetentionStudy(learner, stream)
    for index in range(len(stream)):
        learner.fit_task(stream.step(index))
        between(index)
        study.after_task(index)
    return study.report()


def evaluate(learner: PaperHPN, stream: TaskStream, task: int) -> tuple[np.ndarray, np.ndarray]:
    """Representations and predictions of all nodes of a task in a stream without edges between tasks."""
    graph = stream.step(task).graph
    query = Query(graph, torch.arange(graph.num_nodes), stream.classes[task], task=task)
    represented = learner.represent(query)
    assert represented is not None
    return represented.numpy(), learner.predict(query).numpy()


def vectors_of(row: np.ndarray) -> list[np.ndarray]:
    return [row[start : start + 6] for start in range(0, len(row), 6)]


@pytest.mark.parametrize("stream_choices", [{}, {"scenario": "class"}, {"edges": "seen"}])
@pytest.mark.parametrize(
    "params",
    [CERTIFIED, {**CERTIFIED, "slots": "means"}, {**CERTIFIED, "num_extractors": 1}],
    ids=["drawn", "means", "one"],
)
def test_certified_retention_is_proved(params: dict[str, Any], stream_choices: dict[str, Any]) -> None:
    report = study_all(PaperHPN(**params), TaskStream(make_graph(), **stream_choices))
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert sorted((proof.task, proof.after) for proof in report.proofs) == pairs
    assert sorted((change.task, change.after) for change in report.changes) == pairs
    assert all(proof.holds and len(proof.now) == 64 for proof in report.proofs)
    for change in report.changes:
        assert (change.touched, change.rematched, change.relabelled) == (0, 0, 0)
        assert change.nodes == 2 * NODES
        assert 0 <= change.shared <= change.nodes
    written = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert (written["retention"], written["is_proved"]) == ("certified", True)
    assert [proof["holds"] for proof in written["proofs"]] == [True] * 3
    assert set(written["changes"][0]) == set(Change.__annotations__)
    assert len(written["theorem"]) == 2
    assert [condition["distance"] for condition in written["theorem"]] == [c.distance for c in report.theorem]


@pytest.mark.parametrize("edges", ["within", "seen"])
@pytest.mark.parametrize("tasks", [None, [[0, 1], [2], [3, 4, 5]]])
def test_a_solved_network_is_proved_without_the_theorem(edges: Any, tasks: list[list[int]] | None) -> None:
    stream = TaskStream(make_graph(), edges=edges, tasks=tasks)
    report = study_all(SolvedHPN(width=50), stream)
    sizes = [len(classes) * NODES for classes in stream.classes]
    assert list(report.changes) == [
        Change(task, after, sizes[task], 0, 0, 0, None) for task, after in [(0, 1), (0, 2), (1, 2)]
    ]
    assert report.is_proved
    written = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert written["theorem"] is None
    assert written["theorem_note"].startswith("Theorem 2 does not apply")


def test_retention_as_the_paper_has_it_is_measured() -> None:
    """Against loops over nodes and prototypes."""
    stream, learner = TaskStream(make_graph()), PaperHPN(**BRIEF, num_selected=2)
    first: list[tuple[np.ndarray, np.ndarray]] = []
    expected = []

    def remember(index: int) -> None:
        now = [evaluate(learner, stream, task) for task in range(index + 1)]
        latest = {vector.tobytes() for row in now[index][0] for vector in vectors_of(row)[:-2]}
        for task, (before, labels) in enumerate(first):
            touched = rematched = shared = 0
            for old, new in zip(before, now[task][0], strict=True):
                assert len(vectors_of(old)) == 2 * 3 + 2
                cosines = [float(a @ b) for a, b in zip(vectors_of(old), vectors_of(new), strict=True)]
                touched += old.tobytes() != new.tobytes()
                rematched += min(cosines[:-1]) < 0.7 or cosines[-1] < 0.6
                shared += any(vector.tobytes() in latest for vector in vectors_of(new)[:-2])
            relabelled = int((labels != now[task][1]).sum())
            expected.append(Change(task, index, len(labels), touched, rematched, relabelled, shared))
        first.append(now[index])

    report = study_all(learner, stream, remember)
    assert list(report.changes) == expected
    assert all(sum(getattr(c, name) for c in expected) > 0 for name in ("touched", "rematched", "relabelled"))
    assert any(0 < change.rematched < change.touched for change in expected)
    assert any(0 < change.shared < change.nodes for change in expected)
    assert (report.retention, report.is_proved) == ("paper", False)
    assert any(proof.before != proof.now for proof in report.proofs)


class Constant:
    """Predicts the same for every node, with prototypes at fixed positions: two values."""

    def __init__(self) -> None:
        self.values = torch.tensor([0.25, -0.5])

    def represent(self, query: Query) -> Tensor:
        return self.values.repeat(len(query.nodes), 1)

    def predict(self, query: Query) -> Tensor:
        return torch.zeros(len(query.nodes), dtype=torch.long)

    def predict_scores(self, query: Query) -> Tensor:
        return self.represent(query)

    def is_certified(self, task: int) -> bool:
        return True


class Turning(Constant):
    """Has a trained network: two slots, a node-level and a class-level prototype in the plane."""

    def __init__(self) -> None:
        self.retention, self.slots = "paper", "drawn"
        self.network_ = PrototypeNetwork(
            NUM_FEATURES, 2, num_extractors=3, num_slots=2, dim=2, thresholds=(0.1, 0.2, 0.4)
        )
        self.network_.atomic_prototypes.grow(torch.eye(2), task=0)
        self.angles = torch.zeros(4)

    def represent(self, query: Query) -> Tensor:
        row = torch.stack([self.angles.cos(), self.angles.sin()], dim=1).flatten()
        return row.repeat(len(query.nodes), 1)


@pytest.mark.parametrize("place", range(4))
def test_each_level_has_its_own_threshold(place: int) -> None:
    threshold = (0.1, 0.1, 0.2, 0.4)[place]
    for distance, share in ((0.95 * threshold, 0), (1.05 * threshold, 1)):
        learner, stream = Turning(), TaskStream(make_graph())
        study = RetentionStudy(learner, stream)
        study.after_task(0)
        learner.angles[place] = math.acos(1 - distance)
        study.after_task(1)
        (change,) = study.report().changes
        assert change == Change(0, 1, 2 * NODES, 2 * NODES, share * 2 * NODES, 0, 2 * NODES)


@pytest.mark.parametrize("values", [[0.25, -0.5000001], [0.25, -0.5, 0.0]])
def test_every_difference_of_a_solved_network_is_another_prototype(values: list[float]) -> None:
    learner, stream = Constant(), TaskStream(make_graph())
    study = RetentionStudy(learner, stream)
    study.after_task(0)
    learner.values = torch.tensor(values)
    study.after_task(1)
    report = study.report()
    assert report.changes == (Change(0, 1, 2 * NODES, 2 * NODES, 2 * NODES, 0, None),)
    assert not report.proofs[0].holds
    assert not report.is_proved


@pytest.mark.parametrize(("amount", "is_seen"), [(1e-7, False), (5.0, True)])
def test_a_proof_fails_if_anything_a_task_uses_is_moved(amount: float, is_seen: bool) -> None:
    """Even if no prediction changes: what predictions depend on has changed."""
    learner, stream = PaperHPN(**CERTIFIED), TaskStream(make_graph())

    def tamper(index: int) -> None:
        if index == 1:
            with torch.no_grad():
                learner.network_.node_extractors[learner.selections_[0].node[0]][0, 0] += amount

    report = study_all(learner, stream, tamper)
    moved, still = report.proofs[0], report.proofs[2]
    assert (moved.task, still.task) == (0, 1)
    assert not moved.is_certified
    assert not moved.holds
    assert (moved.before != moved.now) == is_seen
    assert (report.changes[0].touched > 0) == is_seen
    assert still.holds
    assert not report.is_proved


def test_the_theorem_is_checked_with_the_extractors_after_the_second_task() -> None:
    learner, stream = PaperHPN(**BRIEF), TaskStream(make_graph())
    x, expected = [stream.step(index).graph.x for index in range(3)], []

    def note(index: int) -> None:
        if index > 0:
            expected.append(check_theorem_two(learner.network_, 0.3, x[index - 1], x[index]))

    assert study_all(learner, stream, note).theorem == tuple(expected)
    assert expected[0] != expected[1]
    assert expected[0].has_full_rank


@pytest.mark.parametrize("num_extractors", [1, 3])
def test_prototypes_are_touched_although_the_condition_is_met(num_extractors: int) -> None:
    """Features a million times as long put tasks a million times as far apart, and no angle changes."""
    graph = make_graph(scale=1e6)
    of_second = graph.y // 2 == 1
    x = graph.x.clone()
    x[of_second] = 3 * graph.x[graph.y // 2 == 0]
    graph = Graph.build("tripled", x=x, links=graph.edge_index, y=graph.y, class_order=range(6))
    stream = TaskStream(graph, tasks=[[0, 1], [2, 3]])
    report = study_all(PaperHPN(**{**BRIEF, "num_extractors": num_extractors}), stream)
    (condition,), (change,) = report.theorem, report.changes
    assert condition.is_satisfied
    assert change.shared > 0
    assert change.touched > 0


def test_edges_to_earlier_tasks_void_the_proof() -> None:
    stream = TaskStream(make_graph(scale=1000.0), edges="seen")
    report = study_all(PaperHPN(**BRIEF), stream)
    x = [TaskStream(make_graph(scale=1000.0)).step(index).graph.x.double() for index in range(3)]
    for index, condition in enumerate(report.theorem):
        assert condition.distance == pytest.approx(float(torch.cdist(x[index], x[index + 1]).min()))
        (reason,) = condition.reasons
        assert "edges lead to nodes of other tasks" in reason
    assert [change.nodes for change in report.changes] == [2 * NODES] * 3


def test_streams_may_show_earlier_nodes_without_an_edge_to_them() -> None:
    graph = make_graph()
    source, target = graph.y[graph.edge_index] // 2
    links = graph.edge_index[:, source == target]
    apart = Graph.build("apart", x=graph.x, links=links, y=graph.y, class_order=range(6))
    report = study_all(PaperHPN(**BRIEF), TaskStream(apart, edges="seen"))
    assert all(condition.neighbors_stay for condition in report.theorem)


def test_nodes_in_no_split_count_as_well() -> None:
    place = torch.arange(6 * NODES) % NODES
    masks = Masks(train=place < 6, val=(place >= 6) & (place < 9), test=(place >= 9) & (place < 12))
    for edges in ("within", "seen"):
        report = study_all(PaperHPN(**BRIEF), TaskStream(make_graph(masks=masks), edges=edges))
        assert {change.nodes for change in report.changes} == {2 * NODES}


@pytest.mark.parametrize("levels", ["A", "AN"])
def test_levels_that_are_not_in_use(levels: Any) -> None:
    report = study_all(PaperHPN(**BRIEF, levels=levels), TaskStream(make_graph()))
    assert any(change.rematched for change in report.changes)


def test_tasks_out_of_order() -> None:
    stream, learner = TaskStream(make_graph(), tasks=[[0, 1], [2, 3]]), PaperHPN(**BRIEF)
    study = RetentionStudy(learner, stream)
    learner.fit_task(stream.step(0))
    with pytest.raises(ConfigError, match="task 1 is out of order: task 0 is next"):
        study.after_task(1)
    study.after_task(0)
    with pytest.raises(ConfigError, match="task 0 is out of order: task 1 is next"):
        study.after_task(0)
    learner.fit_task(stream.step(1))
    study.after_task(1)
    with pytest.raises(ConfigError, match="there is no task left"):
        study.after_task(2)


def test_a_learner_without_representations(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, learner = TaskStream(make_graph()), PaperHPN(**BRIEF)
    learner.fit_task(stream.step(0))
    monkeypatch.setattr(learner, "represent", lambda query: None)
    with pytest.raises(ConfigError, match="no representation of task 0"):
        RetentionStudy(learner, stream).after_task(0)
