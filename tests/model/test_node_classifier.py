"""The adapter for scikit-learn: its tools, its own checks of an estimator, and what the graph adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
import torch
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import hpn
from hpn import HPNClassifier, NodeClassifier
from hpn.errors import ConfigError, DataError

DIGITS = hpn.load_dataset("digits")
NODES = np.arange(450)
LABELS = DIGITS.y[:450].numpy()
OTHERS = np.arange(450, 750)
OTHER_LABELS = DIGITS.y[450:750].numpy()
ROWS = DIGITS.x.numpy()


def digits_model(**params: Any) -> NodeClassifier:
    return NodeClassifier(DIGITS, **{"width": 200, **params})


@pytest.fixture(scope="module")
def fitted() -> NodeClassifier:
    return digits_model().fit(NODES, LABELS)


@parametrize_with_checks([NodeClassifier(width=64)])
def test_every_check_of_sklearn_applies(estimator: NodeClassifier, check: Any) -> None:
    check(estimator)


def test_cross_validation_learns_from_training_folds_only() -> None:
    shuffled = np.random.default_rng(0).permutation(LABELS)
    assert cross_val_score(digits_model(), NODES, LABELS, cv=3).mean() > 0.85
    assert cross_val_score(digits_model(), NODES, shuffled, cv=3).mean() < 0.2


def test_grid_search() -> None:
    search = GridSearchCV(digits_model(), {"strength": [1e-3, 0.1, 1e3]}, cv=3).fit(NODES, LABELS)
    assert search.best_params_["strength"] < 1e3
    assert search.best_estimator_.data is DIGITS
    assert search.best_estimator_.classifier_.strength == search.best_params_["strength"]
    assert search.score(OTHERS, OTHER_LABELS) > 0.85


def test_pipeline(fitted: NodeClassifier) -> None:
    pipe = make_pipeline(FunctionTransformer(), digits_model()).fit(NODES[:, None], LABELS)
    assert pipe.predict_proba(OTHERS[:, None]).tobytes() == fitted.predict_proba(OTHERS).tobytes()
    assert pipe.score(OTHERS[:, None], OTHER_LABELS) == fitted.score(OTHERS, OTHER_LABELS)
    scores = cross_val_score(pipe, NODES[:, None], LABELS, cv=3)
    np.testing.assert_array_equal(scores, cross_val_score(digits_model(), NODES, LABELS, cv=3))


def test_answers_as_hpn_classifier_does(fitted: NodeClassifier) -> None:
    plain = HPNClassifier(width=200).fit(DIGITS, NODES, LABELS)
    assert fitted.predict_proba(OTHERS).tobytes() == plain.predict_proba(DIGITS, OTHERS).tobytes()
    np.testing.assert_array_equal(fitted.predict(OTHERS), plain.predict(DIGITS, OTHERS))
    assert fitted.score(OTHERS, OTHER_LABELS) == plain.score(DIGITS, OTHERS, OTHER_LABELS) > 0.85
    np.testing.assert_array_equal(fitted.classes_, np.arange(10))
    assert fitted.n_features_in_ == 1
    assert fitted.n_samples_seen_ == 450
    assert is_classifier(fitted)


def test_clone_shares_the_graph_and_is_not_fitted(fitted: NodeClassifier) -> None:
    copied = clone(fitted)
    assert copied.data is fitted.data is DIGITS
    assert copied.get_params() == fitted.get_params()
    assert not hasattr(copied, "classifier_")
    inside = clone(make_pipeline(FunctionTransformer(), fitted))
    assert inside[-1].data is DIGITS


def test_clone_keeps_metadata_requests() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = digits_model().set_partial_fit_request(classes=True)
        assert clone(model).get_metadata_routing().partial_fit.requests == {"classes": True}


def test_set_params() -> None:
    model = digits_model().set_params(strength=0.5, random_state=3).fit(NODES, LABELS)
    assert (model.classifier_.strength, model.classifier_.random_state) == (0.5, 3)
    with pytest.raises(ConfigError, match="call fit to start over"):
        model.set_params(strength=0.1).partial_fit(OTHERS, OTHER_LABELS)
    assert model.fit(NODES, LABELS).classifier_.strength == 0.1


def test_set_params_exchanges_the_graph() -> None:
    part = DIGITS.x[:450]
    model = NodeClassifier(Plain(part), width=100).fit(NODES, LABELS)
    with pytest.raises(DataError, match="numbered from 0 to 449"):
        model.predict(OTHERS)
    assert model.set_params(data=Plain(DIGITS.x)).score(OTHERS, OTHER_LABELS) > 0.8


@pytest.mark.parametrize("kind", [list, np.array, "column", "tensor"])
def test_nodes_in_any_form(fitted: NodeClassifier, kind: Any) -> None:
    make = {"column": lambda nodes: nodes.reshape(-1, 1), "tensor": torch.from_numpy}.get(kind, kind)
    model = digits_model().fit(make(NODES), LABELS)
    assert model.n_features_in_ == 1
    expected = fitted.predict_proba(OTHERS).tobytes()
    for ask in (make(OTHERS), OTHERS, OTHERS[:, None]):
        assert model.predict_proba(ask).tobytes() == expected


@pytest.mark.parametrize("names", [np.array([*"zyxwvutsrq"]), np.arange(10.0, 20.0), np.array([False, True] * 5)])
def test_labels_of_any_kind(names: np.ndarray) -> None:
    model = digits_model().fit(NODES, names[LABELS])
    assert model.classes_.tolist() == np.unique(names).tolist()
    assert model.predict(OTHERS).dtype.kind == np.unique(names.tolist()).dtype.kind
    assert model.score(OTHERS, names[OTHER_LABELS]) > 0.8


def test_partial_fit_adds_up(fitted: NodeClassifier) -> None:
    model = digits_model()
    for part in np.array_split(NODES, 4):
        model.partial_fit(part, LABELS[part])
    assert model.predict_proba(OTHERS).tobytes() == fitted.predict_proba(OTHERS).tobytes()
    assert model.n_samples_seen_ == 450
    assert model.fit(NODES[:30], LABELS[:30]).n_samples_seen_ == 30


def test_announced_classes_have_probability_zero_until_they_are_learned() -> None:
    early, late = NODES[LABELS < 3], NODES[LABELS == 7]
    free = digits_model().partial_fit(early, LABELS[early])
    announced = digits_model().partial_fit(early, LABELS[early], classes=range(10))
    assert announced.classes_.tolist() == list(range(10))
    probabilities = announced.predict_proba(OTHERS)
    np.testing.assert_array_equal(probabilities[:, :3], free.predict_proba(OTHERS))
    assert not probabilities[:, 3:].any()
    for model in (free, announced):
        model.partial_fit(late, LABELS[late])
    assert free.classes_.tolist() == [0, 1, 2, 7]
    np.testing.assert_array_equal(free.predict(OTHERS), announced.predict(OTHERS))


def test_a_failed_fit_changes_nothing() -> None:
    model = digits_model().fit(NODES, LABELS)
    before = model.predict_proba(OTHERS).tobytes()
    with pytest.raises(DataError):
        model.partial_fit([9999], [11])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.partial_fit(OTHERS, OTHER_LABELS[1:])
    with pytest.raises(ValueError, match="Unknown label type"):
        model.partial_fit(OTHERS, OTHER_LABELS + 0.5)
    assert model.classes_.tolist() == list(range(10))
    assert model.n_samples_seen_ == 450
    assert model.predict_proba(OTHERS).tobytes() == before


def test_nodes_that_cannot_be(fitted: NodeClassifier) -> None:
    with pytest.raises(DataError, match="more than once"):
        digits_model().fit([3, 3], [0, 1])
    with pytest.raises(DataError, match="one dimension"):
        digits_model().fit([[0, 1], [2, 3]], [0, 1])
    with pytest.raises(ValueError, match="expecting 1 feature"):
        fitted.predict([[0, 1], [2, 3]])
    with pytest.raises(DataError, match="whole numbers"):
        fitted.predict([0.5])


def test_rows_without_a_graph() -> None:
    model = NodeClassifier(width=200).fit(ROWS[:450], LABELS)
    assert model.n_features_in_ == 64
    assert model.score(ROWS[OTHERS], OTHER_LABELS) > 0.85
    nodes = NodeClassifier(Plain(DIGITS.x), width=200).fit(NODES, LABELS)
    np.testing.assert_array_equal(nodes.predict_proba(OTHERS), model.predict_proba(ROWS[OTHERS]))


def test_sparse_rows_answer_as_dense_ones() -> None:
    dense = NodeClassifier(width=200).fit(ROWS[:450], LABELS)
    for make in (sp.csr_matrix, sp.csc_array):
        sparse = NodeClassifier(width=200).fit(make(ROWS[:450]), LABELS)
        np.testing.assert_allclose(
            sparse.predict_proba(make(ROWS[OTHERS])), dense.predict_proba(ROWS[OTHERS]), atol=1e-6
        )


def test_query_rows_are_not_taken_for_learned_rows() -> None:
    model = NodeClassifier(width=200).fit(ROWS[:450], LABELS)
    together = model.predict_proba(ROWS[OTHERS])
    np.testing.assert_array_equal(model.predict_proba(ROWS[OTHERS][::-1])[::-1], together)
    apart = [model.predict_proba(part) for part in np.array_split(ROWS[OTHERS], 7)]
    np.testing.assert_array_equal(np.concatenate(apart), together)


def test_rows_in_several_fits() -> None:
    model = NodeClassifier(width=200)
    for part in np.array_split(NODES, 9):
        model.partial_fit(ROWS[part], LABELS[part])
    assert sum(model.classifier_.counts_.values()) == model.n_samples_seen_ == 450
    assert model.score(ROWS[OTHERS], OTHER_LABELS) > 0.85


class Plain:
    """Features and no edges."""

    def __init__(self, x: Any) -> None:
        self.x = x
