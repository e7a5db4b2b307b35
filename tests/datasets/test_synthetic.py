"""Synthetic communities: sizes as requested, the same for the same seed, and neither trivial nor impossible."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression

from hpn.datasets import load_dataset, synthetic
from hpn.datasets.synthetic import load_synthetic
from hpn.errors import ConfigError


@pytest.fixture(scope="module")
def small():
    return load_synthetic()


def drawn_links(monkeypatch, **options):
    """Return the links as they were drawn, before duplicates are dropped, and the labels."""
    seen = {}
    draw = synthetic._draw_links

    def watch(rng, y, *args):
        seen["links"], seen["y"] = draw(rng, y, *args), y
        return seen["links"]

    monkeypatch.setattr(synthetic, "_draw_links", watch)
    load_synthetic(**options)
    return seen["links"], seen["y"]


def test_presets_have_their_sizes(small):
    arxiv = load_synthetic(preset="arxiv-like")
    for graph, name, sizes in (
        (small, "synthetic", (2_000, 8_000, 32, 10)),
        (arxiv, "arxiv-like", (169_343, 1_166_243, 128, 40)),
    ):
        assert graph.name == name
        assert (graph.num_nodes, graph.num_links, graph.num_features, graph.num_classes) == sizes
    assert arxiv.num_edges > 0.95 * arxiv.num_links


def test_times_are_drawn_after_everything_else(small):
    graph = load_synthetic(num_times=3)
    assert torch.equal(graph.x, small.x)
    assert torch.equal(graph.indices, small.indices)
    assert small.node_time is None
    assert graph.node_time.bincount().min() > 600
    assert len(graph.node_time.bincount()) == 3


def test_same_seed_same_graph(small):
    assert load_synthetic(graph_seed=0).fingerprint() == small.fingerprint()
    assert load_synthetic(graph_seed=1).fingerprint() != small.fingerprint()


def test_sizes_are_uneven_and_indices_carry_no_information(small):
    sizes = small.class_sizes()
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 2 * sizes[-1]
    position = torch.arange(small.num_nodes, dtype=torch.float64)
    means = torch.stack([position[small.y == label].mean() for label in range(10)])
    assert ((means / small.num_nodes - 0.5).abs() < 0.1).all()
    assert abs(np.corrcoef(position.numpy(), small.y.numpy())[0, 1]) < 0.05


def test_degrees_are_heavy_tailed(small):
    degree = torch.bincount(small.edge_index[0], minlength=small.num_nodes)
    assert degree.max() > 8 * degree.float().mean()
    assert degree.float().mean() > degree.median()


@pytest.mark.parametrize("homophily", [0.0, 0.3, 1.0])
def test_homophily_is_the_share_of_links_within_a_class(monkeypatch, homophily):
    monkeypatch.setattr(synthetic, "_CHUNK", 1000)
    links, y = drawn_links(monkeypatch, homophily=homophily)
    share = np.mean(y[links[0]] == y[links[1]])
    assert share == pytest.approx(homophily, abs=0.02 * (0 < homophily < 1))


def pair_accuracy(graph, first, second, is_smoothed):
    nodes = ((graph.y == first) | (graph.y == second)).nonzero().flatten().numpy()
    x, y = graph.x.numpy()[nodes], graph.y.numpy()[nodes]
    if is_smoothed:
        ones = np.ones(graph.edge_index.shape[1])
        adjacency = sp.csr_matrix((ones, graph.edge_index.numpy()), shape=(graph.num_nodes,) * 2)
        adjacency = adjacency[nodes][:, nodes] + sp.eye(len(nodes))
        x = adjacency @ x / adjacency.sum(axis=1).A1[:, None]
    train = len(nodes) * 6 // 10
    model = LogisticRegression(C=0.1).fit(x[:train], y[:train])
    return model.score(x[train:], y[train:])


def test_features_alone_do_not_suffice_and_neighbours_help(small):
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    alone = np.mean([pair_accuracy(small, *pair, is_smoothed=False) for pair in pairs])
    smoothed = np.mean([pair_accuracy(small, *pair, is_smoothed=True) for pair in pairs])
    assert 0.65 < alone < 0.9
    assert smoothed > alone + 0.08


@pytest.mark.parametrize("sizes", [(20, 0, 1, 2), (35, 400, 5, 3), (130, 7, 2, 8)])
@pytest.mark.parametrize("homophily", [0.0, 0.5, 1.0])
def test_any_size(sizes, homophily):
    names = ("num_nodes", "num_links", "num_features", "num_classes")
    graph = load_synthetic(**dict(zip(names, sizes, strict=True)), homophily=homophily, graph_seed=2**32)
    assert tuple(getattr(graph, name) for name in names) == sizes
    assert min(graph.class_sizes()) >= 10
    assert sum(graph.class_sizes()) == graph.num_nodes


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"preset": "arxiv"}, "'arxiv-like'"),
        ({"num_nodes": 99}, "num_nodes=99 is too few for 10 classes"),
        ({"num_links": -1}, "num_links = -1"),
        ({"num_features": 0}, "num_features = 0"),
        ({"num_classes": 1}, "num_classes = 1"),
        ({"homophily": 1.5}, "homophily = 1.5"),
        ({"noise": 0.0}, "noise = 0.0"),
        ({"noise": float("nan")}, "noise = nan"),
        ({"graph_seed": -1}, "graph_seed = -1"),
    ],
    ids=str,
)
def test_arguments_out_of_range_are_named(options, expected):
    with pytest.raises(ConfigError) as error:
        load_dataset("synthetic", **options)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
