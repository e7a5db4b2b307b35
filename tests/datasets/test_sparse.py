from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hpn.datasets.sparse import is_sparse, normalize_rows, select_rows, stack_rows, to_csr, to_scipy


@st.composite
def matrices(draw: st.DrawFn) -> Tensor:
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    cell = st.sampled_from([0.0, 0.0, 0.0, 1.0, -2.0, 3.5])
    cells = draw(st.lists(cell, min_size=rows * columns, max_size=rows * columns))
    return torch.tensor(cells).reshape(rows, columns)


@given(matrices(), st.data())
def test_selecting_rows_is_the_same_dense_and_sparse(x: Tensor, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(x) - 1), max_size=8))
    index = torch.tensor(rows, dtype=torch.long)
    chosen = select_rows(x.to_sparse_csr(), index)
    assert is_sparse(chosen)
    assert torch.equal(chosen.to_dense(), select_rows(x, index))


@given(matrices())
def test_normalizing_is_the_same_dense_and_sparse(x: Tensor) -> None:
    dense = normalize_rows(x)
    assert torch.allclose(normalize_rows(x.to_sparse_csr()).to_dense(), dense)
    sums = dense.abs().sum(dim=1)
    assert torch.allclose(sums, (x.abs().sum(dim=1) > 0).float())


@given(matrices())
def test_stacking_and_scipy_round_trip(x: Tensor) -> None:
    sparse = x.to_sparse_csr()
    assert torch.equal(stack_rows([sparse, sparse]).to_dense(), torch.cat([x, x]))
    assert torch.equal(to_csr(to_scipy(sparse)).to_dense(), x)
