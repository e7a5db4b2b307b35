from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.datasets import load_dataset
from hpn.learners import Learner, Observer, Progress
from hpn.learners.hpn import PaperHPN
from hpn.learners.hpn.presets import PRESETS, Settings
from hpn.learners.hpn.steps import Lesson
from hpn.learners.hpn.training import PULL_EVERY, Trace, Training
from hpn.nn.extractors import MeanSlots
from hpn.nn.losses import divergence_loss
from hpn.nn.network import PrototypeNetwork, Selection
from hpn.nn.prototypes import PrototypeBook
from hpn.streams import Query, TaskStream

QUICK: dict[str, Any] = {"preset": "paper", "epochs": 8, "warmup_epochs": 4, "late_epoch": 6}
NUM_NODES, NUM_FEATURES = 24, 6


def settings(**changes: Any) -> Settings:
    quick = {key: value for key, value in QUICK.items() if key != "preset"}
    return replace(PRESETS["paper"], **{**quick, "slots": "means", "num_extractors": 4, "dim": 4, **changes})


def lesson(num_val: int = 12, seed: int = 0) -> Lesson:
    """Two classes that the first feature tells apart; the mean over each of two hops says it again."""
    generator = torch.Generator().manual_seed(seed)

    def draw(count: int) -> tuple[MeanSlots, Tensor]:
        y = torch.arange(count) % 2
        parts = [torch.randn(count, NUM_FEATURES, generator=generator) for _ in range(3)]
        for part in parts:
            part[:, 0] += 3.0 * y
        return MeanSlots(parts), y

    (train, target), (val, val_target) = draw(NUM_NODES), draw(num_val)
    return Lesson(train, target, val, val_target, columns=torch.arange(2))


def make(lesson_: Lesson | None = None, *, is_first: bool = True, **changes: Any) -> Training:
    s = settings(**changes)
    torch.manual_seed(0)
    network = PrototypeNetwork(
        NUM_FEATURES, 2, num_extractors=s.num_extractors, num_slots=s.num_slots, dim=s.dim,
        thresholds=(s.threshold_atomic, s.threshold_node, s.threshold_class), levels=s.levels,
    )  # fmt: skip
    selection = Selection(tuple(range(s.num_selected)), tuple(range(s.num_selected)))
    return Training(
        s, network, selection, lesson_ or lesson(), task=3, moves_extractors=True, moves_layers=True,
        is_first=is_first, trace=Trace(),
    )  # fmt: skip


def run(training: Training, epochs: int | None = None) -> Training:
    training.start()
    for _ in range(training.s.epochs if epochs is None else epochs):
        training.run_epoch()
    return training


def extractors(training: Training) -> Tensor:
    return torch.cat(training.network.get_extractors(training.selection))


def layers(training: Training) -> Tensor:
    return torch.cat([layer.detach().flatten() for layer in training.network.shared_parameters.values()])


def books(training: Training) -> list[Tensor]:
    return [book.vectors.clone() for book in training.network.books]


@dataclass
class Recorder(Observer):
    """What a learner looked like after every epoch."""

    look: Callable[[PaperHPN], Any]
    seen: list[Any] = field(default_factory=list)

    def after_step(self, learner: Learner, progress: Progress) -> None:
        assert isinstance(learner, PaperHPN)
        self.seen.append(self.look(learner))


def test_prototypes_are_established_right_after_the_warm_up(stream: TaskStream) -> None:
    recorder = Recorder(lambda learner: learner.prototype_counts)
    PaperHPN(**QUICK).fit_task(stream.task(0), recorder)
    assert len(recorder.seen) == 8
    for epoch, counts in enumerate(recorder.seen):
        assert all((count > 0) == (epoch >= 4) for count in counts.values()), f"after epoch {epoch}"


def test_later_tasks_found_nothing_in_their_warm_up_either(stream: TaskStream) -> None:
    learner = PaperHPN(**QUICK).fit_task(stream.task(0))
    recorder = Recorder(lambda learner: [book.founders.tolist() for book in learner.network_.books])
    learner.fit_task(stream.task(1), recorder)
    for epoch, founders in enumerate(recorder.seen):
        assert all((1 in book) <= (epoch >= 4) for book in founders)
    assert 1 in recorder.seen[4][0]


