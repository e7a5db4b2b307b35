from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.learners.hpn import steps as steps_module
from hpn.learners.hpn.attempts import Leaves
from hpn.learners.hpn.pieces import cover_together, cut
from hpn.learners.hpn.presets import PRESETS, Settings
from hpn.learners.hpn.slots import make_slots
from hpn.learners.hpn.steps import Lesson, Steps
from hpn.nn.extractors import MeanSlots
from hpn.nn.narrow import MOST_DIMENSIONS
from hpn.nn.network import PrototypeNetwork, Selection
from hpn.nn.processes import ALONE, Processes
from hpn.streams import GraphView

Together = Callable[..., list[Any]]
NUM_NODES, NUM_FEATURES = 60, 6
ROWS = torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(9))[:25]
EPOCHS = pytest.mark.parametrize("epoch", [0, 1], ids=["warm-up", "after it"])
KINDS = ["drawn", "wide drawn", "means", "wide means"]
SLOTS = pytest.mark.parametrize("slots", KINDS)
"""With few dimensions every slot by itself; with many each neighbour only once."""


@dataclass
class Bench:
    """One task in the middle of being learned; copies of it are what several processes hold."""

    s: Settings
    network: PrototypeNetwork
    lesson: Lesson

    @classmethod
    def make(cls, slots: str, **changes: Any) -> Bench:
        quick: dict[str, Any] = {"slots": slots.removeprefix("wide "), "drawn": "3,2", "warmup_epochs": 1}
        quick["dim"] = MOST_DIMENSIONS + 1 if "wide" in slots else 4
        s = replace(PRESETS["paper"], **{**quick, "piece_size": 7, "threshold_atomic": 0.1, **changes})
        torch.manual_seed(0)
        network = PrototypeNetwork(
            NUM_FEATURES, 2, num_extractors=2, num_slots=s.num_slots, dim=s.dim,
            thresholds=(s.threshold_atomic, s.threshold_node, s.threshold_class),
        )  # fmt: skip
        links = torch.randint(NUM_NODES, (2, 150))
        links = torch.unique(
            torch.cat([links, links.flip(0)], dim=1)[:, (links[0] != links[1]).repeat(2)], dim=1
        )
        graph, nodes = GraphView(torch.randn(NUM_NODES, NUM_FEATURES), links), torch.arange(NUM_NODES)
        made = make_slots(s, graph, nodes, seed=0, rounds=4, first_round=0)
        assert isinstance(made, MeanSlots) == ("means" in slots)
        target = (graph.x[:, 0] > 0).long()
        return cls(s, network, Lesson(made, target, made, target, columns=torch.arange(2)))

    def leaves(self, moves: dict[str, bool] | None = None) -> Leaves:
        moves = moves or {"extractors": True, "layers": True}
        banks = zip(("node", "structure"), self.network.get_extractors(SELECTION), strict=True)
        leaves = {kind: bank.requires_grad_(moves["extractors"]) for kind, bank in banks}
        for name, layer in self.network.shared_parameters.items():
            leaves[name] = layer.requires_grad_(moves["layers"])
        return leaves

    def steps(self, processes: Processes = ALONE) -> Steps:
        return Steps(self.s, self.network, self.lesson, task=3, processes=processes)

    def learn(
        self,
        processes: Processes = ALONE,
        epochs: tuple[int, ...] = (0, 1, 2),
        moves: dict[str, bool] | None = None,
    ) -> Learned:
        """A step an epoch, of what moves."""
        leaves, told = self.leaves(moves), []
        for epoch in epochs:
            loss, gradients, tried = self.steps(processes).run(ROWS, leaves, epoch)
            told += [torch.tensor(loss), *gradients, *(book.vectors.clone() for book in self.network.books)]
            moving = [leaf for leaf in leaves.values() if leaf.requires_grad]
            with torch.no_grad():
                for leaf, gradient in zip(moving, gradients, strict=False):
                    leaf.sub_(gradient, alpha=0.5)
        return Learned(told, len(tried))


@dataclass
class Learned:
    """Losses, gradients and prototypes of all steps; and this process's attempts in the last."""

    numbers: list[Tensor]
    num_attempts: int


def assert_same(one: Learned, other: Learned) -> None:
    assert len(one.numbers) == len(other.numbers)
    assert all(map(torch.equal, one.numbers, other.numbers))


SELECTION = Selection((1,), (0,))


