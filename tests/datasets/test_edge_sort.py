from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets import edge_sort
from hpn.datasets.edge_sort import EdgeSorter
from hpn.datasets.graph import compress_links
from hpn.datasets.store import StoreWriter


def sort(links: torch.Tensor, num_nodes: int, *, memory: int = 1 << 29, pieces: int = 1) -> list[list[int]]:
    with tempfile.TemporaryDirectory() as folder, StoreWriter(Path(folder) / "s") as store:
        edges = EdgeSorter(num_nodes, store.scratch, memory=memory)
        for part in torch.tensor_split(links, pieces, dim=1):
            edges.add(part[0].numpy(), part[1].numpy())
        assert edges.num_links == links.shape[1]
        edges.write(store)
        assert list(store.scratch.iterdir()) == []
        store.append("x", np.zeros((num_nodes, 1)))
        store.append("y", np.zeros(num_nodes, dtype=np.int64))
        told = {"name": "", "num_links": 0, "class_names": ["a"], "split_rule": "seeded", "class_order": None}
        store.finish(told)
        kinds = {"indptr": np.int64, "indices": edges.index}
        return [np.fromfile(store.path / f"{name}.bin", kind).tolist() for name, kind in kinds.items()]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 300),
    st.integers(0, 400),
    st.integers(1, 5),
    st.sampled_from([1, 100, 1000, 1 << 29]),
    st.integers(0, 2**32 - 1),
)
def test_it_sorts_as_if_all_were_in_memory(
    nodes: int, count: int, pieces: int, memory: int, seed: int
) -> None:
    links = torch.from_numpy(np.random.default_rng(seed).integers(0, nodes, (2, count)))
    indptr, indices = compress_links(links, nodes)
    assert sort(links, nodes, memory=memory, pieces=pieces) == [indptr.tolist(), indices.tolist()]


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    links = torch.from_numpy(np.random.default_rng(0).integers(0, 50, (2, 500)))
    expected = sort(links, 50)
    monkeypatch.setattr(edge_sort, "_BLOCK", 7)
    assert sort(links, 50, memory=200) == expected


def test_a_node_with_all_the_links_is_sorted_too() -> None:
    links = torch.stack([torch.zeros(999, dtype=torch.long), torch.arange(1, 1000)])
    indptr, indices = sort(links, 1000, memory=64)
    assert indptr[:3] == [0, 999, 1000]
    assert indices[:999] == list(range(1, 1000))


def test_without_links_nobody_has_neighbours() -> None:
    assert sort(torch.empty(2, 0, dtype=torch.long), 3) == [[0, 0, 0, 0], []]
