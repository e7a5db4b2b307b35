"""Accounts of many nodes state what explanations of single nodes do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hpn.datasets import Graph
from hpn.learners.hpn.account import SLOTS, find_accounts
from hpn.learners.hpn.explain import explain
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.solved import SolvedNetwork
from hpn.nn import encoder
from hpn.nn.encoder import Slots
from hpn.streams import GraphView, TaskStream


@pytest.fixture(scope="module")
def fitted(graph: Graph) -> tuple[SolvedNetwork, GraphView]:
    stream = TaskStream(graph, edges="seen", seed=0)
    network = SolvedNetwork(SolvedSettings(width=100), graph.num_features, 0)
    for index in range(len(stream)):
        step = stream.step(index)
        network.learn(
            step.graph, (step.train.numpy(), step.train_y.numpy()), (step.val.numpy(), step.val_y.numpy()), index
        )
    return network, step.graph


@pytest.mark.parametrize("task", [None, 0, 2])
def test_accounts_agree_with_explain_node_by_node(fitted: tuple[SolvedNetwork, GraphView], task) -> None:
    network, view = fitted
    nodes = np.arange(0, view.num_nodes, 7)
    accounts = find_accounts(network, view, nodes, sorted, task)
    classes = accounts.evidence.classes
    for row, node in enumerate(nodes):
        (one,) = explain(network, view, np.array([node]), lambda label: label, task)
        assert [one.predicted, one.runner_up] == [classes[at] for at in accounts.pair[row]]
        both = one.probability, one.runner_up_probability
        assert accounts.probability[row].tolist() == pytest.approx(both, rel=1e-6)
        for bank in one.banks:
            at = accounts.evidence.banks.index(bank.bank)
            assert (bank.prototype, bank.runner_up_prototype) == tuple(accounts.atomic[at, row])
            assert (bank.weight, bank.evidence) == pytest.approx(
                (accounts.shares[at], accounts.found[at, row, 0]), rel=1e-4, abs=1e-5
            )
        assert one.node_prototype == accounts.node[row, 0]
        assert one.class_prototype == accounts.class_level[row, 0]
        assert tuple(slot.slot for slot in one.slots) == accounts.slots
        expected = [(slot.predicted, slot.runner_up) for slot in one.slots]
        by_slot = np.take_along_axis(accounts.by_slot[:, row], accounts.pair[row][None], axis=1)
        np.testing.assert_allclose(by_slot, expected, atol=1e-4)


def test_slots_add_up_to_the_weighted_evidence_of_banks(fitted: tuple[SolvedNetwork, GraphView]) -> None:
    """Up to the rounding of the random layer."""
    network, view = fitted
    accounts = find_accounts(network, view, np.arange(view.num_nodes), sorted)
    assert accounts.slots == SLOTS
    total = np.tensordot(accounts.evidence.weights, accounts.evidence.found, 1)
    np.testing.assert_allclose(accounts.by_slot.sum(axis=0), total, atol=0.05 * np.abs(total).max())


def test_answers_come_from_the_classes_asked_for(fitted: tuple[SolvedNetwork, GraphView]) -> None:
    network, view = fitted
    nodes = np.arange(40)
    accounts = find_accounts(network, view, nodes, lambda _: (4, 1))
    every = network.find_evidence(view, nodes)
    logits = network.combine(every)[:, [every.classes.index(4), every.classes.index(1)]]
    assert accounts.pair[:, 0].tolist() == logits.argmax(axis=1).tolist()
    assert set(accounts.pair.ravel().tolist()) == {0, 1}


def test_projections_of_wide_features_with_and_without_smoothing_first(monkeypatch) -> None:
    """What is projected and then smoothed is what is smoothed and then projected."""
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(30, 50, generator=generator) < 0.3).float()
    edges = torch.randint(30, (2, 60), generator=generator)
    edges = edges[:, edges[0] != edges[1]]
    edges = torch.unique(torch.cat([edges, edges.flip(0)], dim=1), dim=1)
    nodes = np.arange(30)
    monkeypatch.setattr(encoder, "WIDE", 10)
    wide = Slots(GraphView(x.to_sparse_csr(), edges))
    for hop in range(3):
        expected = wide.projections(hop, nodes, 4000, 0)
        found = wide.projections(hop, nodes, 4000, 0, are_few=False)
        np.testing.assert_allclose(found, expected, atol=0.4)  # lengths are known by the projection alone
        assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.999
