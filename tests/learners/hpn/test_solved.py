from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from hpn.datasets import Graph
from hpn.learners import Learner
from hpn.learners.hpn import SolvedHPN
from hpn.learners.hpn.evidence import BANKS, Extractors, Plane
from hpn.learners.hpn.partitions import Labelled
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.solved import Evidence, SolvedNetwork, TaskPart
from hpn.learners.hpn.task_extractor import TaskExtractor
from hpn.streams import GraphView, Query, Scenario, TaskStream
from hpn.theory import max_code_size

WIDTH = 50
SETTINGS = SolvedSettings(width=WIDTH)
ALL_NODES = np.arange(300)
NO_NODES: Labelled = (np.zeros(0, np.int64), np.zeros(0, np.int64))

both_edges = pytest.mark.parametrize("edges", ["within", "seen"])
both_scenarios = pytest.mark.parametrize("scenario", ["task", "class"])


def fit(stream: TaskStream, count: int | None = None, **params: Any) -> SolvedHPN:
    learner = SolvedHPN(**{"width": WIDTH, **params})
    for index in range(len(stream) if count is None else count):
        learner.fit_task(stream.step(index))
    return learner


def make_view(graph: Graph) -> GraphView:
    """The whole graph, with ids."""
    ids = torch.randint(2**62, (graph.num_nodes,), generator=torch.Generator().manual_seed(0))
    return GraphView(graph.x, graph.edge_index, ids)


# ---------------------------------------------------------------------- the learner in a stream


@both_edges
@pytest.mark.parametrize("tasks", ["0,1;2,3;4,5", "4;1,0,3;5,2"])
def test_with_the_task_given_predictions_never_change(graph: Graph, edges: Any, tasks: str) -> None:
    stream = TaskStream(graph, tasks=tasks, edges=edges)
    learner = SolvedHPN(width=WIDTH)
    first_scores: dict[int, list[torch.Tensor | None]] = {}
    certificates: list[str] = []
    for index in range(len(stream)):
        learner.fit_task(stream.step(index))
        assert learner.certificates_[:index] == certificates
        certificates = learner.certificates_
        for task in range(index + 1):
            query, key = stream.query(step=task, after=index, evaluate="oracle")
            found = [learner.predict_scores(query), learner.represent(query)]
            for now, before in zip(found, first_scores.setdefault(task, found), strict=True):
                assert torch.equal(now, before)  # type: ignore[arg-type]
            assert learner.is_certified(task)
            assert (learner.predict(query) == key.y).float().mean() > 0.6
    assert len(set(certificates)) == 3
    assert not learner.is_certified(3)


@both_scenarios
def test_scores_are_the_logits_of_the_query_classes(graph: Graph, scenario: Scenario) -> None:
    """Also with a task given that was learned without task numbers."""
    stream = TaskStream(graph, tasks="5,2;0,1;3,4", scenario=scenario, edges="seen")
    learner = fit(stream, width=200)
    assert len(learner.certificates_) == (3 if scenario == "task" else 0)
    for task, mode in ((None, "global"), (0, "oracle"), (1, "oracle")):
        query, key = stream.query(step=task, after=2, evaluate=mode)
        evidence = learner.network_.find_evidence(query.graph, query.nodes.numpy(), task)
        is_own = task is not None and scenario == "task"
        assert evidence.classes == (sorted(query.classes) if is_own else [0, 1, 2, 3, 4, 5])
        at = [evidence.classes.index(label) for label in query.classes]
        logits = torch.from_numpy(learner.network_.combine(evidence)[:, at])
        assert torch.equal(learner.predict_scores(query), logits.log_softmax(dim=1).float())
        flipped = Query(query.graph, query.nodes, tuple(reversed(query.classes)), task=query.task)
        assert torch.equal(learner.predict(flipped), learner.predict(query))
        assert (learner.predict(query) == key.y).float().mean() > 0.5


