from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.hpn.codebook import unit
from hpn.nn.hpn.network import PrototypeNetwork

SIZES: dict[str, Any] = {"num_extractors": 3, "num_slots": 4, "dim": 2, "thresholds": (0.05, 0.1, 0.3)}


def make(**changes: Any) -> PrototypeNetwork:
    torch.manual_seed(0)
    return PrototypeNetwork(6, 2, **{**SIZES, **changes})


def embeddings(count: int = 10, seed: int = 1) -> Tensor:
    return torch.randn(count, 4, 2, generator=torch.Generator().manual_seed(seed))


def nearest(prototypes: Tensor, vector: Tensor, threshold: float) -> Tensor:
    """Eq. 6 and 7 for one embedding: the prototype with the largest cosine, which must cover it."""
    cosines = [float((vector @ p) / (vector.norm() * p.norm())) for p in prototypes]
    best = max(range(len(cosines)), key=cosines.__getitem__)
    assert cosines[best] >= 1 - threshold - 1e-5
    return prototypes[best]


@torch.no_grad()
@pytest.mark.parametrize("levels", ["A", "AN", "ANC"])
def test_equations_6_to_11_for_one_node_after_the_other(levels: Any) -> None:
    network, atomic = make(levels=levels), embeddings()
    output = network(atomic, task=0)
    codebooks = [codebook.vectors for codebook in network.codebooks]
    for node in range(len(atomic)):
        a = torch.cat([nearest(codebooks[0], e, 0.05) for e in atomic[node]])
        parts = [a]
        if "N" in levels:
            parts.append(nearest(codebooks[1], network.to_node(a), 0.1))
        if "C" in levels:
            parts.append(nearest(codebooks[2], network.to_class(parts[1]), 0.3))
        assert_close(output.representation[node], torch.cat(parts))
        assert_close(output.logits[node], network.head(torch.cat(parts)))


def test_gradients_reach_prototypes_and_go_straight_through_to_embeddings() -> None:
    network = make(levels="A", thresholds=(0.4, 0.4, 0.4))
    atomic = embeddings().requires_grad_()
    output = network(atomic, task=0)
    pull = torch.randn_like(output.representation)
    (output.representation * pull).sum().backward()
    raw = atomic.detach().requires_grad_()
    (unit(raw).view_as(pull) * pull).sum().backward()
    assert_close(atomic.grad, raw.grad)
    codebook, expected = network.atomic_prototypes, torch.zeros(len(network.atomic_prototypes), 2)
    index, _ = codebook.match(unit(atomic.detach().view(-1, 2)))
    expected.index_add_(0, index, pull.view(-1, 2))
    assert codebook.storage.grad is not None
    assert_close(codebook.storage.grad[: len(codebook)], expected)


def test_before_there_are_prototypes_embeddings_are_used_directly() -> None:
    network, atomic = make(), embeddings()
    output = network(atomic, use_prototypes=False)
    a = unit(atomic).flatten(1)
    n = unit(network.to_node(a))
    c = unit(network.to_class(n))
    assert_close(output.representation, torch.cat([a, n, c], dim=1))
    assert not output.matched
    assert [len(codebook) for codebook in network.codebooks] == [0, 0, 0]


def test_a_pass_without_a_task_changes_nothing_and_matches_visible_prototypes() -> None:
    network, first, second = make(), embeddings(), embeddings(seed=2)
    network(first, task=0)
    visible = [len(codebook) for codebook in network.codebooks]
    before = network(first).logits
    network(second, task=1)
    assert [len(codebook) for codebook in network.codebooks] != visible
    assert torch.equal(network(first, visible=visible).logits, before)
    sizes = [len(codebook) for codebook in network.codebooks]
    network(embeddings(seed=3))
    assert [len(codebook) for codebook in network.codebooks] == sizes


def test_a_growing_head_keeps_its_logits() -> None:
    network, atomic = make(), embeddings()
    before = network(atomic, task=0).logits
    network.grow_head(2)
    assert torch.equal(network(atomic).logits, before)
    network.grow_head(5)
    assert network(atomic).logits.shape == (10, 5)
    assert_close(network(atomic).logits[:, :2], before)


def test_the_digest_covers_exactly_what_predictions_use() -> None:
    network = make()
    network.grow_head(4)
    network(embeddings(), task=0)
    visible = [len(codebook) for codebook in network.codebooks]
    network(embeddings(seed=2), task=1)

    def digest() -> str:
        return network.digest((0,), (1,), [0, 1], visible)

    used = [network.node_extractors[0], network.structure_extractors[1], network.to_node.weight]
    used += [network.to_class.bias, network.head.weight[1], network.head.bias]
    used += [codebook.storage[0] for codebook in network.codebooks]
    unused = [network.node_extractors[1], network.structure_extractors[0], network.head.weight[2:]]
    unused += [network.atomic_prototypes.storage[visible[0] :]]
    first = digest()
    with torch.no_grad():
        for parts, stays in ((used, False), (unused, True)):
            for part in parts:
                old = part.clone()
                part.add_(1e-3)
                assert (digest() == first) == stays
                part.copy_(old)
    assert digest() == first
