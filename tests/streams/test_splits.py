from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpn.datasets import Graph, Masks
from hpn.errors import DataError
from hpn.streams import split_nodes
from hpn.streams.splits import split_nodes_by_time


def toy(labels: list[int], **extra: object) -> Graph:
    x, links = torch.ones(len(labels), 1), torch.zeros(2, 0).long()
    return Graph.build("toy", x=x, links=links, y=torch.tensor(labels), **extra)  # type: ignore[arg-type]


def mask(size: int, *chosen: int) -> torch.Tensor:
    out = torch.zeros(size, dtype=torch.bool)
    out[list(chosen)] = True
    return out


@given(st.lists(st.integers(3, 40), min_size=1, max_size=4), st.integers(0, 5))
def test_seeded_splits(sizes: list[int], seed: int) -> None:
    graph = toy([label for label, size in enumerate(sizes) for _ in range(size)])
    split = split_nodes(graph, (tuple(range(len(sizes))),), seed)
    total = split.train.int() + split.val.int() + split.test.int()
    assert bool((total == 1).all()), "every node is in exactly one part"
    for label, size in enumerate(sizes):
        own = graph.y == label
        counts = [int((part & own).sum()) for part in (split.train, split.val, split.test)]
        assert min(counts) >= 1
        assert abs(counts[0] - 0.6 * size) <= 1
        assert abs(counts[1] - 0.2 * size) <= 1


def test_the_seed_draws_the_split() -> None:
    graph = toy([0] * 20 + [1] * 20)
    first, again, other = (split_nodes(graph, ((0, 1),), seed).train for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_by_index_the_first_of_each_class_train() -> None:
    graph = toy([0, 1] * 10, split_rule="index")
    split = split_nodes(graph, ((0, 1),), seed=7)
    assert split.train.nonzero().flatten().tolist() == list(range(12))
    assert split.val.nonzero().flatten().tolist() == list(range(12, 16))
    assert split.test.nonzero().flatten().tolist() == list(range(16, 20))


def test_given_masks_are_restricted_to_the_tasks_classes() -> None:
    masks = Masks(mask(9, 0, 3, 6), mask(9, 1, 4, 7), mask(9, 2, 5, 8))
    split = split_nodes(toy([0, 0, 0, 1, 1, 1, 2, 2, 2], masks=masks), ((0, 1),), seed=0)
    assert split.train.nonzero().flatten().tolist() == [0, 3]
    assert split.test.nonzero().flatten().tolist() == [2, 5]


def test_without_validation_nodes_a_quarter_of_training_becomes_validation() -> None:
    masks, halves = Masks(mask(24, *range(8), *range(12, 20)), mask(24), mask(24, 8, 9, 20, 21)), torch.arange(24) // 12
    by_class = split_nodes(toy(halves.tolist(), masks=masks), ((0, 1),), seed=0)
    by_time = split_nodes_by_time(toy([0] * 24, masks=masks), halves, torch.zeros(24).long(), 0)
    for split in (by_class, by_time):
        assert [int(split.val[part].sum()) for part in (slice(12), slice(12, 24))] == [2, 2]
        assert int(split.train.sum()) == 12
        assert not bool((split.val & masks.test).any())


def test_no_test_nodes_and_no_training_nodes_are_errors() -> None:
    no_test = Masks(mask(6, 0, 3), mask(6, 1, 4), mask(6))
    with pytest.raises(DataError, match=r"task 0 \(classes 0,1\) has no test nodes"):
        split_nodes(toy([0, 0, 0, 1, 1, 1], masks=no_test), ((0, 1),), seed=0)
    no_train = Masks(mask(6, 0), mask(6, 1, 4), mask(6, 2, 5))
    with pytest.raises(DataError, match=r"class 1 .* of task 0 has no training nodes"):
        split_nodes(toy([0, 0, 0, 1, 1, 1], masks=no_train), ((0, 1),), seed=0)


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 2)), max_size=60), st.integers(0, 3))
def test_by_time_each_class_of_each_step_is_split(pairs: list[tuple[int, int]], seed: int) -> None:
    pairs += [(0, step) for step in range(3) for _ in range(3)]
    graph = toy([label for label, _ in pairs], class_names=["a", "b", "c"])
    step_of = torch.tensor([step for _, step in pairs])
    split = split_nodes_by_time(graph, step_of, graph.y, seed)
    total = split.train.int() + split.val.int() + split.test.int()
    assert torch.equal(total, (graph.y >= 0).int()), "labelled nodes are in exactly one part, others in none"
    for label in range(3):
        for step in range(3):
            own = (graph.y == label) & (step_of == step)
            counts = [int((part & own).sum()) for part in (split.train, split.val, split.test)]
            size = sum(counts)
            assert counts == [[0, 0, 0], [1, 0, 0], [1, 0, 1]][size] if size < 3 else min(counts) >= 1
            assert size < 3 or abs(counts[0] - 0.6 * size) <= 1
