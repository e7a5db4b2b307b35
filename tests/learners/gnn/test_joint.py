from __future__ import annotations

import torch

from hpn.datasets import Graph
from hpn.learners import Joint
from hpn.streams import TaskStream


def fit(stream: TaskStream, **params: object) -> Joint:
    learner = Joint(**params)  # type: ignore[arg-type]
    for index in range(len(stream)):
        learner.fit_task(stream.step(index, with_past=True))
    return learner


def test_heads(graph: Graph) -> None:
    stream = TaskStream(graph)
    assert fit(stream, epochs=2).network_.num_outputs == 6
    assert fit(stream, epochs=2, head="shared").network_.num_outputs == 2
    classes = TaskStream(graph, scenario="class")
    assert fit(classes, epochs=2, head="shared").network_.num_outputs == 6


def test_it_has_the_training_nodes_of_every_task(stream: TaskStream) -> None:
    learner = fit(stream, epochs=1)
    data = learner._training_data(stream.step(2, with_past=True))
    tasks = [stream.step(index) for index in range(3)]
    assert len(data.nodes) == sum(len(task.train) for task in tasks)
    own = data.x[data.nodes[: len(tasks[0].train)]]
    assert torch.equal(own, tasks[0].graph.x[tasks[0].train])
    assert data.allowed.sum(dim=1).unique().tolist() == [2]
    columns = [data.allowed[at].nonzero().flatten().tolist() for at in (0, -1)]
    assert columns == [[0, 1], [4, 5]]


def test_it_starts_from_scratch_with_every_task(stream: TaskStream) -> None:
    """What it knew has no influence: only its random numbers continue."""
    learner = fit(stream, epochs=3)
    other = fit(stream, epochs=3)
    with torch.no_grad():
        for parameter in other.network_.parameters():
            parameter.zero_()
    assert not torch.equal(*(one.network_.first.lin.weight for one in (learner, other)))
    for one in (learner, other):
        one.tasks_ = one.tasks_[:2]
        one.fit_task(stream.step(2, with_past=True))
    assert torch.equal(*(one.network_.first.lin.weight for one in (learner, other)))


def test_the_data_of_all_tasks_is_stored(graph: Graph) -> None:
    stream, learner = TaskStream(graph), Joint(epochs=1)
    data = 0
    for index in range(3):
        task = stream.step(index, with_past=True)
        learner.fit_task(task)
        data += task.graph.num_nodes * 12 + task.graph.edge_index.shape[1] * 2 + len(task.train)
        outputs = 2 * (index + 1)
        assert learner.num_parameters == 12 * 16 + 16 + 16 * outputs + outputs
        assert learner.num_stored == learner.num_parameters + data
    assert Joint(epochs=1).load_state_dict(learner.state_dict()).num_stored == learner.num_stored


def test_a_graph_that_stays_in_view_is_stored_once(graph: Graph) -> None:
    stream = TaskStream(graph, edges="seen")
    learner = fit(stream, epochs=1)
    labels = sum(len(stream.step(index).train) for index in range(3))
    assert learner.num_stored == learner.num_parameters + 300 * 12 + graph.edge_index.numel() + labels
