"""Row operations on features that may be dense or sparse (CSR), so that callers need not care which."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

Normalize = Literal["none", "row"]

# The first CSR tensor of a process makes PyTorch warn that they are in beta; that is this one.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
    torch.eye(1).to_sparse_csr()


def is_sparse(x: Tensor) -> bool:
    """Whether ``x`` is stored as compressed sparse rows."""
    return x.layout == torch.sparse_csr


def to_csr(matrix: sp.csr_matrix | sp.csr_array) -> Tensor:
    """Turn a SciPy CSR matrix into a float32 CSR tensor."""
    matrix = matrix.tocsr()
    matrix.sum_duplicates()
    return csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int64)),
        torch.from_numpy(matrix.indices.astype(np.int64)),
        torch.from_numpy(matrix.data.astype(np.float32)),
        (matrix.shape[0], matrix.shape[1]),
    )


def to_scipy(x: Tensor) -> sp.csr_matrix:
    """View a CSR tensor as a SciPy matrix (the arrays are shared, not copied)."""
    arrays = (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy())
    return sp.csr_matrix(arrays, shape=(x.shape[0], x.shape[1]))


def count_entries(x: Tensor) -> int:
    """Numbers that are stored of ``x``: of sparse rows, values, columns and where each row starts.

    Example:
        >>> count_entries(torch.eye(3)), count_entries(torch.eye(3).to_sparse_csr())
        (9, 10)
    """
    parts = (x.values(), x.col_indices(), x.crow_indices()) if is_sparse(x) else (x,)
    return sum(part.numel() for part in parts)


def select_rows(x: Tensor, index: Tensor) -> Tensor:
    """Gather rows, dense from dense and sparse from sparse.

    Args:
        x: The rows.
        index: Which, from 0 ``[n]``.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]]).to_sparse_csr()
        >>> select_rows(x, torch.tensor([2, 0])).to_dense().tolist()
        [[0.0, 3.0], [0.0, 1.0]]
    """
    if not is_sparse(x):
        # index_select copies whole rows, which x[index] does number by number.
        return x.index_select(0, index)
    starts = x.crow_indices()[:-1][index]
    counts = x.crow_indices()[1:][index] - starts
    crow = torch.zeros(len(index) + 1, dtype=torch.int64, device=index.device)
    torch.cumsum(counts, 0, out=crow[1:])
    # Entry e of row r sits at starts[r] + (e - crow[r]) in the source.
    entries = torch.arange(int(crow[-1]), device=index.device) + torch.repeat_interleave(starts - crow[:-1], counts)
    shape = (len(index), x.shape[1])
    return csr_tensor(crow, x.col_indices()[entries], x.values()[entries], shape)


def stack_rows(parts: Sequence[Tensor]) -> Tensor:
    """Put feature matrices below each other, dense below dense and sparse below sparse.

    Example:
        >>> x = torch.eye(2).to_sparse_csr()
        >>> stack_rows([x, x]).to_dense().tolist()
        [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    if len(parts) == 1:
        return parts[0]
    if not is_sparse(parts[0]):
        return torch.cat(list(parts))
    counts = torch.cat([part.crow_indices().diff() for part in parts])
    crow = torch.zeros(len(counts) + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, 0, out=crow[1:])
    col = torch.cat([part.col_indices() for part in parts])
    values = torch.cat([part.values() for part in parts])
    return csr_tensor(crow, col, values, (len(counts), parts[0].shape[1]))


def normalize_rows(x: Tensor) -> Tensor:
    """Scale each row to an absolute sum of 1; rows of zeros stay zero.

    Example:
        >>> normalize_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]])).tolist()
        [[0.25, 0.75], [0.0, 0.0]]
    """
    if not is_sparse(x):
        total = x.abs().sum(dim=1, keepdim=True)
        return x / total.masked_fill(total == 0, 1)
    counts = x.crow_indices().diff()
    row = torch.repeat_interleave(torch.arange(x.shape[0]), counts)
    total = torch.zeros(x.shape[0]).index_add_(0, row, x.values().abs())
    scale = total.masked_fill(total == 0, 1)[row]
    return csr_tensor(x.crow_indices(), x.col_indices(), x.values() / scale, (x.shape[0], x.shape[1]))


def apply_normalize(x: Tensor, how: Normalize) -> Tensor:
    """Scale features ``[num_nodes, num_features]``; looks at one node at a time, so that nothing can leak.

    Args:
        x: The features.
        how: ``none``, or ``row``: every node's features sum to 1 in absolute value.
    """
    return normalize_rows(x) if how == "row" else x


def csr_tensor(crow: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A CSR tensor of parts that are known to fit each other."""
    return torch.sparse_csr_tensor(crow, col, values, size, check_invariants=False)
