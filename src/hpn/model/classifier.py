"""HPNClassifier: scikit-learn's conventions around a prototype network for users' own graphs."""

from __future__ import annotations

import sklearn.exceptions
from sklearn.base import BaseEstimator, ClassifierMixin

from hpn.errors import NotFittedError
from hpn.model.core import ClassifierCore


class ClassifierNotFittedError(NotFittedError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """A method that needs a fit was called before the first; both hpn's and scikit-learn's ``NotFittedError``."""


class HPNClassifier(ClassifierCore, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Hierarchical prototype network for a graph that keeps growing.

    Learns labelled nodes of a graph, in one fit or in any number of fits, and predicts the classes of others.
    Fits add up: without a task, learning the same labelled nodes of the same graph in one call or in a
    thousand, in any order, gives the same model, bit for bit. What counts is the graph at the time of a
    fit, because it determines the neighbourhood of each learned node.

    The model keeps sums over the learned nodes, and hashes of their ids with their classes. It keeps no
    features and no edges. Nodes are recognised in other graphs by their ids (of an :class:`hpn.Graph`) or by
    ``data.n_id`` if given; otherwise their numbers must be stable, as in a graph that only grows.

    A graph is an :class:`hpn.Graph` from :func:`hpn.load_graph`, a ``torch_geometric.data.Data``, or any
    object with ``x`` (dense or sparse: PyTorch, NumPy, SciPy) and ``edge_index`` or ``adj_t``. Edges are
    undirected and count once; self-loops are ignored. Labels of an :class:`hpn.Graph` are the names of its
    classes. Its features are known by name, so that another graph may have them in another order.

    With a ``task``, predictions are made among the classes of that task. A task that was learned in one fit
    has an extractor of its own. A task that was learned in several has the pooled extractors as they were
    after the last of them. Both are frozen: the same input gives the same output, bit for bit, whatever is
    learned later (:meth:`is_certified`). When the graph around a node grows, its input changes, and the
    prediction may change.

    Args:
        width: Random features that each neighbourhood is encoded with. More are slightly more accurate; time
            and memory grow with the square. By default 2,000 if the graph of the first fit has at most
            100,000 nodes, 1,000 up to 300,000 and 500 beyond; later fits keep it.
        strength: Regularisation. Larger values trust single labels less.
        balance: Between 0 (every node weighs the same) and 1 (every class weighs the same).
        threshold: Distance within which evidence belongs to a prototype. Smaller values give more prototypes
            and finer explanations; there can be at most ``2π / arccos(1 - threshold)`` of them.
        random_state: Seed of the random features: a whole number, or ``None`` for a new one in each first fit.

    Attributes:
        classes_: Every class so far, sorted.
        n_features_in_: Features of a node.
        feature_names_in_: Their names, if the first graph had any.
        column_kinds_: How the columns of its table were read, if the first graph came from a table.
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

    not_fitted_error = ClassifierNotFittedError
