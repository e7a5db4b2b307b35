"""The estimator: scikit-learn's conventions, tasks, what can be taken back, safety, and explanations."""

from __future__ import annotations

import copy
import importlib
import pickle
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
import torch
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

import hpn
from hpn.datasets import Graph, load_dataset
from hpn.errors import ConfigError, DataError, NotFittedError
from hpn.model.classifier import HPNClassifier
from hpn.model.node_classifier import NodeClassifier

EVERY = np.arange(300)
NAMES = np.array(["fig", "apple", "kiwi", "date", "plum", "lime"])
DEFAULTS = {"width": None, "strength": 0.1, "balance": 0.75, "threshold": 0.003, "random_state": 0}


def make(**params: Any) -> HPNClassifier:
    return HPNClassifier(**{"width": 64, **params})


def nodes_of(graph: Graph, *classes: int, test: bool = False) -> np.ndarray:
    """Nodes to learn from (the first 200) or to predict, of some classes."""
    rows = EVERY[200:] if test else EVERY[:200]
    return rows[np.isin(graph.y.numpy()[rows], classes)]


def numbers(graph: Graph, nodes: Any) -> np.ndarray:
    """Labels as numbers, which most tests learn; by default they are names."""
    return np.asarray(graph.y.numpy()[nodes])


def learn(
    graph: Graph, *classes: int, model: HPNClassifier | None = None, task: Any = None, **more: Any
) -> HPNClassifier:
    nodes = nodes_of(graph, *classes)
    return (model or make()).partial_fit(graph, nodes, numbers(graph, nodes), task=task, **more)


def answers(model: HPNClassifier, graph: Any, task: Any = None) -> bytes:
    return model.predict_proba(graph, np.arange(graph.x.shape[0]), task).tobytes()


