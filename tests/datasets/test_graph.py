from __future__ import annotations

import pytest
import torch

from hpn.datasets import Graph, Masks
from hpn.errors import DataError


def build(**changes: object) -> Graph:
    parts = {"x": torch.eye(3), "links": torch.tensor([[0, 1], [1, 2]]), "y": torch.tensor([0, 1, -1])}
    return Graph.build("toy", **{**parts, **changes})  # type: ignore[arg-type]


def test_statistics() -> None:
    graph = build(links=torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]]))
    assert (graph.num_nodes, graph.num_links, graph.num_edges) == (3, 5, 2)
    assert (graph.num_features, graph.num_classes, graph.class_sizes()) == (3, 2, [1, 1])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_are_not_finite(value: float, sparse: bool) -> None:
    x = torch.eye(3)
    x[2, 1] = value
    with pytest.raises(DataError, match=r"toy: feature 1 of node 2 is -?(nan|inf)"):
        build(x=x.to_sparse_csr() if sparse else x)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"links": torch.tensor([[0, 1], [1, 3]])}, "edge 1 .1 - 3. names a node that does not exist"),
        ({"links": torch.tensor([[0], [-1]])}, "edge 0"),
        ({"links": torch.zeros(3, 2).long()}, "shape"),
        ({"x": torch.zeros(0, 3), "y": torch.zeros(0).long()}, "expected nodes with features"),
        ({"x": torch.zeros(3, 0)}, "expected nodes with features"),
        ({"y": torch.tensor([0, 1])}, "3 nodes have features but 2 have labels"),
        ({"y": torch.tensor([-1, -1, -1])}, "no node has a label"),
        ({"y": torch.tensor([0, -2, 1])}, "label -2"),
        ({"class_names": ["only"]}, "1 class names for 2 classes"),
    ],
)
def test_parts_that_do_not_fit(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        build(**changes)


def test_masks_must_be_booleans_that_do_not_overlap() -> None:
    off, on = torch.zeros(3, dtype=torch.bool), torch.ones(3, dtype=torch.bool)
    assert build(masks=Masks(on, off, off)).split_rule == "given"
    with pytest.raises(DataError, match="node 0 is in two"):
        build(masks=Masks(on, on, off))
    with pytest.raises(DataError, match="train mask must be 3 Booleans"):
        build(masks=Masks(torch.zeros(3), off, off))


def test_isolated_nodes_self_loops_and_no_edges_are_fine() -> None:
    assert build(links=torch.tensor([[1], [1]])).num_edges == 0
    assert build(links=torch.zeros(2, 0).long()).num_edges == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"x": 2 * torch.eye(3)},
        {"x": torch.eye(3).to_sparse_csr()},
        {"y": torch.tensor([1, 0, -1])},
        {"links": torch.tensor([[0], [1]])},
        {"class_names": ["a", "b"]},
        {"class_order": [1, 0]},
    ],
)
def test_the_fingerprint_notices_every_change(changes: dict[str, object]) -> None:
    assert build().fingerprint() == build().fingerprint()
    assert build(**changes).fingerprint() != build().fingerprint()
