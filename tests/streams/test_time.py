"""Views have all nodes that have arrived, and no later one; labels are those of their time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets import Graph, Masks, load_dataset
from hpn.errors import ConfigError, DataError
from hpn.streams import TimeStream, cutting

Trace = Any
FIRST = 1000
"""The feature of node 0; those of the others follow, so that any trace of a node can be recognised."""


@st.composite
def growing_graphs(draw: st.DrawFn) -> Graph:
    """Random edges and times; most classes never change, some do, and some nodes have none at first."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    num_times, num_nodes = draw(st.integers(2, 4)), draw(st.integers(60, 120))
    step_of = torch.randint(num_times, (num_nodes,), generator=generator)
    step_of[: 4 * num_times] = torch.arange(4 * num_times) % num_times
    times = torch.tensor([-3, 0, 7, 2020])[step_of]
    y = torch.randint(3, (num_times, num_nodes), generator=generator)
    y[torch.rand(y.shape, generator=generator) < 0.2] = -1
    y[:, : 4 * num_times] = 0  # each time has nodes to train and to test
    keeps = torch.rand(num_nodes, generator=generator) < 0.7
    y[:, keeps] = y[0, keeps]
    links = torch.randint(num_nodes, (2, 5 * num_nodes), generator=generator)
    x = FIRST + torch.arange(num_nodes).float().unsqueeze(1)
    labels = y if draw(st.booleans()) else None
    return Graph.build("growing", x=x, links=links, y=y[-1], class_names="abc", node_time=times, y_by_time=labels)


@settings(deadline=None, max_examples=40)
@given(growing_graphs(), st.integers(0, 3))
def test_views_and_labels_are_those_of_their_time(trace: Trace, graph: Graph, seed: int) -> None:
    """Learned with the class at arrival; evaluated with the class at the query, of later nodes with that at arrival."""
    assert graph.node_time is not None
    stream = TimeStream(graph, seed=seed)
    times = graph.node_time.unique()
    arrival = torch.searchsorted(times, graph.node_time).tolist()

    def label(node: int, at: int) -> int:
        return int(graph.y[node] if graph.y_by_time is None else graph.y_by_time[at, node])

    learned: set[int] = set()
    edges = graph.edge_index.t().tolist()
    for after in range(len(stream)):
        step = stream.step(after)
        here = {FIRST + node for node in range(graph.num_nodes) if arrival[node] <= after}
        assert set(trace.ids(step.graph)) == here, "all nodes that have arrived, labelled or not"
        assert trace.edges(step.graph) == {(FIRST + a, FIRST + b) for a, b in edges if {FIRST + a, FIRST + b} <= here}
        for rows, y in ((step.train, step.train_y), (step.val, step.val_y)):
            nodes = [name - FIRST for name in trace.ids(step.graph, rows)]
            assert [label(node, after) for node in nodes] == y.tolist()
            assert {arrival[node] for node in nodes} <= {after}
            learned.update(nodes)
        assert set(step.train_y.tolist()) == set(step.classes)
        assert -1 not in step.val_y
        for query, key in stream.queries(after=after, evaluate="global", ahead=1):
            nodes = [name - FIRST for name in trace.ids(query.graph, query.nodes)]
            assert [label(node, max(after, arrival[node])) for node in nodes] == key.y.tolist()
            assert [arrival[node] for node in nodes] == key.step.tolist()
            assert -1 not in key.y
            assert not learned & set(nodes), "test nodes are never learned from"
            assert set(query.classes) == {c for seen in stream.classes[: after + 1] for c in seen}
            assert query.task is None


def small(**changes: Any) -> Graph:
    parts: dict[str, Any] = {
        "x": torch.ones(12, 1),
        "links": torch.zeros(2, 0).long(),
        "y": torch.arange(12) % 2,
        "node_time": torch.arange(12) // 6,
    }
    return Graph.build("small", **parts | changes)


def test_given_masks_are_kept_and_classes_without_training_nodes_are_not_promised() -> None:
    part = torch.tensor([0, 0, 2, 2, 1, 1] * 2)
    graph = small(y=torch.tensor([0, 1, 0, 2, 0, 1] * 2), masks=Masks(part == 0, part == 1, part == 2))
    stream = TimeStream(graph)
    assert stream.classes == ((0, 1), (0, 1)), "class 2 has test nodes only"
    assert [len(stream.step(0).train), len(stream.step(0).val)] == [2, 2]
    _, key = stream.query(step=None, after=1, evaluate="global")
    assert sorted(key.y.tolist()) == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"node_time": None}, ConfigError, "small has no times; --stream time needs node_time"),
        ({"node_time": torch.ones(12)}, ConfigError, "all nodes have the same time"),
        ({"y": torch.tensor([0] * 6 + [-1] * 6)}, DataError, "no training node of time 1 has a label"),
        ({"y": torch.tensor([0] * 11 + [1]), "node_time": torch.arange(12) // 11}, DataError, "no test nodes"),
    ],
)
def test_times_that_give_no_stream(changes: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        TimeStream(small(**changes))


def test_views_hold_no_features_of_later_nodes_however_large_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "COPIED", 0)
    stream = TimeStream(load_dataset("synthetic", num_times=3))
    for view in (stream.step(0).graph, stream.query(step=1, after=0, evaluate="global")[0].graph):
        assert isinstance(view.features, torch.Tensor)
        assert view.features.untyped_storage().nbytes() == view.features.nbytes


def test_steps_are_described_by_what_arrives_with_them() -> None:
    graph = load_dataset("synthetic", num_times=3)
    for index, step in enumerate(TimeStream(graph).describe()["tasks"]):
        assert step["name"] == f"time {index}"
        sizes = graph.y[graph.node_time == index].bincount(minlength=10).tolist()
        assert {one["id"]: one["size"] for one in step["classes"]} == dict(enumerate(sizes))
