"""Updates and forgetting: what a model equals afterwards, and what is refused."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hpn.datasets import Graph, Masks
from hpn.errors import ConfigError, DataError
from hpn.model import HPNClassifier
from hpn.model.changes import Forgotten, Update
from hpn.streams.views import hash_ids

NAMES = ("fig", "apple", "kiwi", "date", "plum", "lime")


def make(**params: Any) -> HPNClassifier:
    return HPNClassifier(**{"width": 64, **params})


def saved(model: HPNClassifier) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def check_same(model: HPNClassifier, expected: HPNClassifier, graph: Graph) -> None:
    """The same folder and the same answers, to the bit."""
    assert saved(model) == saved(expected)
    assert np.array_equal(model.predict_proba(graph), expected.predict_proba(graph))


def relabel(graph: Graph, labels: dict[int, int]) -> Graph:
    y = graph.y.clone()
    y[list(labels)] = torch.tensor(list(labels.values()))
    return replace(graph, y=y)


def hide(graph: Graph, nodes: Any) -> Graph:
    """The graph without the labels of some nodes."""
    return relabel(graph, dict.fromkeys(np.asarray(nodes).tolist(), -1))


def cut(graph: Graph, nodes: np.ndarray) -> Graph:
    """The part of the graph with some nodes only."""
    place = np.full(graph.num_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    links = place[graph.edge_index.numpy()]
    return Graph.build(
        graph.name,
        x=graph.x[nodes],
        links=torch.from_numpy(links[:, (links >= 0).all(axis=0)]),
        y=graph.y[nodes],
        class_names=graph.class_names,
        node_ids=None if graph.node_ids is None else graph.node_ids[nodes],
    )


@pytest.fixture(scope="module")
def large(graph: Graph) -> Graph:
    """Named nodes and classes; a third has no label."""
    ids = np.array([f"köd-{at}" for at in range(300)], dtype=object)
    return hide(replace(graph, node_ids=ids, class_names=NAMES), np.arange(0, 300, 3))


@pytest.fixture(scope="module")
def small(large: Graph) -> Graph:
    """Before the last nodes arrived, in another order, and before there was an apple."""
    nodes = np.random.default_rng(0).permutation(200)
    found = cut(large, nodes)
    return hide(found, np.flatnonzero(found.y == 1))


# ---------------------------------------------------------------------- update


def test_an_update_learns_what_is_new(small: Graph, large: Graph) -> None:
    model = make().fit(small)
    known = model.counts_
    report = model.update(large)
    assert report == Update(new=200 - sum(known.values()), new_classes=("apple",))
    assert sum(model.counts_.values()) == 200
    fits = model.ledger_.counts()
    assert [(graph.num_nodes, count) for graph, count in fits] == [(200, sum(known.values())), (300, report.new)]
    assert model.update(large) == Update(), "a second time there is nothing to do"
    new = ~np.isin(large.node_ids, small.node_ids[small.y >= 0]) & (large.y >= 0).numpy()
    check_same(model, make().fit(small).partial_fit(large, new), large)


def test_the_first_update_is_a_fit_on_all_labels_whatever_the_masks(large: Graph) -> None:
    is_train = torch.arange(300) < 100
    model = make()
    done = model.update(replace(large, masks=Masks(is_train, torch.zeros(300, dtype=torch.bool), ~is_train)))
    assert done == Update(new=200, new_classes=tuple(sorted(NAMES)))
    check_same(model, make().fit(large), large)


def test_labels_that_are_gone_stay_learned(large: Graph) -> None:
    model = make().fit(large)
    before, labelled, bare = saved(model), np.flatnonzero(large.y >= 0), hide(large, np.arange(300))
    assert model.update(hide(large, labelled[:7])) == Update(unlabelled=7)
    assert model.update(cut(large, np.arange(100, 300))).unlabelled == int((labelled < 100).sum())
    assert model.update(bare) == Update(unlabelled=200)
    assert saved(model) == before
    with pytest.raises(DataError, match="at least one node is needed"):
        make().update(bare)


def test_labels_that_change_are_learned_anew(large: Graph) -> None:
    labelled = np.flatnonzero(large.y >= 0)
    changed = relabel(large, {at: (int(large.y[at]) + 1) % 6 for at in labelled[:11].tolist()})
    model = make().fit(large)
    assert model.update(changed) == Update(changed=11), "labels are no part of what is encoded"
    check_same(model, make().fit(changed), large)


def test_labels_that_change_in_a_grown_graph(small: Graph, large: Graph) -> None:
    model = make().fit(small)
    known = sum(model.counts_.values())
    node = int(large.index(small.node_ids[[int((small.y == 0).nonzero()[0])]])[0])
    changed = relabel(large, {node: 2})
    report = model.update(changed)
    assert (report.new, report.changed, report.encoded_again.nodes) == (200 - known, 1, known - 1)
    assert report.encoded_again.seconds > 0
    check_same(model, make().fit(changed), large)


def test_a_class_may_be_renamed(large: Graph) -> None:
    model = make().fit(large)
    renamed = replace(large, class_names=("fig", "Apple", *NAMES[2:]))
    assert model.update(renamed).new_classes == ("Apple",)
    assert "apple" not in model.classes_.tolist()
    check_same(model, make().fit(renamed), large)


def test_a_refresh_equals_a_new_fit(small: Graph, large: Graph) -> None:
    model = make().fit(small)
    gone = hide(large, np.flatnonzero(large.y == 2))
    report = model.update(gone, refresh=True)
    assert (report.changed, report.new_classes) == (0, ("apple",))
    assert report.unlabelled == int((small.y == 2).sum())
    assert report.encoded_again.nodes == int((gone.y >= 0).sum())
    check_same(model, make().fit(gone), large)


def test_validation_nodes_are_known(large: Graph) -> None:
    labelled = np.flatnonzero(large.y >= 0)
    names = np.array(NAMES)[large.y.numpy()]
    val = labelled[:40]
    model = make().fit(large, labelled[40:], validation=(val, names[val]))
    assert model.update(large) == Update()
    node = int(val[0])
    changed = relabel(large, {node: (int(large.y[node]) + 1) % 6})
    assert model.update(changed) == Update(changed=1)
    assert hash_ids(large.n_id.numpy()[[node]])[0] in model.ledger_.rows[:, 0]
    remembered = model.network_.memory.kept.remembered
    assert (remembered[:, 2] == 0).sum() == 39


# ---------------------------------------------------------------------- forget


def test_nodes_are_subtracted_from_the_graph_they_were_learned_in(large: Graph) -> None:
    labelled = np.flatnonzero(large.y >= 0)
    model = make().fit(large)
    assert model.forget(large, labelled[::4]) == Forgotten(nodes=50)
    check_same(model, make().fit(hide(large, labelled[::4])), large)


@pytest.mark.parametrize("what", ["nodes", "class"])
def test_what_was_learned_in_another_graph_is_encoded_again(what: str, small: Graph, large: Graph) -> None:
    model = make().fit(small)
    model.update(large)
    gone = np.flatnonzero(large.y == 1) if what == "class" else np.flatnonzero(large.y >= 0)[::3]
    report = model.forget(large, label="apple") if what == "class" else model.forget(large, gone)
    assert (report.nodes, report.not_learned) == (len(gone), 0)
    assert report.encoded_again.nodes == 200 - len(gone)
    assert report.classes == (("apple",) if what == "class" else ())
    check_same(model, make().fit(hide(large, gone)), large)


def test_a_class_is_forgotten_with_its_name(large: Graph) -> None:
    model = make().fit(large)
    report = model.forget(large, label="plum")
    assert report == Forgotten(nodes=int((large.y == 4).sum()), classes=("plum",))
    assert not any(b"plum" in content for content in saved(model).values())
    check_same(model, make().fit(hide(large, np.flatnonzero(large.y == 4))), large)
    with pytest.raises(ConfigError, match=r"there is no class 'plum'; classes are 'apple', 'date'"):
        model.forget(large, label="plum")


def test_nodes_that_were_not_learned_are_counted(large: Graph) -> None:
    model = make().fit(large)
    before = saved(model)
    assert model.forget(large, np.flatnonzero(large.y < 0)[:5]) == Forgotten(not_learned=5)
    assert saved(model) == before


def test_everything_may_be_forgotten(large: Graph) -> None:
    model = make().fit(large)
    assert model.forget(large, np.arange(300)) == Forgotten(200, 100, classes=tuple(sorted(NAMES)))
    assert model.classes_.tolist() == []
    model.update(large)
    check_same(model, make().fit(large), large)


def test_validation_nodes_are_forgotten(large: Graph) -> None:
    labelled = np.flatnonzero(large.y >= 0)
    names = np.array(NAMES)[large.y.numpy()]
    val, kept = labelled[:40], labelled[5:40]
    model = make().fit(large, labelled[40:], validation=(val, names[val]))
    assert model.forget(large, val[:5]) == Forgotten(nodes=5)
    check_same(model, make().fit(large, labelled[40:], validation=(kept, names[kept])), large)


def test_tasks_that_learned_from_forgotten_nodes_are_dropped(large: Graph) -> None:
    y = large.y.numpy()
    model = make()
    for task, classes in (("own", [0, 1]), ("other", [2, 3]), ("single", [4]), ("pooled", [5]), ("pooled", [4])):
        model.partial_fit(large, np.flatnonzero(np.isin(y, classes)), task=task)
    report = model.forget(large, np.flatnonzero(y == 0)[:2])
    assert report.dropped_tasks == ("own", "pooled")
    assert model.tasks_ == ["other", "single"]
    assert model.is_certified("other")
    assert model.forget(large, label="plum").dropped_tasks == ("single",)


def test_what_would_not_be_exact_is_refused(small: Graph, large: Graph) -> None:
    model = make().fit(small)
    model.update(large)
    before, part = saved(model), cut(large, np.arange(50, 300))
    changed = relabel(part, {int(np.flatnonzero(part.y == 0)[0]): 2})
    for message, change in (
        (r"lacks \d+ of the \d+ nodes to keep, which .* must have them; give", lambda: model.forget(part, [0])),
        (r"of the \d+ nodes to forget \(class 'fig'\) and must have", lambda: model.forget(part, label="fig")),
        ("nodes to keep", lambda: model.update(changed)),
    ):
        with pytest.raises(DataError, match=message):
            change()
        assert saved(model) == before


def test_either_nodes_or_a_class(large: Graph) -> None:
    model = make().fit(large)
    for given in ({}, {"nodes": [1], "label": "fig"}):
        with pytest.raises(ConfigError, match="either nodes or a label"):
            model.forget(large, **given)


@pytest.mark.parametrize("change", ["forget", "update", "refresh"])
def test_changes_that_are_interrupted_change_nothing(
    change: str, small: Graph, large: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make().fit(small)
    before, calls = saved(model), iter(range(2))

    def interrupt(*_: Any, **__: Any) -> None:
        if next(calls) == 1:
            raise KeyboardInterrupt

    changed = relabel(large, {int(large.index(small.node_ids[small.y.numpy() == 0][:1])[0]): 1})
    with monkeypatch.context() as patch:
        patch.setattr("hpn.learners.hpn.statistics.add_gram", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.forget(large, [1, 2, 4]) if change == "forget" else model.update(changed, refresh=change == "refresh")
    assert saved(model) == before


# ---------------------------------------------------------------------- features by name


def with_names(graph: Graph, order: np.ndarray | None = None) -> Graph:
    names = np.array([f"f{at}" if at > 2 else f"title[{at}]" for at in range(12)])
    order = np.arange(12) if order is None else order
    return replace(graph, x=graph.x[:, order].clone(), feature_names=tuple(names[order].tolist()))


def test_features_are_known_by_name(large: Graph) -> None:
    named = with_names(large)
    moved = with_names(large, np.random.default_rng(0).permutation(12))
    model = make().fit(named)
    assert model.feature_names_in_.tolist() == list(named.feature_names or ())
    assert not hasattr(make().fit(large), "feature_names_in_")
    assert not hasattr(model.fit(large), "feature_names_in_"), "a new fit starts over"
    model.fit(named)
    assert np.array_equal(model.predict_proba(moved), model.predict_proba(named))
    assert not np.array_equal(
        make().fit(large).predict_proba(replace(moved, feature_names=None)), model.predict_proba(named)
    )
    assert model.update(moved) == Update()
    assert model.forget(moved, label="fig").encoded_again.nodes == 0, "the same graph, as far as is learned"
    check_same(model, make().fit(hide(named, np.flatnonzero(large.y == 0))), named)
    assert model.predict(large).shape == (300,), "without names they are taken by position"


def test_columns_that_do_not_fit_are_named(large: Graph, tmp_path: Path) -> None:
    named = with_names(large)
    make().fit(named).save(tmp_path)
    model = HPNClassifier.load(tmp_path)
    fewer = replace(named, x=named.x[:, 2:], feature_names=(named.feature_names or ())[2:])
    with pytest.raises(DataError, match=r"synthetic: the nodes table has no column 'title'; give the columns"):
        model.predict(fewer)
    renamed = replace(named, feature_names=(*(named.feature_names or ())[:-1], "g"))
    with pytest.raises(DataError, match="has no column 'f11'"):
        model.predict(renamed)
    more = replace(named, x=torch.cat([named.x, named.x[:, :1]], 1), feature_names=(*(named.feature_names or ()), "g"))
    with pytest.raises(DataError, match="has an additional column 'g'"):
        model.update(more, refresh=True)


def test_models_with_features_in_another_order_are_not_merged(large: Graph) -> None:
    models = [make().fit(with_names(large, order)) for order in (np.arange(12), np.arange(12)[::-1].copy())]
    with pytest.raises(ConfigError, match="other names or another order"):
        models[0].merge(models[1])


def test_a_node_learned_with_and_without_validation_nodes_is_forgotten(large: Graph) -> None:
    names, y = np.array(NAMES), large.y.numpy()
    known, rest = np.flatnonzero(y >= 0)[:80], np.flatnonzero(y >= 0)[80:]
    model = make().fit(large, known, names[y[known]], validation=(rest, names[y[rest]]))
    model.partial_fit(large, known, names[y[known]])
    model.forget(large, known[:20])
    expected = make().fit(large, known[20:], names[y[known[20:]]], validation=(rest, names[y[rest]]))
    expected.partial_fit(large, known[20:], names[y[known[20:]]])
    check_same(model, expected, large)


def test_threads_use_one_model_on_several_graphs(small: Graph, large: Graph) -> None:
    from concurrent.futures import ThreadPoolExecutor

    model = make().fit(small)
    expected = [model.predict_proba(graph) for graph in (small, large)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(model.predict_proba, [small, large] * 20))
    for at, answer in enumerate(found):
        assert np.array_equal(answer, expected[at % 2])
