"""Smoothing features over a graph, without parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from hpn.datasets.sparse import is_sparse, to_scipy

Normalization = Literal["sym", "row"]
Features = Any
"""A SciPy CSR matrix or a NumPy array, ``[num_nodes, num_features]``: both index and multiply alike."""


def smooth(
    x: Tensor, edge_index: Tensor, max_hops: int, normalization: Normalization = "sym"
) -> Iterator[Features]:
    r"""Yield :math:`X, \hat{A} X, \hat{A}^2 X, …` up to ``max_hops`` propagations.

    .. math:: \hat{A} = \tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2}

    where :math:`\tilde{D}` holds the degrees of :math:`A + I`; with ``normalization="row"``,
    :math:`\hat{A} = \tilde{D}^{-1} (A + I)`, the mean over a node and its neighbours.

    Args:
        x: Features, dense or sparse, on the CPU; sparse ones stay sparse.
        edge_index: Edges in both directions, without self-loops.
        max_hops: How often to propagate at most.
        normalization: How the adjacency matrix is scaled.

    Shapes:
        - ``x`` and every result: ``[num_nodes, num_features]``
    """
    features: Features = to_scipy(x) if is_sparse(x) else x.float().numpy()
    yield features
    if max_hops == 0:
        return
    adjacency = normalized_adjacency(edge_index, x.shape[0], normalization)
    for _ in range(max_hops):
        features = adjacency @ features
        yield features


def normalized_adjacency(
    edge_index: Tensor, num_nodes: int, normalization: Normalization = "sym"
) -> sp.csr_matrix:
    r"""The matrix :math:`\hat{A}` of :func:`smooth`."""
    source, target = edge_index.numpy()
    ones = np.ones(edge_index.shape[1], dtype=np.float32)
    adjacency = sp.csr_matrix((ones, (source, target)), shape=(num_nodes, num_nodes))
    adjacency = adjacency + sp.eye_array(num_nodes, dtype=np.float32, format="csr")
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    if normalization == "row":
        return sp.csr_matrix(sp.diags_array(1 / degree) @ adjacency)
    scale = sp.diags_array(degree**-0.5)
    return sp.csr_matrix(scale @ adjacency @ scale)
