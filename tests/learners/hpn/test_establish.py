from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.learners.hpn import establish
from hpn.learners.hpn.establish import Establishment
from hpn.learners.hpn.presets import PRESETS, Settings
from hpn.nn.extractors import MeanSlots
from hpn.nn.narrow import MOST_DIMENSIONS
from hpn.nn.network import PrototypeNetwork
from hpn.nn.processes import ALONE, Processes

Together = Callable[..., list[Any]]
NUM_NODES, NUM_FEATURES, CHUNK, TASK = 90, 6, 12, 3
WIDTHS = pytest.mark.parametrize("dim", [3, MOST_DIMENSIONS + 1], ids=["narrow", "wide"])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(establish, "SMALLEST_CHUNK", CHUNK)


@dataclass
class Bench:
    """A network, and nodes of which some are unlike any before them."""

    s: Settings
    network: PrototypeNetwork
    slots: MeanSlots

    @classmethod
    def make(cls, dim: int, **changes: Any) -> Bench:
        quick = {"dim": dim, "slots": "means", "hops": 1, "batch_size": 1, "piece_size": 5}
        s = replace(PRESETS["paper"], **{**quick, "threshold_atomic": 0.1, **changes})
        torch.manual_seed(0)
        network = PrototypeNetwork(
            NUM_FEATURES, 2, num_extractors=1, num_slots=2, dim=dim, thresholds=(s.threshold_atomic, 0.3, 0.4)
        )
        parts = torch.randn(2, NUM_NODES, NUM_FEATURES)
        for part in parts:  # whole chunks look like earlier nodes
            part[2 * CHUNK : 5 * CHUNK] = part[: 3 * CHUNK].roll(5, 0) * 2.0
        return cls(s, network, MeanSlots(list(parts)))

    def establish(self, processes: Processes = ALONE) -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(1)
        extractors = self.network.node_extractors.detach(), self.network.structure_extractors.detach()
        length = Establishment(self.s, self.network, self.slots, extractors, 0, TASK, processes).run()
        return length, [book.vectors.clone() for book in self.network.books]


@WIDTHS
def test_looking_ahead_founds_what_chunk_after_chunk_would(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench.make(dim)
    ahead = deepcopy(bench)
    length, books = ahead.establish()
    monkeypatch.setattr(establish, "MOST_AHEAD", 1)
    monkeypatch.setattr(establish, "covers_columns", lambda *_: False)  # and as if all were strange
    monkeypatch.setattr(PrototypeNetwork, "covers", lambda *_: False)
    expected = bench.establish()
    assert min(map(len, books)) >= 2
    assert torch.equal(length, expected[0])
    assert all(map(torch.equal, books, expected[1]))
    assert set(ahead.network.atomic_prototypes.founders.tolist()) == {TASK}


@WIDTHS
def test_lengths_are_those_of_the_embeddings(dim: int) -> None:
    bench = Bench.make(dim)
    raw = bench.slots.embed(None, 0, bench.network.node_extractors, bench.network.structure_extractors)
    assert_close(bench.establish()[0], raw.detach().norm(dim=2).mean(dim=0))


@WIDTHS
def test_in_the_end_everything_is_covered(dim: int) -> None:
    bench = Bench.make(dim)
    bench.establish()
    extractors = bench.network.node_extractors, bench.network.structure_extractors
    with torch.no_grad():
        assert bench.network.covers(bench.network(bench.slots.embed(None, 0, *extractors)))


@WIDTHS
@pytest.mark.parametrize("size", [2, 4])
def test_processes_establish_the_same_to_the_last_bit(dim: int, size: int, together: Together) -> None:
    """Four are one more than a chunk has pieces."""
    bench = Bench.make(dim)
    length, books = deepcopy(bench).establish()
    for found in together(size, lambda processes: deepcopy(bench).establish(processes)):
        assert torch.equal(found[0], length)
        assert all(map(torch.equal, found[1], books))


def test_nobody_asks_after_every_chunk_once_nothing_is_strange(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench.make(3)
    bench.establish()
    asked = []
    monkeypatch.setattr(Processes, "least", lambda _, number: asked.append(number) or number)
    bench.establish()
    assert asked == [1, 3, 7, 8]  # of 8 chunks: one, two more, four more, and the rest
