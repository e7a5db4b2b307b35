from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from hpn.datasets import Graph, load_dataset
from hpn.errors import ConfigError
from hpn.learners.hpn import PaperHPN
from hpn.nn.hpn import codebook
from hpn.nn.hpn.codebook import Codebook, unit
from hpn.nn.hpn.sampling import NeighborSampler
from hpn.streams import Query, TaskStream
from hpn.theory import max_code_size

QUICK: dict[str, Any] = {"preset": "paper", "epochs": 6, "warmup_epochs": 3, "late_epoch": 5}
KEPT: dict[str, Any] = {**QUICK, "retention": "certified"}
LARGE: dict[str, Any] = {"dim": 4, "drawn": "1", "warmup_epochs": 0, "lr_refine": 0.3, "batch_size": 4000}
CERTIFIED: dict[str, dict[str, Any]] = {
    "paper": KEPT,
    "means": {**KEPT, "slots": "means", "num_selected": 2, "levels": "AN"},
    "large": {**KEPT, **LARGE, "epochs": 2},
    "few extractors": {**KEPT, "num_extractors": 2},
    "similarity": {**KEPT, "selection": "similarity"},
}


@pytest.fixture(scope="module")
def ten() -> Graph:
    return load_dataset("synthetic", num_nodes=250, num_links=1000, num_features=8, num_classes=10)


def fit(learner: PaperHPN, stream: TaskStream, tasks: int | None = None) -> PaperHPN:
    for index in range(len(stream) if tasks is None else tasks):
        learner.fit_task(stream.step(index))
    return learner


def predictions(learner: PaperHPN, stream: TaskStream, tasks: int) -> list[bytes]:
    """Every bit of the scores of each task so far, the task given."""
    queries = (stream.query(step=task, after=tasks - 1, evaluate="oracle")[0] for task in range(tasks))
    return [learner.predict_scores(query).numpy().tobytes() for query in queries]


def test_the_papers_numbers() -> None:
    s = PaperHPN()
    assert (s.num_extractors, s.num_selected, s.dim) == (22, 1, 16)
    assert (s.threshold_atomic, s.threshold_node, s.threshold_class) == (0.3, 0.3, 0.4)
    assert (s.slots, s.drawn, s.levels, s.retention) == ("drawn", "5,7", "ANC", "paper")
    assert (s.epochs, s.warmup_epochs, s.late_epoch, s.batch_size) == (90, 35, 85, 100)
    assert (s.lr, s.lr_refine, s.lr_prototypes, s.lr_prototypes_late) == (0.1, 0.001, 0.1, 0.01)
    assert (s.alpha, s.beta, s.use_cls) == (1.0, 1.0, True)


def test_the_papers_thresholds_are_searched() -> None:
    grid = [0.01, *(0.05 * step for step in range(1, 9))]
    assert set(PaperHPN.search_space) == {"threshold_atomic", "threshold_node", "threshold_class"}
    for choice in PaperHPN.search_space.values():
        assert choice.values == pytest.approx(grid)


def test_reserved_extractors_are_unused_ones_until_there_are_none(ten: Graph, caplog: pytest.LogCaptureFixture) -> None:
    stream, learner = TaskStream(ten), PaperHPN(**QUICK, num_extractors=5, num_selected=2)
    with caplog.at_level(logging.WARNING, logger="hpn.learners.hpn"):
        fit(learner, stream, tasks=2)
        assert not caplog.records
        for index in (2, 3):
            learner.fit_task(stream.step(index))
    chosen = [(selection.node, selection.structure) for selection in learner.selections_]
    assert chosen[:2] == [((0, 1), (0, 1)), ((2, 3), (2, 3))]
    for number, record in zip((2, 3), caplog.records, strict=True):
        assert f"task {number} shares the extractors of earlier tasks" in record.getMessage()
        assert "all 5 are in use" in record.getMessage()
    for node, structure in chosen[2:]:
        assert len(set(node)) == len(set(structure)) == 2


def test_equation_5(graph: Graph) -> None:
    """Of all extractors, those with the largest mean over nodes of the cosine to the nearest prototype."""
    stream, learner = TaskStream(graph), PaperHPN(**QUICK, selection="similarity", drawn="2", num_selected=2)
    learner.fit_task(stream.step(0))
    assert learner.selections_[0].node == learner.selections_[0].structure == (0, 1)
    prototypes, task = learner.network_.atomic_prototypes.vectors.clone(), stream.step(1)
    view, nodes = task.graph, task.train
    around = NeighborSampler(view.indptr, view.indices, nodes, (2,), learner.seed).draw(0)
    expected = []
    for every, seen in ((learner.network_.node_extractors, nodes), (learner.network_.structure_extractors, around)):
        means = []
        for matrix in every:
            embeddings = unit(view.x[seen.flatten()] @ matrix.detach())
            means.append(float((embeddings @ prototypes.t()).amax(dim=1).mean()))
        ranked = sorted(range(len(means)), key=means.__getitem__, reverse=True)
        expected.append(tuple(sorted(ranked[:2])))
    learner.fit_task(task)
    assert (learner.selections_[1].node, learner.selections_[1].structure) == tuple(expected)


def test_more_extractors_selected_than_there_are() -> None:
    with pytest.raises(ConfigError, match="num_selected = 3 is more than num_extractors = 2"):
        PaperHPN(num_extractors=2, num_selected=3)


