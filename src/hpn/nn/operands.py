"""Features, dense or sparse, that are multiplied by weights again and again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpn.datasets.sparse import is_sparse, select_rows, to_csr, to_scipy
from hpn.nn.device import move_features

NARROW = 8
"""Columns up to which the usual layouts of a product are several times slower than others, on a CPU."""


class Operand:
    """A feature matrix that is multiplied by weights again and again.

    It goes where the weights are. The transpose of sparse features, which the gradient needs, is made once.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self.num_rows = x.shape[0]
        self._transposed: Tensor | None = None

    def times(self, weight: Tensor) -> Tensor:
        """The product, with a gradient for ``weight``."""
        self._follow(weight)
        if not is_sparse(self.x):
            if not _is_narrow(weight):
                return self.x @ weight
            narrow: Tensor = _NarrowProduct.apply(self.x, weight)  # type: ignore[no-untyped-call]
            return narrow
        if not weight.requires_grad:
            return self.x @ weight
        product: Tensor = _Product.apply(self.x, self._transpose(), weight)  # type: ignore[no-untyped-call]
        return product

    def times_then_select(
        self, first: Tensor, second: Tensor, first_rows: Tensor, second_rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Multiply once by two weights side by side; some rows of the one product and some of the other."""
        self._follow(first)
        weight = torch.cat([first, second], dim=1)
        first_rows, second_rows = first_rows.to(weight.device), second_rows.to(weight.device)
        parts: tuple[Tensor, Tensor] = _ProductRows.apply(  # type: ignore[no-untyped-call]
            self.x, self._transpose(), weight, first.shape[1], first_rows, second_rows
        )
        return parts

    def select(self, rows: Tensor) -> Operand:
        """Some rows of it."""
        return Operand(select_rows(self.x, rows.to(self.x.device)))

    def _follow(self, weight: Tensor) -> None:
        if self.x.device != weight.device:
            self.x, self._transposed = move_features(self.x, weight.device), None

    def _transpose(self) -> Tensor:
        if self._transposed is None:
            if is_sparse(self.x):
                transposed = to_csr(to_scipy(self.x.cpu()).T.tocsr())
                self._transposed = transposed.to(self.x.device)
            else:
                self._transposed = self.x.t()
        return self._transposed


class _Product(torch.autograd.Function):
    r""":math:`X W` with the gradient :math:`X^\top G`, both as sparse products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, transposed: Tensor, weight: Tensor) -> Tensor:
        ctx.transposed = transposed  # not saved_tensors, which do not take sparse rows
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed @ gradients[0]


class _NarrowProduct(torch.autograd.Function):
    """The product of dense features and few columns, in the layouts that libraries multiply fast."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _times_narrow(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        (x,) = ctx.saved_tensors
        return None, (gradients[0].t() @ x).t()


class _ProductRows(torch.autograd.Function):
    """Rows of :math:`X W`: some of its first columns, some of the others."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, transposed: Tensor, weight: Tensor, split: int, first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.transposed, ctx.split, ctx.shape = transposed, split, (x.shape[0], weight.shape[1])
        ctx.save_for_backward(first, second)
        is_narrow = not is_sparse(x) and _is_narrow(weight)
        product = _times_narrow(x, weight) if is_narrow else x @ weight
        return product[:, :split].index_select(0, first), product[:, split:].index_select(0, second)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor, None, None, None]:
        first, second = ctx.saved_tensors
        total = gradients[0].new_zeros(ctx.shape)
        total[:, : ctx.split].index_add_(0, first, gradients[0])
        total[:, ctx.split :].index_add_(0, second, gradients[1])
        if not is_sparse(ctx.transposed) and _is_narrow(total):
            return None, None, (total.t() @ ctx.transposed.t()).t(), None, None, None
        return None, None, ctx.transposed @ total, None, None, None


def _is_narrow(weight: Tensor) -> bool:
    return weight.shape[1] <= NARROW and weight.device.type == "cpu"


def _times_narrow(x: Tensor, weight: Tensor) -> Tensor:
    return (weight.t().contiguous() @ x.t()).t().contiguous()
