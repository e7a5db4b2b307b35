from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from hpn.nn import BACKBONES, SubgraphCutter
from hpn.nn.subgraphs import Subgraph

NUM_NODES = 30
HUB = 0
ALONE = [28, 29]


@pytest.fixture
def matrix() -> np.ndarray:
    """A random graph with a hub that is linked to most nodes, and two isolated nodes."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((NUM_NODES, NUM_NODES)) < 0.06, 1)
    upper[HUB, 1:20] = True
    adjacency = (upper | upper.T).astype(np.float64)
    adjacency[ALONE] = adjacency[:, ALONE] = 0
    return adjacency


def edges(matrix: np.ndarray) -> Tensor:
    return torch.from_numpy(np.stack(np.nonzero(matrix)))


def normalized(matrix: np.ndarray) -> np.ndarray:
    looped = matrix + np.eye(len(matrix))
    scale = looped.sum(axis=1) ** -0.5
    return scale[:, None] * looped * scale[None, :]


def named(matrix: np.ndarray) -> Tensor:
    """The only feature of a node is its number, so that a cut shows which nodes are in it."""
    return torch.arange(float(len(matrix))).view(-1, 1)


def names(cut: Subgraph) -> np.ndarray:
    return cut.x.flatten().numpy().astype(int)


def as_matrix(cut: Subgraph, size: int) -> np.ndarray:
    """Weight of each entry as ``[target, source]`` of the whole graph; 1 if entries have no weights."""
    source, target = names(cut)[cut.adjacency[0].numpy()]
    found = np.zeros((size, size))
    weight = cut.adjacency[1].numpy() if len(cut.adjacency) > 1 else 1.0
    np.add.at(found, (target, source), weight)
    return found


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", BACKBONES)
def test_logits_are_those_of_the_whole_graph(name: str, sparse: bool, matrix: np.ndarray) -> None:
    x = torch.randn(NUM_NODES, 6, generator=torch.Generator().manual_seed(1)).relu()
    network = BACKBONES[name](6, 3).eval()
    adjacency = network.prepare(edges(matrix), NUM_NODES)
    whole = network(x, adjacency)
    cutter = SubgraphCutter(x.to_sparse_csr() if sparse else x, adjacency)
    for nodes in ([HUB], ALONE, [7, 29, 0, 3], list(range(NUM_NODES))):
        cut = cutter.cut(torch.tensor(nodes))
        assert torch.allclose(network(cut.x, cut.adjacency)[cut.rows], whole[nodes], atol=1e-5), nodes


def test_a_cut_leaves_nothing_behind_in_the_cutter(matrix: np.ndarray) -> None:
    cutter = SubgraphCutter(named(matrix), (edges(matrix),))
    first = cutter.cut(torch.tensor([12, 3]))
    cutter.cut(torch.tensor([HUB, 28]))
    again = cutter.cut(torch.tensor([12, 3]))
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.adjacency[0], again.adjacency[0])
    fresh = SubgraphCutter(named(matrix), (edges(matrix),)).cut(torch.tensor([12, 3]))
    assert torch.equal(first.adjacency[0], fresh.adjacency[0])


@pytest.mark.parametrize("name", BACKBONES)
def test_at_most_that_many_neighbours_and_always_the_node_itself(name: str, matrix: np.ndarray) -> None:
    network = BACKBONES[name](1, 2)
    adjacency = network.prepare(edges(matrix), NUM_NODES)
    cutter = SubgraphCutter(named(matrix), adjacency, num_neighbors=3, sums_neighbors=network.sums_neighbors)
    torch.manual_seed(0)
    cut = cutter.cut(torch.arange(NUM_NODES))
    source, target = names(cut)[cut.adjacency[0].numpy()]
    is_loop = source == target
    assert sorted(target[is_loop]) == ([] if name == "gin" else list(range(NUM_NODES)))
    pairs = list(zip(source[~is_loop], target[~is_loop], strict=True))
    assert len(set(pairs)) == len(pairs), "drawn without replacement"
    assert all(matrix[pair] for pair in pairs)
    drawn = np.bincount(target[~is_loop], minlength=NUM_NODES)
    assert drawn.tolist() == np.minimum(matrix.sum(axis=1), 3).astype(int).tolist()


def test_loops_and_small_neighbourhoods_keep_their_weights(matrix: np.ndarray) -> None:
    adjacency = BACKBONES["gcn"](1, 2).prepare(edges(matrix), NUM_NODES)
    cutter = SubgraphCutter(named(matrix), adjacency, num_neighbors=3, sums_neighbors=True)
    torch.manual_seed(0)
    found, expected = as_matrix(cutter.cut(torch.arange(NUM_NODES)), NUM_NODES), normalized(matrix)
    assert np.allclose(np.diag(found), np.diag(expected))
    degree = matrix.sum(axis=1)
    few = degree <= 3
    assert 0 < few.sum() < NUM_NODES
    assert np.allclose(found[few], expected[few], atol=1e-6)
    off = ~np.eye(NUM_NODES, dtype=bool) & (found > 0) & ~few[:, None]
    growth = np.broadcast_to(degree[:, None] / 3, off.shape)
    assert np.allclose(found[off], (expected * growth)[off], atol=1e-6)


@pytest.mark.parametrize("name", ["gcn", "gin"])
def test_sums_over_drawn_neighbours_are_right_on_average(name: str) -> None:
    """Three hundred nodes with the same seven neighbours: as many draws from one neighbourhood per cut."""
    matrix = np.zeros((307, 307))
    matrix[:7, 7:] = 1
    matrix += matrix.T
    adjacency = BACKBONES[name](1, 2).prepare(edges(matrix), 307)
    cutter = SubgraphCutter(named(matrix), adjacency, num_neighbors=3, sums_neighbors=True)
    torch.manual_seed(0)
    draws = np.concatenate([as_matrix(cutter.cut(torch.arange(7, 307)), 307)[7:, :7] for _ in range(10)])
    expected = (normalized(matrix) if name == "gcn" else matrix)[7, :7]
    assert np.allclose(draws.sum(axis=1), expected.sum(), rtol=1e-5), "alike neighbours: right in each draw"
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - expected) < 4 * error)
    assert np.all(error < 0.03 * expected)


def test_neighbours_are_drawn_anew_in_each_cut(matrix: np.ndarray) -> None:
    cutter = SubgraphCutter(named(matrix), (edges(matrix),), num_neighbors=2, sums_neighbors=True)
    torch.manual_seed(0)
    seen = {frozenset(names(cutter.cut(torch.tensor([HUB])))) for _ in range(5)}
    assert len(seen) > 1


@pytest.mark.parametrize("sparse", [False, True])
def test_a_cut_of_a_long_path_is_short(sparse: bool) -> None:
    size = 100_000
    step = torch.arange(size - 1)
    path = torch.cat([torch.stack([step, step + 1]), torch.stack([step + 1, step])], dim=1)
    x = torch.arange(1.0, size + 1).view(-1, 1)
    cut = SubgraphCutter(x.to_sparse_csr() if sparse else x, (path,)).cut(torch.tensor([500, 90_000]))
    kept = cut.x.to_dense().flatten().sub(1).long().tolist()
    assert sorted(kept) == [498, 499, 500, 501, 502, 89_998, 89_999, 90_000, 90_001, 90_002]
    assert cut.adjacency[0].shape == (2, 12)
