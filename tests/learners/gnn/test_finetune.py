from __future__ import annotations

from typing import Any

import pytest
import torch

from hpn.datasets import Graph
from hpn.evaluation import evaluate
from hpn.learners import ERGNN, EWC, GEM, MAS, TWP, FineTune, LwF
from hpn.metrics import METRICS
from hpn.streams import Query, TaskStream

BACKBONES = ["gcn", "gat", "gin"]


def test_it_forgets(graph: Graph) -> None:
    """The point of the baseline: with one shared head, a later task overwrites an earlier one."""
    stream = TaskStream(graph)
    learner = FineTune(epochs=80)
    matrix = []
    for index in range(len(stream)):
        learner.fit_task(stream.step(index))
        matrix.append(evaluate(learner, stream, after=index, mode="oracle").accuracy)
    assert min(matrix[i][i] for i in range(3)) > 70
    fm = METRICS["fm"](matrix)
    assert fm is not None
    assert fm < -10


def test_weights_start_from_the_last_task(stream: TaskStream) -> None:
    learner = FineTune(epochs=5).fit_task(stream.step(0))
    before = {key: value.clone() for key, value in learner.network_.state_dict().items()}  # type: ignore[attr-defined]
    slow = FineTune(epochs=1, lr=1e-9, weight_decay=0.0).load_state_dict(learner.state_dict())
    slow.fit_task(stream.step(1))
    for key, value in slow.network_.state_dict().items():  # type: ignore[attr-defined]
        assert torch.allclose(value, before[key], atol=1e-6)


def test_training_data_allows_the_tasks_classes_only(graph: Graph) -> None:
    for scenario, columns in (("task", [True, True, False]), ("class", [True] * 5)):
        stream = TaskStream(graph, tasks="0,1,2;3,4", scenario=scenario)  # type: ignore[arg-type]
        learner = FineTune(epochs=1).fit_task(stream.step(0)).fit_task(stream.step(1))
        data = learner._training_data(stream.step(1))  # type: ignore[attr-defined]
        assert data.allowed[0].tolist() == columns
        offset = 0 if scenario == "task" else 3
        assert set(data.target.tolist()) == {offset, offset + 1}


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_mini_batch_of_all_nodes_is_a_full_step(stream: TaskStream, backbone: Any, optimizer: Any) -> None:
    learners = [
        FineTune(backbone=backbone, optimizer=optimizer, epochs=1, dropout=0.0, batch_size=size)
        for size in (None, 1000)
    ]
    for learner in learners:
        learner.fit_task(stream.step(0))
    for one, other in zip(*(learner.network_.parameters() for learner in learners), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_answers_in_mini_batches_are_those_of_the_whole_graph(graph: Graph, backbone: Any) -> None:
    """With all neighbours, even if training draws some: answers are not left to chance."""
    stream = TaskStream(graph, scenario="class", edges="seen")
    learner = FineTune(backbone=backbone, epochs=2, batch_size=7, num_neighbors=2)
    for index in range(2):
        learner.fit_task(stream.step(index))
    query, _ = stream.query(step=None, after=1, evaluate="global")
    whole = FineTune(backbone=backbone).load_state_dict(learner.state_dict())
    assert torch.allclose(learner.predict_scores(query), whole.predict_scores(query), atol=1e-5)


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_node_may_be_asked_about_twice_or_not_at_all(
    stream: TaskStream, backbone: Any, batch_size: int | None
) -> None:
    learner = FineTune(backbone=backbone, epochs=2, batch_size=batch_size).fit_task(stream.step(0))
    query, _ = stream.query(step=0, after=0, evaluate="oracle")
    once = learner.predict_scores(Query(query.graph, query.nodes[:2], query.classes, 0))
    twice = learner.predict_scores(Query(query.graph, query.nodes[:2].repeat(2), query.classes, 0))
    assert torch.allclose(twice, once.repeat(2, 1), atol=1e-5)
    assert learner.predict_scores(Query(query.graph, query.nodes[:0], query.classes, 0)).shape == (0, 2)


def test_a_step_of_sgd_by_hand(stream: TaskStream) -> None:
    """Along the gradient of the loss plus the weights times their decay, and nothing else."""
    task = stream.step(0)
    start = FineTune(optimizer="sgd", epochs=1, lr=1e-12, weight_decay=0.0, dropout=0.0).fit_task(task)
    after = FineTune(optimizer="sgd", epochs=1, lr=0.3, weight_decay=0.1, dropout=0.0).fit_task(task)
    network = start.network_  # type: ignore[attr-defined]
    adjacency = network.prepare(task.graph.edge_index, task.graph.num_nodes)
    log_p = network(task.graph.x, adjacency)[task.train].log_softmax(dim=1)
    column = torch.tensor([task.classes.index(label) for label in task.train_y.tolist()])
    loss = -log_p[torch.arange(len(column)), column].mean()
    slopes = torch.autograd.grad(loss, list(network.parameters()))
    moved = after.network_.parameters()  # type: ignore[attr-defined]
    for weight, slope, found in zip(network.parameters(), slopes, moved, strict=True):
        assert torch.allclose(found, weight - 0.3 * (slope + 0.1 * weight), atol=1e-6)


OFF: dict[str, tuple[type[FineTune], dict[str, Any], dict[str, Any], int]] = {
    "ewc-adam": (EWC, {"strength": 0.0, "num_samples": 3}, {"dropout": 0.0}, 3),
    "ewc-sgd": (EWC, {"strength": 0.0, "num_samples": 3}, {"dropout": 0.0, "optimizer": "sgd"}, 3),
    "mas": (MAS, {"strength": 0.0, "num_samples": 3}, {"dropout": 0.0}, 3),
    "lwf": (LwF, {"strength": 0.0}, {}, 3),
    "lwf-batches": (LwF, {"strength": 0.0}, {"batch_size": 16}, 3),
    "ergnn-first": (ERGNN, {}, {}, 1),
    "ergnn-new-only": (ERGNN, {"new_share": 1.0}, {"dropout": 0.0}, 2),  # dropout draws for kept nodes too
    "gem-first": (GEM, {}, {}, 1),
    **{f"twp-{net}": (TWP, {"strength": 0.0}, {"backbone": net}, 3) for net in BACKBONES},
    **{
        f"twp-parts-{net}": (TWP, {"loss_strength": 0.0, "topology_strength": 0.0}, {"backbone": net}, 3)
        for net in BACKBONES
    },
}


@pytest.mark.parametrize("scenario", ["task", "class"])
@pytest.mark.parametrize("name", OFF)
def test_a_method_that_is_switched_off_is_fine_tuning(graph: Graph, name: str, scenario: Any) -> None:
    kind, off, training, num_tasks = OFF[name]
    if "num_samples" in off and scenario == "class":
        pytest.skip("drawing samples moves the generator that new outputs are drawn from")
    stream = TaskStream(graph, scenario=scenario)
    learners = [kind(epochs=3, **off, **training), FineTune(epochs=3, **training)]
    for learner in learners:
        for index in range(num_tasks):
            learner.fit_task(stream.step(index))
    for one, other in zip(*(learner.network_.parameters() for learner in learners), strict=True):
        assert torch.equal(one, other) if name != "ergnn-new-only" else torch.allclose(one, other, atol=1e-6)
