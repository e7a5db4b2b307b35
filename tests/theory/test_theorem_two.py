from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from hpn.errors import ConfigError
from hpn.nn.hpn.network import PrototypeNetwork
from hpn.theory.theorem_two import TheoremTwo, check_theorem_two, extractor_blocks, smallest_eigenvalue


def make_network(num_features: int, dim: int, num_extractors: int = 3) -> PrototypeNetwork:
    torch.manual_seed(0)
    return PrototypeNetwork(
        num_features,
        2,
        num_extractors=num_extractors,
        num_slots=1 + num_extractors,
        dim=dim,
        thresholds=(0.3, 0.3, 0.4),
    )


def build_w(network: PrototypeNetwork) -> np.ndarray:
    """W as the paper's lemma builds it: the A_i on top of each other, then R_k in columns k d_v and on."""
    node, structure = (
        torch.stack(list(every)).detach().double().numpy()
        for every in (network.node_extractors, network.structure_extractors)
    )
    (l_a, d_v, d_a), (l_r, _, d_r) = node.shape, structure.shape
    w = np.zeros((l_a * d_a + l_r * d_r, (l_r + 1) * d_v))
    for i in range(l_a):
        w[i * d_a : (i + 1) * d_a, :d_v] = node[i].T
    for k in range(1, l_r + 1):
        top = l_a * d_a + (k - 1) * d_r
        w[top : top + d_r, k * d_v : (k + 1) * d_v] = structure[k - 1].T
    return w


def smallest_by_numpy(w: np.ndarray) -> tuple[float, float]:
    values = np.linalg.eigvalsh(w.T @ w)
    return float(values[0]), float(values[-1])


@pytest.mark.parametrize(("num_features", "dim"), [(4, 4), (5, 8), (6, 4), (6, 2)])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
def test_the_eigenvalue_is_that_of_the_papers_matrix(num_features: int, dim: int, scale: float) -> None:
    network = make_network(num_features, dim)
    with torch.no_grad():
        network.structure_extractors[1] *= scale
        for matrix in network.node_extractors:
            matrix[0] *= scale
    expected, largest = smallest_by_numpy(build_w(network))
    found = smallest_eigenvalue(extractor_blocks(network))
    assert found == pytest.approx(expected, abs=1e-6 * largest)
    assert (found > 0) == (dim >= num_features)
    if scale == 1.0 and found > 0:
        assert found == pytest.approx(expected, rel=1e-6)


def test_a_dependent_column_leaves_exactly_nothing() -> None:
    network = make_network(5, 8)
    with torch.no_grad():
        network.structure_extractors[2][4] = 2 * network.structure_extractors[2][1]
    assert smallest_by_numpy(build_w(network))[0] != 0.0
    assert smallest_eigenvalue(extractor_blocks(network)) == 0.0
    condition = check_theorem_two(network, 0.3, torch.zeros(1, 5), torch.ones(1, 5))
    assert (condition.can_have_full_rank, condition.has_full_rank) == (True, False)


def test_the_smallest_eigenvalue_is_that_of_the_worst_block() -> None:
    tall = torch.arange(12.0).reshape(4, 3) ** 2
    assert smallest_eigenvalue([tall, tall[:2]]) == 0.0, "fewer rows than columns"
    one, other = smallest_eigenvalue([tall]), smallest_eigenvalue([tall.reshape(6, 2)])
    assert smallest_eigenvalue([tall, tall.reshape(6, 2)]) == min(one, other) < max(one, other)


@pytest.mark.parametrize("blocks", [[], [torch.ones(3)], [torch.tensor([[math.nan]])]])
def test_blocks_that_are_no_matrices_of_numbers(blocks: list[Tensor]) -> None:
    with pytest.raises(ConfigError):
        smallest_eigenvalue(blocks)


def test_the_bound_of_the_proof_holds_for_every_pair_and_the_printed_one_does_not() -> None:
    """If W = 10 I, nodes at that distance in every slot attain the root, far below what is printed."""
    network = make_network(5, 8)
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(40, 5, generator=generator), torch.randn(30, 5, generator=generator) + 3
    condition = check_theorem_two(network, 0.3, x, y)
    w, nodes = build_w(network), np.random.default_rng(0)
    for _ in range(200):
        one, other = x[nodes.integers(40, size=4)].flatten(), y[nodes.integers(30, size=4)].flatten()
        apart = np.linalg.norm(w @ (one - other).double().numpy())
        assert apart >= condition.right_proved > 0
    plain = make_network(4, 4, num_extractors=1)
    with torch.no_grad():
        for bank in (*plain.node_extractors, *plain.structure_extractors):
            bank.copy_(10 * torch.eye(4))
    x, y = torch.zeros(1, 4), torch.tensor([[0.0, 2.0, 0.0, 0.0]])
    condition = check_theorem_two(plain, 0.3, x, y)
    apart = np.linalg.norm(build_w(plain) @ (x - y).repeat(1, 2).flatten().double().numpy())
    assert apart == pytest.approx(condition.right_proved)
    assert condition.right_printed == pytest.approx(100 * 2 * 2.0)
    assert apart < condition.right_printed


