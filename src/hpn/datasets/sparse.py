"""Row operations on features that are dense or sparse (CSR), so that callers need not distinguish them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

Normalize = Literal["none", "row"]

# The first CSR tensor of a process makes PyTorch warn that they are in beta; this is that tensor.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
    torch.eye(1).to_sparse_csr()


def is_sparse(x: Tensor) -> bool:
    """Whether ``x`` is stored as compressed sparse rows."""
    return x.layout == torch.sparse_csr


def to_csr(matrix: sp.csr_matrix | sp.csr_array) -> Tensor:
    """Convert a SciPy matrix to a float32 CSR tensor."""
    matrix = matrix.tocsr()
    matrix.sum_duplicates()
    indptr, indices = (torch.from_numpy(part.astype(np.int64)) for part in (matrix.indptr, matrix.indices))
    return csr_tensor(indptr, indices, torch.from_numpy(matrix.data.astype(np.float32)), matrix.shape)


def to_scipy(x: Tensor) -> sp.csr_matrix:
    """View a CSR tensor as a SciPy matrix (the arrays are shared, not copied)."""
    indptr, indices, values = (part.numpy() for part in csr_parts(x))
    return sp.csr_matrix((values, indices, indptr), shape=(x.shape[0], x.shape[1]))


def csr_tensor(crow: Tensor, col: Tensor, values: Tensor, size: tuple[int, ...]) -> Tensor:
    """A CSR tensor of parts that are known to fit each other."""
    return torch.sparse_csr_tensor(crow, col, values, size, check_invariants=False)


def csr_parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Row pointers, columns and values of a CSR tensor."""
    return x.crow_indices(), x.col_indices(), x.values()


def select_rows(x: Tensor, index: Tensor) -> Tensor:
    """Gather rows ``[n]``, dense from dense and sparse from sparse."""
    if not is_sparse(x):
        # index_select copies whole rows; x[index] copies number by number.
        return x.index_select(0, index)
    starts = x.crow_indices()[:-1][index]
    counts = x.crow_indices()[1:][index] - starts
    crow = _row_pointers(counts)
    # Entry e of row r is at starts[r] + (e - crow[r]) in the source.
    entries = torch.arange(int(crow[-1]), device=index.device) + torch.repeat_interleave(starts - crow[:-1], counts)
    return csr_tensor(crow, x.col_indices()[entries], x.values()[entries], (len(index), x.shape[1]))


def stack_rows(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate feature matrices, all dense or all sparse, along the rows."""
    if len(parts) == 1:
        return parts[0]
    if not is_sparse(parts[0]):
        return torch.cat(list(parts))
    counts = torch.cat([part.crow_indices().diff() for part in parts])
    columns, values = (torch.cat(found) for found in zip(*(csr_parts(part)[1:] for part in parts), strict=True))
    return csr_tensor(_row_pointers(counts), columns, values, (len(counts), parts[0].shape[1]))


def normalize_rows(x: Tensor, how: Normalize = "row") -> Tensor:
    """Scale each row to an absolute sum of 1; rows of zeros stay zero, and ``none`` changes nothing.

    A row is scaled by itself alone, so that no information leaks between nodes.
    """
    if how == "none":
        return x
    if not is_sparse(x):
        total = x.abs().sum(dim=1, keepdim=True)
        return x / total.masked_fill(total == 0, 1)
    crow, col, values = csr_parts(x)
    row = torch.repeat_interleave(torch.arange(x.shape[0]), crow.diff())
    total = torch.zeros(x.shape[0]).index_add_(0, row, values.abs())
    return csr_tensor(crow, col, values / total.masked_fill(total == 0, 1)[row], tuple(x.shape))


def _row_pointers(counts: Tensor) -> Tensor:
    """Where each row begins, and where the last one ends."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
