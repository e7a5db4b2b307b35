"""The estimator for people's own graphs: scikit-learn's conventions around a prototype network.

Nothing is announced in advance: every fit may bring new nodes, classes and tasks.
"""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from torch import Tensor

from hpn import errors
from hpn.errors import ConfigError, DataError
from hpn.learners.hpn.explain import Explanation, explain
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.solved import Evidence, Name, SolvedNetwork
from hpn.model.saved import load_model, save_model
from hpn.params import resolve_params
from hpn.streams import GraphView
from hpn.streams.given import (
    GraphLike,
    default_labels,
    default_nodes,
    read_graph,
    read_labelled,
    read_labels,
    read_nodes,
    read_validation,
)
from hpn.theory.memory import MemoryBound

Array = Any
"""A list, NumPy array, PyTorch tensor or pandas column."""


class NotFittedError(errors.NotFittedError, SklearnNotFittedError):  # type: ignore[misc]
    """The classifier was asked before its first fit; both hpn's and scikit-learn's error of that name."""


class HPNClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Hierarchical prototype network for a graph that keeps growing.

    Learns labelled nodes of a graph, in one fit or in any number of them, and predicts the class of others.
    Fits add up: without a task, learning the same labelled nodes of the same graph in one call or in a
    thousand, in any order, gives the same model, bit for bit. What counts is the graph at the time of a
    fit: it decides what the neighbourhood of a learned node was.

    Kept are sums over the learned nodes, and ids and classes of a fifth of them (or of the validation nodes,
    where these are given); no features and no edges. Nodes are known across graphs by ``data.n_id`` where
    that is given; otherwise their numbers are taken to be stable, as in a graph that only grows.

    A graph is a ``torch_geometric.data.Data``, or anything with ``x`` (dense or sparse: PyTorch, NumPy,
    SciPy) and ``edge_index`` or ``adj_t``. Edges count once and in both directions, self-loops not at all.

    With a ``task``, predictions are made among the classes of that task. A task that was learned in one fit
    has an extractor of its own; one that was learned in several has the pooled extractors as they were
    after the last of them. Both are frozen: the same input is answered with the same bits whatever is
    learned later (:meth:`is_certified`). When the graph around a node grows, its input changes, and so may
    the answer.

    Args:
        width: Random features that each neighbourhood is encoded with. More are slightly more accurate, and
            take time and memory that grow with the square.
        strength: Regularisation. Larger values trust single labels less.
        balance: Between 0 (every node weighs the same) and 1 (every class weighs the same).
        threshold: Distance within which evidence belongs to a prototype. Smaller values give more prototypes
            and finer explanations; there can be at most ``2π / arccos(1 - threshold)`` of them.
        random_state: Draws the random features: a whole number, or ``None`` for another one each time.

    Attributes:
        classes_: Every class so far, sorted.
        n_features_in_: Features of a node.
        tasks_: Names of the tasks so far, in order of arrival.
        counts_: Learned nodes of each class.
        prototype_counts_: Prototypes of each level.
        prototype_bounds_: The most prototypes of each level there can ever be (Theorem 1).

    Example:
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

    network_: SolvedNetwork
    labels_: dict[int, Any]
    n_features_in_: int

    def __init__(
        self,
        *,
        width: int = 2000,
        strength: float = 0.1,
        balance: float = 0.75,
        threshold: float = 0.003,
        random_state: int | None = 0,
    ) -> None:
        self.width = width
        self.strength = strength
        self.balance = balance
        self.threshold = threshold
        self.random_state = random_state

    def fit(
        self,
        data: GraphLike,
        nodes: Array | None = None,
        y: Array | None = None,
        task: Name | None = None,
        validation: tuple[Array, Array] | None = None,
    ) -> HPNClassifier:
        """Forget everything, then learn as :meth:`partial_fit` does."""
        fresh = HPNClassifier(**self.get_params())
        fresh.partial_fit(data, nodes, y, task, validation)
        self.__dict__.update(vars(fresh))
        return self

    def partial_fit(
        self,
        data: GraphLike,
        nodes: Array | None = None,
        y: Array | None = None,
        task: Name | None = None,
        validation: tuple[Array, Array] | None = None,
    ) -> HPNClassifier:
        """Learn from some nodes of a graph, in addition to what is known.

        A fit that fails or is interrupted changes nothing. It costs what its nodes cost; the network is
        solved when it is first asked.

        Args:
            data: The graph as it is now; unlabelled nodes and their edges are used as well.
            nodes: Nodes to learn from: numbers, or one Boolean for each node of the graph. By default those
                of ``data.train_mask``, or all that have a label.
            y: The class of each of ``nodes``: text, whole numbers or Booleans. By default ``data.y``.
            task: Name of the task they belong to, if predictions with the task given are wanted.
            validation: Further nodes and their classes, not learned from, by which evidence is weighed. By
                default those of ``data.val_mask`` if ``nodes`` are not given either; where there are none, a
                fifth of the nodes is held out for that, by a hash of their ids.

        Raises:
            ConfigError: If a parameter is out of range or was changed after the first fit.
            DataError: If the graph, nodes or labels are not as described here.
        """
        settings, seed = self._settings()
        network = getattr(self, "network_", None)
        if network is not None and (network.settings, network.memory.seed) != (settings, seed):
            raise ConfigError(
                "HPNClassifier: a parameter was changed after the first fit; call fit to start over"
            )
        view = self._read_graph(data)
        if (
            nodes is None
            and y is None
            and validation is None
            and (held := default_nodes(data, "val_mask")) is not None
        ):
            validation = held, default_labels(data, held)
        rows = _labelled_nodes(data, y) if nodes is None else read_nodes(nodes, view.num_nodes)
        train = read_labelled(rows, default_labels(data, rows) if y is None else y, view.num_nodes)
        held_out = read_validation(validation, view.num_nodes, train)
        labels = dict(getattr(self, "labels_", {}))
        _check_kind([*labels.values(), *train.y[:1].tolist(), *held_out.y[:1].tolist()])
        for label in np.unique(train.y).tolist():
            labels[_code(label)] = label
        if network is None:
            network = SolvedNetwork(settings, view.num_features, seed)
        learned, unlearned = ((part.nodes.numpy(), _codes(part.y)) for part in (train, held_out))
        network.learn(view, learned, unlearned, None if task is None else _read_name(task))
        self.network_, self.labels_, self.n_features_in_ = network, labels, view.num_features
        return self

    def predict(self, data: GraphLike, nodes: Array | None = None, task: Name | None = None) -> np.ndarray:
        """The likeliest class of each node ``[n]``; see :meth:`predict_proba`."""
        probabilities = self.predict_proba(data, nodes, task)
        predicted: np.ndarray = self.known_classes(task)[probabilities.argmax(axis=1)]
        return predicted

    def predict_proba(
        self, data: GraphLike, nodes: Array | None = None, task: Name | None = None
    ) -> np.ndarray:
        """Probability of each class for each node.

        Args:
            data: A graph, the one fitted on or any other with the same features. Nodes of another graph need
                ``n_id``; without it, a node is taken for the one learned under the same number.
            nodes: Nodes asked about: numbers, or one Boolean for each node of the graph. By default those of
                ``data.test_mask``, or all.
            task: The task they belong to, if it is known.

        Shapes:
            - result: ``[n, num_classes]``, rows sum to 1; columns follow ``classes_`` or, with a task, its
              classes in sorted order
        """
        network, view, rows = self._ask(data, nodes, task)
        evidence = self._find_evidence(network, view, rows, task)
        return np.asarray(softmax(network.combine(evidence), axis=1))

    def score(
        self, data: GraphLike, nodes: Array | None = None, y: Array | None = None, task: Name | None = None
    ) -> float:
        """Share of ``nodes`` whose predicted class is ``y``; by default ``data.test_mask`` and ``data.y``."""
        _, view, _ = self._ask(data, nodes, task)
        rows = default_nodes(data, "test_mask") if nodes is None else read_nodes(nodes, view.num_nodes)
        if rows is None:
            rows = _labelled_nodes(data, y)
        predicted = self.predict(data, rows, task)
        truth = read_labels(default_labels(data, rows) if y is None else y, len(predicted))
        return float((predicted == truth).mean())

    def transform(self, data: GraphLike, nodes: Array | None = None, task: Name | None = None) -> np.ndarray:
        """Matched prototypes of each node, one number per class for every bank and for the upper levels.

        A prototype is a direction in a plane; the number is its coordinate along the evidence, between -1
        and 1.

        Shapes:
            - result: ``[n, (num_banks + 2) * num_classes]``
        """
        network, view, rows = self._ask(data, nodes, task)
        return network.represent(self._find_evidence(network, view, rows, task))

    def explain(
        self, data: GraphLike, nodes: Array | None = None, task: Name | None = None
    ) -> list[Explanation]:
        """Why each node is predicted as it is: evidence by slot, prototypes, and the runner-up."""
        network, view, rows = self._ask(data, nodes, task)
        return explain(network, view, rows, self.labels_.__getitem__, self._known_task(task))

    def merge(self, other: HPNClassifier) -> HPNClassifier:
        """Add what another classifier with the same parameters learned, as if it had been learned here.

        Raises:
            ConfigError: If parameters, features or the kind of labels differ, or both have a task of one
                name.
        """
        mine, theirs = self._fitted(), other._fitted()
        if mine is theirs:
            raise ConfigError("HPNClassifier: merge needs another classifier, not this one")
        if (mine.settings, mine.memory.seed) != (theirs.settings, theirs.memory.seed):
            raise ConfigError("HPNClassifier: merge needs two classifiers with the same parameters")
        if self.n_features_in_ != other.n_features_in_:
            raise ConfigError(
                f"HPNClassifier: merge needs the same features, got {self.n_features_in_} "
                f"and {other.n_features_in_}"
            )
        try:
            _check_kind([*self.labels_.values(), *other.labels_.values()])
        except DataError as error:
            raise ConfigError(str(error)) from None
        if shared := mine.tasks.keys() & theirs.tasks.keys():
            raise ConfigError(f"HPNClassifier: both classifiers have a task {min(map(str, shared))!r}")
        mine.memory.merge(theirs.memory)
        mine.tasks = {**mine.tasks, **copy.deepcopy(theirs.tasks)}
        self.labels_ = {**self.labels_, **other.labels_}
        return self

    def unlearn(self, data: GraphLike, nodes: Array, y: Array | None = None) -> HPNClassifier:
        """Take out nodes as if they had never been learned without a task.

        Tasks that were learned are frozen and stay as they are.

        Args:
            data: The graph as it was when they were learned; in a grown graph they have other neighbours, and
                traces would remain. Where that graph is gone, use :meth:`refresh` with the nodes to keep.
            nodes: The nodes.
            y: The classes they were learned with; by default ``data.y``.

        Raises:
            DataError: If counts or sums show that these nodes were not learned like this.
        """
        network, view, rows = self._ask(data, nodes)
        labels = default_labels(data, torch.from_numpy(rows)) if y is None else y
        train = read_labelled(rows, labels, view.num_nodes)
        network.memory.unlearn(view, (train.nodes.numpy(), _codes(train.y)))
        self._drop_labels()
        return self

    def forget_class(self, label: Any) -> HPNClassifier:
        """Take a class out of the answers.

        Its sum, its count and its remembered nodes are dropped. What remains is its part of the pooled Gram
        matrices (second moments of its encoded nodes, without their labels); to remove that too,
        :meth:`unlearn` its nodes. Tasks that have the class are dropped.
        """
        network, (value,) = self._fitted(), read_labels([label], 1).tolist()
        code = _code(value)
        if code not in self.labels_:
            raise ConfigError(
                f"HPNClassifier: there is no class {label!r}; classes are {_listed(self.classes_)}"
            )
        network.memory.forget_class(code)
        network.tasks = {name: part for name, part in network.tasks.items() if code not in part.classes}
        self._drop_labels()
        return self

    def refresh(
        self,
        data: GraphLike,
        nodes: Array | None = None,
        y: Array | None = None,
        validation: tuple[Array, Array] | None = None,
    ) -> HPNClassifier:
        """Learn all labelled nodes anew in the graph as it is now, in place of what was learned before.

        Equals a new fit without a task, bit for bit; tasks stay as they are.
        """
        fresh = HPNClassifier(**self.get_params()).fit(data, nodes, y, validation=validation)
        fresh.network_.tasks = self._fitted().tasks
        fresh.labels_ = {**self.labels_, **fresh.labels_}
        fresh._drop_labels()
        self.__dict__.update(vars(fresh))
        return self

    def is_certified(self, task: Name) -> bool:
        """Whether predictions with ``task`` given are made of the very numbers its last fit left.

        Then the same input is answered with the same bits. When the graph around a node has grown, its
        input is another one.
        """
        return self._fitted().is_certified(self._known_task(task))  # type: ignore[arg-type]

    def save(self, path: Path | str) -> None:
        """Write the classifier to a folder; what was saved there before stays until the new one is complete.

        Raises:
            CheckpointError: If the folder cannot be written.
        """
        network = self._fitted()
        labels = [[code, label] for code, label in sorted(self.labels_.items())]
        s = network.settings
        params = {
            "width": s.width,
            "strength": s.strength,
            "balance": s.balance,
            "threshold": s.threshold_atomic,
        }
        params["random_state"] = network.memory.seed
        content = {"params": params, "num_features": self.n_features_in_, "labels": labels}
        save_model(Path(path), {**content, "network": network.state()})

    @classmethod
    def load(cls, path: Path | str) -> HPNClassifier:
        """Read what :meth:`save` wrote, on this machine or another. Nothing is unpickled.

        Raises:
            CheckpointError: If there is nothing of the kind, or it is damaged or of a newer version.
        """
        return load_model(Path(path), cls._restore)

    @classmethod
    def _restore(cls, content: dict[str, Any]) -> HPNClassifier:
        model = cls(**content["params"])
        settings, seed = model._settings()
        model.network_ = SolvedNetwork(settings, content["num_features"], seed)
        model.network_.load(content["network"])
        model.labels_ = {int(code): label for code, label in content["labels"]}
        model.n_features_in_ = content["num_features"]
        return model

    @property
    def classes_(self) -> np.ndarray:
        """Every class so far, sorted."""
        counts = self._fitted().memory.counts
        return np.unique(np.array([label for code, label in self.labels_.items() if code in counts]))

    def known_classes(self, task: Name | None = None) -> np.ndarray:
        """The classes of a task, or all of them, sorted."""
        name = self._known_task(task)
        if name is None:
            return self.classes_
        return np.unique(np.array([self.labels_[code] for code in self.network_.tasks[name].classes]))

    @property
    def tasks_(self) -> list[Name]:
        """Names of the tasks so far, in order of arrival."""
        return list(self._fitted().tasks)

    @property
    def counts_(self) -> dict[Any, int]:
        """Learned nodes of each class."""
        counts = self._fitted().memory.counts
        return {label: counts[_code(label)] for label in self.classes_.tolist()}

    @property
    def prototype_counts_(self) -> dict[str, int]:
        """Prototypes of each level."""
        return self._fitted().prototype_counts

    @property
    def prototype_bounds_(self) -> dict[str, int]:
        """The most prototypes of each level there can ever be."""
        planes = self._fitted().planes.values()
        first, second, third = (plane.threshold for plane in planes)
        return MemoryBound(2, (first, second, third), 1, in_one_set=True).prototypes

    def _settings(self) -> tuple[SolvedSettings, int]:
        from hpn.learners.hpn.presets import HPN

        names = {
            "width": "width",
            "strength": "strength",
            "balance": "balance",
            "threshold": "threshold_atomic",
        }
        given = {name: getattr(self, key) for key, name in names.items()}
        for key in names:
            if getattr(self, key) is None:
                raise ConfigError(f"HPNClassifier: {key} = None: expected a number")
        try:
            seed = self._seed() if self.random_state is None else self.random_state
            checked = resolve_params(HPN, {**given, "seed": seed}, owner="HPNClassifier")
        except ConfigError as error:
            text = str(error).replace("threshold_atomic", "threshold").replace(": seed", ": random_state")
            raise ConfigError(text) from None
        return SolvedSettings(**{name: checked[name] for name in given}), checked["seed"]

    def _seed(self) -> int:
        """A seed of its own for every first fit."""
        if hasattr(self, "network_"):
            return self.network_.memory.seed
        return int(np.random.default_rng().integers(2**31))

    def _fitted(self) -> SolvedNetwork:
        if not hasattr(self, "network_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call fit or partial_fit first"
            )
        return self.network_

    def _read_graph(self, data: GraphLike) -> GraphView:
        return read_graph(data, getattr(self, "n_features_in_", None))

    def _ask(
        self, data: GraphLike, nodes: Array | None, task: Name | None = None
    ) -> tuple[SolvedNetwork, GraphView, np.ndarray]:
        network, view = self._fitted(), self._read_graph(data)
        if task is None and not network.memory.counts:
            raise NotFittedError(f"this {type(self).__name__} has no class left; call partial_fit first")
        if nodes is None:
            nodes = default_nodes(data, "test_mask")
        rows = torch.arange(view.num_nodes) if nodes is None else read_nodes(nodes, view.num_nodes)
        return network, view, rows.numpy()

    def _find_evidence(
        self, network: SolvedNetwork, view: GraphView, rows: np.ndarray, task: Name | None
    ) -> Evidence:
        """Evidence with the classes in sorted order."""
        evidence = network.find_evidence(view, rows, self._known_task(task))
        return evidence.arrange([_code(label) for label in self.known_classes(task).tolist()])

    def _known_task(self, task: Name | None) -> Name | None:
        if task is None:
            return None
        name, known = _read_name(task), self._fitted().tasks
        if name not in known:
            raise ConfigError(f"HPNClassifier: there is no task {task!r}; tasks are {_listed(list(known))}")
        return name

    def _drop_labels(self) -> None:
        known = {
            *self.network_.memory.counts,
            *(c for part in self.network_.tasks.values() for c in part.classes),
        }
        self.labels_ = {code: label for code, label in self.labels_.items() if code in known}