UNEVEN: dict[str, Any] = {"tasks": "0,1;2,3,4;5;6,7,8,9"}
CLASS: dict[str, Any] = {"scenario": "class"}
SEEN: dict[str, Any] = {"scenario": "class", "edges": "seen"}
PAIRS = [(name, {}) for name in CERTIFIED]
PAIRS += [("paper", UNEVEN), ("paper", SEEN), ("few extractors", CLASS), ("similarity", SEEN), ("means", UNEVEN)]


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_certified_predictions_stay_the_same_to_the_last_bit(ten: Graph, name: str, kind: dict[str, Any]) -> None:
    stream, learner = TaskStream(ten, **kind), PaperHPN(**CERTIFIED[name])
    first: list[bytes] = []
    for index in range(len(stream)):
        learner.fit_task(stream.step(index))
        now = predictions(learner, stream, index + 1)
        assert now[:index] == first, f"after task {index}"
        first = now
        assert all(learner.is_certified(task) for task in range(index + 1))


def test_predictions_may_change_as_in_the_paper(ten: Graph) -> None:
    stream, learner = TaskStream(ten), PaperHPN(**QUICK)
    before = predictions(fit(learner, stream, tasks=1), stream, 1)
    assert learner.is_certified(0)
    for index in range(1, len(stream)):
        learner.fit_task(stream.step(index))
    assert predictions(learner, stream, 1) != before
    assert not learner.is_certified(0)


def test_prototypes_that_are_added_take_the_certificate_away_unless_they_are_invisible(ten: Graph) -> None:
    stream = TaskStream(ten)
    for retention, expected in (("paper", False), ("certified", True)):
        learner = fit(PaperHPN(epochs=0, retention=retention), stream, tasks=4)  # type: ignore[arg-type]
        assert learner.is_certified(0) == expected


@pytest.mark.parametrize("params", [QUICK, KEPT, {**QUICK, "lr_prototypes": 5.0}], ids=["paper", "certified", "fast"])
def test_prototypes_never_exceed_their_bounds_however_long_the_stream(params: dict[str, Any]) -> None:
    graph = load_dataset("synthetic", num_nodes=360, num_links=1000, num_features=8, num_classes=24)
    stream, learner = TaskStream(graph), PaperHPN(**params, dim=2)
    s, history = learner, []
    bounds = learner.prototype_bounds
    codes = [max_code_size(2, t).size for t in (s.threshold_atomic, s.threshold_node, s.threshold_class)]
    assert list(bounds.values()) == [2 * s.num_extractors * codes[0], *codes[1:]]
    assert len(stream) == 12
    for index in range(12):
        counts = learner.fit_task(stream.step(index)).prototype_counts
        assert counts is not None
        assert all(1 <= count <= bounds[level] for level, count in counts.items())
        # One codebook is one code: without regard to how many extractors there are.
        assert all(count <= code for count, code in zip(counts.values(), codes, strict=True))
        history.append(counts["atomic"])
    assert history[-1] > history[0] / 2


def test_parameters_are_counted_by_hand(graph: Graph) -> None:
    stream, d = TaskStream(graph), graph.num_features
    small: dict[str, Any] = {**QUICK, "dim": 2, "drawn": "1"}  # two slots, so four numbers on level A
    to_node, to_class = 4 * 2 + 2, 2 * 2 + 2
    for levels, layers in (
        ("A", 4 * 2 + 2),
        ("AN", to_node + (4 + 2) * 2 + 2),
        ("ANC", to_node + to_class + (4 + 4) * 2 + 2),
    ):
        learner = fit(PaperHPN(**small, levels=levels), stream, tasks=2)  # type: ignore[arg-type]
        assert tuple(learner.prototype_counts) == ("atomic", "node", "class")[: len(levels)]
        vectors = sum(learner.prototype_counts.values())
        assert learner.num_parameters == 4 * d * 2 + 2 * vectors + layers
    shared = fit(PaperHPN(**small, num_extractors=1), stream, tasks=2)
    vectors = sum(shared.prototype_counts.values())
    assert shared.num_parameters == 2 * d * 2 + 2 * vectors + to_node + to_class + 18
    growing = fit(PaperHPN(**small), TaskStream(graph, scenario="class"), tasks=2)
    vectors = sum(growing.prototype_counts.values())
    assert growing.num_parameters == 4 * d * 2 + 2 * vectors + to_node + to_class + 8 * 4 + 4


@pytest.mark.parametrize("params", [QUICK, {**QUICK, "lr_prototypes": 5.0}, KEPT])
def test_cover_and_packing_hold_throughout(
    stream: TaskStream, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, check = [], Codebook.check
    monkeypatch.setattr(codebook, "DEBUG", True)
    monkeypatch.setattr(Codebook, "check", lambda self, *args: (checks.append(self), check(self, *args))[1])
    fit(PaperHPN(**params), stream)
    assert len(checks) > 20


def test_no_query_nodes(stream: TaskStream) -> None:
    learner = fit(PaperHPN(**QUICK), stream, tasks=1)
    query, _ = stream.query(step=0, after=0, evaluate="oracle")
    empty = Query(query.graph, query.nodes[:0], query.classes, task=0)
    assert learner.predict(empty).shape == (0,)


@pytest.mark.parametrize("value", [1.0, 123.456])
def test_constant_features(graph: Graph, value: float) -> None:
    alike = Graph.build("alike", x=torch.full((graph.num_nodes, 200), value), links=graph.edge_index, y=graph.y)
    stream = TaskStream(alike)
    query, _ = stream.query(step=0, after=0, evaluate="oracle")
    scores = fit(PaperHPN(**QUICK), stream, tasks=1).predict_scores(query)
    assert bool(torch.isfinite(scores).all())


def test_stored_numbers_leave_out_extractors_that_no_task_uses(stream: TaskStream) -> None:
    for num_extractors in (8, 16):
        learner = PaperHPN(**QUICK, num_extractors=num_extractors)
        learner.fit_task(stream.step(0))
        tasks, counters = sum(learner.prototype_counts.values()), 3
        assert learner.num_stored == learner.num_parameters + tasks + counters
