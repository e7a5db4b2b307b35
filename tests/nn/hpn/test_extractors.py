from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.hpn import extractors
from hpn.nn.hpn.extractors import Inputs
from hpn.streams.views import FeatureRows

X = torch.randn(9, 5, generator=torch.Generator().manual_seed(0)) * (torch.arange(45).view(9, 5) % 3 > 0)
NODES = torch.tensor([4, 0, 7])
AROUND = torch.tensor([[1, 1], [2, 8], [7, 3]])
SOURCES: dict[str, Any] = {
    "dense": X,
    "sparse": X.to_sparse_csr(),
    "fetched": FeatureRows(X[:, :].contiguous(), torch.arange(9)),
}


def draw(num: int, seed: int) -> list[Tensor]:
    made = torch.randn(num, 5, 2, generator=torch.Generator().manual_seed(seed))
    return [matrix.requires_grad_() for matrix in made.unbind()]


def naive(rows: list[int], node: list[Tensor], structure: list[Tensor]) -> Tensor:
    """Eq. 1 to 3, one embedding after the other."""
    found = []
    for row in rows:
        own = [X[NODES[row]] @ matrix for matrix in node]
        others = [X[u] @ matrix for u in AROUND[row] for matrix in structure]
        found.append(torch.stack(own + others))
    return torch.stack(found)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("num", [1, 2])
@pytest.mark.parametrize("many", [0, 64])
def test_embeddings_are_those_of_equations_1_to_3(
    kind: str, num: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extractors, "MANY", many)  # whether sparse rows are selected or all are multiplied
    node, structure = draw(num, 1), draw(num, 2)
    inputs = Inputs(SOURCES[kind], NODES.unsqueeze(1)).redraw(AROUND)
    assert len(inputs) == 3
    for rows in ([2, 0], [0, 1, 2]):
        found = inputs.embed(torch.tensor(rows), node, structure)
        expected = naive(rows, node, structure)
        assert found.shape == (len(rows), num * 3, 2)
        assert_close(found, expected)
        weight = torch.arange(found.numel()).view_as(found).float()
        slopes = torch.autograd.grad((found * weight).sum(), [*node, *structure])
        assert_close(slopes, torch.autograd.grad((expected * weight).sum(), [*node, *structure]))
    assert_close(inputs.embed(None, node, structure), naive([0, 1, 2], node, structure))
