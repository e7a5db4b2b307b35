from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hpn.learners.gnn.training_data import TrainingData
from hpn.nn import GCN
from hpn.streams.views import FeatureRows

NUM_NODES, NUM_TRAIN = 40, 23


@pytest.fixture
def data() -> TrainingData:
    """Nodes whose first feature is their number, and whose target and allowed columns follow from it."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(NUM_NODES, (2, 60), generator=generator)
    pairs = pairs[:, pairs[0] != pairs[1]]
    edge_index = torch.unique(torch.cat([pairs, pairs.flip(0)], dim=1), dim=1)
    x = torch.cat([torch.arange(float(NUM_NODES)).view(-1, 1), torch.rand(NUM_NODES, 3, generator=generator)], 1)
    nodes = torch.randperm(NUM_NODES, generator=generator)[:NUM_TRAIN]
    allowed = torch.stack([nodes >= 0, nodes % 3 == 0, nodes % 3 != 0], dim=1)
    return TrainingData(x, GCN(4, 3).prepare(edge_index, NUM_NODES), nodes, nodes % 5, allowed)


def numbers(data: TrainingData) -> list[int]:
    return data.x[data.nodes, 0].long().tolist()


def test_without_a_size_the_only_batch_is_all(data: TrainingData) -> None:
    state = torch.get_rng_state()
    assert list(data.batches(None)) == [data]
    assert torch.equal(torch.get_rng_state(), state), "nothing is drawn"


@pytest.mark.parametrize(("size", "lengths"), [(5, [5, 5, 5, 5, 3]), (23, [23]), (100, [23]), (1, [1] * 23)])
def test_batches_hold_every_node_once(data: TrainingData, size: int, lengths: list[int]) -> None:
    batches = list(data.batches(size))
    assert [len(batch) for batch in batches] == lengths
    assert sorted(number for batch in batches for number in numbers(batch)) == sorted(data.nodes.tolist())


def test_targets_and_columns_go_with_their_nodes(data: TrainingData) -> None:
    for batch in [*data.batches(4), *data.singles(6)]:
        found = torch.tensor(numbers(batch))
        assert torch.equal(batch.target, found % 5)
        assert torch.equal(batch.allowed[:, 1], found % 3 == 0)
        assert torch.equal(batch.allowed[:, 2], found % 3 != 0)


def test_the_order_is_drawn_anew_in_every_epoch(data: TrainingData) -> None:
    torch.manual_seed(0)
    epochs = [[number for batch in data.batches(5) for number in numbers(batch)] for _ in range(3)]
    assert len({tuple(epoch) for epoch in [*epochs, data.nodes.tolist()]}) == 4
    torch.manual_seed(0)
    assert [number for batch in data.batches(5) for number in numbers(batch)] == epochs[0]


def test_a_part_has_the_logits_of_the_whole(data: TrainingData) -> None:
    network = GCN(4, 3).eval()
    whole = network(data.x, data.adjacency)
    for batch in [*data.batches(5), *data.singles(3)]:
        logits = network(batch.x, batch.adjacency)[batch.nodes]
        assert torch.allclose(logits, whole[numbers(batch)], atol=1e-5)
        assert batch.x.shape[0] < NUM_NODES or len(batch) > 3


@pytest.mark.parametrize(("most", "count"), [(1, 1), (10, 10), (23, 23), (500, 23)])
def test_singles_are_different_nodes(data: TrainingData, most: int, count: int) -> None:
    singles = list(data.singles(most))
    assert [len(single) for single in singles] == [1] * count
    found = {numbers(single)[0] for single in singles}
    assert len(found) == count
    assert found <= set(data.nodes.tolist())


def test_singles_are_drawn(data: TrainingData) -> None:
    assert len({tuple(numbers(single)[0] for single in data.singles(3)) for _ in range(5)}) > 1


def test_neighbours_are_drawn_in_batches_only(data: TrainingData) -> None:
    few = replace(data, num_neighbors=1, sums_neighbors=True)
    (whole,) = few.batches(None)
    assert whole.adjacency[0].shape == data.adjacency[0].shape
    (batch,) = few.batches(NUM_TRAIN)
    _, target = batch.adjacency[0]
    assert int(torch.bincount(target).max()) == 2, "a self-loop and one neighbour"


def test_what_a_step_goes_over_is_moved_and_the_rest_stays(data: TrainingData) -> None:
    remote = replace(data, device=torch.device("meta"))
    steps = [*remote.batches(None), *remote.batches(9), *remote.singles(2), *remote.in_order(9)]
    assert len(steps) == 1 + 3 + 2 + 3
    for step in steps:
        parts = [step.x, step.nodes, step.target, step.allowed, *step.adjacency]
        assert all(part.is_meta for part in parts)
    assert not any(part.is_meta for part in (remote.x, remote.nodes, remote.target, *remote.adjacency))
    assert next(remote.batches(None)) is next(remote.batches(None)), "the whole is moved once"


def test_features_that_are_fetched_are_those_in_memory(data: TrainingData) -> None:
    order = torch.randperm(NUM_NODES)
    fetched = replace(data, features=FeatureRows(data.x[order].half(), order.argsort()))
    for size in (None, 9):
        for one, other in zip(fetched.in_order(size), data.in_order(size), strict=True):
            assert one.x.dtype == torch.float32
            assert torch.equal(one.x, other.x.half().float())
            assert torch.equal(one.nodes, other.nodes)
