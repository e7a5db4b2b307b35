from __future__ import annotations

import pytest
import torch
from torch import nn

from hpn.nn.sparse_linear import SparseLinear


@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_those_of_the_dense_layer(bias: bool) -> None:
    x = torch.rand(7, 5) * (torch.rand(7, 5) < 0.4)
    linear = nn.Linear(5, 3, bias=bias)
    layer = SparseLinear(linear)
    assert layer.weight is linear.weight, "the weights are taken over, not drawn anew"
    results = []
    for module, features in ((linear, x), (layer, x), (layer, x.to_sparse_csr())):
        linear.zero_grad()
        out = module(features)
        (out**2).sum().backward()
        results.append((out, *[parameter.grad.clone() for parameter in linear.parameters()]))
    for other in results[1:]:
        for expected, found in zip(results[0], other, strict=True):
            assert torch.allclose(expected, found, atol=1e-5)


def test_gradients_flow_through_layers_above() -> None:
    x = (torch.rand(6, 4) < 0.5).float()
    first, second = nn.Linear(4, 3), nn.Linear(3, 2)
    gradients = []
    for features in (x, x.to_sparse_csr()):
        first.zero_grad()
        second(torch.tanh(SparseLinear(first)(features))).sum().backward()
        gradients.append(first.weight.grad.clone())
    assert torch.allclose(*gradients, atol=1e-6)


def test_no_gradient_is_computed_where_none_is_asked() -> None:
    layer = SparseLinear(nn.Linear(4, 3))
    with torch.no_grad():
        assert not layer(torch.eye(4).to_sparse_csr()).requires_grad
