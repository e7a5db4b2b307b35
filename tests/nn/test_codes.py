from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hpn.nn.codes import Codes
from hpn.nn.network import PrototypeNetwork

every_dim = pytest.mark.parametrize("dim", [2, 3, 16])


def make(dim: int, seed: int = 0) -> Codes:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Codes.draw(dim, seed)


def network(dim: int, num_outputs: int) -> PrototypeNetwork:
    return PrototypeNetwork(
        4, num_outputs, num_extractors=1, num_slots=3, dim=dim, thresholds=(0.1, 0.1, 0.1)
    )


def stack(codes: Codes, num: int) -> Tensor:
    return torch.stack([codes.of(column) for column in range(num)])


@every_dim
def test_axes_are_orthonormal(dim: int) -> None:
    axes = make(dim).axes
    assert_close(axes @ axes.t(), torch.eye(dim), atol=1e-6, rtol=0)


@every_dim
def test_all_codes_are_unit_vectors_at_right_angles_to_the_reference(dim: int) -> None:
    codes = make(dim)
    every = stack(codes, 60)
    assert_close(every.norm(dim=1), torch.ones(60), atol=1e-5, rtol=0)
    assert float((every @ codes.reference).abs().max()) < 1e-5


@every_dim
def test_the_first_codes_are_opposite_or_at_right_angles(dim: int) -> None:
    num = 2 * (dim - 1)
    gram = stack(make(dim), num)
    gram = gram @ gram.t()
    expected = torch.block_diag(*[torch.tensor([[1.0, -1.0], [-1.0, 1.0]])] * (dim - 1))
    assert_close(gram, expected, atol=1e-6, rtol=0)


def test_a_hundred_codes_are_a_hundred_directions() -> None:
    gram = stack(make(16), 100)
    gram = gram @ gram.t() - 2 * torch.eye(100)
    assert float(gram.max()) < 0.95


def test_codes_depend_on_axes_seed_and_column_only() -> None:
    codes = make(3, seed=5)
    backwards = torch.stack([codes.of(column) for column in reversed(range(30))]).flip(0)
    again = stack(Codes(codes.axes.clone(), seed=5), 30)
    assert torch.equal(backwards, again)
    other = stack(Codes(codes.axes, seed=6), 30)
    assert torch.equal(other[:4], again[:4])
    assert not torch.isclose(other[4:], again[4:]).all(dim=1).any()
    assert not torch.allclose(make(3, seed=6).axes, codes.axes)


def test_in_one_dimension_there_are_still_unit_vectors() -> None:
    assert stack(make(1), 10).abs().flatten().tolist() == [1.0] * 10


@torch.no_grad()
def test_aligned_layers_pass_the_mean_of_the_slots_on() -> None:
    aligned, atomic = network(5, 2), torch.randn(6, 3, 5)
    make(5).align_layers(aligned)
    node = aligned.to_node(atomic.flatten(1))
    assert_close(node, atomic.mean(dim=1), atol=1e-6, rtol=0)
    assert_close(aligned.to_class(node), node)


@torch.no_grad()
def test_an_aligned_head_reads_the_codes_of_its_new_columns() -> None:
    aligned, codes = network(5, 8), make(5)
    weight, bias = aligned.head.weight.clone(), aligned.head.bias.clone()
    codes.align_head(aligned, [1, 2, 5])
    kept = [0, 3, 4, 6, 7]
    assert torch.equal(aligned.head.weight[kept], weight[kept])
    assert torch.equal(aligned.head.bias[kept], bias[kept])
    blocks = torch.randn(6, 5, 5)  # three slots, a node and a class prototype
    logits = aligned.head(blocks.flatten(1))
    for column in (1, 2, 5):
        assert_close(logits[:, column], (blocks @ codes.of(column)).sum(dim=1))


@torch.no_grad()
def test_a_node_that_says_one_code_everywhere_is_of_that_class() -> None:
    aligned, codes = network(16, 40), make(16)
    codes.align_layers(aligned)
    codes.align_head(aligned, list(range(40)))
    raw = stack(codes, 40).unsqueeze(1).repeat(1, 3, 1)
    assert aligned.warm_up(raw).argmax(dim=1).tolist() == list(range(40))
