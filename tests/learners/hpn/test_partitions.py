from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpn.datasets.sparse import to_csr
from hpn.datasets.store import open_store, write_store
from hpn.datasets.synthetic import load_synthetic
from hpn.learners import HPN
from hpn.learners.hpn import partitions, statistics
from hpn.learners.hpn.partitions import Layer, sum_nodes
from hpn.learners.hpn.statistics import Sums
from hpn.nn import encoder
from hpn.nn.fold import PartRunner, run_part, using
from hpn.streams import GraphView, TaskStream
from hpn.streams import cutting as stream_module
from hpn.streams.views import FeatureRows

LAYER = Layer(70, 3)
KINDS = ("dense", "wide", "store")


class Elsewhere(PartRunner):
    """Workers that share nothing with this process except their arguments."""

    is_local = False
    num_workers = 2

    def share(self, value: GraphView) -> GraphView:
        self.kept = {}
        return GraphView.compressed(value.features, value.indptr, value.indices)

    def map(self, function: Any, items: Sequence[Any], *shared: Any) -> list[Any]:
        return [run_part(function, item, *shared) for item in items]


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GraphView]:
    rng = np.random.default_rng(0)
    links = rng.integers(0, 120, (2, 300))
    links = links[:, links[0] != links[1]]
    edges = torch.from_numpy(np.unique(np.concatenate([links, links[::-1]], axis=1), axis=1))
    x = rng.normal(size=(120, 40)).astype(np.float32)
    wide = sp.random(120, encoder.WIDE + 50, density=0.01, random_state=1, format="csr", dtype=np.float32)
    return {
        "dense": GraphView(torch.from_numpy(x), edges),
        "wide": GraphView(to_csr(wide), edges),
        "store": stored_stream(tmp_path_factory.mktemp("store")).step(0).graph,
    }


def stored_stream(folder: Path) -> TaskStream:
    """Views fetch features from a file that is mapped."""
    graph = load_synthetic(num_nodes=240, num_links=700, num_classes=4, num_features=20)
    write_store(graph, folder / "store")
    with mock.patch.object(stream_module, "COPIED", 0):
        made = TaskStream(open_store(folder / "store"))
        for index in range(len(made)):
            assert isinstance(made.step(index).graph.features, FeatureRows)
        return made


def equal(one: Sums, other: Sums) -> None:
    assert one.by_label == other.by_label
    for mine, theirs in zip((*one.totals, *one.grams), (*other.totals, *other.grams), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@settings(deadline=None, max_examples=15)
@given(
    kind=st.sampled_from(KINDS),
    rows=st.integers(1, 130),
    columns=st.integers(1, 80),
    least=st.integers(1, 130),
    workers=st.integers(1, 4),
    local=st.booleans(),
    seed=st.integers(0, 99),
)
def test_partitions_blocks_and_workers_change_no_bit(
    views: dict[str, GraphView], kind: str, rows: int, columns: int, least: int, workers: int, local: bool, seed: int
) -> None:
    view, rng = views[kind], np.random.default_rng(seed)
    nodes = rng.permutation(view.num_nodes)[:90]
    y = rng.integers(0, 3, 90)
    fresh = GraphView.compressed(view.features, view.indptr, view.indices)
    whole = sum_nodes(fresh, [(nodes, y)], LAYER)[0]
    assert whole.counts.sum() == 90
    fresh = GraphView.compressed(view.features, view.indptr, view.indices)
    threads, order = torch.get_num_threads(), rng.permutation(90)
    groups = [(nodes[part], y[part]) for part in (order[:20], order[20:])]
    try:
        torch.set_num_threads(workers)
        with (
            mock.patch.object(encoder, "ROWS", rows),
            mock.patch.object(statistics, "ROWS", rows),
            mock.patch.object(encoder, "COLUMNS", columns),
            mock.patch.object(partitions, "LEAST", least),
        ):
            if local:
                found = sum_nodes(fresh, groups, LAYER)
            else:
                with using(Elsewhere()):
                    found = sum_nodes(fresh, groups, LAYER)
    finally:
        torch.set_num_threads(threads)
    equal(found[0].merge(found[1]), whole)


def test_no_nodes_in_a_group(views: dict[str, GraphView]) -> None:
    none = np.zeros(0, np.int64)
    nothing, some = sum_nodes(views["dense"], [(none, none), (np.arange(5), np.arange(5))], LAYER)
    assert (len(nothing.labels), len(some.labels)) == (0, 5)


def test_a_learner_whose_parts_run_elsewhere_learns_the_same(tmp_path: Path) -> None:
    stream = stored_stream(tmp_path)
    here, there = HPN(width=70), HPN(width=70)
    with mock.patch("hpn.learners.hpn.memory.SMALL_FIT", 0), mock.patch.object(partitions, "LEAST", 10):
        for index in range(len(stream)):
            here.fit_task(stream.step(index))
        with using(Elsewhere()):
            for index in range(len(stream)):
                there.fit_task(stream.step(index))
    assert here.certificates_ == there.certificates_
    for mine, theirs in zip(here.network_.memory.kept[:2], there.network_.memory.kept[:2], strict=True):
        equal(mine, theirs)
    query, _ = stream.query(step=0, after=1, evaluate="oracle")
    assert torch.equal(here.predict(query), there.predict(query))
