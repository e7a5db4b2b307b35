"""What is kept, and how weights are fitted.

Order, grouping, merging and unlearning are tested through the estimator, in ``tests/model/test_order.py``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hpn.datasets.sparse import to_csr
from hpn.learners.hpn import memory as module
from hpn.learners.hpn.evidence import BANKS, PRIOR, Extractors, Weights, fit_weights
from hpn.learners.hpn.memory import HELD_OUT, WEIGHED_BY, Memory
from hpn.learners.hpn.partitions import Labelled, encode
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.statistics import ClassMeans, Sums, solve, sum_encoded
from hpn.nn.encoder import see, slot_bits
from hpn.streams import GraphView
from hpn.streams.views import hash_ids, hash_nodes

NUM_NODES, NUM_FEATURES, SEED = 150, 8, 5
SETTINGS = SolvedSettings(width=40)
CLASSES = (3, 4, 9)
NO_NODES: Labelled = (np.zeros(0, np.int64), np.zeros(0, np.int64))
EMPTY = Memory.empty(SETTINGS, NUM_FEATURES, SEED)

by_validation = pytest.mark.parametrize("has_val", [True, False])


def make_graph(num_nodes: int = NUM_NODES, *, seed: int = 0, kind: str = "dense") -> tuple[GraphView, Any]:
    """Communities with different features, with noise; and the class of each node."""
    rng = np.random.default_rng(seed)
    y = np.array(CLASSES)[rng.integers(0, 3, num_nodes)]
    y[:3] = CLASSES
    links = rng.integers(0, num_nodes, (2, 6 * num_nodes))
    keeps = (y[links[0]] == y[links[1]]) | (rng.random(links.shape[1]) < 0.2)
    links = links[:, keeps & (links[0] != links[1])]
    links = np.unique(np.concatenate([links, links[::-1]], axis=1), axis=1)
    means = np.eye(len(CLASSES), NUM_FEATURES)[np.searchsorted(CLASSES, y)]
    x = (means + rng.normal(size=(num_nodes, NUM_FEATURES))).astype(np.float32)
    features = torch.from_numpy(x) if kind == "dense" else to_csr(sp.csr_matrix(x * (x > 0.5)))
    ids = torch.from_numpy(rng.choice(10**12, num_nodes, replace=False))
    return GraphView(features, torch.from_numpy(links), ids), y


VIEW, Y = make_graph()
FOREIGN, _ = make_graph(seed=9)


def grow(view: GraphView) -> tuple[GraphView, np.ndarray]:
    """The same nodes with others among them and more edges, renumbered; and where each of them is now."""
    rng = np.random.default_rng(1)
    old, new = view.num_nodes, view.num_nodes + 40
    order = rng.permutation(new)
    more = torch.from_numpy(rng.normal(size=(40, NUM_FEATURES)).astype(np.float32))
    links = np.concatenate([view.edge_index.numpy(), rng.integers(0, new, (2, 150))], axis=1)
    links = order[links[:, links[0] != links[1]]]
    links = np.unique(np.concatenate([links, links[::-1]], axis=1), axis=1)
    place = torch.from_numpy(np.argsort(order))
    ids = torch.cat([view.ids, torch.arange(40) + 10**13])
    return GraphView(torch.cat([view.x, more])[place], torch.from_numpy(links), ids[place]), order[:old]


def pick(nodes: Any, y: np.ndarray = Y) -> Labelled:
    nodes = np.asarray(nodes, dtype=np.int64)
    return nodes, y[nodes]


def learn(nodes: Any, val: Labelled = NO_NODES, *, memory: Memory = EMPTY, view: GraphView = VIEW) -> Memory:
    return memory.learn(view, pick(nodes), val)


def is_held(view: GraphView, nodes: Any) -> np.ndarray:
    hashes = hash_nodes(view, np.asarray(nodes)).tolist()
    return np.array([((number % 2**64) >> 1) % HELD_OUT == 0 for number in hashes], dtype=bool)


def split(nodes: Any, view: GraphView = VIEW) -> tuple[Labelled, Labelled]:
    """Nodes that are not held out, and those that are."""
    nodes, held = np.asarray(nodes), is_held(view, nodes)
    return pick(nodes[~held]), pick(nodes[held])


def naive_sums(view: GraphView, train: Labelled) -> Sums:
    """Sums over nodes, encoded one after the other."""
    slots = see(view)
    alone = [
        sum_encoded(
            lambda _, at=node: encode(slots, np.array([at]), EMPTY.layer), label[None], SETTINGS.width, NUM_FEATURES
        )
        for node, label in zip(*train, strict=True)
    ]
    return reduce(Sums.merge, alone, Sums.empty(SETTINGS.width, NUM_FEATURES))


def naive_extractors(sums: Sums) -> Extractors:
    layers = [solve(bank, sums, strength=0.1, balance=0.75) for bank in range(3)]
    means = [ClassMeans.of(part * 2.0 ** -slot_bits(NUM_FEATURES)) for part in sums.means()[3:]]
    return Extractors(sums.labels.tolist(), layers, means, EMPTY.layer)


def naive_weights(extractors: Extractors, view: GraphView, judges: Labelled) -> Weights:
    """Scales and weights by labelled nodes of a graph."""
    evidence = extractors.evidence(view, judges[0])
    scales = np.sqrt((evidence**2).mean(axis=(1, 2)))
    y = np.searchsorted(extractors.classes, judges[1])
    return scales, fit_weights(evidence / scales[:, None, None], y)


def flatten(state: Any) -> dict[str, Any]:
    """All that a state holds, by path."""
    if isinstance(state, dict):
        parts = {key: flatten(part) for key, part in state.items()}
        return {f"{key}/{path}": value for key, part in parts.items() for path, value in part.items()}
    return {"": (state.dtype, state.tolist()) if isinstance(state, torch.Tensor) else state}


def assert_same(first: Memory, second: Memory) -> None:
    """Bit for bit, and in predictions for known and unknown graphs."""
    assert flatten(first.state()) == flatten(second.state())
    for view in (VIEW, FOREIGN):
        mine, theirs = (memory.extractors(view) for memory in (first, second))
        assert mine.classes == theirs.classes
        np.testing.assert_array_equal(mine.weights, theirs.weights)
        nodes = np.arange(view.num_nodes)
        np.testing.assert_array_equal(mine.evidence(view, nodes), theirs.evidence(view, nodes))


def reload(memory: Memory) -> Memory:
    return EMPTY.load(memory.state())


def query(memory: Memory) -> Memory:
    assert len(weights_of(memory, FOREIGN)) == len(BANKS)
    return memory


def weights_of(memory: Memory, view: GraphView) -> np.ndarray:
    return memory.extractors(view).weights


# ---------------------------------------------------------------------- what is kept


@pytest.mark.parametrize("step", [1, 2, 5, 1000, 2**40])
def test_a_fifth_is_held_out_for_any_ids(step: int) -> None:
    share = (module._rank(hash_ids(np.arange(4000) * step)) % HELD_OUT == 0).mean()
    assert abs(share - 0.2) < 0.03


@by_validation
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_sums_and_remembered_nodes(kind: str, has_val: bool) -> None:
    """Validation nodes are remembered; otherwise a fifth of the learned nodes is held out."""
    view, y = make_graph(kind=kind)
    train, val = pick(range(0, 120, 2), y), pick(range(120, 150), y) if has_val else NO_NODES
    memory = EMPTY.learn(view, train, val)
    held = is_held(view, train[0]) & (not has_val)
    assert has_val or 5 < held.sum() < 30
    assert memory.counts == {label: int((train[1] == label).sum()) for label in CLASSES}
    for found, mask in ((memory.kept.learned, ~held), (memory.kept.held_out, held)):
        assert flatten(found.state()) == flatten(naive_sums(view, pick(train[0][mask], y)).state())
    nodes, labels = val if has_val else pick(train[0][held], y)
    rows = zip(hash_nodes(view, nodes).tolist(), labels.tolist(), strict=True)
    assert memory.kept.remembered.tolist() == sorted([*row, int(not has_val)] for row in rows)


CHANGES: dict[str, Callable[[Memory], Memory]] = {
    "learn": lambda memory: learn(range(80, 90), memory=memory),
    "learn in another graph": lambda memory: learn(range(80, 90), memory=memory, view=FOREIGN),
    "unlearn": lambda memory: memory.unlearn(VIEW, pick(range(30))),
    "learn again": lambda memory: memory.learn_again(VIEW, pick(range(40))),
    "drop validation": lambda memory: memory.drop_validation(VIEW, memory.kept.remembered[:0]),
    "forget a class": lambda memory: memory.forget_class(4),
    "merge": lambda memory: memory.merge(learn(range(90, 120))),
    "merge into another": lambda memory: learn(range(90, 120)).merge(memory),
}


@pytest.mark.parametrize("pause", [lambda memory: memory, reload, copy.deepcopy, query])
@pytest.mark.parametrize("change", CHANGES)
def test_a_memory_never_changes_and_nothing_depends_on_pauses(change: str, pause: Callable[[Memory], Memory]) -> None:
    """Nothing depends on whether a memory was saved, or queried, before another one was made of it."""
    memory = pause(learn(range(80)))
    changed = CHANGES[change](memory)
    assert_same(memory, learn(range(80)))
    assert_same(changed, CHANGES[change](learn(range(80))))


# ---------------------------------------------------------------------- how weights are fitted


@by_validation
def test_predictions_use_all_nodes_and_weights_only_held_out_ones(has_val: bool) -> None:
    """Weights are those in the graph of the query, which has grown."""
    later, place = grow(VIEW)
    val = pick(range(100, 140)) if has_val else NO_NODES
    memory = learn(range(100), val)
    learned, judges = (pick(range(100)), val) if has_val else split(range(100))
    solved, judged = (naive_extractors(naive_sums(VIEW, part)) for part in (pick(range(100)), learned))
    before = weights_of(memory, VIEW).copy()
    for view, places in ((VIEW, judges[0]), (later, place[judges[0]])):
        found = memory.extractors(view)
        for mine, theirs in zip(found.layers, solved.layers, strict=True):
            np.testing.assert_array_equal(mine.weight, theirs.weight)
            np.testing.assert_array_equal(mine.bias, theirs.bias)
        for mine, theirs in zip(found.means, solved.means, strict=True):
            np.testing.assert_array_equal(mine.vectors, theirs.vectors)
        scales, weights = naive_weights(judged, view, (places, judges[1]))
        np.testing.assert_allclose(found.scales, scales, rtol=1e-5)
        np.testing.assert_allclose(found.weights, weights, atol=0.02 * weights.max())
    assert np.abs(before - weights).max() > 0.1 * weights.max()
    np.testing.assert_array_equal(weights_of(memory, VIEW), before)


def test_weights_are_fitted_to_few_nodes_of_each_class_in_view() -> None:
    view, y = make_graph(400)
    val = pick(range(100, 400), y)
    memory = EMPTY.learn(view, pick(range(100), y), val)
    assert np.bincount(val[1]).max() > WEIGHED_BY + 20
    for count in (400, 160):
        part = GraphView(view.x[:count], torch.zeros(2, 0).long(), view.ids[:count])
        chosen: list[int] = []
        for label in CLASSES:
            members = [node for node in range(100, count) if y[node] == label]
            ranks = module._rank(hash_nodes(view, np.array(members))).tolist()
            chosen += [node for _, node in sorted(zip(ranks, members, strict=True))][:WEIGHED_BY]
        nodes, labels = memory._find(part)
        assert sorted(nodes.tolist()) == sorted(chosen)
        assert labels.tolist() == y[nodes].tolist()


def test_weights_are_fitted_to_a_single_class_in_view_as_well() -> None:
    """As in a stream of single classes with edges within a task."""
    memory, nodes = learn(range(80), pick(range(80, 130))), np.flatnonzero(Y == 9)
    alone = GraphView(VIEW.x[nodes], torch.zeros(2, 0, dtype=torch.int64), VIEW.ids[nodes])
    assert not np.array_equal(weights_of(memory, alone), weights_of(memory, VIEW))
    assert weights_of(memory, alone).sum() > 0


def test_without_remembered_nodes_weights_are_equal() -> None:
    memory = learn(split(range(100))[0][0])
    assert memory.kept.remembered.shape == (0, 3)
    found, means = memory.extractors(VIEW), memory.kept.learned.means()
    np.testing.assert_allclose(found.weights, PRIOR / len(BANKS))
    at_means = [found.layers[at].evidence(means[at].astype(np.float32)) for at in (0, 2)]
    cosines = found.means[1].directions @ found.means[1].directions.T
    for bank, part in ((0, at_means[0]), (2, at_means[1]), (4, cosines), (6, at_means[1])):
        centred = part - part.mean(axis=1, keepdims=True)
        assert found.scales[bank] == pytest.approx(np.sqrt((centred**2).mean()))


def test_typical_evidence_is_of_size_1() -> None:
    assert EMPTY.typical_evidence() == []
    found = learn(range(80)).typical_evidence()
    assert [part.shape for part in found] == [(3, 3)] * 3
    for part in found:
        np.testing.assert_allclose(part.sum(axis=1), 0, atol=1e-6)
        assert (part**2).mean() == pytest.approx(1)
        assert (part.argmax(axis=1) == [0, 1, 2]).all()  # a class mean supports its class


# ---------------------------------------------------------------------- graphs without remembered nodes


def test_the_graph_of_the_latest_change_counts() -> None:
    memory = learn(range(100))
    expected = weights_of(learn(range(100)), VIEW)
    assert np.ptp(expected) > 0
    np.testing.assert_array_equal(weights_of(memory, FOREIGN), expected)
    fewer = memory.unlearn(VIEW, pick(range(50)))
    np.testing.assert_array_equal(weights_of(fewer, FOREIGN), weights_of(learn(range(50, 100)), VIEW))
    for stays in (memory.forget_class(4), EMPTY.merge(memory), memory.merge(EMPTY)):
        np.testing.assert_array_equal(weights_of(stays, FOREIGN), expected)
    nobody, _ = make_graph(seed=2)
    latest = learn(split(range(9), nobody)[0][0], memory=memory, view=nobody)
    np.testing.assert_allclose(weights_of(latest, FOREIGN), PRIOR / len(BANKS))
    assert np.ptp(weights_of(latest, VIEW)) > 0
    np.testing.assert_allclose(weights_of(memory.without_last(), FOREIGN), PRIOR / len(BANKS))


def test_fitted_weights_are_not_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = learn(range(100))
    expected, again, changed = weights_of(memory, VIEW), reload(memory), reload(memory.forget_class(4))
    monkeypatch.setattr(Extractors, "weigh", lambda *_: pytest.fail("weighed"))
    np.testing.assert_array_equal(weights_of(again, VIEW), expected)
    with pytest.raises(pytest.fail.Exception):  # other nodes are learned now
        weights_of(changed, VIEW)


# ---------------------------------------------------------------------- state
