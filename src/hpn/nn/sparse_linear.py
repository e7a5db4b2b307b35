"""A linear map of sparse features whose gradient costs no more than the map itself.

On the CPU and on CUDA; MPS has no sparse rows, so there features are dense before they come here.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpn.datasets.sparse import is_sparse, to_scipy


class _SparseProduct(torch.autograd.Function):
    r""":math:`X W^\top` with the gradient :math:`G^\top X` of :math:`W`.

    On the CPU, PyTorch's own backward pass first turns :math:`X^\top` into compressed rows, every time anew,
    which takes several times as long as the product. SciPy multiplies by the transpose as it is.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.x = x  # not saved_tensors, which do not take sparse rows
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        gradient: Tensor = _TransposedProduct.apply(ctx.x, gradients[0])  # type: ignore[no-untyped-call]
        return None, gradient


class _TransposedProduct(torch.autograd.Function):
    r""":math:`G^\top X`, which is linear in :math:`G`, so that gradients of gradients exist."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gradient: Tensor) -> Tensor:
        ctx.x = x
        return multiply_transposed(x, gradient)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        product: Tensor = _SparseProduct.apply(ctx.x, gradients[0])  # type: ignore[no-untyped-call]
        return None, product


def multiply_transposed(x: Tensor, gradient: Tensor, *, by_scipy: bool | None = None) -> Tensor:
    r""":math:`G^\top X` of sparse :math:`X`, dense.

    Args:
        x: :math:`X`.
        gradient: :math:`G`.
        by_scipy: Whether SciPy does it; by default on the CPU, since elsewhere it cannot.
    """
    if x.device.type == "cpu" if by_scipy is None else by_scipy:
        return torch.from_numpy(to_scipy(x).T @ gradient.numpy()).t()
    product: Tensor = (x.t().to_sparse_csr() @ gradient).t()
    return product


class SparseLinear(nn.Module):
    """A linear layer, with the weights of another one, for features that may be sparse.

    Args:
        linear: ``torch.nn.Linear``, or PyTorch Geometric's, whose parameters are taken over.

    Shapes:
        - ``x``: ``[num_nodes, num_inputs]``, dense or sparse CSR
        - result: ``[num_nodes, num_outputs]``
    """

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.weight: nn.Parameter = linear.weight
        self.bias: nn.Parameter | None = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """Apply the map to every row."""
        if not is_sparse(x):
            return F.linear(x, self.weight, self.bias)
        product: Tensor = _SparseProduct.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return product if self.bias is None else product + self.bias
