from __future__ import annotations

import numpy as np
import pytest
import torch

from hpn.nn.smoothing import Normalization, Smoothing
from hpn.streams import GraphView

NORMALIZATIONS: tuple[Normalization, ...] = ("row", "sym")


def make_view(num_nodes: int = 30) -> GraphView:
    links = np.random.default_rng(0).integers(0, num_nodes - 1, (2, 50))
    links = links[:, links[0] != links[1]]
    both = np.unique(np.concatenate([links, links[::-1]], axis=1), axis=1)
    return GraphView(torch.ones(num_nodes, 1), torch.from_numpy(both))


def naive_matrix(view: GraphView, normalization: Normalization) -> np.ndarray:
    matrix = np.eye(view.num_nodes)
    for source, target in view.edge_index.T.tolist():
        matrix[source, target] = 1
    degree = matrix.sum(axis=1)
    scale = degree[:, None] if normalization == "row" else np.sqrt(np.outer(degree, degree))
    return np.asarray(matrix / scale)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_averages_of_a_score(hops: int, normalization: Normalization) -> None:
    view, nodes = make_view(), np.array([29, 4, 4, 20])
    score = np.random.default_rng(0).normal(size=(view.num_nodes, 3))
    seen: list[np.ndarray] = []

    def look_up(near: np.ndarray) -> np.ndarray:
        seen.append(near)
        return score[near]

    found = Smoothing(view, normalization).average(hops, nodes, look_up)
    power = np.linalg.matrix_power(naive_matrix(view, normalization), hops)
    np.testing.assert_allclose(found, (power @ score)[nodes], atol=1e-6)
    near = np.concatenate(seen)
    assert sorted(set(near.tolist())) == np.flatnonzero(power[nodes].any(axis=0)).tolist()
