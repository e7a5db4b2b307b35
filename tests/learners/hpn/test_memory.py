from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets.sparse import to_csr
from hpn.errors import DataError
from hpn.learners.hpn import memory as module
from hpn.learners.hpn.evidence import BANKS, LAYER_HOPS, MEAN_HOPS, PRIOR, Extractors, fit_weights
from hpn.learners.hpn.memory import HELD_OUT, WEIGHED_BY, Labelled, Memory
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.statistics import ClassSums, average, solve
from hpn.nn.encoder import see, slot_bits
from hpn.streams import GraphView

NUM_NODES, NUM_FEATURES, SEED = 150, 8, 5
SETTINGS = SolvedSettings(width=40)
CLASSES = (3, 4, 9)
NOBODY: Labelled = (np.zeros(0, np.int64), np.zeros(0, np.int64))
BITS = 2**64 - 1


def make_graph(
    num_nodes: int = NUM_NODES, *, seed: int = 0, has_ids: bool = True, kind: str = "dense"
) -> tuple[GraphView, np.ndarray]:
    """Communities whose features tell them apart, with noise; and the class of each node."""
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
    ids = torch.from_numpy(rng.choice(10**12, num_nodes, replace=False)) if has_ids else None
    return GraphView(features, torch.from_numpy(links), ids), y


def grow(view: GraphView, seed: int = 1) -> tuple[GraphView, np.ndarray]:
    """The same nodes with others among them and more edges, renumbered; and where each of them is now."""
    rng = np.random.default_rng(seed)
    old, new = view.num_nodes, view.num_nodes + 40
    order = rng.permutation(new)
    more = torch.from_numpy(rng.normal(size=(40, NUM_FEATURES)).astype(np.float32))
    links = np.concatenate([view.edge_index.numpy(), rng.integers(0, new, (2, 150))], axis=1)
    links = order[links[:, links[0] != links[1]]]
    links = np.unique(np.concatenate([links, links[::-1]], axis=1), axis=1)
    place = np.empty(new, np.int64)
    place[order] = np.arange(new)
    ids = torch.cat([view.ids, torch.arange(40) + 10**13])  # type: ignore[list-item]
    x = torch.cat([view.x, more])[torch.from_numpy(place)]
    return GraphView(x, torch.from_numpy(links), ids[torch.from_numpy(place)]), order[:old]


def pick(y: np.ndarray, nodes: Any) -> Labelled:
    nodes = np.asarray(nodes, dtype=np.int64)
    return nodes, y[nodes]


def new_memory() -> Memory:
    return Memory(SETTINGS, NUM_FEATURES, SEED)


def naive_hash(number: int) -> int:
    """The finaliser of SplitMix64, in whole numbers of Python."""
    number &= BITS
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & BITS
    return number ^ (number >> 31)


def signed(number: int) -> int:
    """The same 64 bits as they are stored."""
    return number - 2**64 if number >= 2**63 else number


def naive_held(view: GraphView, nodes: np.ndarray) -> np.ndarray:
    return np.array(
        [(naive_hash(view.ids[node].item()) >> 1) % HELD_OUT == 0 for node in nodes.tolist()], dtype=bool
    )


def naive_sums(view: GraphView, train: Labelled) -> list[ClassSums]:
    """Sums of each bank over nodes, encoded one after the other."""
    slots, banks = see(view), []
    for hop in LAYER_HOPS:
        banks.append(ClassSums(SETTINGS.width, has_gram=True))
        for node, label in zip(*train, strict=True):
            (row,) = slots.layers([hop], np.array([node]), SETTINGS.width, SEED)
            banks[-1].add(row, np.array([label]))
    for hop in MEAN_HOPS:
        banks.append(ClassSums(NUM_FEATURES, has_gram=False))
        for node, label in zip(*train, strict=True):
            banks[-1].add(slots.unit_rows(hop, np.array([node])), np.array([label]))
    return banks


