from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.learners import TWP, FineTune
from hpn.learners.gnn.consolidation import Weights
from hpn.streams import GraphView, Step, TaskStream

BACKBONES = ["gcn", "gat", "gin"]
LABELS = torch.tensor([0, 1, 1, 0])
STEP = 1e-6


def small_task() -> Step:
    """Five nodes, four of them to learn from: a triangle, a node hanging on it, and one alone."""
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(3))
    links = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]])
    nothing = torch.zeros(0, dtype=torch.int64)
    view = GraphView(x, torch.cat([links, links.flip(0)], dim=1))
    return Step(0, (0, 1), "task", view, torch.tensor([0, 4, 2, 3]), LABELS, nothing, nothing)


def by_hand(backbone: str, w: Weights, step: Step) -> tuple[Tensor, Tensor]:
    """The loss and what the layers take from the topology, from dense matrices in double precision."""
    inputs, matrix = step.graph.x.double(), torch.eye(5, dtype=torch.float64)
    matrix[step.graph.edge_index[1], step.graph.edge_index[0]] = 1
    scale = matrix.sum(dim=1).rsqrt()
    topology = torch.zeros((), dtype=torch.float64)
    for layer in ("first", "second"):
        if backbone == "gcn":
            gathered = scale[:, None] * matrix * scale @ inputs @ w[f"{layer}.lin.weight"].T
            outputs = gathered + w[f"{layer}.bias"]
            topology = topology + gathered.square().sum()
        elif backbone == "gin":
            gathered = matrix @ inputs @ w[f"{layer}.project.weight"].T
            hidden = (gathered + w[f"{layer}.shift"]).relu()
            outputs = hidden @ w[f"{layer}.combine.weight"].T + w[f"{layer}.combine.bias"]
            topology = topology + gathered.square().sum()
        else:
            heads = 8 if layer == "first" else 1
            hidden = (inputs @ w[f"{layer}.lin.weight"].T).view(5, heads, -1)
            sent, got = (hidden * w[f"{layer}.att_src"]).sum(-1), (hidden * w[f"{layer}.att_dst"]).sum(-1)
            logits = torch.nn.functional.leaky_relu(sent[None, :, :] + got[:, None, :], 0.2)
            topology = topology + (logits.square() * matrix[:, :, None]).sum()
            share = logits.masked_fill(matrix[:, :, None] == 0, -torch.inf).softmax(dim=1)
            outputs = torch.einsum("vuk,uko->vko", share, hidden).flatten(1) + w[f"{layer}.bias"]
        inputs = torch.nn.functional.elu(outputs) if backbone == "gat" else outputs.relu()
    log_p = outputs[step.train].log_softmax(dim=1)
    return -log_p[torch.arange(4), LABELS].mean(), topology / 5


def fitted(backbone: Any, **params: float) -> TWP:
    learner = TWP(backbone=backbone, epochs=3, lr=0.05, dropout=0.0, **params)
    learner.fit_task(small_task())
    return learner


def doubled(learner: FineTune) -> Weights:
    return {name: weight.detach().double() for name, weight in learner.network_.named_parameters()}


def nudged(weights: Weights, name: str, at: int) -> tuple[Weights, Weights]:
    """Two copies of the weights with one of them moved up and down a little."""
    copies = []
    for step in (STEP, -STEP):
        moved = weights[name].clone()
        moved.view(-1)[at] += step
        copies.append({**weights, name: moved})
    return copies[0], copies[1]


def picked(weight: Tensor) -> list[int]:
    """Some entries of a weight, since every one takes time."""
    return torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(0))[:12].tolist()


@pytest.mark.parametrize("backbone", BACKBONES)
def test_importance_is_the_size_of_slopes_found_by_finite_differences(backbone: str) -> None:
    learner, task = fitted(backbone, loss_strength=3.0, topology_strength=0.5), small_task()
    weights = doubled(learner)
    largest = 0.0
    for name, importance in learner.importance_.items():
        for at in picked(importance):
            up, down = (by_hand(backbone, moved, task) for moved in nudged(weights, name, at))
            loss, topology = ((high - low).item() / (2 * STEP) for high, low in zip(up, down, strict=True))
            expected = 3 * abs(loss) + 0.5 * abs(topology)
            assert importance.view(-1)[at].item() == pytest.approx(expected, rel=1e-3, abs=1e-5), name
            largest = max(largest, expected)
    assert largest > 0.1


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_gradient_of_the_sparsity_term_is_exact(backbone: Any) -> None:
    """In double precision, next to finite differences of the loss plus the importance built up."""
    strengths = {"loss_strength": 3.0, "topology_strength": 0.5}
    learner, task = fitted(backbone, **strengths), small_task()
    learner.sparsity = 0.2
    learner.importance_ = {}  # nothing to keep: the penalty has a test of its own
    learner.network_.double()
    view = GraphView(task.graph.x.double(), task.graph.edge_index)
    task = Step(0, (0, 1), "task", view, task.train, LABELS, task.val, task.val_y)
    total = learner._loss(learner._training_data(task))
    slopes = learner._gradients(total)
    weights = doubled(learner)

    def objective(moved: Weights) -> float:
        leaves = {name: weight.detach().requires_grad_() for name, weight in moved.items()}
        loss, topology = by_hand(backbone, leaves, task)
        value = loss.item()
        for strength, part in ((3.0, loss), (0.5, topology)):
            found = torch.autograd.grad(part, list(leaves.values()), retain_graph=True, allow_unused=True)
            value += 0.2 * strength * sum(slope.abs().sum().item() for slope in found if slope is not None)
        return value

    assert total.item() == pytest.approx(objective(weights), rel=1e-6)
    for name, slope in slopes.items():
        for at in picked(slope)[:6]:
            up, down = (objective(moved) for moved in nudged(weights, name, at))
            assert slope.view(-1)[at].item() == pytest.approx((up - down) / (2 * STEP), rel=1e-4, abs=1e-5), name


@pytest.mark.parametrize("backbone", BACKBONES)
def test_logits_that_are_not_allowed_do_no_harm(graph: Graph, backbone: Any) -> None:
    """They are minus infinity, which second derivatives could turn into NaN."""
    stream = TaskStream(graph, tasks="0,1,2;3,4")
    learner = TWP(backbone=backbone, epochs=2, sparsity=0.01)
    learner.fit_task(stream.step(0))
    learner.fit_task(stream.step(1))
    for name, weight in learner.network_.named_parameters():
        assert bool(torch.isfinite(weight).all()), name
        assert bool(torch.isfinite(learner.importance_[name]).all()), name
