"""Every learner computes where it is told to, and only there.

No accelerator is needed for that: with ``meta`` as PyTorch's default device, every tensor that is made
without saying where becomes an empty one, and whatever is computed from it fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.learners import LEARNERS, Learner
from hpn.params import declared_params
from hpn.streams import TaskStream

QUICK: dict[str, dict[str, Any]] = {
    "ewc": {"num_samples": 2},
    "mas": {"num_samples": 2},
    "twp": {"sparsity": 1e-4},
    "gem": {"memory_size": 20},
    "ergnn": {"selection": "influence", "buffer_size": 4},
    "probe": {"max_hops": 1},
    "ridge": {"width": 50},
}
NETWORKS = [name for name in LEARNERS if "backbone" in declared_params(LEARNERS[name])]
WAYS: dict[str, dict[str, Any]] = {
    "whole": {"epochs": 2},
    "batches": {"epochs": 1, "batch_size": 40, "num_neighbors": 2, "backbone": "gat"},
}
CASES = [
    pytest.param(name, {**way, **QUICK.get(name, {})}, id=f"{name}-{word}")
    for name in LEARNERS
    for word, way in (WAYS if name in NETWORKS else {"plain": {}}).items()
]
CASES += [
    pytest.param("hpn", {"preset": "paper", "epochs": 3, "warmup_epochs": 1}, id="hpn-paper"),
    pytest.param(
        "hpn",
        {"preset": "paper", "selection": "similarity", "drawn": "1", "dim": 4, "epochs": 2, "warmup_epochs": 0},
        id="hpn-similarity",
    ),
    pytest.param("finetune", {"epochs": 2, "backbone": "gin", "batch_size": 40}, id="finetune-gin"),
    pytest.param("ergnn", {"epochs": 2, "space": "embeddings"}, id="ergnn-mean"),
    pytest.param("ergnn", {"epochs": 2, "selection": "coverage"}, id="ergnn-coverage"),
]


@pytest.fixture
def no_implicit_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """A default device on which nothing can be computed."""
    init = torch.optim.Adam._init_group

    def on_the_cpu(*args: Any) -> Any:
        with torch.device("cpu"):  # Adam counts its steps in a tensor on the default device
            return init(*args)

    monkeypatch.setattr(torch.optim.Adam, "_init_group", on_the_cpu)
    return torch.device("meta")


def outcome(learner: Learner, stream: TaskStream, default: torch.device, *, moves: bool) -> list[Tensor]:
    """All tensors that two tasks lead to, learned and asked about while ``default`` is the default device."""
    tasks = [stream.step(index, with_past=learner.sees_past) for index in range(2)]
    query, _ = stream.query(step=None, after=1, evaluate="global")
    with default:
        for task in tasks:
            learner.fit_task(task)
            if moves:  # to another device, as far as a learner can tell
                assert learner.to(torch.device("cpu", task.index)) is learner
        return [learner.predict_scores(query), learner.predict(query), *tensors(learner.state_dict())]


def tensors(state: Any) -> Iterator[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from tensors(value)


@pytest.mark.parametrize(("name", "params"), CASES)
def test_nothing_is_made_on_an_implicit_device_and_a_move_changes_nothing(
    name: str, params: dict[str, Any], graph: Graph, no_implicit_device: torch.device
) -> None:
    stream = TaskStream(graph, scenario="class")
    usual = outcome(LEARNERS[name](**params), stream, torch.device("cpu"), moves=False)
    found = outcome(LEARNERS[name](**params), stream, no_implicit_device, moves=True)
    assert {str(tensor.device) for tensor in found} == {"cpu"}
    assert all(torch.equal(one, other) for one, other in zip(usual, found, strict=True))
