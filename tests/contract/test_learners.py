"""One suite that every learner must pass. A new learner is covered as soon as it is registered."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph, load_dataset
from hpn.errors import ConfigError, DataError, NotFittedError
from hpn.evaluation import evaluate
from hpn.experiment.run.checkpoint import load_checkpoint, save_checkpoint
from hpn.learners import LEARNERS, Learner, Observer, Progress
from hpn.params import check_space, declared_params
from hpn.streams import GraphView, Query, Step, Stream, TaskStream, TimeStream

NETWORKS = [name for name in LEARNERS if "backbone" in declared_params(LEARNERS[name])]

QUICK: dict[str, dict[str, Any]] = {name: {"epochs": 4} for name in NETWORKS}
"""Settings that make a learner fast enough for tests; the defaults elsewhere."""
QUICK["ewc"] |= {"num_samples": 5}
QUICK["mas"] |= {"num_samples": 5}
QUICK["ridge"] = {"width": 200}
QUICK["probe"] = {"max_hops": 1}

ENOUGH: dict[str, dict[str, Any]] = {name: {"epochs": 15, "lr": 0.02} for name in NETWORKS}
"""Settings that make a learner good where classes are far apart."""
ENOUGH["probe"] = {"max_hops": 3}

STEPS = dict.fromkeys(NETWORKS, 2)
"""The step after which a learner of several steps per task is interrupted."""

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "hpn": {
        "best": {"width": 200},
        "paper": {"preset": "paper", "epochs": 12, "warmup_epochs": 8, "late_epoch": 10},
        "means": {"preset": "paper", "slots": "means", "epochs": 24, "warmup_epochs": 5, "retention": "certified"},
        "pairs": {"preset": "paper", "num_selected": 2, "epochs": 24, "warmup_epochs": 12, "late_epoch": 20},
    }
}
"""What else is covered of a learner that is several in one."""


def variants(name: str) -> dict[str, dict[str, Any]]:
    if "backbone" in declared_params(LEARNERS[name]):
        return {backbone: {"backbone": backbone} for backbone in ("gcn", "gat", "gin")}
    return VARIANTS.get(name, {"plain": {}})


CASES = [
    pytest.param(name, choice, id=f"{name}-{variant}")
    for name in LEARNERS
    for variant, choice in variants(name).items()
]

pytestmark = pytest.mark.parametrize(("name", "choice"), CASES)


def make(name: str, choice: dict[str, Any], seed: int = 0, **params: Any) -> Learner:
    return LEARNERS[name](seed=seed, **{**QUICK.get(name, {}), **choice, **params})


@pytest.fixture(scope="module")
def clear_graph() -> Graph:
    """The small graph with classes so far apart that few epochs tell them."""
    size = {"num_nodes": 300, "num_links": 1200, "num_features": 12, "num_classes": 6}
    return load_dataset("synthetic", **size, noise=0.4, homophily=0.9)


@pytest.fixture(scope="module")
def fitted(graph: Graph) -> Callable[..., Learner]:
    """Learners with seed 0 of a stream's tasks, or its first few; fitted once, and a copy for everybody."""
    kept: dict[str, Learner] = {}

    def give(name: str, choice: dict[str, Any], scenario: Any, tasks: int | None = None) -> Learner:
        key = json.dumps([name, choice, scenario, tasks])
        if key not in kept:
            kept[key] = fit(make(name, choice), TaskStream(graph, scenario=scenario), tasks)
        return copy.deepcopy(kept[key])

    return give


def fit(learner: Learner, stream: Stream, tasks: int | None = None) -> Learner:
    for index in range(len(stream) if tasks is None else tasks):
        learner.fit_task(stream.step(index, with_past=learner.sees_past))
    return learner


