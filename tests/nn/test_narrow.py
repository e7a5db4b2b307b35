from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.extractors import MeanSlots
from hpn.nn.losses import classification_loss, distance_loss
from hpn.nn.narrow import Aim, NarrowAttempt, NarrowPiece
from hpn.nn.network import Levels, Pass, PrototypeNetwork

NUM_NODES, NUM_FEATURES, NUM_DRAWN = 30, 5, 3
EXTRACTORS = ["node", "structure"]


class Bench:
    """A network with prototypes, and a piece of a batch that passes through it."""

    def __init__(
        self, levels: Levels = "ANC", dim: int = 2, num_selected: int = 1, num_drawn: int = NUM_DRAWN
    ) -> None:
        torch.manual_seed(0)
        self.network = PrototypeNetwork(
            NUM_FEATURES,
            3,
            num_extractors=num_selected,
            num_slots=num_selected * (1 + num_drawn),
            dim=dim,
            thresholds=(0.3, 0.3, 0.4),
            levels=levels,
        ).double()  # gradients of short embeddings are long, and rounding with them
        self.banks = [bank.detach().clone() for bank in self.network.extractors]
        self.own = torch.randn(NUM_NODES, NUM_FEATURES).double()
        self.around = torch.randn(NUM_NODES * num_drawn, NUM_FEATURES).double()
        with torch.no_grad():
            self.network(self.embed(*self.banks), grow_for=0)
        # Elsewhere than prototypes were founded, so that no cosine is at its peak.
        self.own += 0.2 * torch.randn(self.own.shape)
        self.around += 0.2 * torch.randn(self.around.shape)
        self.target = torch.randint(3, (NUM_NODES,))
        self.columns: Tensor | None = None

    @property
    def names(self) -> list[str]:
        return [*EXTRACTORS, *self.network.shared_parameters]

    def embed(self, node: Tensor, structure: Tensor) -> Tensor:
        """Slots, each by a product of its own."""
        around = self.around.view(NUM_NODES, -1, NUM_FEATURES)
        slots = [self.own @ extractor for extractor in node]
        slots += [around[:, drawn] @ extractor for drawn in range(around.shape[1]) for extractor in structure]
        return torch.stack(slots, dim=1)

    def by_autograd(self, use_cls: bool = True, beta: float = 1.0) -> tuple[Pass, Tensor, list[Tensor]]:
        leaves = [bank.clone().requires_grad_() for bank in self.banks]
        passed: Pass = self.network(self.embed(*leaves))
        loss = beta * distance_loss(torch.cat([level.cosine for level in passed.levels]), NUM_NODES)
        if use_cls:
            logits = passed.logits if self.columns is None else passed.logits[:, self.columns]
            loss = loss + classification_loss(logits, self.target)
        shared = self.network.shared_parameters.values()
        wanted = [*leaves, *shared, *(level.prototypes for level in passed.levels)]
        return (
            passed,
            loss,
            list(torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)),
        )

    def piece(self, use_cls: bool = True, beta: float = 1.0, nodes: slice = slice(None)) -> NarrowPiece:
        around = self.around.view(NUM_NODES, -1, NUM_FEATURES)[nodes].flatten(0, 1)
        aim = Aim(self.target[nodes], self.columns, use_cls, beta, NUM_NODES)
        return NarrowPiece(self.network, [self.own[nodes], around], *self.banks, aim)

    def assert_same(self, use_cls: bool = True, beta: float = 1.0) -> NarrowAttempt:
        usual, loss, expected = self.by_autograd(use_cls, beta)
        attempt = self.piece(use_cls, beta).attempt()
        assert_close(attempt.loss, loss)
        found = attempt.gradients(self.names)
        assert all(bool(part.isfinite().all()) for part in found)
        assert float(expected[0].abs().max()) > 1e-4
        assert_close(found, expected, atol=1e-5, rtol=1e-4)
        logits = usual.logits if self.columns is None else usual.logits[:, self.columns]
        assert_close(attempt.logits.t(), logits)
        return attempt


@pytest.mark.parametrize("levels", ["A", "AN", "ANC"])
@pytest.mark.parametrize("dim", [2, 4])
@pytest.mark.parametrize(("use_cls", "beta"), [(True, 1.0), (True, 0.0), (False, 0.5)])
def test_loss_and_gradients_are_those_of_autograd(
    levels: Levels, dim: int, use_cls: bool, beta: float
) -> None:
    Bench(levels, dim).assert_same(use_cls, beta)


