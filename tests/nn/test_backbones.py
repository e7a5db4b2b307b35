from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GINConv

from hpn.nn import BACKBONES, GAT, GCN, GIN, grow_outputs
from hpn.nn.backbones import ProjectedGINConv, drop


@pytest.fixture
def edge_index() -> torch.Tensor:
    pairs = torch.randint(10, (2, 20), generator=torch.Generator().manual_seed(0))
    pairs = pairs[:, pairs[0] != pairs[1]]
    return torch.unique(torch.cat([pairs, pairs.flip(0)], dim=1), dim=1)


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_papers_widths() -> None:
    d, c = 100, 2
    assert count(GCN(d, c)) == d * 16 + 16 + 16 * c + c
    assert count(GAT(d, c)) == (d * 64 + 2 * 64 + 64) + (64 * c + 2 * c + c)
    assert count(GIN(d, c)) == (d * 32 + 32 + 32 * 32 + 32) + (32 * 32 + 32 + 32 * c + c)


def test_preparing_the_graph_once_changes_nothing(edge_index: torch.Tensor) -> None:
    """The same numbers as PyTorch Geometric's layers with their own normalisation and self-loops."""
    x = torch.randn(10, 5)
    for kind, conv in ((GCN, GCNConv), (GAT, GATConv)):
        network = kind(5, 3).eval()
        plain = type(network)(5, 3).eval()
        plain.load_state_dict(network.state_dict())
        for layer in (plain.first, plain.second):
            assert isinstance(layer, conv)
            layer.normalize = layer.add_self_loops = True
        adjacency = network.prepare(edge_index, 10)
        assert torch.allclose(network(x, adjacency), plain(x, (edge_index,)), atol=1e-6)


def test_projecting_first_is_the_same_gin_layer(edge_index: torch.Tensor) -> None:
    layer = ProjectedGINConv(5, 8, 3)
    nn.init.normal_(layer.shift)
    usual = GINConv(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)))
    usual.nn[0].weight.data, usual.nn[0].bias.data = layer.project.weight.data, layer.shift.data
    usual.nn[2].load_state_dict(layer.combine.state_dict())
    x = torch.randn(10, 5)
    assert torch.allclose(layer(x, edge_index), usual(x, edge_index), atol=1e-5)


@pytest.mark.parametrize("name", BACKBONES)
def test_sparse_features_give_the_same_logits_and_gradients(name: str, edge_index: torch.Tensor) -> None:
    x = (torch.rand(10, 6) < 0.3).float()
    network = BACKBONES[name](6, 2).eval()
    adjacency = network.prepare(edge_index, 10)
    results = []
    for features in (x, x.to_sparse_csr()):
        network.zero_grad()
        logits = network(features, adjacency)
        logits.pow(2).sum().backward()
        results.append((logits, [parameter.grad.clone() for parameter in network.parameters()]))
    (dense, dense_grads), (sparse, sparse_grads) = results
    assert torch.allclose(dense, sparse, atol=1e-5)
    for one, other in zip(dense_grads, sparse_grads, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("name", BACKBONES)
def test_growing_keeps_every_old_parameter(name: str) -> None:
    network = BACKBONES[name](6, 2, dropout=0.3)
    grown = grow_outputs(network, 5)
    assert (grown.num_outputs, grown.dropout) == (5, 0.3)
    new = dict(grown.named_parameters())
    for key, old in network.named_parameters():
        block = new[key][tuple(slice(size) for size in old.shape)]
        assert torch.equal(block, old)


def test_growing_a_gcn_keeps_the_old_logits(edge_index: torch.Tensor) -> None:
    network = GCN(6, 2).eval()
    grown = grow_outputs(network, 5).eval()
    x, adjacency = torch.randn(10, 6), network.prepare(edge_index, 10)
    assert torch.allclose(grown(x, adjacency)[:, :2], network(x, adjacency), atol=1e-6)


def test_dropout_of_sparse_rows() -> None:
    x = torch.ones(50, 40).to_sparse_csr()
    torch.manual_seed(0)
    dropped = drop(x, 0.5, training=True)
    kept = dropped.values()[dropped.values() != 0]
    assert 0.4 < len(kept) / 2000 < 0.6
    assert torch.equal(kept, torch.full_like(kept, 2.0))
    assert drop(x, 0.5, training=False) is x
    assert drop(x, 0.0, training=True) is x