@both_scenarios
@pytest.mark.parametrize("thresholds", [(0.003, 0.01, 0.1), (0.3, 0.5, 1.0), (1e-5, 1e-4, 1e-3)])
def test_prototypes_stay_under_their_bounds(
    graph: Graph, scenario: Scenario, thresholds: tuple[float, float, float]
) -> None:
    given = dict(zip(("atomic", "node", "class"), thresholds, strict=True))
    stream = TaskStream(graph, scenario=scenario)
    learner = SolvedHPN(width=WIDTH, **{f"threshold_{level}": value for level, value in given.items()})
    bounds = {level: max_code_size(2, value).size for level, value in given.items()}
    assert learner.prototype_bounds == bounds
    for index in range(3):
        learner.fit_task(stream.step(index))
        counts = learner.prototype_counts
        assert [*counts] == [*given]
        assert all(0 < counts[level] <= bounds[level] for level in given)
        assert {level: plane.size for level, plane in learner.codebooks.items()} == bounds
    if thresholds[0] == 0.003:
        assert counts["atomic"] > counts["node"] > counts["class"] > 1


@both_scenarios
def test_prototypes_are_counted_by_hand(graph: Graph, scenario: Scenario) -> None:
    """Those at class means, and in the task scenario those that training nodes are matched to."""
    stream = TaskStream(graph, scenario=scenario)
    learner = fit(stream)
    network = learner.network_
    typical = network.memory.typical_evidence()
    atomic, node = network.planes["atomic"], network.planes["node"]
    used = {position for part in typical for position in atomic.match(part).ravel().tolist()}
    upper = set(node.match(sum(typical) / 3).ravel().tolist())
    for index, part in enumerate(network.tasks.values()):
        task = stream.step(index)
        assert isinstance(part.extractor, TaskExtractor)
        own = atomic.match(part.extractor.evidence(task.graph, task.train.numpy())).ravel().tolist()
        assert part.extractor.positions.tolist() == sorted(set(own))
        used |= set(own)
        upper |= set(node.match(atomic.evidence(np.array(sorted(set(own))))).tolist())
    assert learner.prototype_counts["atomic"] == len(used)
    assert learner.prototype_counts["node"] == len(upper)


def test_numbers_are_counted(graph: Graph) -> None:
    stream = TaskStream(graph, tasks="0,1;2,3,4;5")
    learner = SolvedHPN(width=WIDTH)
    num_classes = own = 0
    for index, size in enumerate((2, 3, 1)):
        learner.fit_task(stream.step(index))
        num_classes += size
        extractor = learner.network_.tasks[index].extractor
        own += size * (12 + 1) + len(extractor.positions) if isinstance(extractor, TaskExtractor) else 0
        assert (extractor is None) == (size == 1)
        pooled = num_classes * (3 * (WIDTH + 1) + 3 * 12) + 2 * len(BANKS)
        assert learner.num_parameters == pooled + own + 2 * sum(learner.prototype_counts.values())
        assert learner.num_stored == Learner.num_stored.fget(learner)  # type: ignore[attr-defined]


@both_scenarios
def test_representations(graph: Graph, scenario: Scenario) -> None:
    stream = TaskStream(graph, scenario=scenario)
    learner = fit(stream)
    network = learner.network_
    for task, mode in ((None, "global"), (1, "oracle")):
        query, _ = stream.query(step=task, after=2, evaluate=mode)
        evidence = network.find_evidence(query.graph, query.nodes.numpy(), task)
        shown, upper = learner.represent(query), network.match_upper(evidence)
        assert shown is not None
        assert shown.dtype == torch.float32
        levels = [("atomic", network.planes["atomic"].match(part)) for part in evidence.values]
        levels += list(upper.items())
        angles = [2 * np.pi / network.planes[level].size * position for level, position in levels]
        np.testing.assert_allclose(shown, np.sin(np.concatenate(angles, axis=1)), atol=1e-6)
        is_own = task is not None and scenario == "task"
        assert shown.shape[1] == (2 * 3 if is_own else 6 * (len(BANKS) + 2))


# ---------------------------------------------------------------------- evidence and prototypes


def draw_evidence(seed: int = 0) -> Evidence:
    rng = np.random.default_rng(seed)
    return Evidence([1, 2, 5], None, ("a", "b"), rng.normal(size=(2, 40, 3)), np.array([0.5, 3.0]))


def test_logits_are_the_weighted_evidence_of_matched_prototypes() -> None:
    network, evidence = SolvedNetwork(SETTINGS, 4, 0), draw_evidence()
    found, size = network.combine(evidence), Plane(SETTINGS.threshold_atomic).size
    for row in range(40):
        for column in range(3):
            expected = 0.0
            for bank, weight in enumerate((0.5, 3.0)):
                angle = round(np.arctan(2 * evidence.values[bank, row, column]) / (2 * np.pi / size))
                expected += weight * np.tan(angle * 2 * np.pi / size) / 2
            assert found[row, column] == pytest.approx(expected)
        alone = evidence._replace(values=evidence.values[:, [row]])
        np.testing.assert_array_equal(network.combine(alone)[0], found[row])
    arranged = evidence.arrange([5, 1, 2])
    assert (arranged.classes, evidence.classes) == ([5, 1, 2], [1, 2, 5])
    np.testing.assert_array_equal(network.combine(arranged), found[:, [2, 0, 1]])


