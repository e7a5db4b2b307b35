from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.losses import classification_loss, distance_loss
from hpn.nn.narrow import narrow_loss
from hpn.nn.network import Levels, Pass, PrototypeNetwork

NUM_NODES, NUM_SLOTS = 30, 3


def make(levels: Levels, dim: int, num_outputs: int = 3) -> tuple[PrototypeNetwork, Tensor, Tensor]:
    torch.manual_seed(0)
    network = PrototypeNetwork(
        5,
        num_outputs,
        num_extractors=1,
        num_slots=NUM_SLOTS,
        dim=dim,
        thresholds=(0.3, 0.3, 0.4),
        levels=levels,
    )
    raw = torch.randn(NUM_NODES, NUM_SLOTS, dim) * torch.rand(NUM_NODES, NUM_SLOTS, 1)
    with torch.no_grad():
        network(raw, grow_for=0)
    # Elsewhere than prototypes were founded, so that no cosine is at its peak.
    return network, raw + 0.2 * torch.randn(raw.shape), torch.randint(num_outputs, (NUM_NODES,))


def by_autograd(
    network: PrototypeNetwork, raw: Tensor, target: Tensor, columns: Tensor, use_cls: bool, beta: float
) -> tuple[Pass, Tensor]:
    passed: Pass = network(raw)
    loss = beta * distance_loss(torch.cat([level.cosine for level in passed.levels]), len(target))
    if use_cls:
        loss = loss + classification_loss(passed.logits[:, columns], target)
    return passed, loss


def gradients(network: PrototypeNetwork, raw: Tensor, passed: Pass, loss: Tensor) -> list[Tensor]:
    wanted = [raw, *network.shared_parameters.values(), *(level.prototypes for level in passed.levels)]
    found = torch.autograd.grad(3.0 * loss, wanted, allow_unused=True, materialize_grads=True)
    return list(found)


@pytest.mark.parametrize("levels", ["A", "AN", "ANC"])
@pytest.mark.parametrize("dim", [2, 4])
@pytest.mark.parametrize(("use_cls", "beta"), [(True, 1.0), (True, 0.0), (False, 0.5)])
def test_loss_and_gradients_are_those_of_autograd(
    levels: Levels, dim: int, use_cls: bool, beta: float
) -> None:
    network, raw, target = make(levels, dim)
    columns, results = torch.arange(3), []
    for way in (by_autograd, narrow_loss):
        leaf = raw.clone().requires_grad_()
        switches = {"use_cls": use_cls, "beta": beta}
        passed, loss = way(network, leaf, target, columns, **switches)  # type: ignore[operator]
        results.append((passed, loss, gradients(network, leaf, passed, loss)))
    (usual, loss, expected), (narrow, narrow_, found) = results
    assert_close(narrow_, loss)
    assert_close(narrow.logits, usual.logits)
    assert_close(narrow.representation, usual.representation)
    for one, other in zip(narrow.levels, usual.levels, strict=True):
        assert torch.equal(one.index, other.index)
        assert_close(one.embeddings, other.embeddings)
        assert_close(one.cosine, other.cosine)
    assert float(expected[0].abs().max()) > 1e-4
    assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("columns", [[2, 0], [1, 2, 0]])
def test_only_some_columns_compete_in_any_order(columns: list[int]) -> None:
    network, raw, _ = make("ANC", 2)
    target, chosen, results = torch.arange(NUM_NODES) % len(columns), torch.tensor(columns), []
    for way in (by_autograd, narrow_loss):
        leaf = raw.clone().requires_grad_()
        passed, loss = way(network, leaf, target, chosen, use_cls=True, beta=1.0)  # type: ignore[operator]
        results.append((loss, *gradients(network, leaf, passed, loss)))
    assert_close(results[1], results[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("length", [0.0, 1e-20, 1e25])
def test_embeddings_without_direction_or_of_any_length(length: float) -> None:
    network, raw, target = make("ANC", 2)
    raw[4] *= length
    results = []
    for way in (by_autograd, narrow_loss):
        leaf = raw.clone().requires_grad_()
        passed, loss = way(network, leaf, target, torch.arange(3), use_cls=True, beta=1.0)  # type: ignore[operator]
        results.append((loss, *gradients(network, leaf, passed, loss)))
        assert all(bool(part.isfinite().all()) for part in results[-1])
    assert_close(results[1], results[0], atol=1e-5, rtol=1e-4)


def test_pieces_of_a_batch_add_up_to_it() -> None:
    network, raw, target = make("ANC", 2)
    switches = {"use_cls": True, "beta": 1.0}
    _, whole = narrow_loss(network, raw, target, None, **switches)  # type: ignore[arg-type]
    pieces = [
        narrow_loss(network, raw[part], target[part], None, out_of=NUM_NODES, **switches)[1]  # type: ignore[arg-type]
        for part in (slice(12), slice(12, None))
    ]
    assert_close(sum(pieces), whole)


def test_what_need_not_move_gets_no_gradient() -> None:
    network, raw, target = make("ANC", 2)
    for layer in network.shared_parameters.values():
        layer.requires_grad_(False)
    passed, loss = narrow_loss(network, raw, target, torch.arange(3), use_cls=True, beta=1.0)
    slopes = torch.autograd.grad(loss, [level.prototypes for level in passed.levels])
    assert all(float(slope.abs().max()) > 0 for slope in slopes)
