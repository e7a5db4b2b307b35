"""Without a task, what was learned counts and nothing else: not the order, not the grouping into fits."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.model import HPNClassifier

relaxed = settings(deadline=None, max_examples=8)
seeds = st.integers(0, 2**32 - 1)
LABELS: dict[str, list[Any]] = {"numbers": [7, -3, 40, 12], "text": ["b", "a", "é", "10"], "Booleans": [True, False]}
FOREIGN = 10**6
"""Ids from here on belong to nodes that no model has learned."""


@dataclass(frozen=True)
class Problem:
    """A graph, the labels of its nodes, those to learn from and those to weight evidence by."""

    data: Any
    y: np.ndarray
    learned: np.ndarray
    held_out: np.ndarray
    elsewhere: Any

    @property
    def every(self) -> np.ndarray:
        return np.arange(len(self.y))


def make_features(kind: str, classes: np.ndarray, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if kind == "dense":
        centers = np.random.default_rng(1).normal(size=(4, 9))
        return (centers[classes] + rng.normal(size=(len(classes), 9))).astype(np.float32)
    num_features, count = {"sparse": (30, 6), "wide": (2100, 12)}[kind]
    own = (classes[:, None] * 7 + rng.integers(0, 7, (len(classes), count // 2))) % num_features
    columns = np.concatenate([own, rng.integers(0, num_features, (len(classes), count // 2))], axis=1)
    rows = np.arange(len(classes)).repeat(count)
    values = rng.random(len(rows), dtype=np.float32)
    return sp.csr_array((values, (rows, columns.ravel())), shape=(len(classes), num_features))


def make_problem(kind: str, *, num_nodes: int, num_classes: int, seed: int = 0, labels: str = "numbers") -> Problem:
    """Every seventh node is not learned from."""
    rng = np.random.default_rng(seed)
    names = LABELS[labels][:num_classes]
    classes = rng.integers(0, len(names), num_nodes)
    links = rng.integers(0, num_nodes, (2, int(rng.integers(0, 3 * num_nodes))))
    other = rng.integers(0, num_nodes, (2, num_nodes))
    every = np.arange(num_nodes)
    return Problem(
        SimpleNamespace(x=make_features(kind, classes, seed), edge_index=links),
        np.array(names)[classes],
        every[every % 7 != 6],
        every[every % 7 == 6],
        SimpleNamespace(x=make_features(kind, classes, seed + 1), edge_index=other, n_id=every + FOREIGN),
    )


@st.composite
def problems(draw: st.DrawFn, kinds: Sequence[str] = ("dense", "sparse", "wide")) -> Problem:
    return make_problem(
        draw(st.sampled_from(kinds)),
        num_nodes=draw(st.integers(8, 40)),
        num_classes=draw(st.integers(1, 4)),
        seed=draw(seeds),
        labels=draw(st.sampled_from(sorted(LABELS))),
    )


@st.composite
def groups(draw: st.DrawFn, nodes: np.ndarray) -> list[np.ndarray]:
    """The nodes in any order, cut anywhere."""
    order = np.array(draw(st.permutations(nodes.tolist())), dtype=np.int64)
    cuts = draw(st.sets(st.integers(1, max(1, len(nodes) - 1)), max_size=8))
    return [part for part in np.split(order, sorted(cuts)) if len(part)]


@contextmanager
def added_up_in(sizes: tuple[int, int]) -> Iterator[None]:
    """Fits of so many nodes are added up at once, and so many nodes at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hpn.learners.hpn.memory.SMALL_FIT", sizes[0])
        patch.setattr("hpn.learners.hpn.memory.MOST_PENDING", sizes[1])
        patch.setattr("hpn.learners.hpn.statistics.ROWS", sizes[1])
        yield


sizes = st.sampled_from([(1024, 8192), (1, 8192), (4, 3), (1024, 5)])


def learn(
    problem: Problem,
    parts: Sequence[np.ndarray],
    *,
    model: HPNClassifier | None = None,
    validated: bool = False,
    data: Any = None,
) -> HPNClassifier:
    model = model or HPNClassifier(width=64)
    val = (problem.held_out, problem.y[problem.held_out]) if validated else None
    for part in parts:
        model.partial_fit(data or problem.data, part, problem.y[part], validation=val)
    return model


def saved(model: HPNClassifier) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def reload(model: HPNClassifier) -> HPNClassifier:
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return HPNClassifier.load(folder)


def without_last(model: HPNClassifier) -> dict[str, bytes]:
    """All that is saved but the weights of banks in the graph of the latest fit."""
    model = copy.copy(model)
    model.network_ = copy.copy(model.network_)
    model.network_.memory = model.network_.memory.without_last()
    return saved(model)


