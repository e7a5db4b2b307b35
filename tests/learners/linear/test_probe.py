from __future__ import annotations

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from hpn.datasets import Graph
from hpn.learners import Probe
from hpn.nn.encoder import see
from hpn.streams import TaskStream


def test_it_is_scikit_learns_classifier_on_smoothed_features(graph: Graph) -> None:
    for tasks in ("0,1;2,3", "1,0;3,2,4"):
        stream = TaskStream(graph, tasks=tasks)
        learner = Probe()
        for index in range(2):
            task = stream.step(index)
            learner.fit_task(task)
            everyone = np.arange(task.graph.num_nodes)
            features = see(task.graph, learner.normalization).smoothed(learner.classifiers_[index]["hops"], everyone)
            reference = LogisticRegression(C=learner.classifiers_[index]["strength"], max_iter=1000)
            reference.fit(features[task.train.numpy()], task.train_y.numpy())
            query, _ = stream.query(step=index, after=index, evaluate="oracle")
            expected = reference.predict(features[query.nodes.numpy()])
            assert learner.predict(query).tolist() == expected.tolist()


def test_hops_and_strength_are_chosen_on_validation_nodes_alone(stream: TaskStream) -> None:
    """Wrong test labels cannot matter, since they are nowhere; wrong validation labels must."""
    task = stream.step(0)
    right = Probe().fit_task(task)
    flipped = torch.tensor(task.classes)[1 - (task.val_y == task.classes[1]).int()]
    object.__setattr__(task, "val_y", flipped)
    wrong = Probe().fit_task(task)
    chosen = [(p.classifiers_[0]["hops"], p.classifiers_[0]["strength"]) for p in (right, wrong)]  # type: ignore[attr-defined]
    assert chosen[0] != chosen[1]


def test_memory_grows_by_one_classifier_a_task(graph: Graph) -> None:
    stream = TaskStream(graph, tasks="0,1;2,3,4;5")
    learner = Probe()
    counts = [learner.fit_task(stream.step(index)).num_parameters for index in range(3)]
    d = graph.num_features
    assert np.diff([0, *counts]).tolist() == [d + 1, 3 * (d + 1), 0]
