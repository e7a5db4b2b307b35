from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv

from hpn.nn import BACKBONES, GAT, GCN, GIN, grow_outputs
from hpn.nn.backbones import drop


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


def test_dropout_of_sparse_rows() -> None:
    x = torch.ones(50, 40).to_sparse_csr()
    torch.manual_seed(0)
    dropped = drop(x, 0.5, training=True)
    kept = dropped.values()[dropped.values() != 0]
    assert 0.4 < len(kept) / 2000 < 0.6
    assert torch.equal(kept, torch.full_like(kept, 2.0))
    assert drop(x, 0.5, training=False) is x
    assert drop(x, 0.0, training=True) is x


def dense(edge_index: torch.Tensor) -> torch.Tensor:
    """The adjacency matrix with self-loops."""
    matrix = torch.eye(10)
    matrix[edge_index[1], edge_index[0]] = 1
    return matrix


def by_hand(network: GCN | GAT | GIN, x: torch.Tensor, edge_index: torch.Tensor) -> dict[str, torch.Tensor]:
    """What each layer gathers, the hidden units and the logits, from dense matrices and plain loops."""
    found: dict[str, torch.Tensor] = {}
    inputs = x
    for name, layer in (("first", network.first), ("second", network.second)):
        if isinstance(network, GCN):
            matrix = dense(edge_index)
            scale = matrix.sum(dim=1).rsqrt()
            gathered = (scale[:, None] * matrix * scale[None, :]) @ (inputs @ layer.lin.weight.T)
            outputs = gathered + layer.bias
        elif isinstance(network, GIN):
            gathered = dense(edge_index) @ inputs @ layer.project.weight.T
            outputs = (gathered + layer.shift).relu() @ layer.combine.weight.T + layer.combine.bias
        else:
            gathered, outputs = attend(layer, inputs, network.prepare(edge_index, 10)[0])
        found[name] = gathered
        inputs = nn.functional.elu(outputs) if isinstance(network, GAT) else outputs.relu()
        found["hidden" if name == "first" else "logits"] = inputs if name == "first" else outputs
    return found


def attend(layer: GATConv, x: torch.Tensor, entries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention logits of each entry, and the layer's output, head by head and entry by entry."""
    hidden = (x @ layer.lin.weight.T).view(10, layer.heads, -1)
    logits = torch.stack(
        [
            torch.stack(
                [layer.att_src[0, k] @ hidden[u, k] + layer.att_dst[0, k] @ hidden[v, k] for k in range(layer.heads)]
            )
            for u, v in entries.T.tolist()
        ]
    )
    logits = torch.where(logits > 0, logits, 0.2 * logits)
    outputs = torch.zeros_like(hidden)
    for at, (u, v) in enumerate(entries.T.tolist()):
        share = logits[at].exp() / logits[entries[1] == v].exp().sum(dim=0)
        outputs[v] += share[:, None] * hidden[u]
    return logits, (outputs.flatten(1) if layer.concat else outputs.mean(dim=1)) + layer.bias


@pytest.mark.parametrize("name", BACKBONES)
def test_structure_hidden_units_and_logits_by_hand(name: str, edge_index: torch.Tensor) -> None:
    x = torch.randn(10, 6, generator=torch.Generator().manual_seed(1))
    network = BACKBONES[name](6, 3).eval()
    with torch.no_grad():
        for parameter in network.parameters():  # biases start at 0, where they could be forgotten
            parameter.add_(0.1 * torch.randn(parameter.shape))
        adjacency = network.prepare(edge_index, 10)
        expected = by_hand(network, x, edge_index)
        first, second = network.structure(x, adjacency)
        assert torch.allclose(first, expected["first"], atol=1e-5)
        assert torch.allclose(second, expected["second"], atol=1e-5)
        assert torch.allclose(network.embed(x, adjacency), expected["hidden"], atol=1e-5)
        assert torch.allclose(network(x, adjacency), expected["logits"], atol=1e-5)
        for one, other in zip(network.structure(x.to_sparse_csr(), adjacency), (first, second), strict=True):
            assert torch.allclose(one, other, atol=1e-5)
