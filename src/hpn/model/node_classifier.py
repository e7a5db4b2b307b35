"""NodeClassifier: an estimator for scikit-learn's tools, whose samples are the nodes of one graph."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from hpn.model.classifier import HPNClassifier
from hpn.model.inputs import Array, GraphLike
from hpn.params import NamedArguments


class NodeClassifier(NamedArguments, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Hierarchical prototype network whose samples are the nodes of one graph.

    A thin adapter around :class:`hpn.HPNClassifier` for tools that expect ``fit(X, y)``, such as
    ``cross_val_score``, ``GridSearchCV`` and ``Pipeline`` of scikit-learn. The graph is a parameter, and
    samples are node numbers, ``[n]`` or ``[n, 1]``. ``clone`` shares the graph and does not copy it.
    Cross-validation uses the features and edges of all nodes, but labels of the training nodes only. A node
    may occur once per fit, so bootstrap samples cannot be used.

    Without a graph, samples are rows of features ``[n, num_features]``, dense or sparse: nodes without edges.
    Then this is an ordinary classifier. Every row is a new node, and evidence is weighted by rows of the
    latest fit, so that several fits need not equal one.

    Args:
        data: The graph; see :class:`hpn.HPNClassifier`. ``set_params(data=...)`` replaces it, for example
            when it has grown. ``None``: samples are rows of features.
        width: Random features that each neighbourhood is encoded with; by default chosen by the size of the
            graph, as in :class:`hpn.HPNClassifier`.
        strength: Regularisation. Larger values trust single labels less.
        balance: Between 0 (every node weighs the same) and 1 (every class weighs the same).
        threshold: Distance within which evidence belongs to a prototype.
        random_state: Seed of the random features: a whole number.

    Attributes:
        classes_: Every class so far, sorted, and those announced to :meth:`partial_fit`.
        n_features_in_: Columns of the samples: 1 with a graph.
        n_samples_seen_: Nodes or rows learned so far.
        classifier_: The fitted :class:`hpn.HPNClassifier`, which has tasks, explanations and ``save``.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> from sklearn.model_selection import cross_val_score
        >>> digits = load_dataset("digits")
        >>> nodes = np.arange(600)
        >>> scores = cross_val_score(NodeClassifier(digits, width=200), nodes, digits.y[:600].numpy(), cv=3)
        >>> bool(scores.mean() > 0.85)
        True
    """

    classes_: np.ndarray
    n_features_in_: int
    n_samples_seen_: int
    classifier_: HPNClassifier

    # Nodes are the samples themselves, not metadata to be routed with them.
    __metadata_request__fit: ClassVar = {"nodes": UNUSED}
    __metadata_request__partial_fit: ClassVar = {"nodes": UNUSED}
    __metadata_request__predict: ClassVar = {"nodes": UNUSED}
    __metadata_request__predict_proba: ClassVar = {"nodes": UNUSED}

    def __init__(
        self,
        data: GraphLike | None = None,
        *,
        width: int | None = None,
        strength: float = 0.1,
        balance: float = 0.75,
        threshold: float = 0.003,
        random_state: int = 0,
    ) -> None:
        self.data = data
        self.width = width
        self.strength = strength
        self.balance = balance
        self.threshold = threshold
        self.random_state = random_state

    def fit(self, nodes: Array, y: Array) -> NodeClassifier:
        """Forget everything, then learn the classes ``y`` of ``nodes``.

        Args:
            nodes: Node numbers ``[n]`` or ``[n, 1]``; without a graph, feature rows ``[n, num_features]``.
            y: Their classes: text, whole numbers or Booleans.

        Raises:
            ValueError: If nodes and classes are not of this form.
            DataError: If the graph, nodes or labels cannot be used.
            ConfigError: If a parameter is out of range.
        """
        return self._learn(nodes, y, None, fresh=True)

    def partial_fit(self, nodes: Array, y: Array, classes: Array | None = None) -> NodeClassifier:
        """Learn in addition to what is known; see :meth:`fit`.

        Classes need not be announced. Announced ones have a column in :meth:`predict_proba` from the start.

        Raises:
            ConfigError: If a parameter was changed after the first fit.
        """
        return self._learn(nodes, y, classes, fresh=not hasattr(self, "classifier_"))

    def predict(self, nodes: Array) -> np.ndarray:
        """The most probable class of each node ``[n]``."""
        probabilities = self.predict_proba(nodes)
        predicted: np.ndarray = self.classes_[probabilities.argmax(axis=1)]
        return predicted

    def predict_proba(self, nodes: Array) -> np.ndarray:
        """Probability of each class for each node ``[n, num_classes]``, in the order of ``classes_``.

        Classes that were announced and not yet learned have probability 0.
        """
        check_is_fitted(self, "classifier_")
        rows = self._check(nodes, reset=False)
        # Negative ids: a query row must not be taken for one that was learned.
        found = self.classifier_.predict_proba(*self._find(rows, first_id=-rows.shape[0]))
        probabilities = np.zeros((len(found), len(self.classes_)))
        probabilities[:, np.searchsorted(self.classes_, self.classifier_.classes_)] = found
        return probabilities

    def _learn(self, nodes: Array, y: Array, classes: Array | None, *, fresh: bool) -> NodeClassifier:
        rows, y = self._check(nodes, y, reset=fresh)
        check_classification_targets(y)
        groups = [y, *([] if fresh else [self.classes_]), *([] if classes is None else [classes])]
        known, seen = unique_labels(*groups), 0 if fresh else self.n_samples_seen_
        params = {name: value for name, value in self.get_params(deep=False).items() if name != "data"}
        classifier = HPNClassifier(**params) if fresh else self.classifier_.set_params(**params)
        classifier.partial_fit(*self._find(rows, first_id=seen), y)
        self.classifier_, self.classes_, self.n_samples_seen_ = classifier, known, seen + len(y)
        return self

    def _check(self, *arrays: Array, reset: bool) -> Any:
        if self.data is None:
            return validate_data(self, *arrays, reset=reset, accept_sparse="csr")
        nodes, *y = arrays
        columns = np.asarray(nodes).reshape(-1, 1) if np.ndim(nodes) == 1 else nodes
        return validate_data(self, columns, *y, reset=reset, dtype=None)

    def _find(self, rows: Any, first_id: int) -> tuple[GraphLike, np.ndarray]:
        """The graph and the nodes; without a graph, a new one of the rows, with ids from ``first_id`` on."""
        if self.data is not None:
            return self.data, rows[:, 0] if rows.shape[1] == 1 else rows
        places = np.arange(rows.shape[0])
        return SimpleNamespace(x=rows, n_id=places + first_id), places

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.data is None
        return tags

    def __sklearn_clone__(self) -> NodeClassifier:
        bare = copy.copy(self)
        bare.data = None
        cloned: NodeClassifier = super(NodeClassifier, bare).__sklearn_clone__()
        cloned.data = self.data
        return cloned
