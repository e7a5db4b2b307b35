from __future__ import annotations

import numpy as np
import pytest
import torch

from hpn.datasets import digits
from hpn.datasets.digits import _nearest, load_digits


def test_statistics_and_scale() -> None:
    graph = load_digits()
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (1797, 64, 10)
    assert graph.x.min() == 0
    assert graph.x.max() == 1
    assert graph.class_order == tuple(range(10))


def test_images_are_those_of_scikit_learn_wherever_it_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn import datasets

    expected = datasets.load_digits(return_X_y=True)
    with monkeypatch.context() as patch:
        patch.setattr(datasets, "load_digits", None)  # it reads the same file, and is not needed
        read = digits._read_images()
    monkeypatch.setattr(digits, "find_spec", lambda _: None)
    for images, labels in (read, digits._read_images()):
        assert np.array_equal(images, expected[0])
        assert np.array_equal(labels, expected[1])


def test_the_graph_is_made_from_the_images_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = digits._read_images()
    before = load_digits()
    monkeypatch.setattr(digits, "_read_images", lambda: (images, labels[::-1].copy()))
    after = load_digits()
    assert torch.equal(after.edge_index, before.edge_index)
    assert not torch.equal(after.y, before.y)


def test_every_image_is_linked_to_its_nearest() -> None:
    graph = load_digits(neighbors=1)
    distance = torch.cdist(graph.x.double(), graph.x.double()).fill_diagonal_(torch.inf)
    linked = set(map(tuple, graph.edge_index.t().tolist()))
    for node in range(0, 1797, 100):
        close = (distance[node] <= distance[node].min() + 1e-9).nonzero().flatten().tolist()
        assert any((node, other) in linked for other in close)


def test_of_equally_near_images_the_first_are_linked() -> None:
    images = np.array([[0.0], [1.0], [2.0], [3.0]])
    assert _nearest(images, 1).tolist() == [[1], [0], [1], [2]]
    assert _nearest(images, 2).tolist() == [[1, 2], [0, 2], [1, 3], [1, 2]]
