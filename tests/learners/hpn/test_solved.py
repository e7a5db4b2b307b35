from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from hpn.datasets import Graph
from hpn.evaluation import evaluate
from hpn.learners import Learner, Observer, Progress
from hpn.learners.hpn import SolvedHPN
from hpn.learners.hpn.evidence import BANKS, Extractors, Plane
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.solved import Evidence, SolvedNetwork, TaskPart
from hpn.learners.hpn.task_extractor import TaskExtractor
from hpn.streams import GraphView, Query, Scenario, Task, TaskStream
from hpn.theory import max_code_size

WIDTH = 50
SETTINGS = SolvedSettings(width=WIDTH)
PARTITIONS = [
    [(0, 1), (2, 3), (4, 5)],
    [(5, 4), (1, 0), (3, 2)],
    [(3,), (0, 5, 1), (4, 2)],
    [(2, 0, 4, 1, 5, 3)],
]
EVERYONE = np.arange(300)
NOBODY = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def fit(learner: SolvedHPN, tasks: list[Task]) -> SolvedHPN:
    for task in tasks:
        learner.fit_task(task)
    return learner


def all_of(stream: TaskStream) -> list[Task]:
    return [stream.task(index) for index in range(len(stream))]


def one_view(
    graph: Graph, partition: list[tuple[int, ...]], *, has_val: bool, scenario: Scenario = "class"
) -> tuple[GraphView, list[Task]]:
    """Tasks that all show the whole graph, with ids, so that only the order of nodes and classes differs."""
    ids = torch.randint(2**62, (graph.num_nodes,), generator=torch.Generator().manual_seed(0))
    view = GraphView(graph.x, graph.edge_index, ids)
    numbers = torch.arange(graph.num_nodes)
    tasks = []
    for index, classes in enumerate(partition):
        members = numbers[torch.isin(graph.y, torch.tensor(classes))]
        train = members[members % 3 > 0]
        val = members[members % 6 == 0] if has_val else members[:0]
        tasks.append(Task(index, classes, scenario, view, train, graph.y[train], val, graph.y[val]))
    return view, tasks


def flatten(state: Any) -> dict[str, Any]:
    """All that a state holds, by path."""
    if isinstance(state, dict):
        return {
            f"{key}/{path}": value for key, part in state.items() for path, value in flatten(part).items()
        }
    return {"": (state.dtype, state.tolist()) if isinstance(state, torch.Tensor) else state}


@pytest.mark.parametrize("has_val", [True, False])
@pytest.mark.parametrize("partition", PARTITIONS[1:])
def test_the_order_and_grouping_of_tasks_leave_no_trace(
    graph: Graph, partition: list[tuple[int, ...]], has_val: bool
) -> None:
    view, tasks = one_view(graph, PARTITIONS[0], has_val=has_val)
    first = fit(SolvedHPN(width=WIDTH), tasks)
    second = fit(SolvedHPN(width=WIDTH), one_view(graph, partition, has_val=has_val)[1])
    query = Query(view, torch.arange(300), (0, 1, 2, 3, 4, 5))
    assert torch.equal(first.predict_scores(query), second.predict_scores(query))
    states = [flatten(learner.network_.memory.state()) for learner in (first, second)]
    assert states[0] == states[1]


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_class_sums_of_a_stream_do_not_depend_on_the_order(graph: Graph, edges: Any) -> None:
    """Where earlier nodes stay in view, only the own features of a node are the same in any order."""
    learners = []
    for tasks in ("0,1;2,3;4,5", "4,5;0,1;2,3"):
        stream = TaskStream(graph, tasks=tasks, scenario="class", edges=edges)
        learners.append(fit(SolvedHPN(width=WIDTH), all_of(stream)))
    first, second = (learner.network_.memory._add_up().learned for learner in learners)
    own_banks = range(6) if edges == "within" else (0, 3)
    for bank in own_banks:
        assert first[bank].counts == second[bank].counts == learners[0].network_.memory.counts
        assert set(first[bank].counts) == set(range(6))
        for label in range(6):
            np.testing.assert_array_equal(first[bank].sums[label], second[bank].sums[label])
        np.testing.assert_array_equal(first[bank].gram, second[bank].gram)