def naive_extractors(banks: list[ClassSums]) -> Extractors:
    classes = sorted(banks[0].counts)
    layers = [solve(sums, classes, strength=0.1, balance=0.75) for sums in banks[:3]]
    means = [average(sums, classes, 2.0 ** -slot_bits(NUM_FEATURES)) for sums in banks[3:]]
    return Extractors(classes, layers, means, SETTINGS.width, SEED)


def naive_weights(extractors: Extractors, view: GraphView, judges: Labelled) -> tuple[np.ndarray, np.ndarray]:
    """Scales and weights by labelled nodes of a graph."""
    evidence = extractors.evidence(view, judges[0])
    scales = np.sqrt((evidence**2).mean(axis=(1, 2)))
    return scales, fit_weights(
        evidence / scales[:, None, None], np.searchsorted(extractors.classes, judges[1])
    )


def assert_same_sums(found: list[ClassSums], expected: list[ClassSums]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.counts == theirs.counts
        assert all((mine.sums[label] == theirs.sums[label]).all() for label in theirs.sums)
        if mine.counts:
            np.testing.assert_array_equal(mine.gram, theirs.gram)


def flatten(state: Any) -> dict[str, Any]:
    """Tensors of a state by path, as lists."""
    if isinstance(state, torch.Tensor):
        return {"": (state.dtype, state.tolist())}
    return {f"{key}/{path}": value for key, part in state.items() for path, value in flatten(part).items()}


def assert_same(first: Memory, second: Memory) -> None:
    mine, theirs = (flatten(memory.state()) for memory in (first, second))
    assert mine.keys() == theirs.keys()
    for path, value in mine.items():
        assert value == theirs[path], path


def assert_same_answers(first: Memory, second: Memory, view: GraphView) -> None:
    nodes = np.arange(view.num_nodes)
    mine, theirs = (memory.extractors(view) for memory in (first, second))
    assert mine.classes == theirs.classes
    np.testing.assert_array_equal(mine.weights, theirs.weights)
    np.testing.assert_array_equal(mine.evidence(view, nodes), theirs.evidence(view, nodes))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_hashes(ids: list[int]) -> None:
    hashes = module.hash_ids(np.array(ids))
    assert hashes.tolist() == [signed(naive_hash(number)) for number in ids]
    assert len(set(hashes.tolist())) == len(set(ids))


@pytest.mark.parametrize("step", [1, 2, 5, 1000, 2**40])
def test_a_fifth_is_held_out_whatever_the_ids_look_like(step: int) -> None:
    share = (module._rank(module.hash_ids(np.arange(4000) * step)) % HELD_OUT == 0).mean()
    assert abs(share - 0.2) < 0.03


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_fifth_of_what_is_learned_is_kept_apart(kind: str) -> None:
    view, y = make_graph(kind=kind)
    train = pick(y, range(0, NUM_NODES, 2))
    memory = new_memory()
    memory.learn(view, train, NOBODY)
    is_held = naive_held(view, train[0])
    assert 5 < is_held.sum() < 30
    assert memory.counts == {label: int((train[1] == label).sum()) for label in CLASSES}
    assert_same_sums(memory.kept.learned, naive_sums(view, (train[0][~is_held], train[1][~is_held])))
    assert_same_sums(memory.kept.held_out, naive_sums(view, (train[0][is_held], train[1][is_held])))
    ids = view.ids[torch.from_numpy(train[0][is_held])].tolist()
    expected = sorted(
        [signed(naive_hash(number)), label, 1]
        for number, label in zip(ids, train[1][is_held].tolist(), strict=True)
    )
    assert memory.kept.remembered.tolist() == expected


def test_validation_nodes_are_remembered_and_never_learned() -> None:
    view, y = make_graph()
    train, val = pick(y, range(60)), pick(y, range(60, 100))
    memory = new_memory()
    memory.learn(view, train, val)
    assert memory.counts == {label: int((train[1] == label).sum()) for label in CLASSES}
    assert_same_sums(memory.kept.learned, naive_sums(view, train))
    assert not memory.kept.held_out[0].counts
    ids = view.ids[60:100].tolist()
    expected = sorted(
        [signed(naive_hash(number)), label, 0] for number, label in zip(ids, val[1].tolist(), strict=True)
    )
    assert memory.kept.remembered.tolist() == expected


def test_answers_use_all_nodes_and_weights_only_those_held_out() -> None:
    view, y = make_graph()
    train = pick(y, range(120))
    memory = new_memory()
    memory.learn(view, train, NOBODY)
    is_held = naive_held(view, train[0])
    found = memory.extractors(view)
    answers = naive_extractors(naive_sums(view, train))
    for mine, theirs in zip(found.layers, answers.layers, strict=True):
        np.testing.assert_array_equal(mine.weight, theirs.weight)
        np.testing.assert_array_equal(mine.bias, theirs.bias)
    for mine, theirs in zip(found.means, answers.means, strict=True):
        np.testing.assert_array_equal(mine.vectors, theirs.vectors)
    judged = naive_extractors(naive_sums(view, (train[0][~is_held], train[1][~is_held])))
    scales, weights = naive_weights(judged, view, (train[0][is_held], train[1][is_held]))
    np.testing.assert_allclose(found.scales, scales, rtol=1e-5)
    np.testing.assert_allclose(found.weights, weights, atol=0.02 * weights.max())
    assert np.ptp(weights) > 0.1 * weights.max()


@pytest.mark.parametrize("has_val", [True, False])
def test_remembered_nodes_are_found_again_in_a_graph_that_has_grown(has_val: bool) -> None:
    view, y = make_graph()
    later, place = grow(view)
    train, val = pick(y, range(100)), pick(y, range(100, 140)) if has_val else NOBODY
    memory = new_memory()
    memory.learn(view, train, val)
    is_held = naive_held(view, train[0]) & (not has_val)
    judged = naive_extractors(naive_sums(view, (train[0][~is_held], train[1][~is_held])))
    judges = val if has_val else (train[0][is_held], train[1][is_held])
    before = memory.extractors(view).weights.copy()
    scales, weights = naive_weights(judged, later, (place[judges[0]], judges[1]))
    found = memory.extractors(later)
    np.testing.assert_allclose(found.scales, scales, rtol=1e-5)
    np.testing.assert_allclose(found.weights, weights, atol=0.02 * weights.max())
    assert np.abs(before - weights).max() > 0.1 * weights.max()
    np.testing.assert_array_equal(memory.extractors(view).weights, before)


def test_some_of_the_remembered_nodes_are_gone() -> None:
    view, y = make_graph()
    memory = new_memory()
    memory.learn(view, pick(y, range(100)), pick(y, range(100, 150)))
    part = GraphView(view.x[:130], torch.zeros(2, 0).long(), view.ids[:130])
    judged = naive_extractors(naive_sums(view, pick(y, range(100))))
    _, weights = naive_weights(judged, part, pick(y, range(100, 130)))
    np.testing.assert_allclose(memory.extractors(part).weights, weights, atol=0.02 * weights.max())


def test_where_none_is_found_the_latest_graph_counts() -> None:
    view, y = make_graph()
    foreign, _ = make_graph(seed=9)
    memory, other = new_memory(), new_memory()
    memory.learn(view, pick(y, range(100)), NOBODY)
    other.learn(view, pick(y, range(100)), NOBODY)
    expected = other.extractors(view).weights.copy()
    np.testing.assert_array_equal(memory.extractors(foreign).weights, expected)
    assert memory.last is not None
    np.testing.assert_array_equal(memory.last[1], expected)


def test_of_each_class_only_so_many_judge() -> None:
    view, y = make_graph(400)
    memory = new_memory()
    val = pick(y, range(100, 400))
    memory.learn(view, pick(y, range(100)), val)
    assert np.bincount(val[1]).max() > WEIGHED_BY + 20
    chosen: list[int] = []
    for label in CLASSES:
        members = val[0][val[1] == label].tolist()
        by_hash = sorted(members, key=lambda node: naive_hash(view.ids[node].item()))
        chosen += by_hash[:WEIGHED_BY]
    nodes, labels = memory._find(view)
    assert sorted(nodes.tolist()) == sorted(chosen)
    assert labels.tolist() == y[nodes].tolist()


def test_without_remembered_nodes_banks_weigh_the_same() -> None:
    view, y = make_graph()
    memory = new_memory()
    nodes = np.flatnonzero(~naive_held(view, np.arange(100)))
    memory.learn(view, pick(y, nodes), NOBODY)
    assert_same_sums(memory._add_up().learned, naive_sums(view, pick(y, nodes)))
    assert memory.kept.remembered.shape == (0, 3)
    found = memory.extractors(view)
    np.testing.assert_allclose(found.weights, PRIOR / len(BANKS))
    sums = memory.kept.learned
    at_means = found.layers[0](sums[0].means(list(CLASSES))[1].astype(np.float32))
    at_means -= at_means.mean(axis=1, keepdims=True)
    assert found.scales[0] == pytest.approx(np.sqrt((at_means**2).mean()))
    cosines = found.means[1].directions @ found.means[1].directions.T
    cosines -= cosines.mean(axis=1, keepdims=True)
    assert found.scales[4] == pytest.approx(np.sqrt((cosines**2).mean()))


def test_a_class_alone_in_view_weighs_banks_as_well() -> None:
    """As in a stream of single classes with edges within a task."""
    view, y = make_graph()
    memory = new_memory()
    memory.learn(view, pick(y, range(80)), pick(y, range(80, 130)))
    nodes = np.flatnonzero(y == 9)
    alone = GraphView(view.x[nodes], torch.zeros(2, 0, dtype=torch.int64), view.ids[nodes])
    found = memory.extractors(alone).weights.copy()
    assert not np.array_equal(found, memory.extractors(view).weights)
    assert found.sum() > 0


@pytest.mark.parametrize("at_once", [True, False])
def test_small_fits_are_added_up_later(at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    view, y = make_graph()
    train = pick(y, np.random.default_rng(0).permutation(120))
    if not at_once:
        monkeypatch.setattr(module, "SMALL_FIT", 0)
    whole = new_memory()
    whole.learn(view, train, NOBODY)
    monkeypatch.setattr(module, "SMALL_FIT", 40)
    monkeypatch.setattr(module, "MOST_PENDING", 70)
    memory = new_memory()
    pending = []
    for at in range(0, 120, 20):
        memory.learn(view, (train[0][at : at + 20], train[1][at : at + 20]), NOBODY)
        pending.append(sum(len(part[1]) for part in memory.kept.pending))
    assert pending == [20, 40, 60, 80, 0, 20]  # added up when more than 70 are waiting
    assert_same(memory, whole)
    assert not memory.kept.pending
    assert_same_answers(memory, whole, view)


def test_small_fits_of_wide_features_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """There slots are sparse, however full they are."""
    dense, y = make_graph()
    x = np.zeros((NUM_NODES, 2100), np.float32)
    x[:, :NUM_FEATURES] = dense.x.numpy()
    x[100:, :1500] += 1
    view = GraphView(to_csr(sp.csr_matrix(x)), torch.zeros(2, 0).long(), dense.ids)
    whole, memory = (Memory(SETTINGS, 2100, SEED) for _ in range(2))
    parts = [range(60), range(60, 100), range(100, 150)]
    for nodes in parts:
        memory.learn(view, pick(y, nodes), NOBODY)
    kinds = [sp.issparse(fit[-1]) for fit, _, _ in memory.kept.pending]
    assert kinds == [True, True, True]
    monkeypatch.setattr(module, "SMALL_FIT", 0)
    whole.learn(view, pick(y, range(150)), NOBODY)
    assert_same(memory, whole)


@pytest.mark.parametrize("has_val", [True, False])
def test_the_order_of_arrival_does_not_matter(has_val: bool) -> None:
    view, y = make_graph()
    memories = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        train, val = rng.permutation(110), 110 + rng.permutation(40)
        memory = new_memory()
        cuts, val_cuts = np.sort(rng.integers(0, 110, 3)), np.sort(rng.integers(0, 40, 3))
        for part, val_part in zip(np.split(train, cuts), np.split(val, val_cuts), strict=True):
            # where there are validation nodes at all, every fit has one
            judges = np.append(val_part, 110) if has_val else np.zeros(0, np.int64)
            memory.learn(view, pick(y, part), pick(y, judges))
        memories.append(memory)
    for memory in memories[1:]:
        assert_same(memory, memories[0])
        assert_same_answers(memory, memories[0], view)


@pytest.mark.parametrize("has_ids", [True, False])
def test_unlearned_nodes_leave_no_trace(has_ids: bool) -> None:
    view, y = make_graph(has_ids=has_ids)
    leaves = np.sort(np.random.default_rng(0).choice(120, 50, replace=False))
    stays = np.setdiff1d(np.arange(120), leaves)
    memory, expected = new_memory(), new_memory()
    memory.learn(view, pick(y, range(120)), NOBODY)
    memory.extractors(view)
    memory.unlearn(view, pick(y, leaves))
    expected.learn(view, pick(y, stays), NOBODY)
    assert_same(memory, expected)
    assert_same_answers(memory, expected, view)


def test_a_class_is_unlearned() -> None:
    view, y = make_graph()
    memory, expected = new_memory(), new_memory()
    nodes = np.arange(120)
    memory.learn(view, pick(y, nodes), NOBODY)
    memory.unlearn(view, pick(y, nodes[y[nodes] == 4]))
    expected.learn(view, pick(y, nodes[y[nodes] != 4]), NOBODY)
    assert list(memory.counts) == [3, 9]
    assert_same(memory, expected)


def test_only_what_was_learned_can_be_unlearned() -> None:
    view, y = make_graph()
    memory, untouched = new_memory(), new_memory()
    for each in (memory, untouched):
        each.learn(view, pick(y, range(40)), NOBODY)
    empty = GraphView(0 * view.x, view.edge_index, view.ids)
    wrong = np.where(y == 3, 4, 3)
    for graph, nodes in [
        (view, pick(wrong, range(40))),
        (view, pick(y, range(0, 150))),
        (view, (np.arange(5), np.full(5, 77))),
        (empty, pick(y, range(40))),  # as many as were learned, and too little
    ]:
        with pytest.raises(DataError, match="were not learned"):
            memory.unlearn(graph, nodes)
    assert_same(memory, untouched)
    nothing = new_memory()
    nothing.learn(empty, pick(y, range(120)), NOBODY)
    with pytest.raises(DataError, match="were not learned"):
        nothing.unlearn(view, pick(y, range(20)))  # fewer nodes than were learned, and yet too much
    nothing.unlearn(empty, pick(y, range(20)))
    assert sum(nothing.counts.values()) == 100


def test_nodes_are_remembered_as_often_as_they_can_be_unlearned() -> None:
    """Held-out nodes as often as they were learned, validation nodes once."""
    view, y = make_graph()
    train, val = pick(y, range(60)), pick(y, range(60, 90))
    memory, once = new_memory(), new_memory()
    for each, times in ((memory, 2), (once, 1)):
        for _ in range(times):
            each.learn(view, train, NOBODY)
            each.learn(view, NOBODY, val)
    held = int(naive_held(view, train[0]).sum())
    assert np.bincount(memory.kept.remembered[:, 2]).tolist() == [30, 2 * held]
    memory.unlearn(view, train)
    assert_same(memory, once)
    memory.merge(once)
    assert np.bincount(memory.kept.remembered[:, 2]).tolist() == [30, 2 * held]


def test_weights_of_another_graph_leave_no_trace() -> None:
    """Where nothing is known, banks weigh the same, whatever was asked before."""
    view, y = make_graph()
    foreign, _ = make_graph(seed=9)
    first, second = new_memory(), new_memory()
    for memory in (first, second):
        memory.learn(view, pick(y, range(100)), NOBODY)
        latest, _ = make_graph(seed=2)
        memory.learn(latest, pick(y, np.flatnonzero(~naive_held(latest, np.arange(9)))), NOBODY)
    assert np.ptp(first.extractors(view).weights) > 0
    assert_same_answers(first, second, foreign)
    np.testing.assert_allclose(first.extractors(foreign).weights, PRIOR / len(BANKS))


def test_validation_nodes_stay_when_the_others_are_unlearned() -> None:
    view, y = make_graph()
    memory = new_memory()
    memory.learn(view, pick(y, range(60)), pick(y, range(60, 90)))
    memory.unlearn(view, pick(y, range(20)))
    assert len(memory.kept.remembered) == 30
    assert sum(memory.counts.values()) == 40


@pytest.mark.parametrize("way", ["unlearn", "forget"])
def test_nothing_is_left(way: str) -> None:
    view, y = make_graph()
    memory = new_memory()
    memory.learn(view, pick(y, range(40)), NOBODY)
    if way == "unlearn":
        memory.unlearn(view, pick(y, range(40)))
    else:
        for label in CLASSES:
            memory.forget_class(label)
    assert memory.counts == {}
    pickle.dumps(memory)
    assert "learned" not in memory.state()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_merged_it_is_as_if_learned_here(order: tuple[int, ...]) -> None:
    view, y = make_graph()
    parts = [range(50), range(50, 90), range(90, 140)]
    whole, merged = new_memory(), new_memory()
    for part in parts:
        whole.learn(view, pick(y, part), NOBODY)
    apart = []
    for part in parts:
        apart.append(new_memory())
        apart[-1].learn(view, pick(y, part), NOBODY)
        apart[-1].extractors(view)
    for at in order:
        before = flatten(apart[at].state())
        merged.merge(apart[at])
        assert flatten(apart[at].state()) == before
    assert merged.counts == whole.counts
    assert_same_sums(merged.kept.learned, whole._add_up().learned)
    assert_same_sums(merged.kept.held_out, whole.kept.held_out)
    np.testing.assert_array_equal(merged.kept.remembered, whole.kept.remembered)
    assert_same_answers(merged, whole, view)


@pytest.mark.parametrize("asked", [True, False])
def test_weights_of_the_latest_graph_are_merged(asked: bool) -> None:
    view, y = make_graph()
    foreign, _ = make_graph(seed=9)
    first, merged = new_memory(), new_memory()
    first.learn(view, pick(y, range(100)), NOBODY)
    if asked:
        first.extractors(foreign)
    merged.merge(first)
    found = merged.extractors(foreign).weights.copy()
    np.testing.assert_array_equal(found, first.extractors(foreign).weights)


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_forgotten_class_is_in_no_answer(has_ids: bool) -> None:
    view, y = make_graph(has_ids=has_ids)
    memory, whole = new_memory(), new_memory()
    for each in (memory, whole):
        each.learn(view, pick(y, range(80)), NOBODY if has_ids else pick(y, range(80, 120)))
    memory.forget_class(4)
    assert memory.counts == {label: whole.counts[label] for label in (3, 9)}
    assert memory.extractors(view).classes == [3, 9]
    assert set(memory.kept.remembered[:, 1].tolist()) == {3, 9}
    for mine, theirs in zip(memory.kept.learned, whole._add_up().learned, strict=True):
        assert sorted(mine.sums) == [3, 9]
        np.testing.assert_array_equal(mine.sums[9], theirs.sums[9])
        np.testing.assert_array_equal(mine.gram, theirs.gram)
    accuracy = memory.extractors(view).evidence(view, np.arange(150))[2].argmax(axis=1)
    known = y != 4
    assert (np.array([3, 9])[accuracy] == y)[known].mean() > 0.8


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_is_interrupted_is_undone(error: type[BaseException]) -> None:
    view, y = make_graph()
    later, _ = grow(view)
    memory, untouched = new_memory(), new_memory()
    for each in (memory, untouched):
        each.learn(view, pick(y, range(40)), NOBODY)
        each.extractors(view)

    def fail() -> None:
        with memory.undone_on_error():
            memory.learn(later, (np.arange(150), np.repeat([3, 100], 75)), NOBODY)
            memory.extractors(later)
            memory.forget_class(9)
            raise error

    with pytest.raises(error):
        fail()
    assert_same(memory, untouched)
    assert_same_answers(memory, untouched, view)
    with memory.undone_on_error():
        memory.learn(view, pick(y, range(40, 80)), NOBODY)
    assert sum(memory.counts.values()) == 80


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("case", ["held out", "validation", "only held out"])
def test_state_is_everything(case: str, asked: bool) -> None:
    view, y = make_graph()
    foreign, _ = make_graph(seed=9)
    memory = new_memory()
    has_val = case == "validation"
    nodes = np.arange(80)
    if case == "only held out":
        nodes = nodes[naive_held(view, nodes)]
    memory.learn(view, pick(y, nodes), pick(y, range(80, 130)) if has_val else NOBODY)
    if asked:
        memory.extractors(view)
    state = memory.state()
    again = new_memory()
    again.load(state)
    assert_same(again, memory)
    for graph in (view, foreign):
        assert_same_answers(again, memory, graph)
    memory.learn(view, pick(y, range(130, 150)), NOBODY)
    again.learn(view, pick(y, range(130, 150)), NOBODY)
    assert_same(again, memory)
    third = new_memory()
    third.load(state)  # which neither of them has changed
    assert third.counts == {label: int((y[nodes] == label).sum()) for label in CLASSES}


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_no_graph_is_pickled(has_ids: bool, asked: bool) -> None:
    view, y = make_graph(has_ids=has_ids)
    memory = new_memory()
    memory.learn(view, pick(y, range(80)), NOBODY if has_ids else pick(y, range(80, 130)))
    if asked:
        memory.extractors(view).evidence(view, np.arange(10))
    stored = pickle.dumps(memory)
    assert b"GraphView" in pickle.dumps(view)
    assert b"GraphView" not in stored
    for again in (pickle.loads(stored), copy.deepcopy(memory)):
        assert_same(again, memory)
        assert_same_answers(again, memory, view)
        foreign, _ = make_graph(seed=9)
        assert_same_answers(again, memory, foreign)


def test_typical_evidence_is_of_size_1() -> None:
    view, y = make_graph()
    memory = new_memory()
    assert memory.typical_evidence() == []
    memory.learn(view, pick(y, range(80)), NOBODY)
    found = memory.typical_evidence()
    assert [part.shape for part in found] == [(3, 3)] * 3
    for part in found:
        np.testing.assert_allclose(part.sum(axis=1), 0, atol=1e-6)
        assert (part**2).mean() == pytest.approx(1)
        assert (part.argmax(axis=1) == [0, 1, 2]).all()  # a class mean speaks for its class


def test_one_class_only() -> None:
    view, y = make_graph()
    memory = new_memory()
    memory.learn(view, pick(y, np.flatnonzero(y == 9)), NOBODY)
    found = memory.extractors(view)
    assert found.classes == [9]
    np.testing.assert_array_equal(found.evidence(view, np.arange(4)), np.zeros((len(BANKS), 4, 1)))