@EPOCHS
@SLOTS
@pytest.mark.parametrize("is_established", [False, True])
@pytest.mark.parametrize("piece_size", [7, 1])
def test_pieces_add_up_to_the_batch(slots: str, epoch: int, is_established: bool, piece_size: int) -> None:
    bench = Bench.make(slots, piece_size=piece_size)
    leaves = bench.leaves()
    if is_established:
        raw = bench.lesson.slots.embed(None, epoch, leaves["node"], leaves["structure"])
        cover_together(bench.network, [(raw, None)], 0, ALONE)
    before = [len(book) for book in bench.network.books]
    loss, gradients, tried = bench.steps().run(ROWS, leaves, epoch)
    assert len(tried) == (0 if epoch == 0 else -(-25 // piece_size))
    after = [len(book) for book in bench.network.books]
    assert (after != before) == (epoch == 1 and not is_established)
    assert len(gradients) == len(leaves) + (0 if epoch == 0 else 3)
    assert all(float(gradient.abs().max()) > 1e-4 for gradient in gradients)
    # With the prototypes that there are now: which ones are founded may hang on a last bit.
    bench.s = replace(bench.s, piece_size=25)
    at_once, of_batch, (*_,) = bench.steps().run(ROWS, leaves, epoch)
    assert [len(book) for book in bench.network.books] == after
    assert_close((torch.tensor(loss), *gradients), (torch.tensor(at_once), *of_batch), atol=1e-5, rtol=1e-5)


@SLOTS
def test_repetitions_are_left_out_on_a_small_graph_only(slots: str) -> None:
    """So that these tests take both ways."""
    bench = Bench.make(slots)
    leaves = bench.leaves()
    _, layout = bench.lesson.slots.embed_distinct(ROWS[:7], 1, leaves["node"], leaves["structure"])
    assert (layout is None) == ("means" in slots)


def test_few_dimensions_take_another_way_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench.make("means")
    bench.lesson = replace(bench.lesson, columns=torch.tensor([1, 0]))
    quick = deepcopy(bench).learn()
    monkeypatch.setattr(steps_module, "MOST_DIMENSIONS", 0)
    monkeypatch.setattr(steps_module, "NarrowPiece", lambda *_, **__: pytest.fail("took the quick way"))
    assert_close(quick.numbers, deepcopy(bench).learn().numbers, atol=1e-5, rtol=1e-5)


@SLOTS
@pytest.mark.parametrize("size", [2, 5])
def test_processes_get_what_one_process_gets_to_the_last_bit(
    slots: str, size: int, together: Together
) -> None:
    """Five are one more than there are pieces: the last has nothing to do but to agree."""
    bench = Bench.make(slots)
    alone = deepcopy(bench).learn()
    assert alone.num_attempts == 4
    shares = together(size, lambda processes: deepcopy(bench).learn(processes))
    assert [share.num_attempts for share in shares] == [len(range(rank, 4, size)) for rank in range(size)]
    for share in shares:
        assert_same(share, alone)


def test_a_process_gets_ready_for_its_own_pieces_of_all_batches(together: Together) -> None:
    bench, order = Bench.make("means", batch_size=10, piece_size=4), torch.arange(25).flip(0)

    def look_ahead(processes: Processes) -> list[int]:
        heard: list[int] = []
        steps = deepcopy(bench).steps(processes)
        steps.lesson.slots.look_ahead = lambda rows, _: heard.extend(rows.tolist())  # type: ignore[method-assign]
        steps.look_ahead(order, 3)
        return heard

    assert look_ahead(ALONE) == order.tolist()
    pieces = [cut(batch, 4) for batch in torch.split(order, 10)]
    for rank, heard in enumerate(together(2, look_ahead)):
        assert heard == [row for batch in pieces for part in batch[rank::2] for row in part.tolist()]


@pytest.mark.parametrize("moves", [(False, True), (True, False), (False, False)])
def test_processes_agree_on_what_moves_whatever_that_is(moves: tuple[bool, bool], together: Together) -> None:
    bench, moving = Bench.make("means"), {"extractors": moves[0], "layers": moves[1]}
    alone = deepcopy(bench).learn(moves=moving)
    for share in together(5, lambda processes: deepcopy(bench).learn(processes, moves=moving)):
        assert_same(share, alone)


@SLOTS
@pytest.mark.parametrize("strange", [0, 3])
def test_strangers_of_one_process_become_prototypes_of_all(
    slots: str, strange: int, together: Together
) -> None:
    bench = Bench.make(slots, threshold_atomic=0.02)
    leaves, pieces = bench.leaves(), cut(ROWS, 7)
    raws = [bench.lesson.slots.embed(piece, 1, leaves["node"], leaves["structure"]) for piece in pieces]
    others = [(raw, None) for at, raw in enumerate(raws) if at != strange]
    cover_together(bench.network, others, 0, ALONE)
    is_covered = [bench.network.covers(bench.network(raw)) for raw in raws]
    assert is_covered == [at != strange for at in range(4)]
    single = deepcopy(bench)
    alone = single.learn(epochs=(1,))
    assert 3 in single.network.atomic_prototypes.founders
    for size in (2, 5):
        for share in together(size, lambda processes: deepcopy(bench).learn(processes, epochs=(1,))):
            assert_same(share, alone)


def test_only_some_logits_compete() -> None:
    logits, lesson = torch.arange(6.0).view(2, 3), Bench.make("means").lesson
    picked = replace(lesson, columns=torch.tensor([2, 0])).pick(logits)
    assert picked.tolist() == [[2.0, 0.0], [5.0, 3.0]]
    assert replace(lesson, columns=torch.arange(3)).pick(logits) is logits