def check_same(model: HPNClassifier, expected: HPNClassifier, *graphs: Any) -> None:
    """Bit for bit."""
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert model.counts_ == expected.counts_
    for graph in graphs:
        rows = np.arange(graph.x.shape[0])
        answer = model.predict_proba(graph, rows)
        assert answer.shape == (len(rows), len(expected.classes_))
        assert np.array_equal(answer, expected.predict_proba(graph, rows))


# ---------------------------------------------------------------------- grouping and order


@given(st.data(), problems(), st.booleans(), sizes)
@relaxed
def test_any_grouping_in_any_order_gives_the_same_model(
    draw: st.DataObject, problem: Problem, validated: bool, sizes: tuple[int, int]
) -> None:
    once = learn(problem, [problem.learned], validated=validated)
    with added_up_in(sizes):
        often = learn(problem, draw.draw(groups(problem.learned)), validated=validated)
        check_same(often, once, problem.data, problem.elsewhere)
    assert saved(often) == saved(once)


@given(st.data(), problems(), st.booleans())
@relaxed
def test_what_happens_between_fits_does_not_matter(draw: st.DataObject, problem: Problem, validated: bool) -> None:
    def use(model: HPNClassifier) -> HPNClassifier:
        model.predict(problem.data, problem.held_out[:1])
        model.predict(problem.elsewhere)
        model.explain(problem.data, problem.learned[:2])
        assert sum(model.prototype_counts_.values()) > 0
        return model

    pauses = {
        "save and load": reload,
        "pickle": lambda model: pickle.loads(pickle.dumps(model)),
        "copy": copy.deepcopy,
        "predict": use,
    }
    model = None
    for part in draw.draw(groups(problem.learned)):
        model = learn(problem, [part], model=model, validated=validated)
        for pause in draw.draw(st.lists(st.sampled_from(sorted(pauses)), max_size=2)):
            model = pauses[pause](model)
    once = learn(problem, [problem.learned], validated=validated)
    check_same(model, once, problem.data, problem.elsewhere)


@given(st.data(), problems(kinds=("dense", "wide")))
@relaxed
def test_answers_without_a_task_do_not_depend_on_the_tasks(draw: st.DataObject, problem: Problem) -> None:
    model = HPNClassifier(width=64)
    for part in draw.draw(groups(problem.learned)):
        task = draw.draw(st.sampled_from([None, "a", "b", 3]))
        model.partial_fit(problem.data, part, problem.y[part], task=task)
    check_same(model, learn(problem, [problem.learned]), problem.data, problem.elsewhere)


def test_validation_nodes_may_come_with_any_of_the_fits() -> None:
    problem = make_problem("dense", num_nodes=60, num_classes=3)
    once = learn(problem, [problem.learned], validated=True)
    often = HPNClassifier(width=64)
    for part, val in zip(np.array_split(problem.learned, 4), np.array_split(problem.held_out[::-1], 4), strict=True):
        often.partial_fit(problem.data, part, problem.y[part], validation=(val, problem.y[val]))
    check_same(often, once, problem.data, problem.elsewhere)
    assert saved(often) == saved(once)


def test_wide_features_that_fill_up() -> None:
    for seed, node in ((28, 137), (36, 80), (49, 98), (56, 73)):
        rng = np.random.default_rng(seed)
        x = (rng.random((150, 2100)) < 0.07) * rng.random((150, 2100))
        links = rng.integers(0, 150, (2, 300))
        data = SimpleNamespace(x=sp.csr_array(x.astype(np.float32)), edge_index=links)
        y, rows = np.arange(150) % 3, np.arange(150)
        once, apart = (HPNClassifier(width=64) for _ in range(2))
        once.fit(data, rows, y)
        for part in (rows[rows != node], rows[[node]]):
            apart.partial_fit(data, part, y[part])
        assert saved(apart) == saved(once)


# ---------------------------------------------------------------------- merging and unlearning


@given(st.data(), problems(), st.booleans(), sizes)
@relaxed
def test_merging_classifiers_that_learned_the_parts(
    draw: st.DataObject, problem: Problem, validated: bool, sizes: tuple[int, int]
) -> None:
    with added_up_in(sizes):
        models = [learn(problem, [part], validated=validated) for part in draw.draw(groups(problem.learned))]
        for model in models[1::2]:
            model.predict(problem.data, problem.every)
        while len(models) > 1:
            at = draw.draw(st.integers(0, len(models) - 2))
            models[at].merge(models.pop(at + 1))
    once = learn(problem, [problem.learned], validated=validated)
    check_same(models[0], once, problem.data)
    assert without_last(models[0]) == without_last(once)


@given(st.data(), problems(), st.booleans(), sizes)
@relaxed
def test_unlearning_is_as_if_never_learned(
    draw: st.DataObject, problem: Problem, validated: bool, sizes: tuple[int, int]
) -> None:
    count = draw.draw(st.integers(1, len(problem.learned) - 1))
    extra, stays = np.split(np.array(draw.draw(st.permutations(problem.learned.tolist()))), [count])
    never = learn(problem, [stays], validated=validated)
    with added_up_in(sizes):
        model = learn(problem, draw.draw(groups(problem.learned)), validated=validated)
        if draw.draw(st.booleans()):
            model.predict(problem.data, problem.every)
        for part in draw.draw(groups(extra)):
            model.unlearn(problem.data, part, problem.y[part])
        check_same(model, never, problem.data, problem.elsewhere)
    assert saved(model) == saved(never)


