"""What the explorer shows: encoding, sampling, the map, and what a run writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from hpn.datasets import Graph, load_dataset
from hpn.errors import ConfigError
from hpn.experiment import exploration as module
from hpn.experiment.exploration import Exploration, choose_nodes, pack, project, unpack
from hpn.experiment.run.runner import run
from hpn.experiment.run.seed import load_learner
from hpn.model.core import ClassifierCore
from hpn.streams import GraphView

DATA = {"data.num_nodes": 200, "data.num_links": 800, "data.num_classes": 6, "data.noise": 0.3}


def quick(out: Path, **changes: Any) -> Any:
    return run("synthetic", **{"method": "hpn", "settings": {**DATA, "width": 100}, "out": out, **changes})


@pytest.fixture(scope="module")
def model(graph: Graph) -> ClassifierCore:
    return ClassifierCore(width=100).partial_fit(graph, torch.arange(200))


@pytest.fixture(scope="module")
def explored(model: ClassifierCore, graph: Graph) -> Exploration:
    return model.explore(graph)


@pytest.mark.parametrize("kind", module.TYPES)
def test_arrays_survive_packing(kind: str) -> None:
    limits = np.iinfo(kind)
    array = np.array([[limits.min, 0, limits.max]], dtype=kind)
    found = unpack(json.loads(json.dumps(pack(array))))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    "content", [3, {}, {"type": "int8"}, {**pack(np.zeros(2, np.int8)), "shape": [3]}, pack(np.zeros(2, np.float32))]
)
def test_what_is_not_a_packed_array(content: Any) -> None:
    with pytest.raises(ValueError):
        unpack(content)


def test_an_exploration_survives_json(explored: Exploration) -> None:
    content = json.loads(json.dumps(explored.to_json()))
    again = Exploration.model_validate(content)
    assert again.to_json() == explored.to_json()
    assert again.node_names == [str(node) for node in range(300)]
    with pytest.raises(ValidationError, match="atomic must have the shape"):
        Exploration.model_validate({**content, "atomic": pack(np.zeros(3, np.int8))})


def test_accounts_are_those_of_explain(model: ClassifierCore, graph: Graph, explored: Exploration) -> None:
    nodes = np.arange(0, 300, 11)
    for node, one in zip(nodes, model.explain(graph, nodes), strict=True):
        assert explored.classes[explored.answer[node]] == one.predicted
        assert explored.classes[explored.runner_up[node]] == one.runner_up
        assert explored.probability[0, node] == round(100 * one.probability)
        for bank in one.banks:
            at = explored.banks.index(bank.bank)
            assert explored.atomic[at, :, node].tolist() == [bank.prototype, bank.runner_up_prototype]
            assert explored.weights[0][at] == pytest.approx(bank.weight, abs=1e-4)
        assert explored.node[0, node] == one.node_prototype
        assert explored.class_level[0, node] == one.class_prototype
        found = explored.evidence[:, :, node] / 100
        np.testing.assert_allclose(found, [(s.predicted, s.runner_up) for s in one.slots], atol=0.011)


def test_labels_steps_and_neighbours(graph: Graph, explored: Exploration) -> None:
    assert [explored.classes[label] for label in explored.label] == [graph.class_names[c] for c in graph.y]
    assert explored.step.tolist() == [0] * 200 + [-1] * 100, "the others were not learned"
    for node in range(300):
        own = graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist()
        listed = explored.indices[explored.indptr[node] : explored.indptr[node + 1]].tolist()
        assert listed == own[: module.MOST_NEIGHBORS]
        assert explored.degree[node] == len(own)


def test_prototypes_serve_the_nodes_matched_to_them(explored: Exploration) -> None:
    used = np.array(explored.weights[0]) > 0
    atomic = explored.atomic[used]
    assert [one.position for one in explored.prototypes] == np.unique(atomic).tolist()
    for one in explored.prototypes:
        matched = (atomic == one.position).any(axis=0)
        assert one.nodes == matched.any(axis=0).sum()
        pair = np.stack([explored.answer, explored.runner_up])
        assert one.classes == len(np.unique(pair[matched]))
        assert one.founded == (0 if explored.step[matched.any(axis=0)].max() == 0 else None)
    assert (explored.founding, explored.bounds["atomic"]) == ("derived", 81)


def test_a_sample_does_not_depend_on_the_order(monkeypatch: pytest.MonkeyPatch, model, graph: Graph) -> None:
    view = GraphView(torch.eye(9), torch.zeros(2, 0, dtype=torch.long), torch.arange(9) * 5)
    nodes = np.array([3, 1, 8, 5, 7])
    first, second = (set(part[choose_nodes(view, part, 3)]) for part in (nodes, nodes[::-1]))
    assert first == second
    assert len(first) == 3
    monkeypatch.setattr(module.choose_nodes, "__defaults__", (50,))
    some, again = model.explore(graph), model.explore(graph)
    assert (len(some.x), some.num_nodes) == (50, 300)
    assert some.to_json() == again.to_json()


def test_the_map_keeps_its_signs_and_its_unit() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 6)) * [9, 4, 1, 1, 1, 1]
    found = project(x)
    assert abs(np.corrcoef(found[:, 0], x[:, 0])[0, 1]) > 0.99
    np.testing.assert_allclose(project(x[::-1])[::-1], found, atol=1e-9)
    wide = np.hstack([x, np.zeros((50, 600))])
    np.testing.assert_allclose(abs(project(wide)), abs(found), atol=1e-6)
    assert not project(np.ones((4, 3))).any()


def test_t_sne_is_for_few_nodes(model: ClassifierCore, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    some = model.explore(graph, np.arange(40), drawing="tsne")
    assert (some.drawing, len(some.x)) == ("tsne", 40)
    monkeypatch.setattr(module, "MOST_DRAWN", 39)
    with pytest.raises(ConfigError, match="t-SNE is for at most 39 nodes, got 40; use pca"):
        model.explore(graph, np.arange(40), drawing="tsne")


def test_one_class() -> None:
    graph = load_dataset("synthetic", num_nodes=60, num_links=120, num_features=8, num_classes=2)
    model = ClassifierCore(width=50).partial_fit(graph, torch.nonzero(graph.y == 0).flatten())
    found = model.explore(graph)
    assert set(found.runner_up.tolist()) == {-1}
    assert len(found.classes) == 2, "that of other labelled nodes is shown too"


@pytest.mark.parametrize("scenario", ["task", "class"])
def test_a_run_with_views_is_the_same_run_and_explores_its_answers(tmp_path: Path, scenario: str) -> None:
    choices = {"scenario": scenario, "evaluate": "oracle"}
    plain, seen = (quick(tmp_path / "plain", **choices), quick(tmp_path / "seen", views=True, seeds=2, **choices))
    assert plain.matrices[0] == seen.matrices[0]
    assert not (tmp_path / "plain" / "seed-0" / "explorer.json").exists()
    assert not (tmp_path / "seen" / "seed-1" / "explorer.json").exists()
    file = tmp_path / "seen" / "seed-0" / "explorer.json"
    found = Exploration.model_validate(json.loads(file.read_text()))
    assert (found.is_task_given, len(found.steps), len(found.weights)) == (True, 3, 3)
    for step, accuracy in enumerate(seen.matrices[0][-1]):
        own = found.step == step
        assert 100 * (found.label[own] == found.answer[own]).mean() == pytest.approx(accuracy)
    assert found.founding == ("recorded" if scenario == "task" else "derived")
    network = load_learner(tmp_path / "seen").network_  # type: ignore[attr-defined]
    if scenario == "task":
        positions = [set(part.extractor.positions.tolist()) for part in network.tasks.values()]
        for one in found.prototypes:
            founding = [task for task, known in enumerate(positions) if one.position in known]
            assert not founding or one.founded == founding[0]
    before = file.read_bytes()
    file.unlink()
    quick(tmp_path / "seen", views=True, seeds=2, **choices)
    assert file.read_bytes() == before, "it is made again where it is missing"


def test_the_preset_paper_has_no_accounts(tmp_path: Path) -> None:
    settings = {**DATA, "preset": "paper", "epochs": 2, "warmup_epochs": 1}
    quick(tmp_path, settings=settings, views=True)
    assert (tmp_path / "views.json").exists()
    assert not (tmp_path / "seed-0" / "explorer.json").exists()
