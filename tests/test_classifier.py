"""The estimator: scikit-learn's conventions, learning, safety, and every message."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
import torch
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

import hpn
from hpn.classifier import HPNClassifier
from hpn.errors import CheckpointError, ConfigError, DataError, NotFittedError
from hpn.learners import HPN

NUM_CLASSES = 6


@dataclass(frozen=True)
class Plain:
    """The least a graph can be."""

    x: Any
    edge_index: Any


def communities(num_nodes: int = 240, seed: int = 0) -> Data:
    """Six groups, told apart by their features, with edges inside of each; node v is of class v % 6."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(size=(NUM_CLASSES, 12))
    y = np.arange(num_nodes) % NUM_CLASSES
    x = (centers[y] + rng.normal(scale=0.5, size=(num_nodes, 12))).clip(0)
    source = np.arange(num_nodes).repeat(3)
    target = (source + NUM_CLASSES * rng.integers(0, num_nodes // NUM_CLASSES, len(source))) % num_nodes
    links = torch.from_numpy(np.stack([source, target]))
    return Data(x=torch.from_numpy(x).float(), edge_index=links, y=torch.from_numpy(y))


GRAPH = communities()
EVERY = torch.arange(240)


def nodes_of(*classes: int, test: bool = False) -> Tensor:
    """The first 28 nodes of each class, or the other 12."""
    rows = EVERY[168:] if test else EVERY[:168]
    return rows[torch.isin(GRAPH.y[rows], torch.tensor(classes))]


def learn(model: HPNClassifier, *classes: int, task: int | str | None = None, **more: Any) -> HPNClassifier:
    nodes = nodes_of(*classes)
    return model.partial_fit(GRAPH, nodes, GRAPH.y[nodes], task=task, **more)


def accuracy(model: HPNClassifier, *classes: int, task: int | str | None = None) -> float:
    nodes = nodes_of(*classes, test=True)
    return model.score(GRAPH, nodes, GRAPH.y[nodes], task=task)


def answers(model: HPNClassifier, task: int | str | None = None) -> bytes:
    return model.predict_proba(GRAPH, EVERY, task).tobytes()


def digest(model: HPNClassifier) -> str | None:
    """Hash of all there is to know of a model."""
    if not hasattr(model, "learner_"):
        return None

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            return [str(value.dtype), list(value.shape), hashlib.sha256(value.numpy().tobytes()).hexdigest()]
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return value

    text = json.dumps([plain(model.learner_.state_dict()), model.get_params()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def by_class() -> HPNClassifier:
    """Two classes, two more, the last two; not to be fitted any further."""
    model = HPNClassifier()
    for classes in ((0, 1), (2, 3), (4, 5)):
        learn(model, *classes)
    return model


@pytest.fixture(scope="module")
def by_task() -> HPNClassifier:
    """The same as named tasks."""
    model = HPNClassifier()
    for name, classes in {"a": (0, 1), "b": (2, 3), 7: (4, 5)}.items():
        learn(model, *classes, task=name)
    return model


# ---------------------------------------------------------------------- conventions


def test_parameters_can_be_read_set_and_cloned() -> None:
    model = HPNClassifier(dim=8, seed=3)
    assert model.get_params() == {**HPN(dim=8, seed=3).get_params(), "device": "auto"}
    assert model.set_params(dim=4).dim == 4
    copied = clone(learn(model, 0, 1))
    assert copied.get_params() == model.get_params()
    assert not hasattr(copied, "learner_")
    assert repr(copied) == "HPNClassifier(dim=4, seed=3)"
    assert is_classifier(copied)
    assert hpn.HPNClassifier is HPNClassifier


def test_the_constructor_only_stores() -> None:
    assert vars(HPNClassifier(epochs=-5)) == {**HPN().get_params(), "epochs": -5, "device": "auto"}


@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform", "explain"])
def test_asking_before_the_first_fit_is_an_error_of_both_kinds(method: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet; call partial_fit first") as caught:
        getattr(HPNClassifier(), method)(GRAPH, EVERY)
    assert isinstance(caught.value, sklearn.exceptions.NotFittedError)


def test_nothing_else_works_before_the_first_fit(tmp_path: Path) -> None:
    model = HPNClassifier()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        model.is_certified(0)
    with pytest.raises(NotFittedError):
        model.score(GRAPH, EVERY, GRAPH.y)
    assert not list(tmp_path.iterdir())
    for name in ("classes_", "tasks_", "n_features_in_", "prototype_counts_", "prototype_bounds_"):
        assert not hasattr(model, name)


def test_what_was_learned_can_be_looked_at(by_class: HPNClassifier, by_task: HPNClassifier) -> None:
    check_is_fitted(by_class)
    assert by_class.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    assert by_class.tasks_ == [0, 1, 2]
    assert by_task.tasks_ == ["a", "b", 7]
    assert by_task.n_features_in_ == 12
    assert by_task.prototype_counts_.keys() == by_task.prototype_bounds_.keys() == {"atomic", "node", "class"}
    for level, count in by_task.prototype_counts_.items():
        assert 0 < count <= by_task.prototype_bounds_[level]


def test_a_model_can_be_pickled_and_copied(by_task: HPNClassifier) -> None:
    for other in (pickle.loads(pickle.dumps(by_task)), copy.deepcopy(by_task)):
        assert digest(other) == digest(by_task)
        assert answers(other) == answers(by_task)


def test_parameters_must_not_change_between_fits() -> None:
    model = learn(HPNClassifier(), 0, 1).set_params(lr_refine=0.5)
    with pytest.raises(ConfigError, match="lr_refine was changed after the first fit; set it back, or"):
        learn(model, 2, 3)
    nodes = nodes_of(2, 3)
    assert model.fit(GRAPH, nodes, GRAPH.y[nodes]).classes_.tolist() == [2, 3]


# ---------------------------------------------------------------------- learning


def test_classes_are_told_apart_when_no_task_is_ever_named(by_class: HPNClassifier) -> None:
    assert accuracy(by_class, *range(6)) > 0.7  # a sixth by chance
    predicted = by_class.predict(GRAPH, EVERY)
    assert predicted.dtype == np.int64
    assert predicted.shape == (240,)


def test_named_tasks_are_learned_and_can_be_inferred(by_task: HPNClassifier) -> None:
    for name, classes in {"a": (0, 1), "b": (2, 3), 7: (4, 5)}.items():
        assert accuracy(by_task, *classes, task=name) > 0.9
        assert set(by_task.predict(GRAPH, EVERY, task=name)) <= set(classes)
    assert accuracy(by_task, *range(6)) > 0.7


def test_probabilities_have_a_column_for_each_class(by_task: HPNClassifier) -> None:
    every, one = by_task.predict_proba(GRAPH, EVERY), by_task.predict_proba(GRAPH, EVERY, task="b")
    assert every.shape == (240, 6)
    assert one.shape == (240, 2)
    for table in (every, one):
        assert (table >= 0).all()
        assert np.allclose(table.sum(axis=1), 1, atol=1e-12)
    assert (by_task.predict(GRAPH, EVERY) == every.argmax(axis=1)).all()
    assert (by_task.predict(GRAPH, EVERY, task="b") == 2 + one.argmax(axis=1)).all()


def test_labels_may_be_any_numbers_and_nodes_a_mask() -> None:
    nodes = nodes_of(0, 1)
    numbers = np.where(GRAPH.y[nodes] == 0, 10**12, 5)
    model = HPNClassifier().partial_fit(GRAPH, nodes.tolist(), numbers.tolist(), task="a")
    assert model.classes_.tolist() == [5, 10**12]
    mask = torch.zeros(240, dtype=torch.bool)
    mask[nodes] = True
    masked = HPNClassifier().partial_fit(GRAPH, mask, numbers, task="a")
    assert answers(masked, "a") == answers(model, "a")
    assert (masked.predict(GRAPH, mask) == model.predict(GRAPH, nodes.numpy().astype(np.uint16))).all()
    assert model.score(GRAPH, nodes, numbers) > 0.9


def test_a_validation_set_is_used() -> None:
    held_out = nodes_of(0, 1, test=True)
    model = learn(HPNClassifier(), 0, 1, validation=(held_out, GRAPH.y[held_out]))
    assert digest(model) != digest(learn(HPNClassifier(), 0, 1))
    assert accuracy(model, 0, 1) > 0.9


def test_a_task_may_be_fitted_again_and_get_new_classes() -> None:
    model = learn(learn(HPNClassifier(), 0, 1, task="a"), 2, task="b")
    learn(model, 3, 4, task="a")
    assert model.tasks_ == ["a", "b"]
    assert model.predict_proba(GRAPH, EVERY, task="a").shape == (240, 4)
    assert accuracy(model, 0, 1, 3, 4, task="a") > 0.8
    before = answers(model, "a")
    learn(model, 5, task="b")
    assert answers(model, "a") == before
    assert model.is_certified("a")
    assert model.is_certified("b")


def test_a_class_may_come_again_with_other_nodes() -> None:
    nodes = nodes_of(0, 1, 2, 3)
    model = HPNClassifier()
    for part in nodes.split(38):
        model.partial_fit(GRAPH, part, GRAPH.y[part])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.tasks_ == [0, 1, 2]
    assert accuracy(model, 0, 1, 2, 3) > 0.9


def test_dense_and_sparse_features_give_the_same_answers() -> None:
    nodes = nodes_of(0, 1, 2)
    dense = HPNClassifier().partial_fit(GRAPH, nodes, GRAPH.y[nodes])
    coo = GRAPH.x.to_sparse()
    pairs, halves = coo.indices().repeat(1, 2), coo.values().repeat(2) / 2
    twice = torch.sparse_coo_tensor(pairs, halves, coo.shape, check_invariants=True)
    for x in (coo, twice, GRAPH.x.to_sparse_csr(), GRAPH.x.to_sparse_csc(), GRAPH.x.double()):
        graph = Plain(x, GRAPH.edge_index)
        sparse = HPNClassifier().partial_fit(graph, nodes, GRAPH.y[nodes])
        expected = dense.predict_proba(GRAPH, EVERY)
        assert np.allclose(sparse.predict_proba(graph, EVERY), expected, atol=1e-4)
        assert np.allclose(sparse.predict_proba(GRAPH, EVERY), expected, atol=1e-4)


def test_edges_count_once_and_in_both_directions(by_class: HPNClassifier) -> None:
    links = GRAPH.edge_index
    loops = EVERY.repeat(2, 1)
    for other in (links.flip(0), torch.cat([links, links.flip(0), links, loops], dim=1), links.int()):
        assert by_class.predict_proba(Plain(GRAPH.x, other), EVERY).tobytes() == answers(by_class)


def test_a_graph_may_have_no_edges() -> None:
    nodes = nodes_of(0, 1)
    for links in (None, torch.empty(2, 0)):
        graph = Plain(GRAPH.x, links)
        model = HPNClassifier().partial_fit(graph, nodes, GRAPH.y[nodes])
        assert model.score(graph, nodes, GRAPH.y[nodes]) > 0.8


def test_predictions_are_about_any_graph_of_the_same_features(by_class: HPNClassifier) -> None:
    other = communities(num_nodes=90, seed=5)
    assert by_class.score(other, torch.arange(90), other.y) > 0.8
    links = torch.cat([GRAPH.edge_index, other.edge_index + 240], dim=1)
    larger = Plain(torch.cat([GRAPH.x, other.x]), links)
    assert (by_class.predict(larger, EVERY) == by_class.predict(GRAPH, EVERY)).all()
    assert (
        by_class.predict(larger, torch.arange(240, 330)) == by_class.predict(other, torch.arange(90))
    ).all()


def test_a_graph_may_grow_between_fits() -> None:
    small = communities(num_nodes=120, seed=1)
    model = HPNClassifier().partial_fit(small, torch.arange(120), small.y)
    before = model.predict_proba(small, torch.arange(120), task=0).tobytes()
    learn(model, *range(6))
    assert model.predict_proba(small, torch.arange(120), task=0).tobytes() == before
    assert accuracy(model, *range(6)) > 0.9


@pytest.mark.parametrize("slots", ["reach", "means", "drawn"])
def test_answers_for_a_task_stay_bit_for_bit_whatever_comes_later(slots: str) -> None:
    model, expected = HPNClassifier(slots=slots), {}
    for name, classes in {"a": (0,), "b": (1, 2), "c": (3, 4, 5)}.items():
        learn(model, *classes, task=name)
        expected[name] = answers(model, name)
        assert {task: answers(model, task) for task in expected} == expected
        assert all(model.is_certified(task) for task in expected)


def test_a_fit_of_unnamed_classes_stays_bit_for_bit_as_the_head_grows() -> None:
    model, expected = HPNClassifier(), {}
    for number, classes in enumerate([(0, 1), (2, 3, 4), (5, 0)]):
        learn(model, *classes)
        expected[number] = answers(model, number)
        assert {task: answers(model, task) for task in expected} == expected


def test_a_fit_stays_certified_when_there_are_as_many_classes_as_dimensions() -> None:
    model = HPNClassifier(dim=4)
    for classes in ((0, 1), (2, 3)):
        learn(model, *classes)
    assert model.is_certified(0)


def test_without_certification_later_tasks_may_move_earlier_ones() -> None:
    model = learn(HPNClassifier(preset="paper", epochs=4, warmup_epochs=2), 0, 1, task="a")
    before = answers(model, "a")
    learn(model, 2, 3, task="b")
    assert answers(model, "a") != before
    assert not model.is_certified("a")
    assert model.is_certified("b")


# ---------------------------------------------------------------------- purity and safety


def test_asking_changes_nothing_and_gives_the_same_every_time(by_task: HPNClassifier) -> None:
    before, random, numbers = digest(by_task), torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    graph = GRAPH.clone()
    for task in (None, "a"):
        assert by_task.predict_proba(graph, EVERY, task).tobytes() == answers(by_task, task)
        assert (
            by_task.transform(graph, EVERY, task).tobytes() == by_task.transform(graph, EVERY, task).tobytes()
        )
        assert by_task.explain(graph, EVERY[:9], task) == by_task.explain(graph, EVERY[:9], task)
    assert digest(by_task) == before
    assert torch.equal(torch.get_rng_state(), random)
    assert np.random.get_state()[1].tolist() == numbers  # noqa: NPY002
    assert torch.equal(graph.x, GRAPH.x)
    assert torch.equal(graph.edge_index, GRAPH.edge_index)


def test_fitting_is_repeatable_and_leaves_data_and_random_state_alone() -> None:
    random, graph, nodes = torch.get_rng_state(), GRAPH.clone(), nodes_of(0, 1)
    first = HPNClassifier(seed=4).partial_fit(graph, nodes, graph.y[nodes])
    torch.manual_seed(1)
    assert digest(learn(HPNClassifier(seed=4), 0, 1)) == digest(first)
    torch.set_rng_state(random)
    learn(first, 2, 3)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(graph.x, GRAPH.x)
    assert torch.equal(graph.edge_index, GRAPH.edge_index)
    assert torch.equal(nodes, nodes_of(0, 1))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("hook", ["_begin", "_step_done", "_finish"])
def test_a_fit_that_fails_halfway_changes_nothing(
    hook: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = getattr(HPN, hook), []

    def fail(self: HPN, *args: Any) -> Any:
        calls.append(hook)
        result = original(self, *args)
        if len(calls) == 2 or hook != "_step_done":
            raise error
        return result

    held_out = nodes_of(2, 3, test=True)
    more = {"validation": (held_out, GRAPH.y[held_out])}
    fresh, model = HPNClassifier(), learn(learn(HPNClassifier(), 0, 1), 2, 4)
    before, expected, random = digest(model), answers(model), torch.get_rng_state()
    monkeypatch.setattr(HPN, hook, fail)
    with pytest.raises(error):
        learn(fresh, 2, 3, **more)
    calls.clear()
    with pytest.raises(error):
        learn(model, 2, 3, **more)
    assert calls
    assert vars(fresh) == vars(HPNClassifier())
    assert digest(model) == before
    assert answers(model) == expected
    assert torch.equal(torch.get_rng_state(), random)
    monkeypatch.undo()
    undisturbed = learn(learn(HPNClassifier(), 0, 1), 2, 4)
    assert digest(learn(model, 2, 3, **more)) == digest(learn(undisturbed, 2, 3, **more))


def test_refused_data_changes_nothing(by_task: HPNClassifier) -> None:
    before = digest(by_task)
    for nodes, y, task in ((EVERY, GRAPH.y[:9], "a"), (EVERY, GRAPH.y, "a"), (EVERY[:1], GRAPH.y[:1], None)):
        with pytest.raises((DataError, ConfigError)):
            by_task.partial_fit(GRAPH, nodes, y, task=task)
    assert digest(by_task) == before


# ---------------------------------------------------------------------- representation and explanation


def test_a_representation_is_made_of_prototypes(by_task: HPNClassifier) -> None:
    nodes = nodes_of(0, 1)
    for task in (None, "a"):
        result = by_task.transform(GRAPH, nodes, task)
        assert result.shape == (len(nodes), 4 * 16)
        matches = by_task.explain(GRAPH, nodes, task)
        books = dict(zip(("atomic", "node", "class"), by_task.learner_.network_.books, strict=True))
        parts = torch.stack([books[match.level].vectors[match.prototype] for match in matches])
        assert torch.equal(torch.from_numpy(result), parts.reshape(len(nodes), -1))


def test_a_representation_has_the_levels_asked_for() -> None:
    for levels, width in (("A", 2 * 8), ("AN", 3 * 8)):
        model = learn(HPNClassifier(levels=levels, dim=8), 0, 1)
        assert model.transform(GRAPH, EVERY).shape == (240, width)
        assert {match.level for match in model.explain(GRAPH, EVERY[:2])} == {"atomic", "node"} - (
            {"node"} if levels == "A" else set()
        )


def test_an_explanation_names_nodes_slots_extractors_and_founders(by_task: HPNClassifier) -> None:
    nodes = nodes_of(2, 3).flip(0)
    matches = by_task.explain(GRAPH, nodes, task="b")
    selection, network = by_task.learner_.selections_[1], by_task.learner_.network_
    assert [match.node for match in matches] == nodes.repeat_interleave(4).tolist()
    assert [match.level for match in matches[:4]] == ["atomic", "atomic", "node", "class"]
    assert [match.slot for match in matches[:4]] == ["node", f"hop {selection.reach}", None, None]
    assert [match.extractor for match in matches[:4]] == [*selection.node, *selection.structure, None, None]
    assert {match.founded_by for match in matches} <= {"a", "b"}
    books = dict(zip(("atomic", "node", "class"), network.books, strict=True))
    for match in matches:
        assert match.founded_by == ("a", "b", 7)[books[match.level].founders[match.prototype]]
        assert 1 - books[match.level].threshold - 1e-4 <= match.cosine <= 1 + 1e-5


def test_founders_are_numbers_when_tasks_have_no_names(by_class: HPNClassifier) -> None:
    assert {match.founded_by for match in by_class.explain(GRAPH, nodes_of(0, 1), task=0)} == {0}
    assert {match.founded_by for match in by_class.explain(GRAPH, EVERY)} <= {0, 1, 2}


def test_slots_are_named_after_what_extractors_see() -> None:
    means = learn(HPNClassifier(slots="means", hops=2, num_selected=2), 0, 1).explain(GRAPH, [0])
    assert [match.slot for match in means[:-2]] == ["node"] * 2 + ["hop 1"] * 2 + ["hop 2"] * 2
    assert [match.extractor for match in means] == [0, 1, 0, 1, 0, 1, None, None]
    drawn = learn(HPNClassifier(slots="drawn", drawn="1,2"), 0, 1).explain(GRAPH, [0])
    assert [match.slot for match in drawn[:-2]] == ["node", "neighbor 1", "neighbor 2", "neighbor 3"]


def test_without_a_task_a_node_is_seen_by_the_fit_it_is_familiar_to(by_task: HPNClassifier) -> None:
    nodes = nodes_of(*range(6))
    seen_by = np.array([m.extractor for m in by_task.explain(GRAPH, nodes) if m.slot == "node"])
    assert (seen_by == GRAPH.y[nodes].numpy() // 2).mean() > 0.7
    model = learn(learn(HPNClassifier(), 0, 1, task="a"), 2, 3, task="a")
    seen_by = np.array([m.extractor for m in model.explain(GRAPH, nodes_of(2, 3), "a") if m.slot == "node"])
    assert (seen_by == 1).mean() > 0.8


# ---------------------------------------------------------------------- saving


@pytest.mark.parametrize("task", [None, "a"])
def test_a_saved_model_answers_and_goes_on_as_if_nothing_had_happened(
    task: str | None, tmp_path: Path
) -> None:
    model = learn(HPNClassifier(dim=8, levels="AN", seed=2), 0, 1, task=task)
    model.save(tmp_path / "deep" / "model")
    loaded = HPNClassifier.load(str(tmp_path / "deep" / "model"))
    assert loaded.get_params() == model.get_params()
    assert loaded.tasks_ == model.tasks_
    assert digest(loaded) == digest(model)
    assert answers(loaded, task) == answers(model, task)
    assert digest(learn(loaded, 1, 2, task=task)) == digest(learn(model, 1, 2, task=task))
    assert answers(loaded) == answers(model)


def test_the_device_is_stored_as_given_and_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = learn(HPNClassifier(device="cpu"), 0, 1)
    expected = answers(model)
    with pytest.raises(ConfigError, match="there is no device 'cuda' here"):
        learn(model.set_params(device="cuda"), 2, 3)
    assert answers(model) == expected, "a fit that fails changes nothing"
    model.save(tmp_path)
    assert "cuda" not in (tmp_path / "checkpoint.json").read_text()
    loaded = HPNClassifier.load(tmp_path)
    assert (loaded.device, loaded.learner_.device) == ("auto", torch.device("cpu"))
    assert answers(loaded) == expected
    assert HPNClassifier.load(tmp_path, device="cpu").device == "cpu"
    with pytest.raises(ConfigError, match="there is no device 'cuda' here"):
        HPNClassifier.load(tmp_path, device="cuda")


def test_saving_again_replaces_and_a_failed_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = learn(HPNClassifier(), 0, 1)
    model.save(tmp_path)
    expected = answers(model)
    learn(model, 2, 3)

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hpn.experiment.checkpoint.write_json", fail)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path)
    assert answers(HPNClassifier.load(tmp_path)) == expected
    monkeypatch.undo()
    model.save(tmp_path)
    assert answers(HPNClassifier.load(tmp_path)) == answers(model)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_damaged_or_missing_save_is_one_clear_line(by_task: HPNClassifier, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    by_task.save(saved)
    tensors = next(saved.glob("*.safetensors")).name
    header = (saved / "checkpoint.json").read_text()
    broken = {
        "missing": (None, None, "has no saved classifier; give the folder that save"),
        "not json": (header[:100], None, "it is not JSON"),
        "newer": (header.replace('"format": 1', '"format": 99'), None, "has format 99"),
        "no tensors": (header, b"", "is not what was written"),
        "no learner": (header.replace('"learner"', '"lerner"'), None, "KeyError"),
        "unknown parameter": (header.replace('"momentum"', '"mumentum"'), None, "TypeError"),
        "other dim": (header.replace('"dim": null', '"dim": 3'), None, "RuntimeError"),
        "a run": (header.replace('"classifier"', '"config"'), None, "has no saved classifier"),
    }
    for name, (text, content, message) in broken.items():
        folder = tmp_path / name
        if text is not None:
            shutil.copytree(saved, folder)
            (folder / "checkpoint.json").write_text(text)
        if content is not None:
            (folder / tensors).write_bytes(content)
        with pytest.raises(CheckpointError, match=message) as caught:
            HPNClassifier.load(folder)
        assert "--out" not in str(caught.value)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(CheckpointError, match="cannot write"):
        by_task.save(file)


# ---------------------------------------------------------------------- messages


def _with_nan() -> Tensor:
    x = GRAPH.x.clone()
    x[3, 2] = torch.nan
    return x


WRONG_GRAPHS = [
    (Plain(None, None), "data.x must be a real tensor of shape .* got NoneType"),
    (Plain(GRAPH.x[0], None), r"got torch.float32 of shape \(12,\)"),
    (Plain(GRAPH.x[:, :5], None), "data.x has 5 features a node, but 12 were learned from"),
    (Plain(_with_nan(), None), "feature 2 of node 3 is nan; replace or drop"),
    (Plain(_with_nan().to_sparse(), None), "feature 2 of node 3 is nan; replace or drop"),
    (Plain(GRAPH.x, torch.tensor([[0], [240]])), "edge 0 .0 - 240. names a node that does not exist"),
    (Plain(GRAPH.x, torch.tensor([[0.0], [1.0]])), "data.edge_index must be a tensor of node numbers"),
    (Plain(GRAPH.x, [[0], [1]]), "data.edge_index must be a tensor of node numbers"),
    (Plain(GRAPH.x, torch.tensor([0, 1, 2])), r"expected links of shape \[2, n\]"),
    (Data(x=GRAPH.x, adj_t=torch.eye(240)), "give them as data.edge_index"),
]
WRONG_NODES = [
    ([], "nodes is empty; at least one node is needed"),
    (torch.zeros(240, dtype=torch.bool), "nodes is empty"),
    (torch.ones(7, dtype=torch.bool), "nodes has 7 Booleans, but the graph has 240 nodes"),
    ([0, 240], "nodes has 240, but nodes are numbered from 0 to 239"),
    ([0, -1], "nodes has -1, but nodes are numbered from 0 to 239"),
    ([0.5], "nodes must be whole numbers or one Boolean a node, got torch.float64"),
    ([[0, 1]], r"nodes must have one dimension, got shape \(1, 2\)"),
    ([[0], [1, 2]], "nodes must be a list, array or tensor of whole numbers"),
]


@pytest.mark.parametrize(("graph", "message"), WRONG_GRAPHS)
def test_a_wrong_graph_is_refused(graph: Any, message: str, by_task: HPNClassifier) -> None:
    with pytest.raises(DataError, match=message):
        by_task.partial_fit(graph, [0, 1], [0, 1], task="a")
    for ask in (by_task.predict, by_task.predict_proba, by_task.transform, by_task.explain):
        with pytest.raises(DataError, match=message):
            ask(graph, [0, 1])


@pytest.mark.parametrize(("nodes", "message"), WRONG_NODES)
def test_wrong_nodes_are_refused(nodes: Any, message: str, by_task: HPNClassifier) -> None:
    for refuse in (
        lambda: by_task.partial_fit(GRAPH, nodes, [0], task="a"),
        lambda: by_task.partial_fit(GRAPH, [5, 6], [0, 1], task="a", validation=(nodes, [0])),
        lambda: by_task.predict(GRAPH, nodes),
    ):
        with pytest.raises(DataError, match=message):
            refuse()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0], "y has 1 labels for 2 nodes; give one for each of the nodes"),
        (GRAPH.y, "y has 240 labels for 2 nodes"),
        ([0.0, 1.0], "y must be whole numbers, got torch.float64; number the classes from 0"),
        ([True, False], "y must be whole numbers, got torch.bool"),
        (["a", "b"], "y must be a list, array or tensor of whole numbers"),
        ([[0], [1]], r"y must have one dimension, got shape \(2, 1\)"),
        ([0, -1], "y has -1; number the classes from 0 .-1 means unlabelled."),
    ],
)
def test_wrong_labels_are_refused(y: Any, message: str, by_task: HPNClassifier) -> None:
    for refuse in (
        lambda: by_task.partial_fit(GRAPH, [0, 1], y, task="a"),
        lambda: by_task.partial_fit(GRAPH, [5, 6], [0, 1], task="a", validation=([0, 1], y)),
        lambda: by_task.score(GRAPH, [0, 1], y),
    ):
        with pytest.raises(DataError, match=message):
            refuse()


def test_training_nodes_come_once_and_not_in_validation_as_well() -> None:
    model = HPNClassifier()
    with pytest.raises(DataError, match="nodes has 4 more than once; once is enough"):
        model.partial_fit(GRAPH, [4, 5, 4], [0, 1, 0])
    with pytest.raises(DataError, match="validation nodes has 5, which is in nodes; hold it out of one"):
        model.partial_fit(GRAPH, [4, 5], [0, 1], validation=([6, 5], [0, 1]))
    with pytest.raises(DataError, match="validation y has class 2, which y has not; leave its nodes out"):
        model.partial_fit(GRAPH, [4, 5], [0, 1], validation=([6, 7], [0, 2]))
    with pytest.raises(ConfigError, match="validation must be a pair"):
        model.partial_fit(GRAPH, [4, 5], [0, 1], validation=[1, 2, 3])  # type: ignore[arg-type]
    assert not hasattr(model, "learner_")


def test_tasks_are_named_always_or_never(by_class: HPNClassifier, by_task: HPNClassifier) -> None:
    with pytest.raises(ConfigError, match="leave task out, as in the first fit; fit instead of partial_fit"):
        learn(by_class, 0, 1, task="a")
    with pytest.raises(ConfigError, match="name the task, as in the first fit"):
        learn(by_task, 0, 1)
    with pytest.raises(ConfigError, match=r"task = 1.5: expected a string or a whole number"):
        learn(by_task, 0, 1, task=1.5)  # type: ignore[arg-type]
    assert learn(HPNClassifier(), 0, task=np.int64(3)).tasks_ == [3]  # type: ignore[arg-type]


def test_a_class_belongs_to_one_task(by_task: HPNClassifier) -> None:
    with pytest.raises(ConfigError, match="class 1 belongs to task 'a'; fit it under that name, or give it"):
        learn(by_task, 1, 2, task="b")


def test_an_unknown_task_is_refused_with_those_known(by_class: HPNClassifier, by_task: HPNClassifier) -> None:
    for ask in (by_task.predict, by_task.predict_proba, by_task.transform, by_task.explain):
        with pytest.raises(ConfigError, match="there is no task 'z'; those fitted are 'a', 'b', 7"):
            ask(GRAPH, EVERY, task="z")
    with pytest.raises(ConfigError, match="there is no task 3; those fitted are 0, 1, 2"):
        by_class.is_certified(3)


def test_parameters_are_checked_when_fitting() -> None:
    with pytest.raises(ConfigError, match="HPNClassifier: epochs = -1"):
        learn(HPNClassifier(epochs=-1), 0, 1)
