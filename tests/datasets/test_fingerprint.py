from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import torch

from hpn.datasets import Graph, Masks


def by_hand(graph: Graph) -> str:
    """Hash the edges as pairs, then the other parts, each behind its type and shape."""
    parts = [graph.edge_index, graph.y]
    if graph.x.layout == torch.sparse_csr:
        parts += [graph.x.crow_indices(), graph.x.col_indices(), graph.x.values()]
    else:
        parts.append(graph.x)
    if graph.masks is not None:
        parts += [graph.masks.train, graph.masks.val, graph.masks.test]
    parts += [part for part in (graph.node_time, graph.y_by_time) if part is not None]
    content = b"".join(str((p.dtype, tuple(p.shape))).encode() + p.numpy().tobytes() for p in parts)
    content += repr((graph.class_names, graph.split_rule, graph.class_order)).encode()
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 18])
@pytest.mark.parametrize("kind", ["dense", "sparse", "no edges", "times"])
def test_pieces_make_no_difference(graph: Graph, monkeypatch: pytest.MonkeyPatch, piece: int, kind: str) -> None:
    monkeypatch.setattr("hpn.datasets.graph._PIECE_BYTES", 16 * piece)
    monkeypatch.setattr("hpn.datasets.graph._PIECE_ENTRIES", piece)
    if kind == "sparse":
        graph = replace(graph, x=graph.x.relu().to_sparse_csr())
    elif kind == "no edges":
        graph = replace(graph, indptr=torch.zeros_like(graph.indptr), indices=graph.indices[:0])
    elif kind == "times":
        graph = replace(graph, node_time=graph.y % 2, y_by_time=torch.stack([graph.y, graph.y]))
    part = torch.arange(graph.num_nodes) % 3
    graph = replace(graph, masks=Masks(part == 0, part == 1, part == 2))
    assert graph.fingerprint() == by_hand(graph)
