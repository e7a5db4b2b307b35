r"""Products with sparse features :math:`X W`, whose gradient :math:`X^\top G` costs no more than the product.

PyTorch's own backward pass converts :math:`X^\top` into compressed rows each time, which takes several times as long
as the product. SciPy multiplies by the transpose directly. MPS has no sparse rows; features are dense there.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpn.datasets.sparse import is_sparse, to_scipy


def multiply(x: Tensor, weight: Tensor) -> Tensor:
    """The product of features, dense or sparse CSR, with a matrix; sparse features get no gradient."""
    if not is_sparse(x):
        return x @ weight
    product: Tensor = _Product.apply(x, weight, False)  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    """The product with X or with its transpose: each is the derivative of the other, as often as needed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, is_transposed: bool) -> Tensor:
        ctx.x, ctx.is_transposed = x, is_transposed  # saved_tensors does not take sparse rows
        return multiply_transposed(x, matrix, use_scipy=x.is_cpu) if is_transposed else x @ matrix

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None]:
        return None, _Product.apply(ctx.x, gradients[0], not ctx.is_transposed), None  # type: ignore[no-untyped-call]


def multiply_transposed(x: Tensor, gradient: Tensor, *, use_scipy: bool) -> Tensor:
    r""":math:`X^\top G` of sparse :math:`X`, dense; SciPy computes on the CPU only."""
    if use_scipy:
        return torch.from_numpy(to_scipy(x).T @ gradient.numpy())
    product: Tensor = x.t().to_sparse_csr() @ gradient
    return product


class SparseLinear(nn.Module):
    """A linear layer for dense or sparse features, which takes over the parameters of ``linear``."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.weight: nn.Parameter = linear.weight
        self.bias: nn.Parameter | None = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to every row."""
        if not is_sparse(x):
            return F.linear(x, self.weight, self.bias)
        product = multiply(x, self.weight.t())
        return product if self.bias is None else product + self.bias
