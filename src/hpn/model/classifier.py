"""The estimator for people's own graphs: scikit-learn's conventions around a prototype network."""

from __future__ import annotations

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from hpn import errors
from hpn.model.core import ClassifierCore


class NotFittedError(errors.NotFittedError, SklearnNotFittedError):  # type: ignore[misc]
    """The classifier was asked before its first fit; both hpn's and scikit-learn's error of that name."""


class HPNClassifier(ClassifierCore, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Hierarchical prototype network for a graph that keeps growing.

    Learns labelled nodes of a graph, in one fit or in any number of them, and predicts the class of others.
    Fits add up: without a task, learning the same labelled nodes of the same graph in one call or in a
    thousand, in any order, gives the same model, bit for bit. What counts is the graph at the time of a
    fit: it decides what the neighbourhood of a learned node was.

    Kept are sums over the learned nodes, and hashes of their ids with their classes; no features and no
    edges. Nodes are known across graphs by their ids (of an :class:`hpn.Graph`) or by ``data.n_id`` where
    that is given; otherwise their numbers are taken to be stable, as in a graph that only grows.

    A graph is what :func:`hpn.load_graph` gives, a ``torch_geometric.data.Data``, or anything with ``x``
    (dense or sparse: PyTorch, NumPy, SciPy) and ``edge_index`` or ``adj_t``. Edges count once and in both
    directions, self-loops not at all. Labels of an :class:`hpn.Graph` are the names of its classes, and its
    features are known by name: in another graph they may be in another order.

    With a ``task``, predictions are made among the classes of that task. A task that was learned in one fit
    has an extractor of its own; one that was learned in several has the pooled extractors as they were
    after the last of them. Both are frozen: the same input is answered with the same bits whatever is
    learned later (:meth:`is_certified`). When the graph around a node grows, its input changes, and so may
    the answer.

    Args:
        width: Random features that each neighbourhood is encoded with. More are slightly more accurate, and
            take time and memory that grow with the square. By default 2,000 if the graph of the first fit has
            at most 100,000 nodes, 1,000 up to 300,000 and 500 beyond; later fits keep it.
        strength: Regularisation. Larger values trust single labels less.
        balance: Between 0 (every node weighs the same) and 1 (every class weighs the same).
        threshold: Distance within which evidence belongs to a prototype. Smaller values give more prototypes
            and finer explanations; there can be at most ``2π / arccos(1 - threshold)`` of them.
        random_state: Draws the random features: a whole number, or ``None`` for another one each time.

    Attributes:
        classes_: Every class so far, sorted.
        n_features_in_: Features of a node.
        feature_names_in_: Their names, if the first graph had any.
        column_kinds_: What its features were made of, if the first graph stated that.
        tasks_: Names of the tasks so far, in order of arrival.
        counts_: Learned nodes of each class.
        prototype_counts_: Prototypes of each level.
        prototype_bounds_: The most prototypes of each level there can ever be (Theorem 1).

    Example:
        >>> import numpy as np
        >>> from hpn.datasets import load_dataset
        >>> digits = load_dataset("digits")
        >>> names = np.array(["zero", "one", "two", "three"])
        >>> early, late = (digits.y < 3).nonzero().flatten(), (digits.y == 3).nonzero().flatten()
        >>> model = HPNClassifier(width=500).partial_fit(digits, early[:300], names[digits.y[early[:300]]])
        >>> model = model.partial_fit(digits, late[:100], ["three"] * 100)
        >>> model.classes_.tolist()
        ['one', 'three', 'two', 'zero']
        >>> model.predict(digits, late[100:103]).tolist()
        ['three', 'three', 'three']
    """

    not_fitted_error = NotFittedError