def test_without_a_warm_up_prototypes_are_there_before_the_first_epoch() -> None:
    training = make(warmup_epochs=0)
    training.start()
    assert all(len(book) for book in training.network.books)
    waiting = make(warmup_epochs=1)
    waiting.start()
    assert not any(len(book) for book in waiting.network.books)


def movement(training: Training, epochs: int) -> list[tuple[bool, bool]]:
    """Whether extractors and layers moved, epoch by epoch."""
    moved = []
    for _ in range(epochs):
        before = extractors(training), layers(training)
        training.run_epoch()
        after = extractors(training), layers(training)
        moved.append(tuple(not torch.equal(a, b) for a, b in zip(before, after, strict=True)))
    return moved  # type: ignore[return-value]


def test_the_learning_rate_switches_when_prototypes_are_established() -> None:
    hot, cool = (True, True), (False, False)
    assert movement(make(lr_refine=0.0), 6) == [hot] * 4 + [cool] * 2
    assert movement(make(lr=0.0), 6) == [cool] * 4 + [hot] * 2


def test_the_layers_of_later_tasks_are_cool_from_the_start() -> None:
    assert movement(make(is_first=False, lr_refine=0.0), 6) == [(True, False)] * 4 + [(False, False)] * 2
    assert movement(make(is_first=False, lr=0.0), 6) == [(False, True)] * 4 + [(True, True)] * 2


@pytest.mark.parametrize(
    ("early", "late", "moves"), [(0.1, 0.0, [True, True, False]), (0.0, 0.1, [False, False, True])]
)
def test_prototypes_have_a_late_learning_rate(early: float, late: float, moves: list[bool]) -> None:
    training = make(
        warmup_epochs=2, late_epoch=4, lr_refine=0.0, lr_prototypes=early, lr_prototypes_late=late,
        threshold_atomic=0.5,
    )  # fmt: skip
    run(training, epochs=2)
    training.establish()
    for expected in moves:
        before = books(training)
        training.run_epoch()
        for old, new in zip(before, books(training), strict=True):
            is_still = old.shape == new.shape and torch.allclose(old, new, atol=1e-6)
            assert is_still == (not expected)