def _labelled_nodes(data: GraphLike, y: Array | None) -> Tensor:
    """By default the nodes of ``train_mask``, or all that have a label."""
    found = default_nodes(data, "train_mask")
    if found is not None:
        return found
    if y is not None:
        raise DataError("HPNClassifier: y was given without nodes; give the nodes that it belongs to")
    labels = getattr(data, "y", None)
    if labels is None:
        raise DataError("HPNClassifier: give nodes and y, or a graph with y (and train_mask)")
    values = np.asarray(labels)
    is_known = values >= 0 if values.dtype.kind in "if" else np.ones(len(values), bool)
    return torch.from_numpy(np.flatnonzero(is_known))


def _code(label: Any) -> int:
    """A number for a label that is the same on every machine and in every order of arrival."""
    kind = "b" if isinstance(label, bool) else "i" if isinstance(label, int) else "s"
    digest = hashlib.blake2b(f"{kind}{label}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2


def _codes(labels: np.ndarray) -> np.ndarray:
    known, place = np.unique(labels, return_inverse=True)
    return np.array([_code(label) for label in known.tolist()], dtype=np.int64)[place]


def _check_kind(labels: list[Any]) -> None:
    kinds = {
        "text" if isinstance(label, str) else "Booleans" if isinstance(label, bool) else "numbers"
        for label in labels
    }
    if len(kinds) > 1:
        raise DataError(f"HPNClassifier: labels are a mix of {' and '.join(sorted(kinds))}; use one kind")


def _read_name(name: Name) -> Name:
    if isinstance(name, (str, int, np.integer)) and not isinstance(name, bool):
        return name if isinstance(name, str) else int(name)
    raise ConfigError(f"HPNClassifier: task = {name!r}: expected a string or a whole number")


def _listed(values: Any) -> str:
    values = values.tolist() if isinstance(values, np.ndarray) else values
    return ", ".join(repr(value) for value in values[:10]) or "none"
