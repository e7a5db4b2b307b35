from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from hpn.errors import ConfigError
from hpn.theory import task_distance as distances
from hpn.theory.task_distance import task_distance

relaxed = settings(deadline=None, max_examples=40)


def brute_force(x: Tensor, y: Tensor) -> float:
    return min(math.sqrt(sum((a - b) ** 2 for a, b in zip(u, v, strict=True))) for u in x.tolist() for v in y.tolist())


numbers = st.floats(-1e3, 1e3, width=32) | st.sampled_from([0.0, 1.0, 1e-6, 1e30])


@given(st.data())
@relaxed
def test_the_distance_of_any_two_sets(data: st.DataObject) -> None:
    num_features = data.draw(st.integers(1, 5))
    x, y = (
        torch.from_numpy(
            data.draw(hnp.arrays(np.float32, (data.draw(st.integers(1, 9)), num_features), elements=numbers))
        )
        for _ in range(2)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distances, "BLOCK_ROWS", 4)
        patch.setattr(distances, "BLOCK_NUMBERS", 8)
        found, sparse = task_distance(x, y), task_distance(x.to_sparse_csr(), y.to_sparse_csr())
        assert found == sparse == task_distance(y, x) == task_distance(x, y.to_sparse_csr())
    expected = brute_force(x, y)
    assert found == pytest.approx(expected, rel=1e-13)
    assert (found == 0) == (expected == 0)


def test_pairs_that_rounding_cannot_tell_apart_are_all_looked_at() -> None:
    """Whichever comes first: 2⁻⁹ is closer than 2⁻⁸, and both vanish beside squared lengths of 4e16."""
    x = torch.full((1, 4), 1e8, dtype=torch.float64)
    y = x.repeat(9, 1)
    y[:, 0] += 2.0**-8
    for at in range(9):
        closer = y.clone()
        closer[at, 0] = x[0, 0] + 2.0**-9
        assert task_distance(x, closer) == 2.0**-9


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.ones(0, 2), torch.ones(1, 2), "without nodes"),
        (torch.ones(1, 2), torch.ones(1, 3), "2 features and those of the other 3"),
        (torch.ones(1, 2), torch.tensor([[1.0, math.inf]]), "not finite"),
    ],
)
def test_tasks_without_a_distance(x: Tensor, y: Tensor, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        task_distance(x, y)
