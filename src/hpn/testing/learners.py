"""The contract of a learner; every learner of this package keeps it.

:class:`hpn.Learner` states what is demanded; each function below checks one part of it on small synthetic graphs.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import SkipTest, mock

import torch
from torch import Tensor

from hpn.datasets import Graph, load_dataset
from hpn.errors import ConfigError, DataError, NotFittedError, find_place
from hpn.evaluation import evaluate
from hpn.experiment.run.checkpoint import load_checkpoint, save_checkpoint
from hpn.learners import Learner, Observer, Progress, State
from hpn.learners.finding import find_learner
from hpn.params import check_space, declared_params, read_meanings, resolve_params
from hpn.streams import GraphView, Query, Step, Stream, TaskStream, TimeStream
from hpn.testing.suite import Check, Verdict, expect, expect_error, find_checks, run_checks

SCENARIOS: tuple[Any, ...] = ("task", "class")
EDGES: tuple[Any, ...] = ("within", "seen")
SIZE: dict[str, Any] = {"num_nodes": 300, "num_links": 1200, "num_features": 12}


class LearnerCase:
    """A learner with hyper-parameters, the graphs it is checked on, and what it has learned of them.

    Args:
        kind: The class of the learner.
        params: Hyper-parameters.
        accurate: Hyper-parameters of the checks that demand some accuracy, where those differ.
    """

    def __init__(
        self, kind: type[Learner], params: Mapping[str, Any], accurate: Mapping[str, Any] | None = None
    ) -> None:
        self.kind, self.params, self.accurate = kind, dict(params), {**params, **(accurate or {})}
        self.variant = kind.variant(self.params)
        self.declared = declared_params(self.variant)
        self._fitted: dict[tuple[str, int | None], Learner] = {}

    @cached_property
    def graph(self) -> Graph:
        """A small graph of six classes that can be learned."""
        return load_dataset("synthetic", **SIZE, num_classes=6)

    @cached_property
    def clear_graph(self) -> Graph:
        """The same with classes so far apart that a few epochs separate them."""
        return load_dataset("synthetic", **SIZE, num_classes=6, noise=0.4, homophily=0.9)

    @cached_property
    def times(self) -> TimeStream:
        """Classes far apart that come again at each of three times; the last one is new at the second."""
        graph = load_dataset("synthetic", **SIZE, num_classes=4, noise=0.4, homophily=0.9, num_times=3)
        time = torch.zeros_like(graph.y) if graph.node_time is None else graph.node_time
        return TimeStream(replace(graph, node_time=torch.where(graph.y == 3, time.clamp(min=1), time)))

    def make(self, **changes: Any) -> Learner:
        """A new learner with some hyper-parameters changed."""
        return self.kind(**{"seed": 0, **self.params, **changes})

    def fit(self, stream: Stream, tasks: int | None = None, **changes: Any) -> Learner:
        """A new learner that has learned a stream, or its first tasks."""
        learner = self.make(**changes)
        for index in range(len(stream) if tasks is None else tasks):
            learner.fit_task(stream.step(index, with_past=learner.sees_past))
        return learner

    def fitted(self, scenario: Any, tasks: int | None = None) -> Learner:
        """A learner of the small graph's tasks; fitted once, and a copy for every check."""
        key = (scenario, tasks)
        if key not in self._fitted:
            self._fitted[key] = self.fit(TaskStream(self.graph, scenario=scenario), tasks)
        return copy.deepcopy(self._fitted[key])

    def fit_interrupted(self, stream: Stream, **changes: Any) -> Learner:
        """As :meth:`fit`, but each step is interrupted half-way, saved, loaded by a new learner and resumed."""
        learner = self.make(**changes)
        for index in range(len(stream)):
            step, stop = stream.step(index, with_past=learner.sees_past), _StopHalfway()
            with contextlib.suppress(_StopError):
                learner.fit_task(step, stop)
            learner = self.make(**changes).load_state_dict(_through_disk(stop.state))
            if learner.in_progress_:
                learner.fit_task(step)
        return learner


class _StopError(Exception):
    """Interrupts a fit."""