@pytest.mark.parametrize("edges", ["within", "seen"])
@pytest.mark.parametrize("tasks", ["0,1;2,3;4,5", "4;1,0,3;5,2"])
def test_with_the_task_given_answers_never_change(graph: Graph, edges: Any, tasks: str) -> None:
    stream = TaskStream(graph, tasks=tasks, edges=edges)
    learner = SolvedHPN(width=WIDTH)
    told: dict[int, torch.Tensor] = {}
    seen: dict[int, torch.Tensor] = {}
    certificates: list[str] = []
    for index in range(len(stream)):
        learner.fit_task(stream.task(index))
        assert learner.certificates_[:index] == certificates
        certificates = learner.certificates_
        for task in range(index + 1):
            query, key = stream.query(task=task, after=index, evaluate="oracle")
            scores = learner.predict_scores(query)
            assert torch.equal(scores, told.setdefault(task, scores))
            shown = learner.represent(query)
            assert shown is not None
            assert torch.equal(shown, seen.setdefault(task, shown))
            assert learner.is_certified(task)
            assert (learner.predict(query) == key.y).float().mean() > 0.6
    assert len(set(certificates)) == 3
    assert not learner.is_certified(3)


def test_what_was_changed_is_not_certified(stream: TaskStream) -> None:
    learner = fit(SolvedHPN(width=WIDTH), [stream.task(0), stream.task(1)])
    part = learner.network_.tasks[0]
    assert isinstance(part.extractor, TaskExtractor)
    part.extractor.weight[0, 0] = np.nextafter(part.extractor.weight[0, 0], 9)
    assert not learner.is_certified(0)
    assert learner.is_certified(1)
    other = TaskPart([0, 1], None)
    assert other.digest() != TaskPart([1, 0], None).digest()
    assert learner.network_.tasks[1].digest() == learner.network_.tasks[1].certificate


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_a_task_may_be_given_although_tasks_were_not_told_apart(graph: Graph, edges: Any) -> None:
    stream = TaskStream(graph, scenario="class", edges=edges)
    learner = fit(SolvedHPN(width=200), all_of(stream))
    assert learner.certificates_ == []
    assert not learner.is_certified(0)
    for task in range(3):
        query, key = stream.query(task=task, after=2, evaluate="oracle")
        evidence = learner.network_.find_evidence(query.graph, query.nodes.numpy(), task)
        assert evidence.classes == [0, 1, 2, 3, 4, 5]
        logits = learner.network_.combine(evidence)[:, list(query.classes)]
        expected = torch.from_numpy(logits).log_softmax(dim=1).float()
        assert torch.equal(learner.predict_scores(query), expected)
        assert (learner.predict(query) == key.y).float().mean() > 0.6


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_without_a_task_it_answers_among_all_classes(graph: Graph, scenario: Scenario) -> None:
    stream = TaskStream(graph, tasks="5,2;0,1;3,4", scenario=scenario, edges="seen")
    learner = fit(SolvedHPN(width=200), all_of(stream))
    query, key = stream.query(task=None, after=2, evaluate="global")
    scores = learner.predict_scores(query)
    assert query.classes == (5, 2, 0, 1, 3, 4)
    assert scores.dtype == torch.float32
    assert torch.allclose(scores.exp().sum(dim=1), torch.ones(len(scores)), atol=1e-5)
    evidence = learner.network_.find_evidence(query.graph, query.nodes.numpy())
    logits = learner.network_.combine(evidence)
    assert evidence.classes == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(learner.predict(query), logits.argmax(axis=1))
    assert (learner.predict(query) == key.y).float().mean() > 0.5
    flipped = Query(query.graph, query.nodes, tuple(reversed(query.classes)))
    assert torch.equal(learner.predict(flipped), learner.predict(query))


