"""Feature scaling."""

import pytest
import torch

from hpn.datasets.normalize import apply_normalize
from hpn.datasets.sparse import is_sparse


def test_none_leaves_features_alone():
    x = torch.randn(3, 2)
    assert apply_normalize(x, "none") is x


@pytest.mark.parametrize("sparse", [False, True])
def test_row(sparse):
    x = torch.tensor([[1.0, -3.0], [0.0, 0.0]])
    scaled = apply_normalize(x.to_sparse_csr() if sparse else x, "row")
    assert is_sparse(scaled) == sparse
    assert torch.equal(scaled.to_dense(), torch.tensor([[0.25, -0.75], [0.0, 0.0]]))
