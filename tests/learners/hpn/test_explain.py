"""What explanations state; that they agree with predictions is tested with the estimator."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hpn.datasets import Graph
from hpn.datasets.sparse import to_csr
from hpn.learners.hpn import explain as module
from hpn.learners.hpn.explain import SLOTS, BankMatch, Explanation, Share, SlotEvidence, break_down, explain
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.solved import SolvedNetwork
from hpn.streams import GraphView, TaskStream

NAMES = {0: "apple", 1: "berry", 2: "cherry"}
SIZE = 40
MIXED, ALONE, PLAIN, EMPTY = 3 * SIZE, 3 * SIZE + 1, 3 * SIZE + 2, 3 * SIZE + 3
NO_NODES = (np.zeros(0, np.int64), np.zeros(0, np.int64))
NUM_FEATURES = 6


def make_graph(kind: str = "dense") -> tuple[GraphView, np.ndarray]:
    """Three communities with different features, and four nodes outside of them.

    One has features like those of apples and only berries around it; one has features of an apple and nobody
    around it; one is an apple among apples; and one among berries has no features at all.
    """
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], SIZE)
    x = 0.25 * np.abs(rng.normal(size=(3 * SIZE + 4, NUM_FEATURES)))
    x[np.arange(3 * SIZE), y] += 1
    x[[MIXED, ALONE, PLAIN], 0] += 1
    x[EMPTY] = 0
    links = [(a, b) for a in range(3 * SIZE) for b in rng.integers(0, SIZE, 4) + SIZE * y[a] if a != b]
    links += [(MIXED, SIZE + at) for at in range(12)] + [(PLAIN, at) for at in range(12)]
    links += [(EMPTY, SIZE + at) for at in range(20, 32)]
    pairs = np.array(links).T
    edges = torch.from_numpy(np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1))
    rows = torch.from_numpy(x.astype(np.float32))
    features = to_csr(sp.csr_matrix(rows.numpy())) if kind == "sparse" else rows
    return GraphView(features, edges, torch.arange(len(x)) * 11), y


def fit(view: GraphView, y: np.ndarray, classes: tuple[int, ...] = (0, 1, 2)) -> SolvedNetwork:
    network = SolvedNetwork(SolvedSettings(width=200), NUM_FEATURES, 0)
    nodes = np.flatnonzero(np.isin(y, classes))
    network.learn(view, (nodes, y[nodes]), NO_NODES)
    return network


@pytest.fixture(scope="module", params=["dense", "sparse"])
def fitted(request: pytest.FixtureRequest) -> tuple[SolvedNetwork, GraphView]:
    view, y = make_graph(request.param)
    return fit(view, y), view


Fitted = tuple[SolvedNetwork, GraphView]


def explain_nodes(fitted: Fitted, *nodes: int) -> list[Explanation]:
    return explain(*fitted, np.array(nodes), NAMES.__getitem__)


def test_own_features_support_one_class_and_neighbours_another(fitted: Fitted) -> None:
    """Around MIXED, an apple by its first feature, there are only berries."""
    (found,) = explain_nodes(fitted, MIXED)
    assert {found.predicted, found.runner_up} == {"apple", "berry"}
    sign = 1 if found.predicted == "apple" else -1
    assert tuple(slot.slot for slot in found.slots) == SLOTS
    assert [slot.speaks_for for slot in found.slots[:3]] == ["apple", "berry", "berry"]
    for slot, is_apple in zip(found.slots[:2], (True, False), strict=True):
        apple, berry = (slot.predicted, slot.runner_up)[::sign]
        assert (apple > 0 > berry) if is_apple else (berry > 0 > apple)  # type: ignore[operator]
    by_bank = {bank.bank: sign * bank.prototype for bank in found.banks}
    assert by_bank["its own features"] > 0 > by_bank["class means 1 hop away"]
    leads = [abs(share.lead) for share in found.neighbors]
    assert leads == sorted(leads, reverse=True)
    assert {share.of for share in found.neighbors} <= {SIZE + at for at in range(12)}
    assert all(sign * share.lead < 0 for share in found.neighbors)
    assert found.features[0].of == 0
    assert sign * found.features[0].lead > 0


def test_nodes_without_neighbours_and_without_features(fitted: Fitted) -> None:
    plain, alone, empty = explain_nodes(fitted, PLAIN, ALONE, EMPTY)
    for found in (plain, alone):  # the neighbourhood of an isolated node is the node itself
        assert (found.predicted, found.membership) == ("apple", "member")
        assert found.probability > 0.8
        assert [slot.speaks_for for slot in found.slots] == ["apple"] * len(SLOTS)
        assert min(found.node_prototype, found.class_prototype, *(bank.prototype for bank in found.banks)) > 0
        assert found.features[0].of == 0
    own, *near = empty.slots
    assert [slot.speaks_for for slot in near] == ["berry"] * len(near)
    assert own.predicted < min(slot.predicted for slot in near[:2])
    assert (alone.neighbors, empty.features) == ((), ())
    assert {share.of for share in empty.neighbors} <= {SIZE + at for at in range(20, 32)}


def test_shares_by_hand(fitted: Fitted) -> None:
    """Of neighbours: by every path to them, and by the evidence near them."""
    network, view = fitted
    (found,) = explain_nodes(fitted, MIXED)
    pair = [[*NAMES.values()].index(label) for label in (found.predicted, found.runner_up)]
    extractors = network.memory.extractors(view)
    directions = module._find_directions(extractors, view, MIXED)
    ahead = directions[:, :, pair[0]] - directions[:, :, pair[1]]
    x = (view.x.to_dense() if view.is_sparse else view.x).double().numpy()
    matrix = np.eye(len(x))
    matrix[tuple(view.edge_index.numpy())] = 1
    matrix /= matrix.sum(axis=1, keepdims=True)
    far = extractors._far_layer(view, np.arange(len(x)))
    factor = extractors.weights[-1] / extractors.scales[-1]
    for share in found.neighbors:
        expected = factor * (matrix @ matrix)[MIXED, share.of] * (far[share.of, pair] @ [1, -1])
        for hop in (1, 2, 3):
            reach = np.linalg.matrix_power(matrix, hop)[MIXED]
            expected += reach[share.of] * (x[share.of] @ ahead[hop]) / np.linalg.norm(reach @ x)
        assert share.lead == pytest.approx(expected, rel=1e-3)
    own = ahead[0] * x[MIXED] / np.linalg.norm(x[MIXED])
    assert [share.lead for share in found.features] == pytest.approx(
        own[[share.of for share in found.features]], rel=1e-2
    )


def test_explanations_with_one_class() -> None:
    view, y = make_graph()
    network = SolvedNetwork(SolvedSettings(width=50), NUM_FEATURES, 0)
    network.learn(view, (np.arange(SIZE), y[:SIZE]), NO_NODES, "fruit")
    for task in ("fruit", None):
        (found,) = explain(network, view, np.array([MIXED]), NAMES.__getitem__, task)
        assert (found.predicted, found.probability, found.runner_up) == ("apple", 1.0, None)
        assert found.runner_up_probability is None
        assert all(slot.speaks_for is None and slot.runner_up is None for slot in found.slots)
        assert found.membership == "borderline"
        lines = str(found).splitlines()
        assert lines[0] == f"node {MIXED}: apple (100%), borderline"
        assert all(" are neutral: +0.00 for apple" in line for line in lines[1 : 1 + len(found.slots)])


def test_the_text_by_hand() -> None:
    explanation = Explanation(
        node=17,
        predicted="apple",
        probability=0.734,
        runner_up="berry",
        runner_up_probability=0.2,
        slots=[
            SlotEvidence("its own features", "apple", 1.25, -0.5),
            SlotEvidence("nodes 1 hop away", "berry", -0.126, 0.75),
            SlotEvidence("nearby evidence", None, 0.0, 0.04),
        ],
        banks=[BankMatch("its own features", 0.6, 0.8, 12, -7), BankMatch("class means", 0.4, 0.0, 0, 3)],
        node_prototype=5,
        class_prototype=2,
        membership="member",
        neighbors=(Share("n 7", -0.5, "berry"), Share("n 9", 0.25)),
        features=(Share("size", 0.125),),
    )
    assert str(explanation).splitlines() == [
        "node 17: apple (73%), member; next berry (20%)",
        "  its own features   support apple: +1.25 for apple, -0.50 for berry",
        "  nodes 1 hop away   support berry: -0.13 for apple, +0.75 for berry",
        "  nearby evidence    are neutral: +0.00 for apple, +0.04 for berry",
        "  neighbours that matter most, for apple over berry: n 7 (berry) -0.50, n 9 +0.25",
        "  its features that matter most, for apple over berry: size +0.12",
        "  atomic prototype +12 (next: -7): its own features, weight 60%",
        "  atomic prototype +0 (next: +3): class means, weight 40%",
        "  node-level prototype +5, class-level +2",
    ]


def test_faint_evidence_is_neutral(fitted: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [max(slot.predicted, slot.runner_up or 0.0) for slot in explain_nodes(fitted, MIXED)[0].slots]
    middle = sorted(sizes)[2]
    monkeypatch.setattr(module, "FAINT", middle)
    (found,) = explain_nodes(fitted, MIXED)
    assert [slot.speaks_for is None for slot in found.slots] == [size <= middle for size in sizes]
    assert str(found).count(" are neutral: ") == 3


@pytest.fixture(scope="module")
def streamed(graph: Graph) -> Fitted:
    stream = TaskStream(graph, edges="seen", seed=0)
    network = SolvedNetwork(SolvedSettings(width=100), graph.num_features, 0)
    for index in range(len(stream)):
        step = stream.step(index)
        train, val = (step.train.numpy(), step.train_y.numpy()), (step.val.numpy(), step.val_y.numpy())
        network.learn(step.graph, train, val, index)
    return network, step.graph


@pytest.mark.parametrize("task", [None, 0, 2])
def test_breakdowns_agree_with_explanations_node_by_node(streamed: Fitted, task: int | None) -> None:
    network, view = streamed
    nodes = np.arange(0, view.num_nodes, 7)
    found = break_down(network, view, nodes, sorted, task)
    classes = found.evidence.classes
    for row, node in enumerate(nodes):
        (one,) = explain(network, view, np.array([node]), lambda label: label, task)
        assert [one.predicted, one.runner_up] == [classes[at] for at in found.pair[row]]
        both = one.probability, one.runner_up_probability
        assert found.probability[row].tolist() == pytest.approx(both, rel=1e-6)
        for bank in one.banks:
            at = found.evidence.banks.index(bank.bank)
            assert (bank.prototype, bank.runner_up_prototype) == tuple(found.atomic[at, row])
            assert (bank.weight, bank.evidence) == pytest.approx(
                (found.shares[at], found.unmatched[at, row, 0]), rel=1e-4, abs=1e-5
            )
        assert one.node_prototype == found.node[row, 0]
        assert one.class_prototype == found.class_level[row, 0]
        assert tuple(slot.slot for slot in one.slots) == found.slots
        expected = [(slot.predicted, slot.runner_up) for slot in one.slots]
        by_slot = np.take_along_axis(found.by_slot[:, row], found.pair[row][None], axis=1)
        np.testing.assert_allclose(by_slot, expected, atol=1e-4)


def test_slots_add_up_to_the_weighted_evidence_of_banks(streamed: Fitted) -> None:
    """Up to the rounding of the random layer."""
    network, view = streamed
    found = break_down(network, view, np.arange(view.num_nodes), sorted)
    assert found.slots == SLOTS
    total = np.tensordot(found.evidence.weights, found.evidence.values, 1)
    np.testing.assert_allclose(found.by_slot.sum(axis=0), total, atol=0.05 * np.abs(total).max())


def test_predictions_come_from_the_chosen_classes(streamed: Fitted) -> None:
    network, view = streamed
    nodes = np.arange(40)
    found = break_down(network, view, nodes, lambda _: (4, 1))
    every = network.find_evidence(view, nodes)
    logits = network.combine(every)[:, [every.classes.index(4), every.classes.index(1)]]
    assert found.pair[:, 0].tolist() == logits.argmax(axis=1).tolist()
    assert set(found.pair.ravel().tolist()) == {0, 1}