@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize("mode", ["oracle", "global", "grouped"])
def test_every_way_of_asking(graph: Graph, scenario: Scenario, mode: Any) -> None:
    stream = TaskStream(graph, scenario=scenario, edges="seen")
    learner = fit(SolvedHPN(width=200), all_of(stream))
    row = evaluate(learner, stream, after=2, mode=mode)
    chance = 100 / 6 if mode == "global" else 50
    assert len(row.accuracy) == 3
    assert np.mean(row.accuracy) > chance + 10


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_tasks_of_one_class(graph: Graph, scenario: Scenario) -> None:
    stream = TaskStream(graph, tasks="3;0;1,5", scenario=scenario)
    learner = SolvedHPN(width=WIDTH)
    for index in range(3):
        learner.fit_task(stream.task(index))
        for task in range(min(index + 1, 2)):
            query, key = stream.query(task=task, after=index, evaluate="oracle")
            assert torch.equal(learner.predict(query), key.y)
            assert torch.equal(learner.predict_scores(query), torch.zeros(len(key.y), 1))
            shown = learner.represent(query)
            assert shown is not None
            assert shown.shape[0] == len(key.y)
    query, _ = stream.query(task=None, after=2, evaluate="global")
    assert set(learner.predict(query).tolist()) == {0, 1, 3, 5}
    if scenario == "task":
        assert [part.extractor is None for part in learner.network_.tasks.values()] == [True, True, False]
        assert all(learner.is_certified(task) for task in range(3))
    again = SolvedHPN(width=WIDTH).load_state_dict(learner.state_dict())
    assert torch.equal(again.predict_scores(query), learner.predict_scores(query))


def test_nobody_is_asked_about(stream: TaskStream) -> None:
    learner = fit(SolvedHPN(width=WIDTH), [stream.task(0)])
    query, _ = stream.query(task=None, after=0, evaluate="global")
    assert learner.predict(Query(query.graph, query.nodes[:0], query.classes)).shape == (0,)


@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize("thresholds", [(0.003, 0.01, 0.1), (0.3, 0.5, 1.0), (1e-5, 1e-4, 1e-3)])
def test_prototypes_stay_under_their_bounds(
    graph: Graph, scenario: Scenario, thresholds: tuple[float, float, float]
) -> None:
    names = ("atomic", "node", "class")
    given = {f"threshold_{level}": value for level, value in zip(names, thresholds, strict=True)}
    stream = TaskStream(graph, scenario=scenario)
    learner = SolvedHPN(width=WIDTH, **given)
    bounds = learner.prototype_bounds
    assert bounds == {
        level: max_code_size(2, value).size for level, value in zip(names, thresholds, strict=True)
    }
    assert bounds == {level: Plane(value).size for level, value in zip(names, thresholds, strict=True)}
    for index in range(3):
        learner.fit_task(stream.task(index))
        counts = learner.prototype_counts
        assert [*counts] == [*names]
        assert all(0 < counts[level] <= bounds[level] for level in names)
        assert {level: plane.size for level, plane in learner.codebooks.items()} == bounds
    if thresholds[0] == 0.003:
        assert counts["atomic"] > counts["node"] > counts["class"] > 1


def test_prototypes_are_counted_by_hand(graph: Graph) -> None:
    """Those at class means, and in the task scenario those that training nodes are matched to."""
    for scenario in ("task", "class"):
        stream = TaskStream(graph, scenario=scenario)
        learner = fit(SolvedHPN(width=WIDTH), all_of(stream))
        network = learner.network_
        typical = network.memory.typical_evidence()
        atomic, node = network.planes["atomic"], network.planes["node"]
        used = {position for part in typical for position in atomic.match(part).ravel().tolist()}
        upper = set(node.match(sum(typical) / 3).ravel().tolist())
        for index, part in enumerate(network.tasks.values()):
            task = stream.task(index)
            assert isinstance(part.extractor, TaskExtractor)
            own = atomic.match(part.extractor.evidence(task.graph, task.train.numpy())).ravel().tolist()
            assert part.extractor.positions.tolist() == sorted(set(own))
            used |= set(own)
            upper |= set(node.match(atomic.evidence(np.array(sorted(set(own))))).tolist())
        assert learner.prototype_counts["atomic"] == len(used)
        assert learner.prototype_counts["node"] == len(upper)