def test_prototypes_move_once_an_epoch_by_what_all_batches_told_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch averages over its nodes, so that four of them say four times as much."""
    moves: list[Tensor] = []

    def move(book: PrototypeBook, moved: Tensor) -> bool:
        moves.append(moved - book.vectors)
        return False

    monkeypatch.setattr(PrototypeBook, "move", move)
    for batch_size in (24, 6):
        run(make(warmup_epochs=0, lr_refine=0.0, alpha=0.0, batch_size=batch_size), epochs=1)
    whole, parts = moves[:3], moves[3:]
    assert len(moves) == 6
    for one, other in zip(whole, parts, strict=True):
        assert float(one.abs().max()) > 1e-3
        assert_close(other, 4 * one, atol=1e-6, rtol=1e-4)


def test_one_step_is_the_learning_rate_times_the_gradient() -> None:
    training = make(alpha=0.0, lr=0.05)
    leaves = [leaf.requires_grad_() for leaf in training.network.get_extractors(training.selection)]
    logits = training.network.warm_up(training.lesson.slots.embed(None, 0, *leaves))
    loss = torch.nn.functional.cross_entropy(logits, training.lesson.target)
    gradients = torch.autograd.grad(loss, leaves)
    before = extractors(training)
    assert training.run_epoch() == pytest.approx(loss.item(), abs=1e-5)
    assert_close(extractors(training), before - 0.05 * torch.cat(gradients), atol=1e-6, rtol=0)


def test_momentum_goes_on_in_the_old_direction() -> None:
    """The second of two steps is 0.9 times the first and a plain step from there."""
    plain, heavy = make(alpha=0.0), make(alpha=0.0, momentum=0.9)
    start = extractors(plain)
    for training in (plain, heavy):
        training.run_epoch()
    middle = extractors(plain)
    assert_close(extractors(heavy), middle, atol=1e-6, rtol=0)
    for training in (plain, heavy):
        training.run_epoch()
    expected = extractors(plain) + 0.9 * (middle - start)
    assert_close(extractors(heavy), expected, atol=1e-5, rtol=0)
    assert set(heavy.trace.velocity) == {"node", "structure", *heavy.network.shared_parameters}


def after_one_epoch(warmup_epochs: int, **changes: Any) -> tuple[Tensor, Tensor, list[Tensor]]:
    training = run(make(warmup_epochs=warmup_epochs, **changes), epochs=1)
    return extractors(training), layers(training), books(training)


OFF: dict[str, Any] = {"alpha": 0.0, "beta": 0.0, "use_cls": False}


def test_with_every_loss_switched_off_nothing_moves() -> None:
    for warmup_epochs in (0, 1):
        training = make(warmup_epochs=warmup_epochs, **OFF)
        training.start()
        before = extractors(training), layers(training), books(training)
        training.run_epoch()
        assert torch.equal(extractors(training), before[0])
        assert torch.equal(layers(training), before[1])
        for old, new in zip(before[2], books(training), strict=True):
            assert_close(old, new, atol=1e-6, rtol=0)


@pytest.mark.parametrize("warmup_epochs", [0, 1])
@pytest.mark.parametrize(
    ("loss", "on", "in_warm_up", "moves_layers"),
    [
        ("use_cls", True, True, True),
        ("alpha", 1.0, True, False),
        ("beta", 1.0, False, True),
    ],
)
def test_each_loss_alone_moves_what_it_should(
    loss: str, on: Any, in_warm_up: bool, moves_layers: bool, warmup_epochs: int
) -> None:
    nothing = after_one_epoch(warmup_epochs, **OFF)
    alone = after_one_epoch(warmup_epochs, **{**OFF, loss: on})
    is_on = in_warm_up or warmup_epochs == 0
    assert torch.equal(alone[0], nothing[0]) == (not is_on)
    assert torch.equal(alone[1], nothing[1]) == (not (is_on and moves_layers))
    if warmup_epochs == 0 and moves_layers:
        assert not all(map(torch.equal, alone[2], nothing[2])), "prototypes"


@pytest.mark.parametrize(("loss", "off"), OFF.items())
def test_each_loss_makes_a_difference_to_all_of_them(loss: str, off: Any) -> None:
    every, without = after_one_epoch(0), after_one_epoch(0, **{loss: off})
    assert not torch.equal(every[0], without[0])


@pytest.mark.parametrize("num_selected", [1, 2])
def test_the_pull_is_the_gradient_of_the_divergence_loss(num_selected: int) -> None:
    training = make(alpha=2.0, num_selected=num_selected)
    pull = training._divergence_gradient(training._take_leaves())
    assert set(pull) == {"node", "structure"}
    for bank, others, gradient in zip(
        training.network.extractors, training.others, pull.values(), strict=True
    ):
        leaf = bank.detach()[:num_selected].requires_grad_()
        (expected,) = torch.autograd.grad(2.0 * divergence_loss(leaf, others), leaf)
        assert float(expected.abs().max()) > 1e-3
        assert_close(gradient, expected)


def test_the_pull_makes_extractors_diverge() -> None:
    training = make(use_cls=False, beta=0.0, alpha=1.0, lr=1.0)

    def overlap() -> float:
        node, _ = training.network.get_extractors(training.selection)
        return float(divergence_loss(node, training.others[0]))

    before = overlap()
    others = training.network.node_extractors[1:].clone()
    run(training, epochs=4)
    assert overlap() < 0.9 * before
    assert torch.equal(training.network.node_extractors[1:], others)


def test_the_pull_is_renewed_every_few_epochs() -> None:
    training, pulls = make(warmup_epochs=20), []
    for _ in range(2 * PULL_EVERY):
        training.run_epoch()
        pulls.append(training.trace.pull["node"])
    same = [torch.equal(a, b) for a, b in pairwise(pulls)]
    assert same == ([True] * (PULL_EVERY - 1) + [False] + [True] * (PULL_EVERY - 1))


def test_an_only_extractor_has_nothing_to_diverge_from() -> None:
    training = run(make(num_extractors=1), epochs=1)
    assert training.trace.pull == {}


def test_what_must_not_move_does_not() -> None:
    training = make(warmup_epochs=0)
    training.moves_extractors = training.moves_layers = False
    training.establish()
    for book in training.network.books:
        book.freeze()
    frozen, before = books(training), (extractors(training), layers(training))
    training.lesson = lesson(seed=1)  # other nodes, for which there are no prototypes yet
    run(training, epochs=3)
    assert torch.equal(extractors(training), before[0])
    assert torch.equal(layers(training), before[1])
    for old, new in zip(frozen, books(training), strict=True):
        assert torch.equal(new[: len(old)], old)
    assert len(training.network.atomic_prototypes) > len(frozen[0])


def test_establishing_covers_all_training_nodes_and_measures_their_embeddings() -> None:
    training = make(threshold_atomic=0.05)
    length = training.establish()
    raw = training.lesson.slots.embed(None, 0, *training.network.get_extractors(training.selection))
    assert_close(length, raw.norm(dim=2).mean(dim=0))
    with torch.no_grad():
        passed = training.network(raw)
    for level, book in zip(passed.levels, training.network.books, strict=True):
        book.check(level.embeddings)
        assert set(book.founders.tolist()) == {3}


@pytest.mark.parametrize(("lr_refine", "is_harmful"), [(50.0, True), (0.5, False)])
def test_the_best_state_is_kept_and_taken_back(lr_refine: float, is_harmful: bool) -> None:
    training = make(warmup_epochs=0, keep="best")
    training.network.load_state_dict(run(make(), epochs=4).network.state_dict())
    training.start()
    scores, best = [training.trace.best["score"]], (extractors(training), layers(training), *books(training))
    assert scores[0][0] > 0.8
    training.s = replace(training.s, lr_refine=lr_refine, lr_prototypes=lr_refine / 10)
    for _ in range(5):
        training.run_epoch()
        scores.append(training.trace.best["score"])
        if scores[-1] > scores[-2]:
            best = extractors(training), layers(training), *books(training)
    assert scores == sorted(scores)
    assert (scores[-1] == scores[0]) == is_harmful
    assert not torch.equal(extractors(training), best[0]) or not is_harmful
    training.finish()
    for kept, now in zip(best, (extractors(training), layers(training), *books(training)), strict=True):
        assert torch.equal(kept, now)


@pytest.mark.parametrize("slots", ["drawn", "means"])
def test_the_state_that_is_taken_back_answers_as_well_as_it_did(
    slots: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In particular, no refinement ends below the established state on validation nodes."""
    best, finish = [], Training.finish
    monkeypatch.setattr(
        Training, "finish", lambda self: (best.append(self.trace.best["score"][0]), finish(self))[1]
    )
    for graph_seed in (0, 6):
        graph = load_dataset(
            "synthetic", num_nodes=300, num_links=600, num_features=20, num_classes=5, noise=2.0,
            graph_seed=graph_seed,
        )  # fmt: skip
        task = TaskStream(graph, classes_per_task=5).task(0)
        learner = PaperHPN(preset="paper", slots=slots, keep="best", epochs=6, warmup_epochs=3)
        answers = learner.fit_task(task).predict(Query(task.graph, task.val, task.classes, task=0))
        assert float((answers == task.val_y).double().mean()) >= best[-1]


def test_an_extractor_that_says_nothing_is_not_blown_up() -> None:
    training = make(warmup_epochs=0)
    node, structure = training.network.get_extractors(training.selection)
    training.network.put_extractors(training.selection, torch.zeros_like(node), structure)
    run(training, epochs=3)
    assert float(extractors(training).abs().max()) < 10


def test_the_last_state_is_kept_if_that_is_asked_for() -> None:
    training = run(make(keep="last"))
    assert training.trace.best == {}
    before = extractors(training), layers(training)
    training.finish()
    assert torch.equal(extractors(training), before[0])
    assert torch.equal(layers(training), before[1])