def test_the_condition_can_hold() -> None:
    condition = check_theorem_two(make_network(4, 8), 0.3, torch.zeros(2, 4), torch.full((2, 4), 50.0))
    assert condition.distance == 100.0
    assert condition.right_proved == math.sqrt(condition.eigenvalue * 4) * 100
    assert condition.right_printed == condition.eigenvalue * 4 * 100
    assert (condition.meets_printed_size, condition.has_full_rank, condition.is_satisfied) == (True, True, True)
    assert condition.reasons == ()


NOT_BELOW, TOO_FEW, STACKED = "is not below √", "a structure extractor has", "the node extractors have"
PRINTED, ALIKE = "the theorem's own size condition fails", "the tasks' distance is 0"


@pytest.mark.parametrize(
    ("numbers", "threshold", "distance", "eigenvalue", "reasons"),
    [
        ((4, 4, 3, 3), 0.3, 0.01, 1.0, [NOT_BELOW]),
        ((4, 4, 3, 3), 0.25, 0.125, 1.0, [NOT_BELOW]),  # on the edge: √(1 · 4) · 0.125 is the threshold
        ((4, 4, 3, 3), 0.3, 0.01, 100.0, [NOT_BELOW]),  # the printed form would allow it
        ((4, 4, 3, 3), 0.3, 10.0, 0.0025, []),  # the printed form would not
        ((4, 4, 3, 3), 0.3, 0.0, 1.0, [ALIKE]),
        ((4, 4, 3, 3), 0.3, 1.0, 0.0, ["dependent columns"]),
        ((4, 2, 1, 3), 0.3, 0.0, 0.0, [TOO_FEW, STACKED, PRINTED, ALIKE]),
        ((6, 4, 3, 3), 0.3, 1e6, 0.0, [TOO_FEW]),  # 3 · 4 + 3 · 4 = (3 + 1) · 6, and the printed size is not enough
        ((1433, 16, 22, 22), 0.3, 0.1, 0.0, [TOO_FEW, STACKED, PRINTED]),  # the paper's on Cora
    ],
)
def test_every_reason_is_stated(
    numbers: tuple[int, int, int, int], threshold: float, distance: float, eigenvalue: float, reasons: list[str]
) -> None:
    condition = TheoremTwo(*numbers, threshold=threshold, distance=distance, eigenvalue=eigenvalue)
    assert condition.is_satisfied == (not reasons)
    assert condition.meets_printed_size == (PRINTED not in reasons)
    assert len(condition.reasons) == len(reasons)
    for found, expected in zip(condition.reasons, reasons, strict=True):
        assert expected in found


def test_reasons_have_numbers() -> None:
    condition = check_theorem_two(make_network(6, 2, 2), 0.3, torch.zeros(1, 6), torch.ones(1, 6))
    assert condition.eigenvalue == condition.right_proved == condition.right_printed == 0.0
    structure, node, printed = condition.reasons
    assert "a structure extractor has 2 rows for 6 features" in structure
    assert "4 rows in all for 6 features" in node
    assert "l_a d_a + l_r d_r is 8, and (l_r + 1) d_v is 18" in printed
    (close,) = TheoremTwo(4, 4, 3, 3, threshold=0.3, distance=0.01, eigenvalue=1.0).reasons
    assert "t_A = 0.3 is not below √(λ_min (l_r + 1)) dist = 0.02" in close


@pytest.mark.parametrize("missing", ["neighbors_stay", "slots_are_nodes"])
def test_neighbours_from_elsewhere_void_the_proof(missing: str) -> None:
    x, y = torch.zeros(1, 4), torch.full((1, 4), 50.0)
    condition = check_theorem_two(make_network(4, 8), 0.3, x, y, **{missing: False})
    assert condition.threshold < condition.right_proved
    (reason,) = condition.reasons
    assert {"neighbors_stay": "other tasks", "slots_are_nodes": "means"}[missing] in reason


def test_features_that_the_network_is_not_for() -> None:
    with pytest.raises(ConfigError, match="nodes have 4 features, but the extractors are for 5"):
        check_theorem_two(make_network(5, 5), 0.3, torch.ones(1, 4), torch.ones(1, 4))
