from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.losses import classification_loss, distance_loss
from hpn.nn.network import Levels, Pass, PrototypeNetwork, Selection
from hpn.nn.snapping import unit

NUM_SLOTS, DIM = 3, 4

every_level = pytest.mark.parametrize("levels", ["A", "AN", "ANC"])


def make(levels: Levels = "ANC", threshold: float = 0.2, num_outputs: int = 2) -> PrototypeNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PrototypeNetwork(
            5,
            num_outputs,
            num_extractors=3,
            num_slots=NUM_SLOTS,
            dim=DIM,
            thresholds=(threshold, threshold, threshold),
            levels=levels,
        )


def embeddings(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.randn(count, NUM_SLOTS, DIM, generator=generator)


def grown(levels: Levels = "ANC", threshold: float = 0.2) -> PrototypeNetwork:
    network = make(levels, threshold)
    with torch.no_grad():
        network(embeddings(30), grow_for=0)
    return network


def state(network: PrototypeNetwork) -> dict[str, bytes]:
    return {key: value.numpy().tobytes() for key, value in network.state_dict().items()}


def bits(values: Tensor) -> bytes:
    return values.detach().contiguous().numpy().tobytes()


@every_level
@pytest.mark.parametrize("has_gradients", [True, False])
def test_shapes(levels: Levels, has_gradients: bool) -> None:
    network = grown(levels)
    with torch.set_grad_enabled(has_gradients):
        passed = network(embeddings(7, seed=1))
    width = DIM * (NUM_SLOTS + len(levels) - 1)
    assert passed.representation.shape == (7, width)
    assert passed.logits.shape == network.warm_up(embeddings(7)).shape == (7, 2)
    assert [level.values.shape for level in passed.levels] == [
        (7 * NUM_SLOTS, DIM), (7, DIM), (7, DIM)
    ][: len(levels)]  # fmt: skip
    for level, book in zip(passed.levels, network.books, strict=False):
        assert level.embeddings.shape == level.values.shape
        assert level.index.shape == level.cosine.shape == level.values.shape[:1]
        assert level.prototypes.shape == (len(book), DIM)


@every_level
def test_levels_that_are_not_used_stay_empty_and_still(levels: Levels) -> None:
    network = grown(levels)
    assert [len(book) > 0 for book in network.books] == [level in levels for level in "ANC"]
    names = {name.split(".")[0] for name in network.shared_parameters}
    assert names == {"A": {"head"}, "AN": {"to_node", "head"}, "ANC": {"to_node", "to_class", "head"}}[levels]


@pytest.mark.parametrize("has_gradients", [True, False])
def test_the_representation_is_made_of_the_nearest_prototypes(has_gradients: bool) -> None:
    network, raw = grown(), embeddings(20, seed=1)
    with torch.set_grad_enabled(has_gradients):
        passed = network(raw)
    with torch.no_grad():
        atomic, node, clas = (book.vectors for book in network.books)
        parts = [atomic[(unit(vector) @ atomic.t()).argmax(dim=1)] for vector in raw.unbind(dim=1)]
        parts.append(node[(unit(network.to_node(torch.cat(parts, dim=1))) @ node.t()).argmax(dim=1)])
        parts.append(clas[(unit(network.to_class(parts[-1])) @ clas.t()).argmax(dim=1)])
        expected = torch.cat(parts, dim=1)
        assert torch.equal(passed.representation, expected)
        assert_close(passed.logits, network.head(expected))
    for level, book in zip(passed.levels, network.books, strict=True):
        assert len(book) > 2
        assert torch.equal(level.values, book.vectors[level.index])
        assert_close(level.cosine, (level.embeddings * level.values).sum(dim=1))


@pytest.mark.parametrize("has_gradients", [True, False])
def test_a_pass_changes_nothing_unless_it_is_told_to(has_gradients: bool) -> None:
    network, raw = grown(), embeddings(40, seed=1)
    before = state(network)
    with torch.set_grad_enabled(has_gradients):
        network(raw)
        network.warm_up(raw)
        assert state(network) == before
        network(raw, grow_for=5)
    assert state(network) != before
    assert set(network.atomic_prototypes.founders.tolist()) == {0, 5}


def test_after_growth_everything_is_covered() -> None:
    network, raw = grown(), embeddings(40, seed=1)
    with torch.no_grad():
        passed = network(raw, grow_for=1)
    for level, book in zip(passed.levels, network.books, strict=True):
        book.check(level.embeddings)


@torch.no_grad()
def test_what_is_not_visible_makes_no_difference_to_the_last_bit() -> None:
    network, raw = grown(), embeddings(25, seed=1)
    visible = (len(network.atomic_prototypes), len(network.node_prototypes), len(network.class_prototypes))
    before = network(raw, visible)
    for seed in range(2, 40):
        network(embeddings(25, seed), grow_for=seed)
    after = network(raw, visible)
    assert bits(after.logits) == bits(before.logits)
    assert bits(after.representation) == bits(before.representation)
    assert not torch.equal(network(raw).logits, before.logits)
    assert all(len(book) > size for book, size in zip(network.books, visible, strict=True))


LOSSES = {
    "classification": lambda passed, y: classification_loss(passed.logits, y),
    "distance": lambda passed, y: distance_loss(torch.cat([p.cosine for p in passed.levels]), len(y)),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_one_loss_alone_reaches_everything_it_should(loss: str) -> None:
    network, raw = grown(), embeddings(20, seed=1).requires_grad_()
    passed: Pass = network(raw)
    prototypes = [level.prototypes for level in passed.levels]
    layers = list(network.shared_parameters.values())
    y = torch.arange(20) % 2
    gradients = torch.autograd.grad(
        LOSSES[loss](passed, y), [raw, *prototypes, *layers], allow_unused=True, materialize_grads=True
    )
    assert bool((gradients[0].abs().amax(dim=2) > 0).all()), "every atomic embedding"
    for level, gradient in zip(passed.levels, gradients[1:4], strict=True):
        has_moved = gradient.abs().amax(dim=1) > 0
        is_matched = torch.zeros(len(gradient), dtype=torch.bool)
        is_matched[level.index] = True
        assert torch.equal(has_moved, is_matched)
    reached = {name for name, g in zip(network.shared_parameters, gradients[4:], strict=True) if g.any()}
    head = {"head.weight", "head.bias"} if loss == "classification" else set()
    assert reached == {"to_node.weight", "to_node.bias", "to_class.weight", "to_class.bias"} | head


@every_level
def test_with_a_prototype_for_each_embedding_the_warm_up_gives_the_same_logits(levels: Levels) -> None:
    network, raw = make(levels, threshold=1e-7), embeddings(20)
    with torch.no_grad():
        passed = network(raw, grow_for=0)
        assert len(network.atomic_prototypes) == 20 * NUM_SLOTS
        assert_close(network.warm_up(raw), passed.logits, atol=1e-5, rtol=0)


def test_the_warm_up_reaches_embeddings_and_layers() -> None:
    network, raw = make(), embeddings(20).requires_grad_()
    leaves = [raw, *network.shared_parameters.values()]
    loss = classification_loss(network.warm_up(raw), torch.arange(20) % 2)
    for gradient in torch.autograd.grad(loss, leaves):
        assert bool(gradient.any())


@every_level
def test_embeddings_may_be_given_once_and_laid_out(levels: Levels) -> None:
    layout = torch.tensor([[0, 2, 2], [1, 3, 2], [0, 3, 0], [4, 2, 4]])
    results = []
    for is_distinct in (True, False):
        network = grown(levels)
        distinct = embeddings(5, seed=1)[:, 0].requires_grad_()
        raw, places = (distinct, layout) if is_distinct else (distinct[layout], None)
        warm = network.warm_up(raw, places)
        passed = network(raw, grow_for=1, layout=places)
        leaves = [distinct, *(level.prototypes for level in passed.levels)]
        y = torch.arange(4) % 2
        loss = classification_loss(passed.logits, y) + classification_loss(warm, y)
        results.append((warm, passed.representation, passed.logits, *torch.autograd.grad(loss, leaves)))
    assert_close(results[0], results[1], atol=1e-6, rtol=1e-5)


def test_embeddings_of_length_zero_give_finite_logits_and_gradients() -> None:
    network = grown()
    for forward in (network.warm_up, lambda raw: network(raw, grow_for=0).logits):
        raw = embeddings(4)
        raw[2] = 0.0
        logits = forward(raw.requires_grad_())
        logits.sum().backward()
        assert bool(torch.isfinite(logits).all())
        assert raw.grad is not None
        assert bool(torch.isfinite(raw.grad).all())


def test_a_head_that_grows_keeps_its_old_columns() -> None:
    network, raw = grown(), embeddings(50, seed=1)
    with torch.no_grad():
        before, weight, bias = network(raw).logits, bits(network.head.weight), bits(network.head.bias)
        network.grow_head(5)
        assert (bits(network.head.weight[:2]), bits(network.head.bias[:2])) == (weight, bias)
        after = network(raw).logits
        assert after.shape == (50, 5)
        assert_close(after[:, :2], before, atol=1e-6, rtol=0)  # products of other sizes round differently
        head = network.head
        network.grow_head(3)
    assert network.head is head


def test_selected_extractors_are_copies_and_only_they_are_written() -> None:
    network = make()
    selection = Selection(node=(2,), structure=(0, 1))
    node, structure = network.get_extractors(selection)
    assert (node.shape, structure.shape) == ((1, 5, DIM), (2, 5, DIM))
    before = [bank.detach().clone() for bank in network.extractors]
    node.zero_()
    assert torch.equal(network.node_extractors, before[0])
    network.put_extractors(selection, node, structure + 1)
    assert not network.node_extractors[2].any()
    assert torch.equal(network.node_extractors[:2], before[0][:2])
    assert torch.equal(network.structure_extractors[:2], before[1][:2] + 1)
    assert torch.equal(network.structure_extractors[2], before[1][2])


@torch.no_grad()
def test_the_state_is_complete_books_included() -> None:
    network, raw = grown(), embeddings(25, seed=1)
    network.node_prototypes.freeze()
    network(raw, grow_for=3)
    torch.manual_seed(1)
    loaded = make()
    for parameter in loaded.parameters():
        parameter.normal_()
    loaded.load_state_dict(network.state_dict())
    assert state(loaded) == state(network)
    assert bits(loaded(raw).logits) == bits(network(raw).logits)
    assert bits(loaded.warm_up(raw)) == bits(network.warm_up(raw))
    for one, other in zip(loaded.books, network.books, strict=True):
        assert len(one) == len(other) > 0
        assert one.num_frozen == other.num_frozen
        assert torch.equal(one.founders, other.founders)
    before = state(network)
    loaded(embeddings(25, seed=2), grow_for=4)
    assert state(network) == before, "what was loaded is a copy"