def queries(stream: Stream, after: int) -> Iterator[Query]:
    modes = ["oracle"] if stream.scenario == "task" else ["oracle", "global", "grouped"]
    for mode in modes if stream.has_tasks else ["global"]:
        for task in [None] if mode == "global" else range(after + 1):
            yield stream.query(step=task, after=after, evaluate=mode)[0]  # type: ignore[arg-type]


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        items = ((f"{path}/{key}", item) for key, item in value.items())
        return {key: leaf for name, item in items for key, leaf in flatten(item, name).items()}
    return {path: value}


def assert_same_state(first: Any, second: Any) -> None:
    left, right = flatten(first), flatten(second)
    assert left.keys() == right.keys()
    for key, value in left.items():
        if isinstance(value, Tensor):
            assert torch.equal(value, right[key]), key
        else:
            assert value == right[key], key


def test_the_constructor_only_stores_its_arguments(name: str, choice: dict[str, Any]) -> None:
    learner = make(name, choice, seed=3)
    assert vars(learner) == learner.get_params()
    assert learner.get_params()["seed"] == 3
    assert all(p.default is not p.empty for p in declared_params(type(learner)).values())
    assert repr(learner).startswith(f"{type(learner).__name__}(")
    assert learner.state_dict() == {}


def test_every_hyper_parameter_is_documented(name: str, choice: dict[str, Any]) -> None:
    learner = LEARNERS[name].variant(choice)
    text = "".join(owner.__doc__ or "" for owner in learner.__mro__)
    for param in declared_params(learner):
        assert f"        {param}: " in text, f"{param} is not in the docstring"


def test_fit_returns_self_and_leaves_tasks_as_they_are(name: str, choice: dict[str, Any], stream: TaskStream) -> None:
    learner = make(name, choice)
    for index in range(2):
        task = stream.step(index, with_past=learner.sees_past)
        before = copy.deepcopy(task)
        assert learner.fit_task(task) is learner
        for key in ("train", "train_y", "val", "val_y"):
            assert torch.equal(getattr(task, key), getattr(before, key))
        assert torch.equal(task.graph.x, before.graph.x)
        assert torch.equal(task.graph.edge_index, before.graph.edge_index)


def test_fit_neither_reads_nor_moves_the_global_generator(
    name: str, choice: dict[str, Any], stream: TaskStream
) -> None:
    states = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        before = torch.get_rng_state()
        states.append(fit(make(name, choice), stream, tasks=2).state_dict())
        assert torch.equal(torch.get_rng_state(), before)
    assert_same_state(*states)


def test_predict_changes_nothing(
    name: str, choice: dict[str, Any], graph: Graph, fitted: Callable[..., Learner]
) -> None:
    stream = TaskStream(graph, scenario="class")
    learner = fitted(name, choice, "class", tasks=2)
    state, rng = copy.deepcopy(learner.state_dict()), torch.get_rng_state()
    modes = [module.training for module in _modules(learner)]
    for query in queries(stream, after=1):
        before = copy.deepcopy(query)
        first, second = learner.predict(query), learner.predict(query)
        assert torch.equal(first, second)
        assert torch.equal(query.nodes, before.nodes)
        assert torch.equal(query.graph.x, before.graph.x)
        assert torch.equal(query.graph.edge_index, before.graph.edge_index)
    assert_same_state(learner.state_dict(), state)
    assert torch.equal(torch.get_rng_state(), rng)
    assert [module.training for module in _modules(learner)] == modes


def _modules(learner: Learner) -> list[torch.nn.Module]:
    return [value for value in vars(learner).values() if isinstance(value, torch.nn.Module)]


