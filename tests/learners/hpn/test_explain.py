from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from hpn.datasets.sparse import to_csr
from hpn.learners.hpn.evidence import BANKS
from hpn.learners.hpn.explain import FAINT, SLOTS, BankMatch, Explanation, SlotEvidence, explain
from hpn.learners.hpn.memory import HELD_OUT, hash_ids
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.solved import SolvedNetwork
from hpn.streams import GraphView

NAMES = {0: "apple", 1: "berry", 2: "cherry"}
SIZE = 40
MIXED, ALONE, PLAIN, EMPTY = 3 * SIZE, 3 * SIZE + 1, 3 * SIZE + 2, 3 * SIZE + 3
NOBODY = (np.zeros(0, np.int64), np.zeros(0, np.int64))
NUM_FEATURES = 6


def make_graph(kind: str = "dense") -> tuple[GraphView, np.ndarray]:
    """Three communities, features of which tell the class; and four nodes in none of them.

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
    network.learn(view, (nodes, y[nodes]), NOBODY)
    return network


@pytest.fixture(scope="module", params=["dense", "sparse"])
def fitted(request: pytest.FixtureRequest) -> tuple[SolvedNetwork, GraphView]:
    view, y = make_graph(request.param)
    return fit(view, y), view


def ask(fitted: tuple[SolvedNetwork, GraphView], *nodes: int) -> list[Explanation]:
    return explain(*fitted, np.array(nodes), NAMES.__getitem__)


def test_own_features_speak_for_one_class_and_neighbours_for_another(
    fitted: tuple[SolvedNetwork, GraphView],
) -> None:
    (found,) = ask(fitted, MIXED)
    by_slot = {slot.slot: slot.speaks_for for slot in found.slots}
    assert tuple(by_slot) == SLOTS
    assert by_slot["its own features"] == "apple"
    assert by_slot["nodes 1 hop away"] == "berry"
    assert by_slot["nodes 2 hops away"] == "berry"
    assert {found.predicted, found.runner_up} == {"apple", "berry"}
    own, near = found.slots[:2]
    is_apple = found.predicted == "apple"
    apple, berry = (own.predicted, own.runner_up) if is_apple else (own.runner_up, own.predicted)
    assert apple > 0 > berry  # type: ignore[operator]
    apple, berry = (near.predicted, near.runner_up) if is_apple else (near.runner_up, near.predicted)
    assert berry > 0 > apple  # type: ignore[operator]
    by_bank = {bank.bank: bank for bank in found.banks}
    sign = 1 if is_apple else -1
    assert sign * by_bank["its own features"].prototype > 0
    assert sign * by_bank["class means 1 hop away"].prototype < 0


def test_everything_speaks_for_the_same_class(fitted: tuple[SolvedNetwork, GraphView]) -> None:
    for found in ask(fitted, PLAIN, ALONE):  # who is alone is all that there is around it
        assert found.predicted == "apple"
        assert found.membership == "member"
        assert found.probability > 0.8
        assert [slot.speaks_for for slot in found.slots] == ["apple"] * len(SLOTS)
        assert all(bank.prototype > 0 for bank in found.banks)
        assert found.node_prototype > 0
        assert found.class_prototype > 0


def test_a_node_without_features_is_what_its_neighbours_are(fitted: tuple[SolvedNetwork, GraphView]) -> None:
    (found,) = ask(fitted, EMPTY)
    own, *near = found.slots
    assert found.predicted == "berry"
    assert all(slot.speaks_for == "berry" for slot in near)
    assert own.predicted < min(slot.predicted for slot in near[:2])


def test_neighbours_and_features_that_matter(fitted: tuple[SolvedNetwork, GraphView]) -> None:
    """Around MIXED, an apple by its first feature, there are only berries."""
    (found,) = ask(fitted, MIXED)
    for_apple = 1 if found.predicted == "apple" else -1
    assert {found.predicted, found.runner_up} == {"apple", "berry"}
    assert {share.of for share in found.neighbors} <= {SIZE + at for at in range(12)}
    assert all(for_apple * share.lead < 0 for share in found.neighbors)
    assert found.features[0].of == 0
    assert for_apple * found.features[0].lead > 0
    assert [abs(share.lead) for share in found.neighbors] == sorted(
        (abs(share.lead) for share in found.neighbors), reverse=True
    )


def test_a_node_alone_has_no_neighbours_and_an_empty_one_no_features(
    fitted: tuple[SolvedNetwork, GraphView],
) -> None:
    alone, empty = ask(fitted, ALONE, EMPTY)
    assert (alone.neighbors, empty.features) == ((), ())
    assert alone.features[0].of == 0
    assert {share.of for share in empty.neighbors} <= {SIZE + at for at in range(20, 32)}


def test_who_is_who(fitted: tuple[SolvedNetwork, GraphView]) -> None:
    nodes = [5, SIZE + 3, 2 * SIZE + 9, PLAIN]
    found = ask(fitted, *nodes)
    assert [entry.node for entry in found] == nodes
    assert [entry.predicted for entry in found] == ["apple", "berry", "cherry", "apple"]
    network, view = fitted
    logits = network.combine(network.find_evidence(view, np.array(nodes)))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for entry, row in zip(found, proba, strict=True):
        second, first = np.sort(row)[1:]
        assert entry.probability == pytest.approx(first)
        assert entry.runner_up_probability == pytest.approx(second)
        assert entry.runner_up == NAMES[int(np.argsort(row)[1])]
    (alone,) = ask(fitted, nodes[1])
    assert str(alone) == str(found[1])


def test_names_need_not_be_in_the_order_of_numbers(fitted: tuple[SolvedNetwork, GraphView]) -> None:
    other = {0: "zucchini", 1: "melon", 2: "artichoke"}
    nodes = np.array([MIXED, PLAIN, EMPTY, SIZE + 3])
    found = explain(*fitted, nodes, other.__getitem__)
    renamed = dict(zip(NAMES.values(), other.values(), strict=True))
    for entry, expected in zip(found, explain(*fitted, nodes, NAMES.__getitem__), strict=True):
        assert entry.predicted == renamed[expected.predicted]
        assert entry.runner_up == renamed[expected.runner_up]
        assert entry.probability == pytest.approx(expected.probability)
        speaks = [renamed[slot.speaks_for] for slot in expected.slots]
        assert [slot.speaks_for for slot in entry.slots] == speaks
        amounts = [slot.predicted for slot in expected.slots]
        assert [slot.predicted for slot in entry.slots] == pytest.approx(amounts)
        assert entry.banks == expected.banks
        assert entry.node_prototype == expected.node_prototype


def test_evidence_by_slot_adds_up_to_that_of_the_banks(fitted: tuple[SolvedNetwork, GraphView]) -> None:
    network, view = fitted
    nodes = np.arange(view.num_nodes)
    evidence = network.find_evidence(view, nodes)
    total = np.tensordot(evidence.weights, evidence.found, 1)
    extractors = network.memory.extractors(view)
    factors = extractors.weights / extractors.scales
    # The layer is rounded to whole numbers, and the weights that rounding is multiplied with may all agree.
    slack = sum(
        factor * np.abs(layer.weight).sum(axis=0).max()
        for factor, layer in zip(factors, extractors.layers, strict=False)
    )
    for entry in explain(network, view, nodes, NAMES.__getitem__):
        predicted = next(code for code, name in NAMES.items() if name == entry.predicted)
        runner_up = next(code for code, name in NAMES.items() if name == entry.runner_up)
        summed = sum(slot.predicted for slot in entry.slots)
        other = sum(slot.runner_up for slot in entry.slots)  # type: ignore[misc]
        assert abs(summed - total[entry.node, predicted]) < slack / 4
        assert abs(other - total[entry.node, runner_up]) < slack / 4
    assert slack / 4 < np.abs(total).mean() / 2


def test_banks_are_those_that_weigh_something_and_the_heaviest_comes_first(
    fitted: tuple[SolvedNetwork, GraphView],
) -> None:
    network, view = fitted
    (found,) = ask(fitted, MIXED)
    evidence = network.find_evidence(view, np.array([MIXED]))
    share = dict(zip(BANKS, evidence.weights / evidence.weights.sum(), strict=True))
    weights = [bank.weight for bank in found.banks]
    assert weights == sorted(weights, reverse=True)
    assert {bank.bank for bank in found.banks} == {name for name, value in share.items() if value > 0}
    column = [*NAMES.values()].index(found.predicted)
    other = [*NAMES.values()].index(found.runner_up)
    plane = network.planes["atomic"]
    for bank in found.banks:
        row = evidence.found[BANKS.index(bank.bank), 0]
        assert bank.weight == pytest.approx(share[bank.bank])
        assert bank.evidence == pytest.approx(row[column])
        assert bank.prototype == plane.match(row)[column]
        assert bank.runner_up_prototype == plane.match(row)[other]
    upper = network.match_upper(evidence)
    assert found.node_prototype == upper["node"][0, column]
    assert found.class_prototype == upper["class"][0, column]


def test_with_a_task_its_own_extractor_speaks() -> None:
    view, y = make_graph()
    network = fit(view, y)
    nodes = np.flatnonzero(y < 2)
    network.learn(view, (nodes, y[nodes]), NOBODY, "fruit")
    (found,) = explain(network, view, np.array([PLAIN]), NAMES.__getitem__, "fruit")
    (slot,) = found.slots
    (bank,) = found.banks
    extractor = network.tasks["fruit"].extractor
    assert slot.slot == bank.bank == extractor.describe()  # type: ignore[union-attr]
    assert (found.predicted, found.runner_up) == ("apple", "berry")
    assert slot.speaks_for == "apple"
    assert slot.predicted == pytest.approx(2 * bank.evidence)
    assert slot.predicted == pytest.approx(-slot.runner_up)  # type: ignore[operator]
    assert bank.weight == 1


def test_a_task_that_was_learned_twice_is_explained_by_all_banks() -> None:
    view, y = make_graph()
    network = SolvedNetwork(SolvedSettings(width=200), NUM_FEATURES, 0)
    for part in (range(0, 80, 2), range(1, 80, 2)):
        network.learn(view, (np.array(part), y[np.array(part)]), NOBODY, "fruit")
    network.learn(view, (np.arange(80, 120), y[80:]), NOBODY)
    (found,) = explain(network, view, np.array([MIXED]), NAMES.__getitem__, "fruit")
    assert [slot.slot for slot in found.slots] == [*SLOTS]
    assert found.slots[0].speaks_for == "apple"
    assert found.slots[1].speaks_for == "berry"
    assert {found.predicted, found.runner_up} == {"apple", "berry"}


def test_one_class_needs_no_reason() -> None:
    view, y = make_graph()
    network = SolvedNetwork(SolvedSettings(width=50), NUM_FEATURES, 0)
    network.learn(view, (np.arange(SIZE), y[:SIZE]), NOBODY, "fruit")
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
            SlotEvidence("answers nearby", None, 0.0, 0.04),
        ],
        banks=[BankMatch("its own features", 0.6, 0.8, 12, -7), BankMatch("class means", 0.4, 0.0, 0, 3)],
        node_prototype=5,
        class_prototype=2,
        membership="member",
    )
    assert str(explanation).splitlines() == [
        "node 17: apple (73%), member; next berry (20%)",
        "  its own features   speak for apple: +1.25 for apple, -0.50 for berry",
        "  nodes 1 hop away   speak for berry: -0.13 for apple, +0.75 for berry",
        "  answers nearby     are neutral: +0.00 for apple, +0.04 for berry",
        "  atomic prototype +12 (next: -7): its own features, weight 60%",
        "  atomic prototype +0 (next: +3): class means, weight 40%",
        "  node-level prototype +5, class-level +2",
    ]


def test_the_text_of_a_node(fitted: tuple[SolvedNetwork, GraphView]) -> None:
    (found,) = ask(fitted, PLAIN)
    lines = str(found).splitlines()
    assert lines[0].startswith(f"node {PLAIN}: apple (")
    assert "%), member; next " in lines[0]
    for slot, line in zip(SLOTS, lines[1:], strict=False):
        assert line.startswith(f"  {slot:<18} speak for apple: +")
    neighbours, features = lines[1 + len(SLOTS) : 3 + len(SLOTS)]
    over = f"for apple over {found.runner_up}"
    assert neighbours == f"  neighbours that matter most, {over}: {', '.join(map(str, found.neighbors))}"
    assert features == f"  its features that matter most, {over}: {', '.join(map(str, found.features))}"
    assert len(lines) == 1 + len(SLOTS) + 2 + len(found.banks) + 1
    assert (
        lines[-1]
        == f"  node-level prototype {found.node_prototype:+d}, class-level {found.class_prototype:+d}"
    )


def test_faint_evidence_is_neutral() -> None:
    """Features of an apple and of a berry to the same degree, and nobody around."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], SIZE)
    half = 0.5 * np.abs(rng.normal(size=(SIZE, NUM_FEATURES - 2)))
    x = np.zeros((2 * SIZE + 1, NUM_FEATURES))
    x[:SIZE, 0], x[SIZE:-1, 1] = 1, 1
    x[:SIZE, 2:], x[SIZE:-1, 2:] = half, half  # both classes are mirror images
    x[-1, :2], x[-1, 2:] = 0.5, half.mean(axis=0)
    ids = np.arange(10 * len(x))
    ids = ids[(hash_ids(ids).view(np.uint64) >> np.uint64(1)) % HELD_OUT > 0][: len(x)]  # none is held out
    features = torch.from_numpy(x.astype(np.float32))
    view = GraphView(features, torch.zeros(2, 0).long(), torch.from_numpy(ids))
    network = fit(view, y, (0, 1))
    strong, faint = explain(network, view, np.array([0, 2 * SIZE]), NAMES.__getitem__)
    sizes = [max(abs(slot.predicted) for slot in entry.slots) for entry in (strong, faint)]
    assert sizes[0] > 5 * sizes[1]
    assert (strong.membership, faint.membership) == ("member", "borderline")
    assert faint.slots[0].speaks_for is None
    assert "  its own features   are neutral: " in str(faint)
    for slot in faint.slots:
        loudest = max(slot.predicted, slot.runner_up)  # type: ignore[type-var]
        assert (slot.speaks_for is None) == (loudest <= FAINT)  # type: ignore[operator]