class _StopHalfway(Observer):
    state: State

    def after_epoch(self, learner: Learner, progress: Progress) -> None:
        if 2 * progress.done >= progress.total:
            self.state = copy.deepcopy(learner.state_dict())
            raise _StopError


def learner_checks(learner: type[Learner] | str, /, **params: Any) -> list[Check]:
    """The checks of a learner, to be called one by one, such as by ``pytest.mark.parametrize``.

    Args:
        learner: The class, or what ``--method`` takes.
        params: Hyper-parameters, such as few epochs, so that checks are quick; defaults elsewhere.

    Raises:
        ConfigError: If there is no such learner, or it has no such hyper-parameter.
    """
    name, kind = find_learner(learner)
    given = resolve_params(kind, params, owner=name)
    return find_checks(__name__, LearnerCase(kind, {key: given[key] for key in params}))


def check_learner(
    learner: type[Learner] | str, /, *, raise_on_failure: bool = False, **params: Any
) -> dict[str, Verdict]:
    """Check that a learner follows the contract of :class:`hpn.Learner`; one verdict per check, by name.

    Args:
        learner: The class, or what ``--method`` takes.
        raise_on_failure: Whether the first failure is raised.
        params: Hyper-parameters, such as few epochs, so that checks are quick; defaults elsewhere.

    Raises:
        ConfigError: If there is no such learner, or it has no such hyper-parameter.
        ContractError: At the first failure, if that is requested.

    Example:
        >>> verdicts = check_learner("ncm")
        >>> verdicts["predict_changes_nothing"].outcome
        'passed'
    """
    return run_checks(learner_checks(learner, **params), raise_on_failure=raise_on_failure)


def constructor_only_stores_its_arguments(case: LearnerCase) -> None:
    """The constructor is keyword-only, has defaults, and only stores its arguments."""
    learner = case.make(seed=3)
    missing = [name for name in case.declared if name not in vars(learner)]
    expect(not missing, f"the constructor does not store {', '.join(missing)}")
    more = [name for name in vars(learner) if name not in case.declared]
    expect(not more, f"the constructor sets {', '.join(more)}, which are not hyper-parameters; set them in _learn")
    for name, value in {**case.params, "seed": 3}.items():
        found = getattr(learner, name, None)
        expect(found is value or found == value, f"the constructor got {name}={value!r} and stored {found!r}")
    required = [name for name, param in case.declared.items() if param.default is param.empty]
    expect(not required, f"{', '.join(required)} has no default")
    text = repr(learner)
    expect(text.startswith(f"{type(learner).__name__}("), f"repr() should show the class and its arguments, got {text}")
    expect(learner.state_dict() == {}, "state_dict() of a new learner should be empty")


def hyper_parameters_are_documented(case: LearnerCase) -> None:
    """Every hyper-parameter is explained in the Args of the class docstring."""
    meanings = read_meanings(case.variant)
    missing = [name for name in case.declared if not meanings.get(name)]
    expect(not missing, f"not in the Args of the docstring: {', '.join(missing)}")


def fit_returns_self_and_changes_no_task(case: LearnerCase) -> None:
    """``fit_task`` returns the learner, and leaves the task as it was."""
    stream, learner = TaskStream(case.graph), case.make()
    for index in range(2):
        step = stream.step(index, with_past=learner.sees_past)
        before = copy.deepcopy(step)
        expect(learner.fit_task(step) is learner, "fit_task should return the learner itself")
        _expect_unchanged(step, before, ("train", "train_y", "val", "val_y"), "fit_task")