def test_predict_before_fit_raises(name: str, choice: dict[str, Any], stream: TaskStream) -> None:
    query, _ = stream.query(step=0, after=0, evaluate="oracle")
    with pytest.raises(NotFittedError, match="learned no task yet"):
        make(name, choice).predict(query)


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_only_classes_that_were_asked_for(
    name: str, choice: dict[str, Any], graph: Graph, scenario: Any, fitted: Callable[..., Learner]
) -> None:
    stream = TaskStream(graph, scenario=scenario)
    learner = fitted(name, choice, scenario)
    for query in queries(stream, after=len(stream) - 1):
        answers = learner.predict(query)
        assert answers.shape == query.nodes.shape
        assert answers.dtype == torch.int64
        assert set(answers.tolist()) <= set(query.classes)
        scores = learner.predict_scores(query)
        assert scores.shape == (len(query.nodes), len(query.classes))
        assert bool(torch.isfinite(scores).all())
        if query.grouped:
            assert any(set(answers.tolist()) <= set(task) for task in stream.classes)


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_same_seed_same_result(
    name: str, choice: dict[str, Any], graph: Graph, scenario: Any, fitted: Callable[..., Learner]
) -> None:
    again = fit(make(name, choice), TaskStream(graph, scenario=scenario))
    assert_same_state(fitted(name, choice, scenario).state_dict(), again.state_dict())


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_resume_equals_uninterrupted(
    name: str, choice: dict[str, Any], graph: Graph, scenario: Any, tmp_path: Path, fitted: Callable[..., Learner]
) -> None:
    """Save after some step of every task, load into a new learner, go on; and again."""
    resumed = fit_interrupted(name, choice, TaskStream(graph, scenario=scenario), tmp_path)
    assert_same_state(resumed.state_dict(), fitted(name, choice, scenario).state_dict())


def fit_interrupted(name: str, choice: dict[str, Any], stream: Stream, folder: Path) -> Learner:
    class Stop(Exception):
        pass

    class StopAfter(Observer):
        def __init__(self, epoch: int) -> None:
            self.epoch = epoch

        def after_epoch(self, learner: Learner, progress: Progress) -> None:
            if progress.done == self.epoch:
                save_checkpoint(folder, {"learner": learner.state_dict()})
                raise Stop

    learner = make(name, choice)
    for index in range(len(stream)):
        step = stream.step(index, with_past=learner.sees_past)
        with pytest.raises(Stop):
            learner.fit_task(step, StopAfter(7 if "epochs" in choice else STEPS.get(name, 1)))
        saved = load_checkpoint(folder)
        assert saved is not None
        learner = make(name, choice).load_state_dict(saved["learner"])
        if learner.in_progress_:
            learner.fit_task(step)
    return learner


def test_state_is_complete_and_plain(
    name: str, choice: dict[str, Any], graph: Graph, tmp_path: Path, fitted: Callable[..., Learner]
) -> None:
    stream = TaskStream(graph, scenario="class")
    learner = fitted(name, choice, "class", tasks=2)
    for path, leaf in flatten(learner.state_dict()).items():
        assert isinstance(leaf, Tensor) or json.dumps(leaf), path
    save_checkpoint(tmp_path, {"learner": learner.state_dict()})
    saved = load_checkpoint(tmp_path)
    assert saved is not None
    rng = torch.get_rng_state()
    loaded = make(name, choice).load_state_dict(saved["learner"])
    assert torch.equal(torch.get_rng_state(), rng), "loading draws no random numbers"
    for query in queries(stream, after=1):
        assert torch.equal(loaded.predict_scores(query), learner.predict_scores(query))
    assert loaded.num_parameters == learner.num_parameters > 0
    assert loaded.num_stored == learner.num_stored > 0
    fit_on = stream.step(2, with_past=learner.sees_past)
    assert_same_state(learner.fit_task(fit_on).state_dict(), loaded.fit_task(fit_on).state_dict())


@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize("edges", ["within", "seen"])
def test_better_than_chance(name: str, choice: dict[str, Any], clear_graph: Graph, scenario: Any, edges: Any) -> None:
    """On the task just learned, where no method has an excuse; without the task, over all that was seen."""
    stream = TaskStream(clear_graph, scenario=scenario, edges=edges)
    learner = fit(make(name, choice, **ENOUGH.get(name, {})), stream)
    row = evaluate(learner, stream, after=len(stream) - 1, mode="oracle")
    assert row.accuracy[-1] > 60
    for mode in ("global", "grouped") if scenario == "class" else ():
        row = evaluate(learner, stream, after=len(stream) - 1, mode=mode)  # type: ignore[arg-type]
        assert sum(row.accuracy) / len(row.accuracy) > 100 / 6 + 5