def saved(model: HPNClassifier) -> dict[str, bytes]:
    """All there is to know of a model."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def reload(model: HPNClassifier) -> HPNClassifier:
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return HPNClassifier.load(folder)


def shrunken(graph: Graph, num_nodes: int = 150) -> Any:
    """The graph before the later nodes arrived."""
    links = graph.edge_index.numpy()
    return SimpleNamespace(x=graph.x.numpy()[:num_nodes], edge_index=links[:, (links < num_nodes).all(axis=0)])


def elsewhere(graph: Graph) -> Any:
    """The same nodes under other ids."""
    return SimpleNamespace(x=graph.x, edge_index=graph.edge_index, n_id=EVERY + 10**6)


@pytest.fixture(scope="module")
def plain(graph: Graph) -> HPNClassifier:
    """All classes without a task; not to be fitted any further."""
    return learn(graph, *range(6))


@pytest.fixture(scope="module")
def tasks(graph: Graph) -> HPNClassifier:
    """Every kind of task, with one fit without one in between; not to be fitted any further."""
    model = learn(graph, 0, 1, task="own")
    learn(graph, 2, model=model, task="pooled")
    learn(graph, 5, model=model)
    learn(graph, 3, model=model, task="pooled")
    return learn(graph, 4, model=model, task=7)


TASKS = {"own": [0, 1], "pooled": [2, 3], 7: [4]}


@pytest.fixture(scope="module")
def digits() -> Graph:
    return load_dataset("digits")


# ---------------------------------------------------------------------- conventions of scikit-learn


def test_parameters_can_be_read_set_and_cloned(graph: Graph) -> None:
    model = HPNClassifier(width=70, random_state=3)
    assert model.get_params() == {**DEFAULTS, "width": 70, "random_state": 3}
    assert model.set_params(width=64).width == 64
    copied = clone(learn(graph, 0, 1, model=model))
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "network_")
    assert repr(copied) == "HPNClassifier(random_state=3, width=64)"
    assert is_classifier(copied)
    assert hpn.HPNClassifier is HPNClassifier


def test_the_constructor_only_stores() -> None:
    odd = {"width": -5, "strength": "x", "balance": None, "threshold": [], "random_state": "many"}
    assert vars(HPNClassifier(**odd)) == odd  # type: ignore[arg-type]


NEEDS_A_FIT = ("predict", "predict_proba", "transform", "explain", "score", "unlearn", "refresh", "is_certified")
RESULTS = ("classes_", "tasks_", "counts_", "n_features_in_", "prototype_counts_", "prototype_bounds_")


@pytest.mark.parametrize("name", [*NEEDS_A_FIT, "merge", "forget_class", "known_classes", "save"])
def test_what_needs_a_fit_is_an_error_of_both_kinds_before(name: str, graph: Graph, plain: HPNClassifier) -> None:
    given = {"merge": [plain], "forget_class": [0], "known_classes": [], "save": ["nowhere"], "is_certified": ["a"]}
    model = make()
    with pytest.raises(NotFittedError, match="this model is not fitted yet; call fit or") as caught:
        getattr(model, name)(*given.get(name, [graph, [0]]))
    assert isinstance(caught.value, sklearn.exceptions.NotFittedError)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(model)
    assert vars(model) == vars(make())
    assert not Path("nowhere").exists()
    assert not any(hasattr(model, result) for result in RESULTS)
    assert all(hasattr(plain, result) for result in RESULTS)
    check_is_fitted(plain)


def test_fit_starts_over_and_partial_fit_does_not(graph: Graph) -> None:
    model, nodes = learn(graph, 0, 1, task="a"), nodes_of(graph, 2, 3)
    assert model.partial_fit(graph, nodes_of(graph, 4), numbers(graph, nodes_of(graph, 4))) is model
    assert model.classes_.tolist() == [0, 1, 4]
    assert model.fit(graph, nodes, numbers(graph, nodes)) is model
    assert (model.classes_.tolist(), model.tasks_) == ([2, 3], [])
    assert saved(model) == saved(learn(graph, 2, 3))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("width", [0, -1, 1.5, "x", [64]]),
        ("strength", [0, -1, "x", float("inf"), float("nan")]),
        ("balance", [-0.1, 1.1, "x", float("nan")]),
        ("threshold", [0, -1, 1.5, "x"]),
        ("random_state", [1.5, "x", np.random.default_rng(0)]),
        *((name, [None]) for name in ("strength", "balance", "threshold")),
    ],
)
def test_a_parameter_out_of_range_is_named(name: str, values: list[Any], graph: Graph) -> None:
    for value in values:
        model = make(**{name: value})
        with pytest.raises(ConfigError, match=rf"^model: {name} = .*: ") as caught:
            learn(graph, 0, 1, model=model)
        assert "atomic" not in str(caught.value)
        assert not hasattr(model, "network_")


@pytest.mark.parametrize("width", [2, 7])
def test_the_narrowest_widths(width: int, graph: Graph) -> None:
    model = learn(graph, *range(6), model=make(width=width))
    assert model.score(graph, EVERY[200:], numbers(graph, EVERY[200:])) > 0.5  # a sixth by chance
    assert len(model.explain(graph, EVERY[:3])) == 3


@pytest.mark.parametrize(
    "change", [{"width": 65}, {"strength": 1}, {"balance": 0}, {"threshold": 0.1}, {"random_state": 1}]
)
def test_a_parameter_must_not_change_between_fits(change: dict[str, Any], graph: Graph) -> None:
    model, nodes = learn(graph, 0, 1), nodes_of(graph, 2, 3)
    before, old = saved(model), {name: getattr(model, name) for name in change}
    with pytest.raises(ConfigError, match=r"^a parameter was changed after the first fit; call fit"):
        learn(graph, 2, 3, model=model.set_params(**change))
    assert saved(model.set_params(**old)) == before
    assert learn(graph, 2, model=model).classes_.tolist() == [0, 1, 2]
    assert saved(model.set_params(**change).fit(graph, nodes)) == saved(make(**change).fit(graph, nodes))
    assert answers(model, graph) != answers(make().fit(graph, nodes), graph), "it has an effect"


def test_a_random_state_gives_the_same_every_time(graph: Graph) -> None:
    fixed = [saved(learn(graph, 0, 1, model=make(random_state=state))) for state in (5, 5, 6)]
    assert fixed[0] == fixed[1] != fixed[2]
    random = [learn(graph, 0, 1, model=make(random_state=None)) for _ in range(2)]
    assert answers(random[0], graph) != answers(random[1], graph)
    first = random[0].network_.memory.layer.seed
    learn(graph, 2, 3, model=random[0])
    assert random[0].network_.memory.layer.seed == first
    assert random[0].random_state is None
    assert learn(graph, 4, model=reload(random[0])).classes_.tolist() == [0, 1, 2, 3, 4]


def test_random_numbers_of_others_are_left_alone(graph: Graph) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    for state in (0, None):
        learn(graph, 0, 1, model=make(random_state=state), task="a").predict(graph)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002


# ---------------------------------------------------------------------- inputs


def test_graphs_nodes_and_labels_are_read_and_checked(graph: Graph, plain: HPNClassifier) -> None:
    before = saved(plain)
    narrow = SimpleNamespace(x=graph.x[:, :5], edge_index=graph.edge_index)
    for method in (plain.predict, plain.predict_proba, plain.transform, plain.explain, plain.partial_fit):
        with pytest.raises(DataError, match=r"data.x has shape \[300, 5\], expected 12 columns"):
            method(narrow, [0])
        with pytest.raises(DataError, match="nodes has 300, but nodes are numbered from 0 to 299"):
            method(graph, [0, 300])
        with pytest.raises(DataError, match="nodes is empty"):
            method(graph, [])
    for refuse in (plain.partial_fit, plain.fit, plain.refresh, plain.score, plain.unlearn):
        with pytest.raises(DataError, match="y has length 1, expected 2"):
            refuse(graph, [0, 1], [0])
    with pytest.raises(DataError, match="nodes has 4 more than once"):
        plain.partial_fit(graph, [4, 5, 4], [0, 1, 0])
    with pytest.raises(DataError, match="validation nodes has 5, which is in nodes"):
        plain.partial_fit(graph, [4, 5], [0, 1], validation=([5], [1]))
    with pytest.raises(ConfigError, match="validation must be a pair"):
        plain.partial_fit(graph, [4, 5], [0, 1], validation=[1, 2, 3])  # type: ignore[arg-type]
    assert saved(plain) == before


def test_new_classes_have_their_column_where_they_sort(graph: Graph) -> None:
    model, y = make(), graph.y.numpy()
    for label in range(6):
        nodes = nodes_of(graph, label)
        model.partial_fit(graph, nodes, NAMES[y[nodes]])
        assert model.classes_.tolist() == sorted(NAMES[: label + 1])
        assert model.predict_proba(graph, EVERY).shape == (300, label + 1)
    table = model.predict_proba(graph, EVERY)
    assert (model.classes_[table.argmax(axis=1)] == NAMES[y]).mean() > 0.8
    assert (model.predict(graph, EVERY) == model.classes_[table.argmax(axis=1)]).all()
    assert np.allclose(table.sum(axis=1), 1, atol=1e-12)
    assert (table >= 0).all()


def test_labels_are_of_one_kind(graph: Graph, plain: HPNClassifier) -> None:
    before = saved(plain)
    with pytest.raises(DataError, match="labels are a mix of numbers and text; use one kind"):
        plain.partial_fit(graph, [0, 1], ["a", "b"])
    with pytest.raises(DataError, match="labels are a mix of Booleans and numbers; use one kind"):
        plain.partial_fit(graph, [0, 1], [True, False])
    with pytest.raises(DataError, match="labels are a mix of numbers and text; use one kind"):
        plain.partial_fit(graph, [0, 1], [0, 1], validation=([2, 3], ["a", "b"]))
    assert saved(plain) == before


# ---------------------------------------------------------------------- splits that come with the graph


@pytest.fixture
def split(graph: Graph) -> Data:
    train, val = EVERY < 150, (EVERY >= 150) & (EVERY < 200)
    parts = {"train_mask": train, "val_mask": val, "test_mask": ~(train | val)}
    masks = {name: torch.from_numpy(mask) for name, mask in parts.items()}
    return Data(x=graph.x, edge_index=graph.edge_index, y=graph.y, **masks)


@pytest.mark.parametrize("method", ["fit", "partial_fit", "refresh"])
def test_masks_choose_training_and_query_nodes(method: str, split: Data, graph: Graph, plain: HPNClassifier) -> None:
    y = split.y.numpy()
    start = make() if method != "refresh" else make().fit(split, [0, 1])
    model = getattr(start, method)(split)
    by_hand = make().fit(split, EVERY[:150], y[:150], validation=(EVERY[150:200], y[150:200]))
    assert saved(model) == saved(by_hand)
    assert saved(model) != saved(make().fit(split, EVERY[:150])), "validation nodes are of use"
    named = NAMES[y[:150]]
    assert saved(make().fit(split, y=named)) == saved(make().fit(graph, EVERY[:150], named)), "y belongs to train_mask"
    assert saved(make().fit(split, EVERY[:200], y[:200])) == saved(plain), "masks are not used if nodes are given"
    assert model.predict_proba(split).tobytes() == model.predict_proba(split, EVERY[200:]).tobytes()
    assert model.score(split) == (model.predict(split) == y[200:]).mean() > 0.8
    assert len(model.explain(split)) == len(model.transform(split)) == 100


def test_without_masks_every_labelled_node_is_learned(graph: Graph) -> None:
    y = graph.y.clone()
    y[::3] = -1
    data = Data(x=graph.x, edge_index=graph.edge_index, y=y)
    known = EVERY[y.numpy() >= 0]
    model = make().fit(data)
    assert saved(model) == saved(make().fit(graph, known, y[known]))
    assert model.predict(data).shape == (300,)
    assert model.score(data) == (model.predict(data, known) == y.numpy()[known]).mean()


def test_what_is_missing_is_named(graph: Graph) -> None:
    bare = SimpleNamespace(x=graph.x, edge_index=graph.edge_index)
    with pytest.raises(DataError, match="pass nodes and y, or a graph with y"):
        make().fit(bare)
    with pytest.raises(DataError, match="y was given without nodes; pass the nodes"):
        make().fit(graph, y=graph.y)
    with pytest.raises(DataError, match=r"data.y is missing; pass the labels"):
        make().fit(bare, [0, 1])


# ---------------------------------------------------------------------- tasks


def test_tasks_are_predicted_among_their_classes(graph: Graph, tasks: HPNClassifier) -> None:
    y = graph.y.numpy()
    assert tasks.tasks_ == ["own", "pooled", 7]
    assert tasks.classes_.tolist() == tasks.known_classes().tolist() == [0, 1, 2, 3, 4, 5]
    for task, classes in TASKS.items():
        table = tasks.predict_proba(graph, EVERY, task)
        assert tasks.known_classes(task).tolist() == classes
        assert table.shape == (300, len(classes))
        assert np.allclose(table.sum(axis=1), 1, atol=1e-12)
        predicted = tasks.predict(graph, EVERY, task)
        assert (predicted == np.array(classes)[table.argmax(axis=1)]).all()
        nodes = nodes_of(graph, *classes, test=True)
        assert tasks.score(graph, nodes, y[nodes], task) == (predicted[nodes] == y[nodes]).mean() > 0.9


def test_answers_with_a_task_given_stay_bit_for_bit(graph: Graph) -> None:
    model, old = make(), shrunken(graph)
    expected: dict[Any, list[bytes]] = {}
    fits: list[tuple[Any, list[int]]] = [
        ("a", [0, 1]),
        (None, [2]),
        ("b", [3]),
        (None, [0, 1, 4]),
        (9, [0, 2, 5]),
        ("c", [1]),
        (None, [5]),
    ]
    for task, classes in fits:
        learn(graph, *classes, model=model, task=task)
        if task is not None:
            expected[task] = [answers(model, data, task) for data in (graph, old)]
        assert {name: [answers(model, data, name) for data in (graph, old)] for name in expected} == expected
        assert all(model.is_certified(name) for name in expected)
    model.forget_class(4)
    model.unlearn(graph, nodes_of(graph, 2)[:3], numbers(graph, nodes_of(graph, 2)[:3]))
    for other in (model, reload(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert {name: [answers(other, data, name) for data in (graph, old)] for name in expected} == expected
        assert all(other.is_certified(name) for name in expected)


def test_a_task_may_come_one_class_at_a_time(graph: Graph) -> None:
    model, y = make(), graph.y.numpy()
    for label in range(6):
        learn(graph, label, model=model, task="all")
    together = learn(graph, *range(6))
    assert answers(model, graph, "all") == answers(together, graph), "made of the same sums"
    nodes = nodes_of(graph, *range(6), test=True)
    assert model.score(graph, nodes, y[nodes], "all") > 0.9
    assert model.is_certified("all")


def test_tasks_have_names(graph: Graph, tasks: HPNClassifier) -> None:
    for wrong in (1.5, True, ["a"], ("a", "b")):
        with pytest.raises(ConfigError, match=r"^task = .*: expected a string or a whole"):
            learn(graph, 0, 1, task=wrong)
    assert learn(graph, 0, task=np.int64(3)).tasks_ == [3]
    model = learn(graph, 0, 1, task="3")
    learn(graph, 2, model=model, task=3)
    assert reload(model).tasks_ == ["3", 3]
    queried = (tasks.predict, tasks.predict_proba, tasks.transform, tasks.explain)
    for ask in (*(lambda task, ask=ask: ask(graph, EVERY, task) for ask in queried), tasks.is_certified):
        with pytest.raises(ConfigError, match=r"^there is no task 'z'; tasks are 'own', 'pooled', 7$"):
            ask("z")
    with pytest.raises(ConfigError, match=r"there is no task 7; tasks are none"):
        learn(graph, 0).predict(graph, task=7)


# ---------------------------------------------------------------------- merging


def test_merging_brings_tasks_along(graph: Graph) -> None:
    mine, theirs = learn(graph, 0, 1, task="a"), learn(graph, 2, task="b")
    learn(graph, 3, model=theirs, task="b")
    learn(graph, 4, 5, model=theirs)
    expected = {"a": answers(mine, graph, "a"), "b": answers(theirs, graph, "b")}
    before = saved(theirs)
    assert mine.merge(theirs) is mine
    assert mine.tasks_ == ["a", "b"]
    assert {task: answers(mine, graph, task) for task in ("a", "b")} == expected
    assert mine.is_certified("a")
    assert mine.is_certified("b")
    assert answers(mine, graph) == answers(learn(graph, *range(6)), graph)
    learn(graph, 0, model=mine, task="b")
    assert saved(theirs) == before


def test_what_cannot_be_merged_is_refused(graph: Graph) -> None:
    model, nodes = learn(graph, 0, 1, task="a"), nodes_of(graph, 2, 3)
    before = saved(model)
    narrow = SimpleNamespace(x=graph.x[:, :5], edge_index=graph.edge_index)
    for other, message in (
        (learn(graph, 2, 3, model=make(width=65)), "needs two classifiers with the same parameters"),
        (learn(graph, 2, 3, model=make(random_state=1)), "needs two classifiers with the same parameters"),
        (make().fit(narrow, nodes, numbers(graph, nodes)), "needs the same features, got 12 and 5"),
        (make().fit(graph, nodes), "labels are a mix of numbers and text"),
        (learn(graph, 2, 3, task="a"), "both classifiers have a task 'a'"),
        (copy.copy(model), "merge needs another classifier, not this one"),
    ):
        with pytest.raises(ConfigError, match=message):
            model.merge(other)
        assert saved(model) == before


def test_a_copy_may_be_merged_with_its_origin(graph: Graph) -> None:
    model = learn(graph, 0, 1)
    model.merge(copy.deepcopy(model))
    assert model.counts_ == {label: 2 * len(nodes_of(graph, label)) for label in (0, 1)}


# ---------------------------------------------------------------------- unlearning, forgetting, refreshing


def test_unlearning_what_was_not_learned_like_this_is_refused(graph: Graph) -> None:
    y, old = graph.y.numpy(), shrunken(graph)
    known = nodes_of(graph, 0, 1)
    known = known[known < 150]
    some, others = known[::2], known[1::2]
    model = make().fit(old, some, y[some])
    before = saved(model)
    for data, nodes, labels in (
        (old, some, 1 - y[some]),
        (old, some[:1], [5]),
        (old, some[:1], ["0"]),
        (old, others, y[others]),
        (graph, some, y[some]),
    ):
        with pytest.raises(DataError, match=r"^unlearn: these nodes were not learned with these labels in"):
            model.unlearn(data, nodes, labels)
        assert saved(model) == before
    assert model.unlearn(old, some[1:], y[some[1:]]).counts_ == {y[some[0]]: 1}


@pytest.mark.parametrize("method", ["predict_proba", "transform", "explain"])
def test_tasks_answer_when_everything_else_is_unlearned(method: str, graph: Graph) -> None:
    model = learn(graph, 0, 1, task="a")
    before = repr(getattr(model, method)(graph, EVERY[:20], "a"))
    model.unlearn(graph, nodes_of(graph, 0, 1), numbers(graph, nodes_of(graph, 0, 1)))
    assert model.classes_.tolist() == []
    assert model.known_classes("a").tolist() == [0, 1]
    assert repr(getattr(reload(model), method)(graph, EVERY[:20], "a")) == before
    assert repr(getattr(model, method)(graph, EVERY[:20], "a")) == before


def test_forgetting_a_class(graph: Graph, tasks: HPNClassifier) -> None:
    model = copy.deepcopy(tasks)
    kept = answers(model, graph, "own")
    assert model.forget_class(2) is model
    assert model.classes_.tolist() == list(model.counts_) == [0, 1, 3, 4, 5]
    assert model.tasks_ == ["own", 7]
    assert answers(model, graph, "own") == kept
    assert 2 not in model.predict(graph, EVERY)
    nodes = nodes_of(graph, 0, 1, 3, 4, 5, test=True)
    assert model.score(graph, nodes, numbers(graph, nodes)) > 0.9
    assert answers(reload(model), graph) == answers(model, graph)
    learn(graph, 2, model=model)
    assert model.counts_[2] == len(nodes_of(graph, 2))
    assert model.score(graph, EVERY[200:], numbers(graph, EVERY[200:])) > 0.8
    for wrong in (9, "2", True):
        with pytest.raises(ConfigError, match=f"^there is no class {wrong!r}; classes are 0,"):
            model.forget_class(wrong)


def test_nothing_but_second_moments_of_a_forgotten_class_is_kept(graph: Graph) -> None:
    model, never = learn(graph, 0, 1, 2).forget_class(2), learn(graph, 0, 1)
    assert never.counts_ == model.counts_
    kept, expected = model.network_.memory.kept, never.network_.memory.kept
    assert np.array_equal(kept.remembered, expected.remembered)
    assert kept.learned.by_label == expected.learned.by_label
    for mine, theirs in zip(kept.learned.totals, expected.learned.totals, strict=True):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("how", ["forget_class", "unlearn"])
def test_a_model_may_lose_its_last_class(how: str, graph: Graph) -> None:
    model, nodes = learn(graph, 3), nodes_of(graph, 3)
    model.predict(graph, nodes)
    model = model.forget_class(3) if how == "forget_class" else model.unlearn(graph, nodes, numbers(graph, nodes))
    for kept in (model, reload(model), pickle.loads(pickle.dumps(model))):
        assert (kept.classes_.tolist(), kept.counts_) == ([], {})
        assert sum(kept.prototype_counts_.values()) == 0
        with pytest.raises(NotFittedError, match="has no class left; learn some labelled nodes first"):
            kept.predict(graph)
    queried = nodes_of(graph, 0, 1, test=True)
    assert learn(graph, 0, 1, model=model).score(graph, queried, numbers(graph, queried)) > 0.9


def test_refreshing_keeps_tasks(graph: Graph, tasks: HPNClassifier) -> None:
    model = copy.deepcopy(tasks)
    expected = {task: answers(model, graph, task) for task in TASKS}
    model.refresh(graph, EVERY[:200], numbers(graph, EVERY[:200]))
    assert answers(model, graph) == answers(learn(graph, *range(6)), graph)
    for other in (model, reload(model)):
        assert {task: answers(other, graph, task) for task in TASKS} == expected
        assert all(other.is_certified(task) for task in TASKS)


@pytest.mark.parametrize("change", [{"random_state": None}, {"random_state": 4}])
def test_tasks_of_a_refreshed_model_can_be_saved(change: dict[str, Any], graph: Graph) -> None:
    model = make(random_state=change["random_state"] and 3)
    for label in (2, 3):
        learn(graph, label, model=model, task="pooled")
    before = answers(model, graph, "pooled")
    model.set_params(**change).refresh(graph, EVERY[:200], numbers(graph, EVERY[:200]))
    assert answers(model, graph, "pooled") == before
    assert answers(reload(model), graph, "pooled") == before


# ---------------------------------------------------------------------- safety


def fail_after(monkeypatch: pytest.MonkeyPatch, target: str, calls: int = 1) -> None:
    """Let a function of the network do its work a number of times, and be interrupted at the end of the last."""
    module, *path, last = target.split(".")
    owner = importlib.import_module(f"hpn.learners.hpn.{module}")
    for name in path:
        owner = getattr(owner, name)
    original, left = getattr(owner, last), [calls]

    def fail(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, last, fail)


@pytest.mark.parametrize(
    ("target", "calls", "task"),
    [
        ("memory.Memory._fold", 1, None),
        ("memory._join", 1, None),
        ("statistics.add_gram", 4, None),
        ("solved.choose_extractor", 1, "new"),
        ("memory.Memory.learn", 1, "own"),
        ("evidence.Extractors.restrict", 1, "own"),
        ("solved.TaskPart.digest", 1, "pooled"),
    ],
)
def test_a_fit_that_is_interrupted_changes_nothing(
    target: str, calls: int, task: str | None, graph: Graph, tasks: HPNClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpn.learners.hpn.memory.SMALL_FIT", 1)
    model, other = copy.deepcopy(tasks), shrunken(graph)
    nodes, y = nodes_of(graph, 3, 4), graph.y.numpy()
    nodes = nodes[nodes < 150]
    before, expected = saved(model), answers(model, graph)
    with monkeypatch.context() as patch:
        fail_after(patch, target, calls)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(other, nodes, y[nodes], task=task)
    assert saved(model) == before
    assert answers(model, graph) == expected
    assert answers(model, elsewhere(graph)) == answers(tasks, elsewhere(graph))
    undisturbed = learn(graph, 3, 4, model=copy.deepcopy(tasks), task=task)
    assert saved(learn(graph, 3, 4, model=model, task=task)) == saved(undisturbed)
    assert answers(model, graph) == answers(undisturbed, graph)


@pytest.mark.parametrize(
    ("target", "calls", "change"),
    [
        ("statistics.add_gram", 1, "unlearn"),
        ("memory._take", 2, "unlearn"),
        ("statistics.Sums.merge", 1, "merge"),
        ("statistics.Sums.drop", 1, "forget_class"),
        ("memory.Memory.learn", 1, "refresh"),
        ("memory.Memory.learn", 1, "fit"),
    ],
)
def test_other_changes_that_are_interrupted_change_nothing(
    target: str, calls: int, change: str, graph: Graph, tasks: HPNClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, nodes = copy.deepcopy(tasks), nodes_of(graph, 3)
    given = {"merge": [learn(graph, 3)], "forget_class": [3]}.get(change, [graph, nodes, numbers(graph, nodes)])
    before = saved(model)
    with monkeypatch.context() as patch:
        fail_after(patch, target, calls)
        with pytest.raises(KeyboardInterrupt):
            getattr(model, change)(*given)
    assert saved(model) == before
    assert answers(model, graph) == answers(tasks, graph)


def test_a_first_fit_that_is_interrupted_leaves_no_trace(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    fail_after(monkeypatch, "solved.TaskPart.digest")
    with pytest.raises(KeyboardInterrupt):
        learn(graph, 0, 1, model=model, task="a")
    assert vars(model) == vars(make())


@pytest.mark.parametrize("target", ["memory.solve", "evidence.fit_weights", "statistics.add_gram"])
def test_a_prediction_that_is_interrupted_can_be_repeated(
    target: str, graph: Graph, plain: HPNClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make()
    for label in range(6):
        learn(graph, label, model=model)
    with monkeypatch.context() as patch:
        fail_after(patch, target)
        with pytest.raises(KeyboardInterrupt):
            model.predict(graph)
    assert answers(model, graph) == answers(plain, graph)


# ---------------------------------------------------------------------- predicting changes nothing


def test_predicting_changes_nothing(graph: Graph, tasks: HPNClassifier) -> None:
    model, given = copy.deepcopy(tasks), copy.deepcopy(graph)
    queried = [(data, task) for data in (graph, elsewhere(graph)) for task in (None, *TASKS)]
    before, params, expected = saved(model), model.get_params(), [answers(model, *query) for query in queried]
    for data, task in (*queried, (shrunken(graph), None)):
        for method in (model.predict, model.predict_proba, model.transform, model.explain):
            method(data, [5, 3], task)
    model.score(graph, EVERY[:20], numbers(graph, EVERY[:20]))
    assert saved(model) == before
    assert [answers(model, *query) for query in queried] == expected
    assert model.get_params() == params
    assert torch.equal(graph.x, given.x)
    assert torch.equal(graph.edge_index, given.edge_index)
    undisturbed = learn(graph, 0, 5, model=copy.deepcopy(tasks), task="own")
    assert saved(learn(graph, 0, 5, model=model, task="own")) == saved(undisturbed)


def test_predictions_in_one_graph_do_not_change_those_in_another(graph: Graph) -> None:
    y = graph.y.numpy()
    parts = [SimpleNamespace(x=graph.x[y == label], n_id=EVERY[y == label]) for label in (0, 1)]
    model = make()
    for label, part in enumerate(parts):
        model.partial_fit(part, np.arange(len(part.x)), [label] * len(part.x))
    before = answers(copy.deepcopy(model), parts[1])
    model.predict(SimpleNamespace(x=graph.x, n_id=EVERY))
    assert answers(model, parts[1]) == before


# ---------------------------------------------------------------------- cost of fits and predictions


def test_a_model_does_not_grow_with_the_fits_of_a_task(graph: Graph) -> None:
    sizes = []
    model = make()
    for _ in range(4):
        for label in (0, 1):
            learn(graph, label, model=model, task="a")
        extractors = saved(model)
        nodes = model.network_.memory.kept.remembered.nbytes + model.ledger_.rows.nbytes
        sizes.append(sum(map(len, extractors.values())) - nodes)
    assert max(sizes[1:]) - min(sizes[1:]) < 100  # digits of numbers in the text


def test_neither_features_nor_edges_are_kept(graph: Graph) -> None:
    """Hashes of ids and classes, and sums."""
    model = learn(graph, *range(6))
    model.predict(graph)
    stored = saved(model)
    content = pickle.dumps(model) + b"".join(stored.values())
    for node in range(200):
        assert graph.x[node].numpy().tobytes() not in content
    num_ids = len(model.network_.memory.kept.remembered)
    assert 0 < num_ids < 200 / 3
    sums = 2 * 6 * 8 * (3 * 64 + 3 * 12)
    grams = 2 * 3 * 8 * (64 * 65 // 2)
    (tensors,) = (len(part) for name, part in stored.items() if name.endswith(".safetensors"))
    assert tensors < sums + grams + 3 * 8 * (200 + num_ids) + 10_000  # names and shapes


def test_what_is_solved_and_kept_does_not_depend_on_the_number_of_fits(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved: list[int] = []
    original = hpn.learners.hpn.memory.solve  # type: ignore[attr-defined]
    monkeypatch.setattr("hpn.learners.hpn.memory.solve", lambda *a, **k: solved.append(1) or original(*a, **k))
    y, costs = graph.y.numpy(), []
    for fits in (1, 40):
        model = make()
        for part in np.array_split(EVERY[:200], fits):
            model.partial_fit(graph, part, y[part])
        assert solved == [], "a fit solves nothing"
        model.predict(graph)
        costs.append((len(solved), len(pickle.dumps(model))))
        model.predict(graph, [1])
        model.predict(elsewhere(graph))
        assert len(solved) == costs[-1][0], "what was solved is kept"
        solved.clear()
    assert costs[0] == costs[1]
    assert costs[0][0] > 0


# ---------------------------------------------------------------------- explanations and representations


@pytest.mark.parametrize("task", [None, *TASKS])
def test_explanations_agree_with_predictions(task: Any, graph: Graph, tasks: HPNClassifier) -> None:
    queried = EVERY[::-5]
    found = tasks.explain(graph, queried, task)
    table, classes = tasks.predict_proba(graph, queried, task), tasks.known_classes(task).tolist()
    assert [part.node for part in found] == queried.tolist()
    assert [part.predicted for part in found] == tasks.predict(graph, queried, task).tolist()
    for part, row in zip(found, table, strict=True):
        assert part.probability == pytest.approx(row.max(), abs=1e-12)
        if len(classes) == 1:
            assert (part.runner_up, part.runner_up_probability) == (None, None)
            assert {slot.runner_up for slot in part.slots} == {None}
            assert {bank.runner_up_prototype for bank in part.banks} == {None}
        else:
            assert part.runner_up != part.predicted
            assert part.runner_up_probability == pytest.approx(np.sort(row)[-2], abs=1e-12)
            assert row[classes.index(part.runner_up)] == pytest.approx(part.runner_up_probability, abs=1e-12)


def test_the_extractor_of_a_task_names_its_input(graph: Graph, tasks: HPNClassifier) -> None:
    for part in tasks.explain(graph, nodes_of(graph, 0, 1), "own"):
        (slot,), (bank,) = part.slots, part.banks
        assert slot.slot == bank.bank
        assert re.fullmatch(r"its own features|the mean over its neighbourhood, (1 hop|[23] hops) away", slot.slot)
        assert slot.predicted == pytest.approx(2 * bank.evidence)
        assert slot.predicted == pytest.approx(-slot.runner_up)  # type: ignore[operator]


def test_explanations_break_ties_as_predictions_do() -> None:
    data = SimpleNamespace(x=np.ones((40, 4)), y=np.arange(40) % 4)
    model = make().fit(data)
    assert [part.predicted for part in model.explain(data)] == model.predict(data).tolist()


def test_a_representation_has_classes_in_their_order(graph: Graph, plain: HPNClassifier) -> None:
    node_level = plain.transform(graph, EVERY).reshape(300, -1, 6)[:, -2]
    predicted = plain.predict(graph, EVERY)
    assert (node_level[EVERY, predicted] == node_level.max(axis=1)).all()


# ---------------------------------------------------------------------- how well it learns


def test_digits_two_classes_at_a_time(digits: Graph) -> None:
    x, y = digits.x.numpy(), digits.y.numpy()
    train, test = np.arange(0, len(y), 2), np.arange(1, len(y), 2)
    model = make(width=300)
    for first in range(0, 10, 2):
        nodes = train[np.isin(y[train], [first, first + 1])]
        model.partial_fit(digits, nodes, y[nodes])
    means = np.stack([x[train][y[train] == label].mean(axis=0) for label in range(10)])
    nearest = ((x[test, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert model.score(digits, test, numbers(digits, test)) > max((nearest == y[test]).mean() + 0.05, 0.96)


def test_rare_classes_weigh_more_with_balance(digits: Graph) -> None:
    y = digits.y.numpy()
    train, test = np.arange(0, len(y), 2), np.arange(1, len(y), 2)
    rare = train[y[train] < 5][:15]
    nodes = np.concatenate([rare, train[y[train] >= 5]])
    recall = []
    for balance in (0, 1):
        model = make(balance=balance).fit(digits, nodes, y[nodes])
        queried = test[y[test] < 5]
        recall.append((model.predict(digits, queried) == y[queried]).mean())
    assert recall[1] > recall[0]


@pytest.mark.parametrize("kind", [HPNClassifier, NodeClassifier])
def test_an_unknown_argument_is_refused_by_the_name_of_the_class(kind: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{kind.__name__} has no 'foo'; it takes: .*width"):
        kind(foo=3)
    with pytest.raises(TypeError, match=rf"^{kind.__name__} has no 'widht'; did you mean 'width'\?"):
        kind(widht=3)