def test_unlearning_what_was_learned_twice_leaves_it_once() -> None:
    problem = make_problem("dense", num_nodes=40, num_classes=3)
    once = learn(problem, [problem.learned])
    twice = learn(problem, [problem.learned, problem.learned[::2]])
    assert twice.counts_ != once.counts_
    twice.unlearn(problem.data, problem.learned[::2], problem.y[problem.learned[::2]])
    check_same(twice, once, problem.data)
    assert saved(twice) == saved(once)


def test_pauses_between_fits_in_different_graphs() -> None:
    problem = make_problem("dense", num_nodes=60, num_classes=3)
    other = SimpleNamespace(x=problem.elsewhere.x, n_id=problem.every + 2 * FOREIGN)
    models = [learn(problem, [problem.learned]) for _ in range(3)]
    models[1].predict(problem.elsewhere)
    models[2] = pickle.loads(pickle.dumps(models[2]))
    for model in models:
        model.partial_fit(other, problem.every, [problem.y[0]] * len(problem.y))
        check_same(model, models[0], problem.data, problem.elsewhere)


def test_unlearning_in_an_earlier_graph() -> None:
    problem = make_problem("dense", num_nodes=60, num_classes=3)
    links = problem.data.edge_index
    small = SimpleNamespace(x=problem.data.x[:40], edge_index=links[:, (links < 40).all(axis=0)])
    extra, early, late = np.split(problem.every, [10, 40])
    model, never = learn(problem, [extra, early], data=small), learn(problem, [early], data=small)
    for some in (model, never):
        learn(problem, [late], model=some)
    model.unlearn(small, extra, problem.y[extra])
    check_same(model, never, problem.data)
    assert without_last(model) == without_last(never)


# ---------------------------------------------------------------------- nodes that move, graphs that grow


def make_regular(num_nodes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole features and three neighbours per node: averages over neighbourhoods are exact in any order."""
    rng = np.random.default_rng(seed)
    every = np.arange(num_nodes)
    links = np.stack([every.repeat(2), np.stack([every + 1, every + num_nodes // 2], 1).ravel() % num_nodes])
    return rng.integers(0, 8, (num_nodes, 10)), links, rng.integers(0, 3, num_nodes)


@given(st.data(), st.sampled_from([8, 20, 38]), seeds)
@relaxed
def test_nodes_are_known_by_their_ids(draw: st.DataObject, num_nodes: int, seed: int) -> None:
    x, links, y = make_regular(num_nodes, seed)
    ids = np.array(
        draw.draw(st.lists(st.integers(-(2**40), 2**40), min_size=num_nodes, max_size=num_nodes, unique=True))
    )
    data, every = SimpleNamespace(x=x, edge_index=links, n_id=ids), np.arange(num_nodes)
    once = HPNClassifier(width=64).fit(data, every, y)
    often = HPNClassifier(width=64)
    for part in draw.draw(groups(every)):
        order = np.random.default_rng(draw.draw(seeds)).permutation(num_nodes)
        place = np.argsort(order)
        moved = SimpleNamespace(x=x[order], edge_index=place[links], n_id=ids[order])
        often.partial_fit(moved, place[part], y[part])
    check_same(often, once, data)


@given(st.data(), problems(kinds=("dense", "wide")))
@relaxed
def test_a_graph_that_grows(draw: st.DataObject, problem: Problem) -> None:
    """What counts is the graph in which a node was learned, not when."""
    count = draw.draw(st.integers(2, len(problem.y) - 2))
    links = problem.data.edge_index
    small = SimpleNamespace(x=problem.data.x[:count], edge_index=links[:, (links < count).all(axis=0)])
    early, late = problem.every[:count], problem.every[count:]
    once = learn(problem, [early], data=small)
    learn(problem, [late], model=once)
    fits = [(small, part) for part in draw.draw(groups(early))]
    fits += [(problem.data, part) for part in draw.draw(groups(late))]
    often = HPNClassifier(width=64)
    for data, part in draw.draw(st.permutations(fits)):
        often.partial_fit(data, part, problem.y[part])
    check_same(often, once, problem.data)


def test_the_graph_at_the_time_of_a_fit_does_count() -> None:
    problem = make_problem("dense", num_nodes=40, num_classes=3)
    bare = SimpleNamespace(x=problem.data.x)
    answers = [
        learn(problem, [problem.learned], data=data).predict_proba(problem.data) for data in (problem.data, bare)
    ]
    assert not np.array_equal(*answers)
