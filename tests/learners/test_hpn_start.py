from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from hpn.learners.hpn_start import SHARES, STEEPNESS, Labelled, Start, solve_start
from hpn.nn.codes import Codes
from hpn.nn.snapping import unit

NOISE, HALF, FULL = 0.0, 0.15, 3.0
"""How far class means are from zero, where the noise has length 1 in each direction."""


class Source:
    """Nodes of some classes, whose features tell as much of the class as wanted, hop by hop."""

    def __init__(self, num_classes: int, strengths: tuple[float, ...], seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.num_classes = num_classes
        self.strengths = strengths
        self.means = 4 * np.eye(num_classes + 2)[:num_classes]

    def draw(self, per_class: int) -> Labelled:
        y = self.rng.permutation(np.repeat(np.arange(self.num_classes), per_class))
        hops = []
        for strength in self.strengths:
            noise = 0.5 * self.rng.standard_normal((len(y), self.means.shape[1]))
            hops.append((1 + noise + strength * self.means[y]).astype(np.float32))
        return Labelled(hops, y)

    def none(self) -> Labelled:
        return Labelled([np.zeros((0, self.means.shape[1])) for _ in self.strengths], np.zeros(0, dtype=int))


def codes_for(num_classes: int, dim: int = 16) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = Codes.draw(dim, seed=0)
    return torch.stack([drawn.reference, *(drawn.of(column) for column in range(num_classes))])


def answer(start: Start, nodes: Labelled, codes: Tensor) -> np.ndarray:
    """The class whose code the unit embeddings of both slots say loudest."""
    slots = ((nodes.hops[0], start.node), (nodes.hops[start.reach], start.structure))
    said = sum(unit(torch.from_numpy(np.asarray(x)).float() @ extractor) for x, extractor in slots)
    return (said @ codes[1:].t()).argmax(dim=1).numpy()


def accuracy(start: Start, nodes: Labelled, codes: Tensor) -> float:
    return float((answer(start, nodes, codes) == nodes.y).mean())


def evidence(extractor: Tensor, codes: Tensor) -> float:
    """How much of an extractor goes into the codes."""
    return float((extractor @ codes[1:].t()).norm())


held_out = pytest.mark.parametrize("has_val", [True, False], ids=["validation", "leave-one-out"])


@held_out
@pytest.mark.parametrize("num_classes", [2, 3, 40])
def test_separable_classes_are_told_apart_by_the_nearest_code(num_classes: int, has_val: bool) -> None:
    source, codes = Source(num_classes, (FULL, FULL)), codes_for(num_classes)
    val = source.draw(5) if has_val else source.none()
    start = solve_start(source.draw(12), val, num_classes, codes)
    assert start.node.shape == start.structure.shape == (num_classes + 2, 16)
    assert start.node.dtype == torch.float32
    assert accuracy(start, source.draw(20), codes) > 0.97


@held_out
@pytest.mark.parametrize("reach", [1, 2, 3])
def test_the_reach_is_the_hop_that_carries_the_signal(reach: int, has_val: bool) -> None:
    strengths = tuple(FULL if hop == reach else NOISE for hop in range(4))
    source, codes = Source(3, strengths), codes_for(3)
    start = solve_start(source.draw(30), source.draw(15) if has_val else source.none(), 3, codes)
    assert start.reach == reach
    assert accuracy(start, source.draw(50), codes) > 0.95


@held_out
@pytest.mark.parametrize("useless", [0, 1])
def test_a_slot_that_knows_nothing_is_silent(useless: int, has_val: bool) -> None:
    strengths = (NOISE, FULL) if useless == 0 else (FULL, NOISE)
    source, codes = Source(2, strengths), codes_for(2)
    start = solve_start(source.draw(40), source.draw(30) if has_val else source.none(), 2, codes)
    loud = [evidence(extractor, codes) for extractor in (start.node, start.structure)]
    assert loud[useless] < 1e-5
    assert loud[1 - useless] > 1e-2
    reference = (start.node, start.structure)[useless] @ codes[0]
    assert float(reference.norm()) > 0.1, "it still gives a direction"


def test_two_slots_that_know_half_each_are_both_heard() -> None:
    source, codes = Source(2, (HALF, HALF)), codes_for(2)
    start = solve_start(source.draw(200), source.draw(200), 2, codes)
    assert min(evidence(extractor, codes) for extractor in (start.node, start.structure)) > 1e-2
    both = accuracy(start, test := source.draw(300), codes)
    for silenced in ("node", "structure"):
        alone = Start(**{**vars(start), silenced: torch.zeros_like(start.node)})
        assert both > accuracy(alone, test, codes) + 0.05


@pytest.mark.parametrize(("num_train", "num_val", "reach"), [(20, 40, 2), (40, 4, 1)])
def test_validation_nodes_decide_unless_there_are_few(num_train: int, num_val: int, reach: int) -> None:
    """In training the first hop tells most; among these validation nodes, nothing at all."""
    source, codes = Source(2, (NOISE, FULL, HALF)), codes_for(2)
    train, val = source.draw(num_train), source.draw(num_val)
    assert solve_start(train, val, 2, codes).reach == 1
    shuffled = [val.hops[0], source.rng.permutation(val.hops[1]), val.hops[2]]
    assert solve_start(train, Labelled(shuffled, val.y), 2, codes).reach == reach


def test_embeddings_are_a_reference_and_shares_of_evidence() -> None:
    """On validation nodes: κ w evidence of unit mean square, measured against a mean of one."""
    source, codes = Source(3, (HALF, 2 * HALF)), torch.eye(4)
    val = source.draw(60)
    start = solve_start(source.draw(40), val, 3, codes)
    shares = []
    for x, extractor in ((val.hops[0], start.node), (val.hops[1], start.structure)):
        embedding = torch.from_numpy(x) @ extractor
        assert float(embedding[:, 0].mean()) == pytest.approx(1, abs=1e-3)
        length = embedding[:, 1:].square().sum(dim=1).mean().sqrt()
        shares.append(round(float(length) / STEEPNESS, 3))
    assert tuple(shares) in SHARES


@held_out
def test_one_class_is_enough(has_val: bool) -> None:
    source, codes = Source(1, (FULL, FULL)), codes_for(1)
    start = solve_start(source.draw(6), source.draw(3) if has_val else source.none(), 1, codes)
    assert bool(torch.isfinite(start.node).all() and torch.isfinite(start.structure).all())
    assert accuracy(start, source.draw(5), codes) == 1


@held_out
@pytest.mark.parametrize("num_classes", [1, 2, 7])
def test_one_training_node_a_class_is_enough(num_classes: int, has_val: bool) -> None:
    source, codes = Source(num_classes, (FULL, FULL)), codes_for(num_classes)
    val = source.draw(4) if has_val else source.none()
    start = solve_start(source.draw(1), val, num_classes, codes)
    assert bool(torch.isfinite(start.node).all() and torch.isfinite(start.structure).all())
    if has_val:
        assert accuracy(start, source.draw(20), codes) > 0.9


@held_out
def test_features_of_zero_give_extractors_of_zero(has_val: bool) -> None:
    nodes = Labelled([np.zeros((6, 5), dtype=np.float32)] * 2, np.arange(6) % 2)
    val = nodes if has_val else Labelled([np.zeros((0, 5))] * 2, np.zeros(0, dtype=int))
    start = solve_start(nodes, val, 2, codes_for(2))
    assert not start.node.any()
    assert not start.structure.any()


def test_features_around_zero_need_no_reference() -> None:
    """With two opposite classes, nothing linear predicts a constant."""
    rng, codes = np.random.default_rng(0), codes_for(2)

    def draw(count: int) -> Labelled:
        y = np.arange(count) % 2
        x = np.where(y, 1.0, -1.0)[:, None] * np.ones(4) + 0.1 * rng.standard_normal((count, 4))
        return Labelled([x, x], y)

    start = solve_start(draw(40), draw(20), 2, codes)
    assert float((start.node @ codes[0]).norm()) < 1e-6
    assert accuracy(start, draw(50), codes) == 1


def test_sparse_and_dense_features_give_the_same_start() -> None:
    source, codes = Source(3, (HALF, FULL, NOISE)), codes_for(3)
    train, val = source.draw(20), source.draw(10)
    for nodes in (train, val):
        for x in nodes.hops:
            x[np.abs(x) < 1] = 0.0
    dense = solve_start(train, val, 3, codes)
    sparse = solve_start(*(Labelled([sp.csr_matrix(x) for x in n.hops], n.y) for n in (train, val)), 3, codes)
    assert sparse.reach == dense.reach
    assert torch.allclose(sparse.node, dense.node, atol=1e-5)
    assert torch.allclose(sparse.structure, dense.structure, atol=1e-5)
