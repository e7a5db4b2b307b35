from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.operands import NARROW, Operand

NUM_NODES, NUM_FEATURES = 12, 7
both_layouts = pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])


def features() -> Tensor:
    """Half of them zeros."""
    return torch.randn(NUM_NODES, NUM_FEATURES, generator=torch.Generator().manual_seed(0)).relu()


@both_layouts
@pytest.mark.parametrize("width", [1, 2, NARROW, NARROW + 1, 3 * NARROW])
def test_products_of_any_width_have_the_values_and_gradients_of_a_plain_one(
    is_sparse: bool, width: int
) -> None:
    """Few columns are multiplied in another layout than many."""
    x, generator = features(), torch.Generator().manual_seed(5)
    weight = torch.randn(width, NUM_FEATURES, generator=generator).t().requires_grad_()
    slope = torch.randn(NUM_NODES, width, generator=generator)
    plain = x @ weight
    (expected,) = torch.autograd.grad((plain * slope).sum(), weight)
    operand = Operand(x.to_sparse_csr() if is_sparse else x)
    product = operand.times(weight)
    assert_close(product, plain, atol=1e-5, rtol=1e-5)
    (gradient,) = torch.autograd.grad((product * slope).sum(), weight)
    assert gradient.shape == weight.shape
    assert_close(gradient, expected, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        assert_close(operand.times(weight), plain, atol=1e-5, rtol=1e-5)


@both_layouts
@pytest.mark.parametrize("widths", [(1, 1), (4, 4), (3, 1), (4, 5), (20, 10)])
def test_rows_of_a_product_have_the_values_and_gradients_of_a_plain_one(
    is_sparse: bool, widths: tuple[int, int]
) -> None:
    x, generator = features(), torch.Generator().manual_seed(5)
    rows = torch.tensor([4, 4, 0]), torch.tensor([1, 11, 1, 2])
    first, second = (
        torch.randn(NUM_FEATURES, width, generator=generator).requires_grad_() for width in widths
    )
    plain = x[rows[0]] @ first, x[rows[1]] @ second
    slopes = [torch.randn(part.shape, generator=generator) for part in plain]
    parts = Operand(x.to_sparse_csr() if is_sparse else x).times_then_select(first, second, *rows)
    assert_close(parts, plain, atol=1e-5, rtol=1e-5)
    one, other = (torch.autograd.grad(products, (first, second), slopes) for products in (parts, plain))
    assert_close(one, other, atol=1e-5, rtol=1e-5)
