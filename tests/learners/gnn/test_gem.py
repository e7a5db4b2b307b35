from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import nnls
from torch import Tensor

from hpn.datasets import Graph
from hpn.learners import GEM
from hpn.learners.gnn.gem import project
from hpn.learners.gnn.replay import find
from hpn.streams import GraphView, TaskStream

SCALES = [1e-6, 1e-3, 1.0, 1e3, 1e6]


def draw(rng: np.random.Generator, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """A gradient that some memory objects to, and up to 24 memories."""
    count, size = int(rng.integers(1, 25)), int(rng.choice([3, 40, 200]))
    memories = rng.normal(size=(count, size))
    if kind == "duplicate":
        memories[count // 2 :] = memories[0]
    elif kind == "collinear":
        memories[count // 2 :] = memories[0] * rng.uniform(0.1, 10, size=(count - count // 2, 1))
    elif kind == "opposed":
        memories[count // 2 :] = -memories[: count - count // 2]
    elif kind == "nearly equal":
        memories = memories[:1] + 1e-4 * memories
    elif kind == "lengths":  # early tasks are learned well and have tiny gradients, which count no less
        memories *= 10.0 ** rng.uniform(-6, 6, size=(count, 1))
    elif kind == "zero":
        memories[1::2] = 0
    return rng.normal(size=size) - memories[0] / np.linalg.norm(memories[0]), memories


def nearest(gradient: np.ndarray, memories: np.ndarray) -> np.ndarray:
    """By Lawson and Hanson's solution of the dual, which is a least-squares problem."""
    length = np.linalg.norm(memories, axis=1, keepdims=True)
    rows = memories / np.where(length > 0, length, 1)
    size = np.linalg.norm(gradient)
    weights, _ = nnls(rows.T, -gradient / size, maxiter=10_000)
    return gradient + size * (rows.T @ weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ["plain", "duplicate", "collinear", "opposed", "nearly equal", "lengths", "zero"])
def test_no_memory_objects_to_the_projection_and_nothing_nearer_is_left(
    kind: str, scale: float, dtype: torch.dtype
) -> None:
    rng = np.random.default_rng(0)
    for memory_scale in SCALES:
        gradient, memories = draw(rng, kind)
        g = torch.tensor(gradient * scale, dtype=dtype)
        rows = torch.tensor(memories * memory_scale, dtype=dtype)
        found = project(g, rows)
        assert found.dtype == dtype
        given, result, objections = (part.double().numpy() for part in (g, found, rows))
        size = np.linalg.norm(given)
        slopes = objections @ result / np.maximum(np.linalg.norm(objections, axis=1), 1e-30)
        assert slopes.min() > -1e-5 * size
        best = nearest(given, objections)
        assert np.linalg.norm(result - given) <= np.linalg.norm(best - given) + 1e-4 * size
        if dtype == torch.float64:
            assert np.linalg.norm(result - best) < 1e-3 * size


@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_a_gradient_that_no_memory_objects_to_stays_as_it_is(margin: float) -> None:
    generator = torch.Generator().manual_seed(0)
    for count in (1, 5, 24):
        gradient, memories = torch.randn(50, generator=generator), torch.randn(count, 50, generator=generator)
        memories = memories * torch.sign(memories @ gradient).unsqueeze(1)
        assert torch.equal(project(gradient, memories, margin), gradient)
    assert torch.equal(project(gradient, torch.zeros(3, 50), margin), gradient)


@pytest.mark.parametrize("margin", [0.1, 0.5])
def test_with_a_margin_every_memory_has_at_least_that_weight(margin: float) -> None:
    """And the program's conditions hold: no slope is negative, and a weight above the margin has slope 0."""
    rng = np.random.default_rng(3)
    for _ in range(10):
        memories = rng.normal(size=(int(rng.integers(2, 10)), 40)) * 10.0 ** rng.uniform(-1, 1)
        gradient = rng.normal(size=40) - memories.sum(axis=0) * rng.uniform(0, 1)
        if (memories @ gradient >= 0).all():
            continue
        found = project(torch.tensor(gradient), torch.tensor(memories), margin).numpy()
        weights, residual, *_ = np.linalg.lstsq(memories.T, found - gradient, rcond=None)
        assert residual.max(initial=0) < 1e-9
        slopes = memories @ found / np.linalg.norm(memories, axis=1)
        size = np.linalg.norm(found)
        assert weights.min() > margin - 1e-5
        assert slopes.min() > -1e-6 * size
        assert np.abs(slopes[weights > margin + 1e-3]).max(initial=0) < 1e-5 * size


@pytest.mark.parametrize("margin", [0.0, 0.5])
@pytest.mark.parametrize("scenario", ["task", "class"])
def test_a_step_follows_the_projected_gradient(graph: Graph, scenario: Any, margin: float) -> None:
    stream = TaskStream(graph, scenario=scenario)
    learner = GEM(lr=0.05, epochs=12, dropout=0.0, memory_size=15, margin=margin)
    for index in range(2):
        learner.fit_task(stream.step(index))
    step = stream.step(2)
    learner._arrive(step)
    learner._begin_task(step)
    learner._recall(step)
    network = learner.network_

    def slope(view: GraphView, nodes: Tensor, y: Tensor, classes: tuple[int, ...]) -> Tensor:
        logits = network(view.x, network.prepare(view.edge_index, view.num_nodes))[nodes]
        known = classes if scenario == "task" else learner.classes_
        loss = F.cross_entropy(logits, torch.tensor([known.index(label) for label in y.tolist()]))
        return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(network.parameters()))])

    kept = zip(learner.kept_, learner.tasks_, strict=False)
    memories = torch.stack([slope(*find(part, step), part["y"], classes) for part, classes in kept])
    plain = slope(step.graph, step.train, step.train_y, step.classes)
    assert bool((memories @ plain < 0).any()), "an earlier task objects"
    learner._backward(learner._loss(learner._training_data(step)))
    found = torch.cat([weight.grad.flatten() for weight in network.parameters()])
    assert torch.allclose(found, project(plain, memories, margin), atol=1e-5)


def test_as_many_nodes_are_kept_of_each_task_as_asked(stream: TaskStream) -> None:
    for memory_size in (1, 7, 10_000):
        learner = GEM(epochs=1, memory_size=memory_size)
        for index in range(3):
            learner.fit_task(stream.step(index))
        for index, kept in enumerate(learner.kept_):
            assert len(kept["y"]) == min(memory_size, len(stream.step(index).train))
            assert len({tuple(row) for row in kept["x"].tolist()}) == len(kept["y"]), "no node twice"


def test_nodes_are_drawn(stream: TaskStream) -> None:
    kept = [GEM(epochs=1, memory_size=5, seed=seed).fit_task(stream.step(0)).kept_[0]["x"] for seed in (0, 1)]  # type: ignore[attr-defined]
    assert not torch.equal(*kept)