@pytest.fixture(scope="module")
def times() -> TimeStream:
    """Classes far apart that come again at each of three times; the last class is new at the second one."""
    size = {"num_nodes": 300, "num_links": 1200, "num_features": 12, "num_classes": 4}
    graph = load_dataset("synthetic", **size, noise=0.4, homophily=0.9, num_times=3)
    assert graph.node_time is not None
    return TimeStream(
        replace(graph, node_time=torch.where(graph.y == 3, graph.node_time.clamp(min=1), graph.node_time))
    )


def test_steps_with_classes_that_come_again_are_learned_or_refused(
    name: str, choice: dict[str, Any], times: TimeStream, tmp_path: Path
) -> None:
    choice = {**choice, **{key: value for key, value in ENOUGH.get(name, {}).items() if key not in choice}}
    learner = make(name, choice)
    if LEARNERS[name].variant(choice).needs_tasks:
        with pytest.raises(ConfigError, match="needs tasks: steps with classes that no other step has"):
            learner.fit_task(times.step(0))
        assert learner.state_dict() == {}
        return
    for after in range(len(times)):
        learner.fit_task(times.step(after, with_past=learner.sees_past))
        state = copy.deepcopy(learner.state_dict())
        row = evaluate(learner, times, after=after, mode="global", ahead=1)
        assert min(row.accuracy[after:]) > 50, "on what was just learned, and on the next nodes before they are"
        assert_same_state(learner.state_dict(), state)
    assert learner.classes_ == (0, 1, 2, 3)
    resumed = fit_interrupted(name, choice, times, tmp_path)
    assert_same_state(resumed.state_dict(), learner.state_dict())


def test_an_answer_does_not_depend_on_what_else_is_asked(
    name: str, choice: dict[str, Any], graph: Graph, fitted: Callable[..., Learner]
) -> None:
    stream = TaskStream(graph, scenario="class")
    learner = fitted(name, choice, "class", tasks=2)
    query, _ = stream.query(step=None, after=1, evaluate="global")
    few = Query(query.graph, query.nodes[:3].flip(0), query.classes)
    assert torch.equal(learner.predict(few), learner.predict(query)[:3].flip(0))


@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize("tasks", ["0;1;2,3,4", "0,1,2;3,4"])
def test_uneven_and_one_class_tasks(name: str, choice: dict[str, Any], graph: Graph, scenario: Any, tasks: str) -> None:
    stream = TaskStream(graph, tasks=tasks, scenario=scenario)
    learner = fit(make(name, choice), stream)
    for task, classes in enumerate(stream.classes):
        query, key = stream.query(step=task, after=len(stream) - 1, evaluate="oracle")
        answers = learner.predict(query)
        assert set(answers.tolist()) <= set(classes)
        if len(classes) == 1:
            assert torch.equal(answers, key.y)


def test_sparse_and_dense_features_agree(name: str, choice: dict[str, Any], graph: Graph) -> None:
    no_dropout = {"dropout": 0.0} if "dropout" in declared_params(LEARNERS[name]) else {}
    sparse = Graph.build(
        "sparse", x=graph.x.to_sparse_csr(), links=graph.edge_index, y=graph.y, class_order=graph.class_order
    )
    scores = []
    for source in (graph, sparse):
        stream = TaskStream(source)
        learner = fit(make(name, choice, **no_dropout), stream, tasks=2)
        query, _ = stream.query(step=1, after=1, evaluate="oracle")
        scores.append(learner.predict_scores(query).exp())
    assert torch.allclose(*scores, atol=0.02)


