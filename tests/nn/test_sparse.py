from __future__ import annotations

import pytest
import torch
from torch import nn

from hpn.nn.sparse import SparseLinear, multiply_transposed


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


def test_no_gradient_is_computed_where_none_is_needed() -> None:
    layer = SparseLinear(nn.Linear(4, 3))
    with torch.no_grad():
        assert not layer(torch.eye(4).to_sparse_csr()).requires_grad


def test_second_derivatives_are_those_of_the_dense_product() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(7, 5, generator=generator, dtype=torch.float64)
    x = x * (x < 0.5)
    layer = SparseLinear(nn.Linear(5, 3).double())
    direction = torch.rand(3, 5, generator=generator, dtype=torch.float64)
    results = []
    for product in (lambda: x @ layer.weight.T + layer.bias, lambda: layer(x.to_sparse_csr())):
        (slope,) = torch.autograd.grad((product().tanh() ** 3).sum(), layer.weight, create_graph=True)
        results.append(torch.autograd.grad((slope.square() + slope * direction).sum(), [layer.weight, layer.bias]))
    for expected, found in zip(*results, strict=True):
        assert float(expected.abs().max()) > 0.01
        assert torch.allclose(expected, found, atol=1e-12)


def test_the_product_of_other_devices_is_that_of_the_cpu() -> None:
    x, gradient = torch.rand(7, 5) * (torch.rand(7, 5) < 0.4), torch.rand(7, 3)
    for use_scipy in (True, False):
        found = multiply_transposed(x.to_sparse_csr(), gradient, use_scipy=use_scipy)
        assert torch.allclose(found, x.t() @ gradient, atol=1e-6)