def test_parameters_are_counted(graph: Graph) -> None:
    stream = TaskStream(graph, tasks="0,1;2,3,4;5")
    learner = SolvedHPN(width=WIDTH)
    num_classes = own = 0
    for index, size in enumerate((2, 3, 1)):
        learner.fit_task(stream.task(index))
        num_classes += size
        extractor = learner.network_.tasks[index].extractor
        if size > 1:
            assert isinstance(extractor, TaskExtractor)
            own += size * (12 + 1) + len(extractor.positions)
        pooled = num_classes * (3 * (WIDTH + 1) + 3 * 12) + 2 * len(BANKS)
        assert learner.num_parameters == pooled + own + 2 * sum(learner.prototype_counts.values())
    assert learner.num_stored > 3 * WIDTH * (WIDTH + 1) // 2


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_representations(graph: Graph, scenario: Scenario) -> None:
    stream = TaskStream(graph, scenario=scenario)
    learner = fit(SolvedHPN(width=WIDTH), all_of(stream))
    query, _ = stream.query(task=None, after=2, evaluate="global")
    shown = learner.represent(query)
    assert shown is not None
    assert shown.dtype == torch.float32
    assert shown.shape == (len(query.nodes), 6 * (len(BANKS) + 2))
    assert shown.abs().max() <= 1
    network = learner.network_
    evidence = network.find_evidence(query.graph, query.nodes.numpy())
    atomic = network.planes["atomic"]
    by_level = shown.numpy().reshape(len(shown), len(BANKS) + 2, 6).transpose(1, 0, 2)
    for bank in range(len(BANKS)):
        angles = 2 * np.pi / atomic.size * atomic.match(evidence.found[bank])
        np.testing.assert_allclose(by_level[bank], np.sin(angles), atol=1e-6)
    upper = network.match_upper(evidence)
    for level, found in zip(("node", "class"), by_level[-2:], strict=True):
        angles = 2 * np.pi / network.planes[level].size * upper[level]
        np.testing.assert_allclose(found, np.sin(angles), atol=1e-6)
    query, _ = stream.query(task=1, after=2, evaluate="oracle")
    shown = learner.represent(query)
    assert shown is not None
    assert shown.shape == (len(query.nodes), 2 * 3 if scenario == "task" else 6 * (len(BANKS) + 2))


def draw_evidence(seed: int = 0) -> Evidence:
    rng = np.random.default_rng(seed)
    return Evidence([1, 2, 5], ("a", "b"), rng.normal(size=(2, 40, 3)), np.array([0.5, 3.0]))


def test_logits_are_the_weighted_evidence_of_matched_prototypes() -> None:
    network, evidence = SolvedNetwork(SETTINGS, 4, 0), draw_evidence()
    found = network.combine(evidence)
    plane = Plane(SETTINGS.threshold_atomic)
    for row in range(40):
        for column in range(3):
            expected = 0.0
            for bank, weight in enumerate((0.5, 3.0)):
                angle = round(np.arctan(2 * evidence.found[bank, row, column]) / (2 * np.pi / plane.size))
                expected += weight * np.tan(angle * 2 * np.pi / plane.size) / 2
            assert found[row, column] == pytest.approx(expected)


def test_logits_do_not_depend_on_who_else_is_asked_about() -> None:
    network, evidence = SolvedNetwork(SETTINGS, 4, 0), draw_evidence()
    logits = network.combine(evidence)
    for row in range(40):
        alone = evidence._replace(found=evidence.found[:, [row]])
        np.testing.assert_array_equal(network.combine(alone)[0], logits[row])


def test_classes_in_another_order() -> None:
    network, evidence = SolvedNetwork(SETTINGS, 4, 0), draw_evidence()
    arranged = evidence.arrange([5, 1, 2])
    assert arranged.classes == [5, 1, 2]
    assert evidence.classes == [1, 2, 5]
    np.testing.assert_array_equal(network.combine(arranged), network.combine(evidence)[:, [2, 0, 1]])