def test_graphs_without_edges_and_tasks_without_validation_nodes(
    name: str, choice: dict[str, Any], clear_graph: Graph
) -> None:
    task = TaskStream(clear_graph).step(0)
    empty = torch.zeros(0, dtype=torch.long)
    bare = GraphView(task.graph.x, torch.zeros(2, 0, dtype=torch.long))
    lonely = Step(0, task.classes, "task", bare, task.train, task.train_y, empty, empty)
    learner = make(name, choice, **ENOUGH.get(name, {})).fit_task(lonely)
    answers = learner.predict(Query(bare, task.val, task.classes, task=0))
    assert float((answers == task.val_y).float().mean()) > 0.5


def test_tasks_must_come_in_order_and_be_new(name: str, choice: dict[str, Any], stream: TaskStream) -> None:
    learner = make(name, choice)
    with pytest.raises(ConfigError, match="expected task 0 next, got task 1"):
        learner.fit_task(stream.step(1, with_past=learner.sees_past))
    fit(learner, stream, tasks=1)
    state = copy.deepcopy(learner.state_dict())
    first = stream.step(0)
    again = Step(1, first.classes, "task", first.graph, first.train, first.train_y, first.val, first.val_y)
    with pytest.raises(ConfigError, match="repeats class"):
        learner.fit_task(again)
    assert_same_state(learner.state_dict(), state)


def test_other_features_are_refused(name: str, choice: dict[str, Any], stream: TaskStream) -> None:
    learner = fit(make(name, choice), stream, tasks=1)
    query, _ = stream.query(step=0, after=0, evaluate="oracle")
    narrow = Query(GraphView(query.graph.x[:, :3], query.graph.edge_index), query.nodes, query.classes, 0)
    with pytest.raises(DataError, match="3 features, but 12 were learned from"):
        learner.predict(narrow)


def test_values_out_of_range_are_refused_before_anything_is_learned(
    name: str, choice: dict[str, Any], stream: TaskStream
) -> None:
    declared = declared_params(LEARNERS[name].variant(choice))
    bounded = [key for key in ("epochs", "max_hops", "max_iter", "width") if key in declared]
    assert bounded, "a learner with no bounded hyper-parameter needs a case of its own here"
    for key in bounded:
        learner = make(name, choice, **{key: -1})
        with pytest.raises(ConfigError, match=f"{key} = -1"):
            learner.fit_task(stream.step(0))
        assert learner.state_dict() == {}


def test_the_search_space_can_be_searched(name: str, choice: dict[str, Any]) -> None:
    check_space(LEARNERS[name].variant(choice))


@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize("edges", ["within", "seen"])
def test_mini_batches_with_few_neighbours(
    name: str, choice: dict[str, Any], graph: Graph, scenario: Any, edges: Any
) -> None:
    """Only classes that were asked for, and a run resumed in a later task equals the uninterrupted one."""
    if choice != {"backbone": "gcn"}:
        pytest.skip("networks have mini-batches, and one backbone is enough")
    small = {**choice, "epochs": 2, "batch_size": 16, "num_neighbors": 3}
    stream = TaskStream(graph, scenario=scenario, edges=edges)

    class Stop(Exception):
        pass

    class StopAtOnce(Observer):
        def after_epoch(self, learner: Learner, progress: Progress) -> None:
            self.state = copy.deepcopy(learner.state_dict())
            raise Stop

    whole = fit(make(name, small), stream, tasks=1)
    learner = make(name, small).load_state_dict(copy.deepcopy(whole.state_dict()))
    task, stop = stream.step(1, with_past=learner.sees_past), StopAtOnce()
    whole.fit_task(task)
    with pytest.raises(Stop):
        learner.fit_task(task, stop)
    learner = make(name, small).load_state_dict(stop.state).fit_task(task)
    assert_same_state(learner.state_dict(), whole.state_dict())
    for query in queries(stream, after=1):
        assert set(learner.predict(query).tolist()) <= set(query.classes)
        assert bool(torch.isfinite(learner.predict_scores(query)).all())
