from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.learners.hpn.attempts import Piece, TracedPiece, differentiate
from hpn.nn.narrow import Aim, NarrowPiece
from hpn.nn.network import PrototypeNetwork

NUM_NODES, NUM_FEATURES, DIM = 20, 6, 3


def pieces(columns: list[int] | None, use_cls: bool, beta: float) -> tuple[list[Piece], dict[str, Tensor]]:
    """The same nodes in either way, and what moves."""
    torch.manual_seed(0)
    network = PrototypeNetwork(
        NUM_FEATURES, 2, num_extractors=1, num_slots=2, dim=DIM, thresholds=(0.2, 0.2, 0.2)
    ).double()
    own, around = torch.randn(2, NUM_NODES, NUM_FEATURES).double()
    node, structure = (bank.detach().clone().requires_grad_() for bank in network.extractors)
    raw = torch.cat([own @ node[0], around @ structure[0]], dim=1).view(NUM_NODES, 2, DIM)
    with torch.no_grad():
        network(raw, grow_for=0)
        node += 0.1
        structure += 0.1
    raw = torch.cat([own @ node[0], around @ structure[0]], dim=1).view(NUM_NODES, 2, DIM)
    chosen = None if columns is None else torch.tensor(columns)
    aim = Aim(torch.arange(NUM_NODES) % 2, chosen, use_cls, beta, out_of=2 * NUM_NODES)
    ways = [
        TracedPiece(network, (raw, None), aim),
        NarrowPiece(network, [own, around], node, structure, aim),
    ]
    return ways, {"node": node, "structure": structure, **network.shared_parameters}


@pytest.mark.parametrize("columns", [None, [1, 0]])
@pytest.mark.parametrize(("use_cls", "beta"), [(True, 1.0), (True, 0.0), (False, 0.5)])
def test_both_ways_lead_to_the_same(columns: list[int] | None, use_cls: bool, beta: float) -> None:
    ways, moving = pieces(columns, use_cls, beta)
    assert_close(ways[0].embedded[0], ways[1].embedded[0])
    traced, narrow = (piece.attempt() for piece in ways)
    assert_close(traced.loss, narrow.loss)
    assert traced.is_covered() == narrow.is_covered()
    assert_close(traced.gradients(moving), narrow.gradients(moving), atol=1e-5, rtol=1e-4)
    for level in range(3):
        (usual, index), (found, other_index) = traced.placed(level), narrow.placed(level)
        slots = len(usual) // NUM_NODES  # by node and then by slot, or the other way round
        assert_close(usual, found.view(slots, NUM_NODES, DIM).transpose(0, 1).reshape(-1, DIM))
        assert torch.equal(index, other_index.view(slots, NUM_NODES).t().flatten())


def test_only_what_moves_is_differentiated() -> None:
    ways, moving = pieces(None, True, 1.0)
    layers = {name: leaf for name, leaf in moving.items() if name not in {"node", "structure"}}
    traced, narrow = (piece.attempt().gradients(layers) for piece in ways)
    assert len(traced) == len(layers) + 3
    assert_close(traced, narrow, atol=1e-5, rtol=1e-4)


def test_the_loss_is_what_it_is_said_to_be() -> None:
    (piece, _), _ = pieces(None, True, 0.5)
    assert isinstance(piece, TracedPiece)
    passed = piece.network(piece.embedded[0])
    cls = torch.nn.functional.cross_entropy(passed.logits, piece.aim.target)
    dis = -sum(level.cosine.sum() for level in passed.levels) / NUM_NODES
    assert_close(piece.attempt().loss, (cls + 0.5 * dis) / 2)  # half of the batch is in this piece


def test_repeated_embeddings_count_in_every_slot_they_are_in() -> None:
    layout = torch.stack([torch.arange(NUM_NODES), NUM_NODES + torch.arange(NUM_NODES) % 3], dim=1)
    found = []
    for is_laid_out in (True, False):
        (piece, _), moving = pieces(None, True, 1.0)
        assert isinstance(piece, TracedPiece)
        raw, _ = piece.embedded
        distinct = torch.cat([raw[:, 0], raw[:3, 1]])
        embedded = (distinct, layout) if is_laid_out else (distinct[layout], None)
        attempt = TracedPiece(piece.network, embedded, piece.aim).attempt()
        found.append((attempt.loss, *attempt.gradients(moving)))
    assert_close(found[0], found[1])


def test_gradients_of_what_a_loss_does_not_depend_on_are_zeros() -> None:
    used, unused = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    found = differentiate((used * 2).sum(), [used, unused])
    assert [slope.tolist() for slope in found] == [[2.0, 2.0], [0.0, 0.0, 0.0]]
    assert [slope.tolist() for slope in differentiate(torch.ones(()), [unused])] == [[0.0, 0.0, 0.0]]