def test_upper_levels_never_change_the_prediction() -> None:
    network = SolvedNetwork(SETTINGS, 4, 0)
    for seed in range(5):
        evidence = draw_evidence(seed)
        logits, upper = network.combine(evidence), network.match_upper(evidence)
        np.testing.assert_array_equal(upper["node"], network.planes["node"].match(logits / 3.5))
        for level in ("node", "class"):
            largest = np.take_along_axis(upper[level], logits.argmax(axis=1)[:, None], axis=1)[:, 0]
            np.testing.assert_array_equal(largest, upper[level].max(axis=1))
        assert len(np.unique(upper["node"])) > len(np.unique(upper["class"])) > 3


# ---------------------------------------------------------------------- tasks of a network


@pytest.fixture
def network() -> SolvedNetwork:
    return SolvedNetwork(SETTINGS, 12, 0)


@pytest.fixture(scope="module")
def view(graph: Graph) -> GraphView:
    return make_view(graph)


def choose(graph: Graph, *classes: int, odd: bool) -> Labelled:
    y = graph.y.numpy()
    nodes = np.flatnonzero(np.isin(y, classes) & (odd == ALL_NODES % 2))
    return nodes, y[nodes]


def test_a_task_that_is_learned_again_uses_all_its_nodes(network: SolvedNetwork, view: GraphView, graph: Graph) -> None:
    network.learn(view, choose(graph, 0, 1, odd=False), NO_NODES, "first")
    before = network.tasks["first"]
    assert isinstance(before.extractor, TaskExtractor)
    network.learn(view, choose(graph, 0, 3, odd=True), NO_NODES, "first")
    after = network.tasks["first"]
    assert after.classes == [0, 1, 3]
    assert isinstance(after.extractor, Extractors)
    assert after.certificate != before.certificate
    expected = network.memory.extractors(view).evidence(view, ALL_NODES)
    network.learn(view, choose(graph, 4, 5, odd=True), NO_NODES, "second")
    again = SolvedNetwork(SETTINGS, 12, 0)
    again.load(network.state())
    assert [*again.tasks] == ["first", "second"]
    for each in (network, again, pickle.loads(pickle.dumps(network))):
        assert each.is_certified("first")
        evidence = each.find_evidence(view, ALL_NODES, "first")
        assert evidence.banks == BANKS
        np.testing.assert_array_equal(evidence.values, expected)
    assert b"GraphView" not in pickle.dumps(network)


def test_validation_nodes_of_other_classes_do_not_count_for_the_task(view: GraphView, graph: Graph) -> None:
    certificates = set()
    for classes in ((0, 1), (0, 1, 2)):
        network = SolvedNetwork(SETTINGS, 12, 0)
        network.learn(view, choose(graph, 0, 1, odd=False), choose(graph, *classes, odd=True), "a")
        certificates.add(network.tasks["a"].certificate)
    assert len(certificates) == 1


def test_without_a_task_nothing_is_frozen(network: SolvedNetwork, view: GraphView, graph: Graph) -> None:
    assert network.prototype_counts == {"atomic": 0, "node": 0, "class": 0}
    network.learn(view, choose(graph, 0, 1, odd=False), NO_NODES)
    assert network.tasks == {}
    assert not network.is_certified("first")
    evidence = network.find_evidence(view, ALL_NODES, "first")  # an unknown task means all classes
    assert evidence.classes == [0, 1]


def test_what_was_changed_is_not_certified(network: SolvedNetwork, view: GraphView, graph: Graph) -> None:
    for task, classes in enumerate([(0, 1), (2, 3)]):
        network.learn(view, choose(graph, *classes, odd=False), NO_NODES, task)
    extractor = network.tasks[0].extractor
    assert isinstance(extractor, TaskExtractor)
    extractor.weight[0, 0] = np.nextafter(extractor.weight[0, 0], 9)
    assert [network.is_certified(task) for task in (0, 1)] == [False, True]
    assert TaskPart([0, 1], None).digest() != TaskPart([1, 0], None).digest()
