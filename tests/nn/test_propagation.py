from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hpn.nn import smooth
from hpn.nn.propagation import normalized_adjacency

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])  # 0 - 1 - 2, and 3 alone


def test_the_matrix_by_hand() -> None:
    third, sixth = 1 / 3, 1 / np.sqrt(6)
    expected = [[0.5, sixth, 0, 0], [sixth, third, sixth, 0], [0, sixth, 0.5, 0], [0, 0, 0, 1]]
    assert normalized_adjacency(PATH, 4).toarray() == pytest.approx(np.array(expected))
    rows = [[0.5, 0.5, 0, 0], [third] * 3 + [0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]]
    assert normalized_adjacency(PATH, 4, "row").toarray() == pytest.approx(np.array(rows))


def test_layers_are_powers_and_sparse_stays_sparse() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [3.0, 0.0]])
    dense = list(smooth(x, PATH, 3))
    sparse = list(smooth(x.to_sparse_csr(), PATH, 3))
    matrix = normalized_adjacency(PATH, 4).toarray()
    for hops in range(4):
        expected = np.linalg.matrix_power(matrix, hops) @ x.numpy()
        assert dense[hops] == pytest.approx(expected, abs=1e-6)
        assert sp.issparse(sparse[hops])
        assert sparse[hops].toarray() == pytest.approx(expected, abs=1e-6)


def test_without_hops_features_are_themselves() -> None:
    x = torch.randn(4, 2)
    (only,) = smooth(x, PATH, 0)
    assert np.array_equal(only, x.numpy())
