from __future__ import annotations

import torch

from hpn.datasets.digits import load_digits


def test_statistics_and_scale() -> None:
    graph = load_digits()
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1797, 64, 10)
    assert graph.x.min() == 0
    assert graph.x.max() == 1
    assert graph.class_order == tuple(range(10))


def test_the_graph_is_made_from_the_images_alone(monkeypatch: object) -> None:
    from sklearn import datasets

    images, labels = datasets.load_digits(return_X_y=True)
    before = load_digits().edge_index
    monkeypatch.setattr(datasets, "load_digits", lambda return_X_y: (images, labels[::-1].copy()))  # type: ignore[attr-defined]
    after = load_digits()
    assert torch.equal(after.edge_index, before)
    assert not torch.equal(after.y, torch.from_numpy(labels))


def test_every_image_is_linked_to_its_nearest() -> None:
    graph = load_digits(neighbors=1)
    distance = torch.cdist(graph.x.double(), graph.x.double()).fill_diagonal_(torch.inf)
    linked = set(map(tuple, graph.edge_index.t().tolist()))
    for node in range(0, 1797, 100):
        close = (distance[node] <= distance[node].min() + 1e-9).nonzero().flatten().tolist()
        assert any((node, other) in linked for other in close)