def test_upper_levels_never_change_the_answer() -> None:
    network = SolvedNetwork(SETTINGS, 4, 0)
    for seed in range(5):
        evidence = draw_evidence(seed)
        logits, upper = network.combine(evidence), network.match_upper(evidence)
        node = network.planes["node"].match(logits / 3.5)
        np.testing.assert_array_equal(upper["node"], node)
        for level in ("node", "class"):
            largest = np.take_along_axis(upper[level], logits.argmax(axis=1)[:, None], axis=1)[:, 0]
            np.testing.assert_array_equal(largest, upper[level].max(axis=1))
        assert len(np.unique(upper["node"])) > len(np.unique(upper["class"])) > 3


@pytest.mark.parametrize("edges", ["within", "seen"])
@pytest.mark.parametrize("scenario", ["task", "class"])
def test_state_is_everything(graph: Graph, scenario: Scenario, edges: Any) -> None:
    stream = TaskStream(graph, tasks="0,1;2;3,4,5", scenario=scenario, edges=edges)
    learner = fit(SolvedHPN(width=WIDTH, seed=3), [stream.task(0), stream.task(1)])
    state = learner.state_dict()
    again = SolvedHPN(width=WIDTH, seed=3).load_state_dict(state)
    for other in (again, copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        assert isinstance(other, SolvedHPN)
        assert flatten(other.state_dict()) == flatten(state)
        assert other.certificates_ == learner.certificates_
    for each in (learner, again):
        each.fit_task(stream.task(2))
    for task, mode in ((0, "oracle"), (1, "oracle"), (2, "oracle"), (None, "global"), (1, "grouped")):
        query, _ = stream.query(task=task, after=2, evaluate=mode)
        assert torch.equal(again.predict_scores(query), learner.predict_scores(query))
    assert flatten(again.state_dict()) == flatten(learner.state_dict())


def test_the_seed_draws_the_random_layers(stream: TaskStream) -> None:
    tasks = all_of(stream)
    first, same, other = (fit(SolvedHPN(width=WIDTH, seed=seed), tasks) for seed in (0, 0, 1))
    query, _ = stream.query(task=None, after=2, evaluate="global")
    assert torch.equal(first.predict_scores(query), same.predict_scores(query))
    assert not torch.equal(first.predict_scores(query), other.predict_scores(query))


def test_the_observer_is_told_once_a_task(stream: TaskStream) -> None:
    told: list[Progress] = []

    class Listener(Observer):
        def after_step(self, learner: Any, progress: Progress) -> None:
            assert not learner.in_progress_
            told.append(progress)

    learner = SolvedHPN(width=WIDTH)
    for index in range(2):
        learner.fit_task(stream.task(index), Listener())
    assert [(entry.task, entry.done, entry.total) for entry in told] == [(0, 1, 1), (1, 1, 1)]


def made_network(graph: Graph) -> tuple[SolvedNetwork, GraphView, np.ndarray]:
    return SolvedNetwork(SETTINGS, 12, 0), one_view(graph, PARTITIONS[0], has_val=False)[0], graph.y.numpy()


def choose(y: np.ndarray, classes: tuple[int, ...], *, odd: bool) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.flatnonzero(np.isin(y, classes) & (np.arange(len(y)) % 2 == odd))
    return nodes, y[nodes]


def test_a_task_that_is_learned_again_is_answered_by_all_its_nodes(graph: Graph) -> None:
    network, view, y = made_network(graph)
    network.learn(view, choose(y, (0, 1), odd=False), NOBODY, "first")
    before = network.tasks["first"]
    assert isinstance(before.extractor, TaskExtractor)
    network.learn(view, choose(y, (0, 3), odd=True), NOBODY, "first")
    after = network.tasks["first"]
    assert after.classes == [0, 1, 3]
    assert isinstance(after.extractor, Extractors)
    assert after.certificate != before.certificate
    assert network.is_certified("first")
    evidence = network.find_evidence(view, EVERYONE, "first")
    expected = network.memory.extractors(view).evidence(view, EVERYONE)
    np.testing.assert_array_equal(evidence.found, expected)
    assert evidence.banks == BANKS
    network.learn(view, choose(y, (4, 5), odd=True), NOBODY, "second")
    np.testing.assert_array_equal(network.find_evidence(view, EVERYONE, "first").found, expected)
    again = SolvedNetwork(SETTINGS, 12, 0)
    again.load(network.state())
    assert [*again.tasks] == ["first", "second"]
    assert again.is_certified("first")
    np.testing.assert_array_equal(again.find_evidence(view, EVERYONE, "first").found, expected)


def test_one_class_and_then_another(graph: Graph) -> None:
    network, view, y = made_network(graph)
    network.learn(view, choose(y, (2,), odd=True), NOBODY, 7)
    evidence = network.find_evidence(view, EVERYONE, 7)
    assert (evidence.classes, evidence.found.shape) == ([2], (1, 300, 1))
    network.learn(view, choose(y, (5,), odd=True), NOBODY, 7)
    evidence = network.find_evidence(view, EVERYONE, 7)
    assert evidence.classes == [2, 5]
    nodes, labels = choose(y, (2, 5), odd=False)
    answers = np.array([2, 5])[network.combine(evidence)[nodes].argmax(axis=1)]
    assert (answers == labels).mean() > 0.7


def test_a_class_that_was_forgotten_does_not_come_back(graph: Graph) -> None:
    network, view, y = made_network(graph)
    network.learn(view, choose(y, (0, 1, 3), odd=False), NOBODY, "first")
    network.memory.forget_class(1)
    network.learn(view, choose(y, (0, 3), odd=True), NOBODY, "first")
    assert network.tasks["first"].classes == [0, 3]
    assert network.find_evidence(view, EVERYONE, "first").found.shape == (len(BANKS), 300, 2)


def test_validation_nodes_of_other_classes_do_not_count_for_the_task(graph: Graph) -> None:
    _, view, y = made_network(graph)
    networks = [SolvedNetwork(SETTINGS, 12, 0) for _ in range(2)]
    train, val = choose(y, (0, 1), odd=False), choose(y, (0, 1), odd=True)
    more = choose(y, (0, 1, 2), odd=True)
    networks[0].learn(view, train, val, "a")
    networks[1].learn(view, train, more, "a")
    assert networks[0].tasks["a"].certificate == networks[1].tasks["a"].certificate


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_fit_changes_nothing(
    graph: Graph, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    network, view, y = made_network(graph)
    network.learn(view, choose(y, (0, 1), odd=False), NOBODY, "first")
    before = flatten(network.state())
    seen = network.combine(network.find_evidence(view, EVERYONE))

    def fail(*_: Any) -> str:
        raise error

    for name in ("digest", "_learn_task"):
        owner = TaskPart if name == "digest" else SolvedNetwork
        monkeypatch.setattr(owner, name, fail)
        with pytest.raises(error):
            network.learn(view, choose(y, (2, 3), odd=True), NOBODY, "second")
        monkeypatch.undo()
        assert flatten(network.state()) == before
        np.testing.assert_array_equal(network.combine(network.find_evidence(view, EVERYONE)), seen)


def test_no_graph_is_pickled(graph: Graph) -> None:
    network, view, y = made_network(graph)
    network.learn(view, choose(y, (0, 1), odd=False), NOBODY, "first")
    for odd in (False, True):
        network.learn(view, choose(y, (2, 3), odd=odd), NOBODY, "second")
    for task in ("first", "second", None):
        network.find_evidence(view, EVERYONE, task)
    assert isinstance(network.tasks["second"].extractor, Extractors)
    assert b"GraphView" not in pickle.dumps(network)


def test_without_a_task_nothing_is_frozen(graph: Graph) -> None:
    network, view, y = made_network(graph)
    assert network.prototype_counts == {"atomic": 0, "node": 0, "class": 0}
    network.learn(view, choose(y, (0, 1), odd=False), NOBODY)
    assert network.tasks == {}
    assert not network.is_certified("first")
    evidence = network.find_evidence(view, EVERYONE, "first")  # it is not known, so all classes are meant
    assert evidence.classes == [0, 1]


@pytest.mark.parametrize("edges", ["within", "seen"])
def test_stored_numbers_are_those_of_the_state(graph: Graph, edges: Any) -> None:
    stream = TaskStream(graph, edges=edges)
    learner = SolvedHPN(width=30)
    for index in range(2):
        learner.fit_task(stream.task(index))
    assert learner.num_stored == Learner.num_stored.fget(learner)  # type: ignore[attr-defined]