@pytest.mark.parametrize(("num_selected", "num_drawn"), [(1, 1), (2, 1), (2, 3)])
def test_any_number_of_extractors_and_neighbours(num_selected: int, num_drawn: int) -> None:
    bench = Bench(num_selected=num_selected, num_drawn=num_drawn)
    bench.assert_same()
    raw, layout = bench.piece().embedded
    assert layout is None
    assert_close(raw, bench.embed(*bench.banks))


def test_means_over_several_hops_share_the_structure_extractors() -> None:
    bench = Bench(num_drawn=2)
    hops = list(bench.around.view(NUM_NODES, 2, NUM_FEATURES).unbind(1))
    gathered = MeanSlots([bench.own, *hops]).gather(torch.arange(NUM_NODES), 0)
    assert gathered is not None
    aim = bench.piece().aim
    attempt = NarrowPiece(bench.network, gathered, *bench.banks, aim).attempt()
    assert_close(attempt.gradients(bench.names), bench.by_autograd()[2], atol=1e-5, rtol=1e-4)


def test_embeddings_and_whom_they_were_matched_to() -> None:
    bench = Bench()
    usual, _, _ = bench.by_autograd()
    attempt = bench.piece().attempt()
    for at, level in enumerate(usual.levels):
        embeddings, index = attempt.placed(at)
        num_slots = len(embeddings) // NUM_NODES
        assert_close(
            embeddings.view(num_slots, NUM_NODES, 2).transpose(0, 1).reshape(-1, 2), level.embeddings
        )
        assert torch.equal(index.view(num_slots, NUM_NODES).t().flatten(), level.index)


@pytest.mark.parametrize("threshold", [0.01, 0.3])
def test_says_whether_prototypes_cover_everything(threshold: float) -> None:
    bench = Bench()
    for book in bench.network.books:
        book.threshold = threshold
    is_covered = bench.network.covers(bench.by_autograd()[0])
    assert bench.piece().attempt().is_covered() == is_covered
    if threshold == 0.01:
        assert not is_covered


@pytest.mark.parametrize("columns", [[2, 0], [1, 2, 0]])
def test_only_some_columns_compete_in_any_order(columns: list[int]) -> None:
    bench = Bench()
    bench.target, bench.columns = torch.arange(NUM_NODES) % len(columns), torch.tensor(columns)
    bench.assert_same()


@pytest.mark.parametrize("length", [0.0, 1e-20, 1e25])
def test_embeddings_without_direction_or_of_any_length(length: float) -> None:
    bench = Bench()
    bench.own[4] *= length
    bench.assert_same()


def test_of_two_equally_near_prototypes_the_older_one_counts() -> None:
    bench = Bench("A")
    book = bench.network.atomic_prototypes
    twice = {"vectors": torch.cat([book.vectors, book.vectors]), "num_frozen": 0}
    book.load_state_dict({**twice, "founders": torch.zeros(2 * len(book), dtype=torch.long)})
    attempt = bench.assert_same()
    assert int(attempt.placed(0)[1].max()) < len(book) // 2


def test_pieces_of_a_batch_add_up_to_it() -> None:
    bench = Bench()
    whole = bench.piece().attempt()
    parts = [bench.piece(nodes=part).attempt() for part in (slice(12), slice(12, None))]
    assert_close(parts[0].loss + parts[1].loss, whole.loss)
    pairs = zip(*(part.gradients(bench.names) for part in parts), strict=True)
    assert_close([one + other for one, other in pairs], whole.gradients(bench.names), atol=1e-6, rtol=1e-5)


def test_what_does_not_move_gets_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    attempt = bench.piece().attempt()
    everything = attempt.gradients(bench.names)
    monkeypatch.setattr(NarrowPiece, "pull_back", lambda *_: pytest.fail("not asked for"))
    layers, prototypes = attempt.gradients(list(bench.network.shared_parameters)), attempt.gradients([])
    assert all(map(torch.equal, layers, everything[2:]))
    assert len(prototypes) == 3
    assert all(map(torch.equal, prototypes, everything[-3:]))