def fit_uses_its_own_generator(case: LearnerCase) -> None:
    """Learning neither reads nor moves PyTorch's global random generator."""
    stream, states = TaskStream(case.graph), []
    for seed in (1, 2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            states.append(case.fit(stream, tasks=2).state_dict())
            expect(torch.equal(torch.get_rng_state(), before), "fit_task moves PyTorch's global random generator")
    _expect_same_state(states[0], states[1], "two fits under different global seeds")


def predict_changes_nothing(case: LearnerCase) -> None:
    """``predict`` changes no state, random generator, mode or query, and repeats its answer."""
    learner, stream = case.fitted("class", tasks=2), TaskStream(case.graph, scenario="class")
    state, rng = copy.deepcopy(learner.state_dict()), torch.get_rng_state()
    modules = [value for value in vars(learner).values() if isinstance(value, torch.nn.Module)]
    modes = [module.training for module in modules]
    for query in _queries(stream, after=1):
        before = copy.deepcopy(query)
        same = torch.equal(learner.predict(query), learner.predict(query))
        expect(same, "predict gives different answers to the same query")
        _expect_unchanged(query, before, ("nodes",), "predict")
    _expect_same_state(learner.state_dict(), state, "the state before and after predict")
    expect(torch.equal(torch.get_rng_state(), rng), "predict moves PyTorch's global random generator")
    expect([module.training for module in modules] == modes, "predict changes the mode (train or eval) of a network")


def predict_before_fit_raises(case: LearnerCase) -> None:
    """``predict`` before the first task raises ``NotFittedError``."""
    query, _ = TaskStream(case.graph).query(step=0, after=0, evaluate="oracle")
    with expect_error(NotFittedError, "learned no task yet", "predict before fit_task"):
        case.make().predict(query)


def predicts_only_classes_of_the_query(case: LearnerCase) -> None:
    """Predictions are among the classes of the query, and scores are finite and of the right shape."""
    for scenario in SCENARIOS:
        stream, learner = TaskStream(case.graph, scenario=scenario), case.fitted(scenario)
        for query in _queries(stream, after=len(stream) - 1):
            _expect_valid(learner, query)
            found = set(learner.predict(query).tolist())
            if query.grouped:
                in_one = any(found <= set(task) for task in stream.classes)
                expect(in_one, f"a group of one task got classes of several: {sorted(found)}")


def same_seed_gives_the_same_result(case: LearnerCase) -> None:
    """Two learners with the same seed learn the same, bit for bit."""
    for scenario in SCENARIOS:
        again = case.fit(TaskStream(case.graph, scenario=scenario))
        _expect_same_state(case.fitted(scenario).state_dict(), again.state_dict(), "two fits with the same seed")


def resuming_equals_an_uninterrupted_fit(case: LearnerCase) -> None:
    """A fit that is interrupted in every task, saved, loaded and resumed gives the same, bit for bit."""
    for scenario in SCENARIOS:
        resumed = case.fit_interrupted(TaskStream(case.graph, scenario=scenario))
        whole = case.fitted(scenario)
        _expect_same_state(resumed.state_dict(), whole.state_dict(), "an interrupted and an uninterrupted fit")


def state_is_complete_and_plain(case: LearnerCase) -> None:
    """``state_dict`` holds all that is learned as tensors and JSON, and a loaded learner continues alike."""
    learner, stream = case.fitted("class", tasks=2), TaskStream(case.graph, scenario="class")
    for path, leaf in _flatten(learner.state_dict()).items():
        try:
            is_plain = isinstance(leaf, Tensor) or bool(json.dumps(leaf))
        except TypeError:
            is_plain = False
        expect(is_plain, f"state_dict has {type(leaf).__name__} at {path}; use tensors, numbers, text, lists of these")
    rng = torch.get_rng_state()
    loaded = case.make().load_state_dict(_through_disk(learner.state_dict()))
    expect(torch.equal(torch.get_rng_state(), rng), "load_state_dict moves PyTorch's global random generator")
    for query in _queries(stream, after=1):
        same = torch.equal(loaded.predict_scores(query), learner.predict_scores(query))
        expect(same, "a loaded learner scores differently: some of what it learned is not in its state")
    for name in ("num_parameters", "num_stored"):
        one, other = getattr(learner, name), getattr(loaded, name)
        expect(one == other, f"{name} is {one} before and {other} after saving and loading")
        expect(one > 0, f"{name} is {one} after two tasks; what is learned should be tensors in state_dict")
    step = stream.step(2, with_past=learner.sees_past)
    states = learner.fit_task(step).state_dict(), loaded.fit_task(step).state_dict()
    _expect_same_state(*states, "the next task, learned by the learner and by its loaded copy")


def is_better_than_chance(case: LearnerCase) -> None:
    """On well separated classes, the last task is learned, and answers without a task beat guessing."""
    for scenario, edges in product(SCENARIOS, EDGES):
        stream = TaskStream(case.clear_graph, scenario=scenario, edges=edges)
        learner, last = case.fit(stream, **case.accurate), len(stream) - 1
        accuracy = evaluate(learner, stream, after=last, mode="oracle").accuracy[-1]
        where = f"scenario {scenario}, edges {edges}"
        expect(accuracy > 60, f"{accuracy:.0f} % on the task learned last, of two classes ({where}; more epochs?)")
        modes: tuple[Any, ...] = ("global", "grouped") if scenario == "class" else ()
        for mode in modes:
            row = evaluate(learner, stream, after=last, mode=mode).accuracy
            mean = sum(row) / len(row)
            expect(mean > 100 / 6 + 5, f"{mean:.0f} % over six classes ({where}, evaluate {mode}; more epochs?)")


def repeated_classes_are_learned_or_refused(case: LearnerCase) -> None:
    """Steps whose classes come again are learned, or refused at once if ``needs_tasks`` is declared."""
    times, learner = case.times, case.make(**case.accurate)
    if case.variant.needs_tasks:
        with expect_error(ConfigError, "needs tasks", "a step that is not a task"):
            learner.fit_task(times.step(0))
        expect(learner.state_dict() == {}, "a refused step leaves state behind")
        return
    for after in range(len(times)):
        learner.fit_task(times.step(after, with_past=learner.sees_past))
        state = copy.deepcopy(learner.state_dict())
        accuracy = min(evaluate(learner, times, after=after, mode="global", ahead=1).accuracy[after:])
        expect(accuracy > 50, f"{accuracy:.0f} % on the nodes of step {after} or of the next one (more epochs?)")
        _expect_same_state(learner.state_dict(), state, "the state before and after an evaluation")
    expect(learner.classes_ == (0, 1, 2, 3), f"classes_ should be 0, 1, 2, 3, got {learner.classes_}")
    resumed = case.fit_interrupted(times, **case.accurate)
    _expect_same_state(resumed.state_dict(), learner.state_dict(), "an interrupted and an uninterrupted fit")


def nodes_are_answered_independently(case: LearnerCase) -> None:
    """The prediction for a node does not depend on which other nodes are in the query."""
    learner, stream = case.fitted("class", tasks=2), TaskStream(case.graph, scenario="class")
    query, _ = stream.query(step=None, after=1, evaluate="global")
    few = Query(query.graph, query.nodes[:3].flip(0), query.classes)
    same = torch.equal(learner.predict(few), learner.predict(query)[:3].flip(0))
    expect(same, "three nodes alone get other predictions than among all nodes")


def uneven_tasks_are_learned(case: LearnerCase) -> None:
    """Tasks may have different numbers of classes, also one only."""
    for scenario in SCENARIOS:
        for tasks in ("0;1;2,3,4", "0,1,2;3,4"):
            stream = TaskStream(case.graph, tasks=tasks, scenario=scenario)
            learner = case.fit(stream)
            for task, classes in enumerate(stream.classes):
                query, _ = stream.query(step=task, after=len(stream) - 1, evaluate="oracle")
                found = set(learner.predict(query).tolist())
                expect(found <= set(classes), f"tasks {tasks}: task {task} has classes {classes}, got {sorted(found)}")


def sparse_and_dense_features_agree(case: LearnerCase) -> None:
    """The same features give the same probabilities, sparse or dense."""
    fixed = {"dropout": 0.0} if "dropout" in case.declared else {}
    graph, scores = case.graph, []
    parts: dict[str, Any] = {"links": graph.edge_index, "y": graph.y, "class_order": graph.class_order}
    for source in (graph, Graph.build("sparse", x=graph.x.to_sparse_csr(), **parts)):
        stream = TaskStream(source)
        query, _ = stream.query(step=1, after=1, evaluate="oracle")
        scores.append(case.fit(stream, tasks=2, **fixed).predict_scores(query).exp())
    gap = float((scores[0] - scores[1]).abs().max())
    expect(gap <= 0.02, f"probabilities differ by {gap:.2f} between sparse and dense features")


def edges_and_validation_nodes_may_be_missing(case: LearnerCase) -> None:
    """A task without edges and without validation nodes is learned."""
    task = TaskStream(case.clear_graph).step(0)
    empty = torch.zeros(0, dtype=torch.long)
    bare = GraphView(task.graph.x, torch.zeros(2, 0, dtype=torch.long))
    learner = case.make(**case.accurate)
    learner.fit_task(Step(0, task.classes, "task", bare, task.train, task.train_y, empty, empty))
    answers = learner.predict(Query(bare, task.val, task.classes, task=0))
    accuracy = 100 * float((answers == task.val_y).float().mean())
    expect(accuracy > 50, f"{accuracy:.0f} % of two classes without edges and validation nodes")


def tasks_must_come_in_order_and_be_new(case: LearnerCase) -> None:
    """A task out of order, or with a class of an earlier task, is refused and changes nothing."""
    stream, learner = TaskStream(case.graph), case.make()
    with expect_error(ConfigError, "expected task 0 next, got task 1", "task 1 before task 0"):
        learner.fit_task(stream.step(1, with_past=learner.sees_past))
    learner = case.fit(stream, tasks=1)
    state, first = copy.deepcopy(learner.state_dict()), stream.step(0)
    with expect_error(ConfigError, "repeats class", "a task with classes of an earlier one"):
        learner.fit_task(replace(first, index=1))
    _expect_same_state(learner.state_dict(), state, "the state before and after a refused task")


def other_features_are_refused(case: LearnerCase) -> None:
    """A query whose nodes have another number of features is refused."""
    stream = TaskStream(case.graph)
    query, _ = stream.query(step=0, after=0, evaluate="oracle")
    narrow = Query(GraphView(query.graph.x[:, :3], query.graph.edge_index), query.nodes, query.classes, 0)
    with expect_error(DataError, "3 features, but 12 were learned from", "a query of nodes with 3 of 12 features"):
        case.fit(stream, tasks=1).predict(narrow)


def values_out_of_range_are_refused(case: LearnerCase) -> None:
    """A hyper-parameter out of its declared range is refused before anything is learned."""
    bounded = [name for name in case.declared if name != "seed" and _is_refused(case.variant, name, -1)]
    if not bounded:
        raise SkipTest("no number has a declared range, such as Annotated[int, Field(ge=1)]")
    step = TaskStream(case.graph).step(0)
    for name in bounded:
        kept: list[Learner] = []
        with expect_error(ConfigError, f"{name} = -1", f"fit_task with {name}=-1"):
            kept.append(case.make(**{name: -1}))
            kept[0].fit_task(step)
        expect(not kept or kept[0].state_dict() == {}, f"fit_task with {name}=-1 leaves state behind")


def search_space_can_be_searched(case: LearnerCase) -> None:
    """Values in ``search_space`` are hyper-parameters in their ranges."""
    try:
        check_space(case.variant)
    except ConfigError as error:
        expect(False, str(error))


def mini_batches_are_learned_and_resumed(case: LearnerCase) -> None:
    """With mini-batches and few neighbours, predictions are valid and a resumed fit is the same."""
    if not {"batch_size", "num_neighbors"} <= set(case.declared):
        raise SkipTest("it has no batch_size and num_neighbors")
    small = {"batch_size": 16, "num_neighbors": 3, **({"epochs": 2} if "epochs" in case.declared else {})}
    for scenario, edges in product(SCENARIOS, EDGES):
        stream = TaskStream(case.graph, scenario=scenario, edges=edges)
        whole, resumed = case.fit(stream, **small), case.fit_interrupted(stream, **small)
        _expect_same_state(resumed.state_dict(), whole.state_dict(), "a resumed and an uninterrupted fit")
        for query in _queries(stream, after=len(stream) - 1):
            _expect_valid(whole, query)


def tensors_are_made_on_its_device(case: LearnerCase) -> None:
    """Every tensor is made on a named device, and moving to another one changes nothing.

    No accelerator is needed: with ``meta`` as PyTorch's default device, a tensor that is made without naming
    a device is empty, and whatever is computed from it fails.
    """
    stream = TaskStream(case.graph, scenario="class")
    usual = _outcome(case.make(), stream, torch.device("cpu"), moves=False)
    begin: Any = torch.optim.Adam._init_group

    def begin_on_the_cpu(*args: Any) -> Any:
        with torch.device("cpu"):  # Adam counts its steps in a tensor on the default device
            return begin(*args)

    try:
        with mock.patch.object(torch.optim.Adam, "_init_group", begin_on_the_cpu):
            found = _outcome(case.make(), stream, torch.device("meta"), moves=True)
    except (NotImplementedError, RuntimeError) as error:
        why = f"{find_place(error)}: {' '.join(str(error).split())}"
        expect(False, f"a tensor is made without device=self.device ({why})")
    expect({str(tensor.device) for tensor in found} == {"cpu"}, "answers and state_dict should be on the CPU")
    same = len(usual) == len(found) and all(map(torch.equal, usual, found))
    expect(same, "moving to another device changes what is learned")


def _queries(stream: Stream, after: int) -> Iterator[Query]:
    modes: tuple[Any, ...] = ("oracle",) if stream.scenario == "task" else ("oracle", "global", "grouped")
    for mode in modes:
        for query, _ in stream.queries(after=after, evaluate=mode):
            yield query


def _expect_valid(learner: Learner, query: Query) -> None:
    answers, scores = learner.predict(query), learner.predict_scores(query)
    foreign = set(answers.tolist()) - set(query.classes)
    expect(not foreign, f"predict gives {sorted(foreign)}, the classes of the query are {query.classes}")
    expect(answers.shape == query.nodes.shape, f"predict gives {len(answers)} answers to {len(query.nodes)} nodes")
    expected = (len(query.nodes), len(query.classes))
    expect(tuple(scores.shape) == expected, f"scores have shape {tuple(scores.shape)}, expected {expected}")
    expect(bool(torch.isfinite(scores).all()), "scores are not finite")
    sums = scores.detach().exp().sum(dim=1)
    worst = float(sums[(sums - 1).abs().argmax()])
    expect(abs(worst - 1) < 1e-3, f"scores are not log-probabilities: those of a node sum to {worst:.3g} after exp")


def _expect_unchanged(thing: Step | Query, before: Step | Query, names: tuple[str, ...], what: str) -> None:
    for name in names:
        expect(torch.equal(getattr(thing, name), getattr(before, name)), f"{what} changes {name}")
    for name in ("x", "edge_index"):
        same = torch.equal(getattr(thing.graph, name), getattr(before.graph, name))
        expect(same, f"{what} changes {name} of the graph")


def _expect_same_state(one: State, other: State, what: str) -> None:
    left, right = _flatten(one), _flatten(other)
    changed = left.keys() ^ right.keys()
    for key in left.keys() & right.keys():
        a, b = left[key], right[key]
        same = torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a == b
        changed |= set() if same else {key}
    expect(not changed, f"{what} differ in {', '.join(sorted(changed)[:3])} of state_dict")


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    value = dict(enumerate(value)) if isinstance(value, list) else value
    if not isinstance(value, dict):
        return {path: value}
    return {k: leaf for key, item in value.items() for k, leaf in _flatten(item, f"{path}/{key}".lstrip("/")).items()}


def _through_disk(state: State) -> State:
    with TemporaryDirectory() as folder:
        save_checkpoint(Path(folder), {"learner": state})
        saved = load_checkpoint(Path(folder))
    return dict(saved["learner"]) if saved else {}


def _is_refused(kind: type[Learner], name: str, value: Any) -> bool:
    default = declared_params(kind)[name].default
    if isinstance(default, bool) or not isinstance(default, int | float):
        return False
    try:
        resolve_params(kind, {name: value}, owner=kind.__name__)
    except ConfigError:
        return True
    return False


def _outcome(learner: Learner, stream: Stream, default: torch.device, *, moves: bool) -> list[Tensor]:
    """All tensors that two tasks lead to while ``default`` is PyTorch's default device."""
    steps = [stream.step(index, with_past=learner.sees_past) for index in range(2)]
    query, _ = stream.query(step=None, after=1, evaluate="global")
    with default:
        for step in steps:
            learner.fit_task(step)
            if moves:  # to another device, as far as a learner can see
                learner.to(torch.device("cpu", step.index))
        leaves = _flatten(learner.state_dict()).values()
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        return [learner.predict_scores(query), learner.predict(query), *tensors]
