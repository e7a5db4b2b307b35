from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.datasets import Graph
from hpn.learners.hpn import PaperHPN, reading
from hpn.learners.hpn.reading import Reader
from hpn.nn.extractors import Slots
from hpn.nn.processes import Processes
from hpn.streams import GraphView, TaskStream

KINDS: dict[str, dict[str, Any]] = {
    "means": {"preset": "paper", "slots": "means", "retention": "certified", "epochs": 2, "warmup_epochs": 1},
    "paper": {"preset": "paper", "epochs": 2, "warmup_epochs": 1},
    "large": {"preset": "large", "epochs": 1},
}


class OneOf(Processes):
    """One of several processes, that remembers what it would tell the others."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.told: list[Tensor] = []

    def line_up(self, mine: Sequence[Tensor], sizes: Sequence[int], width: int) -> Tensor:
        self.told = list(mine)
        return torch.zeros(sum(sizes), width)


@pytest.fixture(scope="module", params=KINDS)
def asked(request: pytest.FixtureRequest, graph: Graph) -> tuple[Reader, GraphView, Tensor]:
    """A task, as seen after the next one was learned, and nodes of it in another order."""
    stream, learner = TaskStream(graph), PaperHPN(**KINDS[request.param])
    for index in range(2):
        learner.fit_task(stream.task(index))
    view = stream.task(0).graph
    nodes = torch.randperm(view.num_nodes, generator=torch.Generator().manual_seed(0))[:50]
    return learner._reader(0), view, nodes


def test_parts_of_nodes_are_answered_as_all_at_once(
    asked: tuple[Reader, GraphView, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, view, nodes = asked
    scores, familiarity = reader.answer(view, nodes, [0, 1])
    assert (scores.shape, familiarity.shape) == ((50, 2), (50,))
    monkeypatch.setattr(reading, "READ_AT_ONCE", 7)
    sizes, answer_part = [], Reader._answer_part

    def watched(reader: Reader, slots: Slots, rows: Tensor, columns: list[int]) -> Tensor:
        sizes.append(len(rows))
        return answer_part(reader, slots, rows, columns)

    monkeypatch.setattr(Reader, "_answer_part", watched)
    again = reader.answer(view, nodes, [0, 1])
    assert sizes == [7, 7, 6, 6, 6, 6, 6, 6], "an even number of parts"
    assert_close(again, (scores, familiarity), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [2, 11])
def test_processes_share_the_parts(
    asked: tuple[Reader, GraphView, Tensor], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eleven are more than there are parts."""
    monkeypatch.setattr(reading, "READ_AT_ONCE", 7)
    reader, view, nodes = asked
    processes = [OneOf(rank, size) for rank in range(size)]
    for one in processes:
        replace(reader, processes=one).answer(view, nodes, [0, 1])
    parts = [processes[number % size].told[number // size] for number in range(8)]
    assert sum(len(one.told) for one in processes) == 8
    assert torch.equal(torch.cat(parts), torch.column_stack(reader.answer(view, nodes, [0, 1])))


def test_no_nodes(asked: tuple[Reader, GraphView, Tensor]) -> None:
    reader, view, nodes = asked
    scores, familiarity = reader.answer(view, nodes[:0], [1, 0])
    assert (scores.shape, familiarity.shape) == ((0, 2), (0,))


def test_columns_are_those_asked_for_and_nothing_else_competes(
    asked: tuple[Reader, GraphView, Tensor],
) -> None:
    reader, view, nodes = asked
    scores, _ = reader.answer(view, nodes, [0, 1])
    assert_close(scores.exp().sum(dim=1), torch.ones(50))
    turned, _ = reader.answer(view, nodes, [1, 0])
    assert_close(turned.flip(1), scores)
    alone, _ = reader.answer(view, nodes, [1])
    assert_close(alone, torch.zeros(50, 1))
    passed, _ = reader.see(view, nodes)
    assert_close(scores, passed.logits.log_softmax(dim=1))


def test_familiar_is_what_lies_near_prototypes_and_is_as_long_as_usual(
    asked: tuple[Reader, GraphView, Tensor],
) -> None:
    reader, view, nodes = asked
    passed, raw = reader.see(view, nodes)
    usual = torch.tensor(reader.selection.lengths)
    assert usual.shape == raw.shape[1:2]
    by_hand = torch.stack(
        [
            torch.stack(
                [c * min(1.0, float(e.norm() / n)) for c, e, n in zip(*node, usual, strict=True)]
            ).mean()
            for node in zip(passed.levels[0].cosine.view(raw.shape[:2]), raw, strict=True)
        ]
    )
    familiarity = reader.answer(view, nodes, [0, 1])[1]
    assert_close(familiarity, by_hand, atol=1e-5, rtol=1e-5)
    small = GraphView(0.01 * view.x, view.edge_index)
    assert_close(reader.see(small, nodes)[0].levels[0].cosine, passed.levels[0].cosine, atol=1e-4, rtol=1e-4)
    assert float(reader.answer(small, nodes, [0, 1])[1].max()) < 0.2 < float(familiarity.mean())


def test_reading_changes_nothing(asked: tuple[Reader, GraphView, Tensor]) -> None:
    reader, view, nodes = asked
    before = [tensor.clone() for tensor in reader.network.state_dict().values()]
    once, state = reader.answer(view, nodes, [0, 1]), torch.random.get_rng_state()
    again = reader.answer(view, nodes, [0, 1])
    assert torch.equal(once[0], again[0])
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(map(torch.equal, before, reader.network.state_dict().values()))
    assert not once[0].requires_grad
