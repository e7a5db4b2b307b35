"""The estimator for people's own graphs: scikit-learn conventions around :class:`hpn.learners.HPN`.

Nothing is announced in advance: every fit may bring new nodes, classes and tasks.
"""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from torch import Tensor

from hpn import errors
from hpn.errors import CheckpointError, ConfigError
from hpn.experiment.checkpoint import load_checkpoint, save_checkpoint
from hpn.learners.hpn_episodes import EpisodicHPN, Name
from hpn.learners.hpn_params import HPNParams
from hpn.nn.device import CPU, choose_device
from hpn.params import declared_params, resolve_params
from hpn.streams import GraphView, Query
from hpn.streams.given import (
    GraphLike,
    Numbers,
    read_graph,
    read_labelled,
    read_labels,
    read_nodes,
    read_validation,
)
from hpn.theory.memory import LEVELS


class NotFittedError(errors.NotFittedError, SklearnNotFittedError):  # type: ignore[misc]
    """The classifier was asked before its first fit; both hpn's and scikit-learn's error of that name."""


class Match(NamedTuple):
    """A prototype that stands for a part of a node.

    Args:
        node: The node, as it was asked about.
        level: ``atomic``, ``node`` or ``class``.
        slot: What an atomic prototype stands for: ``node``, ``hop 2`` or ``neighbor 3``.
        extractor: The extractor that saw it; node and structure extractors are numbered separately.
        prototype: Position among the prototypes of the level.
        cosine: Similarity of embedding and prototype.
        founded_by: Task of the fit that founded the prototype, one of ``tasks_``.
    """

    node: int
    level: str
    slot: str | None
    extractor: int | None
    prototype: int
    cosine: float
    founded_by: Name


class HPNClassifier(HPNParams, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Hierarchical prototype network for a graph that keeps growing.

    The first fit decides. With a ``task``, every class belongs to one named task, and predictions are made
    among the classes of a task; without, among all classes. A task or class may be fitted again at any time,
    which adds to what is known of it. A fit that fails or is interrupted changes nothing.

    Kept are extractors, prototypes and layers: no node, edge or label given to a fit. Unless ``retention`` is
    ``paper``, predictions with the task given stay the same, bit for bit, until that task is fitted again.
    Every fit takes its own of the ``num_extractors`` extractors. Choose more of them than there will be fits:
    one that comes too late has to do with those of earlier fits and learns little.

    A graph is anything with ``x`` (dense or sparse) and ``edge_index``: ``torch_geometric.data.Data``, say.
    Edges count once and in both directions, self-loops not at all. Predictions may be about any graph with
    the same features.

    Args:
        device: Where it computes: ``cpu``, ``cuda``, ``cuda:N``, ``mps``, or ``auto`` for an accelerator if
            there is one. It is no hyper-parameter: it may change between fits, and is not saved.
        **params: The hyper-parameters of :class:`hpn.learners.HPN`, all of them optional.

    Attributes:
        classes_: Every class so far, sorted.
        tasks_: Names of the tasks in order of arrival; numbers of the fits if they have no names.
        n_features_in_: Features a node has.
        prototype_counts_: Prototypes of each level.
        prototype_bounds_: The most prototypes of each level there can ever be (Theorem 1).
        learner_: The learner inside, whose tasks are the fits.

    Example:
        >>> from hpn.datasets import load_dataset
        >>> digits = load_dataset("digits")
        >>> early, late = (digits.y < 3).nonzero().flatten(), (digits.y == 3).nonzero().flatten()
        >>> model = HPNClassifier().partial_fit(digits, early[:300], digits.y[early[:300]])
        >>> model = model.partial_fit(digits, late[:100], digits.y[late[:100]])
        >>> model.classes_.tolist(), model.predict(digits, late[100:105]).tolist()
        ([0, 1, 2, 3], [3, 3, 3, 3, 3])
        >>> model.explain(digits, late[100:101])[0].founded_by
        1
    """

    learner_: EpisodicHPN

    def __init__(self, *, device: str = "auto", **params: Any) -> None:
        super().__init__(**params)
        self.device = device

    def fit(
        self,
        data: GraphLike,
        nodes: Numbers,
        y: Numbers,
        task: Name | None = None,
        validation: tuple[Numbers, Numbers] | None = None,
    ) -> HPNClassifier:
        """Forget everything, then learn as :meth:`partial_fit` does."""
        self.learner_ = self._learned(None, data, nodes, y, task, validation)
        return self

    def partial_fit(
        self,
        data: GraphLike,
        nodes: Numbers,
        y: Numbers,
        task: Name | None = None,
        validation: tuple[Numbers, Numbers] | None = None,
    ) -> HPNClassifier:
        """Learn from some nodes of a graph, in addition to what is known.

        Args:
            data: The graph as it is now; unlabelled nodes and their edges are used as well.
            nodes: Nodes to learn from: numbers, or one Boolean for each node of the graph.
            y: The class of each of ``nodes``, from 0 up.
            task: Name of the task they belong to.
            validation: Further nodes and their classes, on which to choose how the extractors see.

        Raises:
            ConfigError: If a hyper-parameter is out of range, or the task cannot be what it is said to be.
            DataError: If the graph, nodes or labels are not as described here.
        """
        self.learner_ = self._learned(getattr(self, "learner_", None), data, nodes, y, task, validation)
        return self

    def predict(self, data: GraphLike, nodes: Numbers, task: Name | None = None) -> np.ndarray:
        """The likeliest class of each node ``[n]``; see :meth:`predict_proba`."""
        probabilities = self.predict_proba(data, nodes, task)
        classes = np.array(self._fitted().known_classes(task), dtype=np.int64)
        predicted: np.ndarray = classes[probabilities.argmax(axis=1)]
        return predicted

    def predict_proba(self, data: GraphLike, nodes: Numbers, task: Name | None = None) -> np.ndarray:
        """Probability of each class for each node.

        Args:
            data: A graph, the one fitted on or any other.
            nodes: Nodes asked about: numbers, or one Boolean for each node of the graph.
            task: The task they belong to. If left out, each fit is heard as far as a node is familiar to it.

        Shapes:
            - result: ``[n, num_classes]``, rows sum to 1; columns follow ``classes_`` or, with a task, its
              classes in sorted order
        """
        learner = self._fitted()
        classes, episodes = learner.known_classes(task), learner.episodes(task)
        graph, rows = self._read(data, nodes)
        query = Query(graph, rows, classes, task=None if task is None else episodes[0])
        return learner.predict_scores(query).double().softmax(dim=1).numpy()

    def score(self, data: GraphLike, nodes: Numbers, y: Numbers, task: Name | None = None) -> float:
        """Share of ``nodes`` whose predicted class is ``y``."""
        predicted = self.predict(data, nodes, task)
        return float((predicted == read_labels(y, len(predicted)).numpy()).mean())

    def transform(self, data: GraphLike, nodes: Numbers, task: Name | None = None) -> np.ndarray:
        """Matched prototypes of each node side by side: atomic ones slot by slot, node level, class level.

        Each node is seen as by the fit that finds it most familiar, among those of ``task`` if that is given.

        Shapes:
            - result: ``[n, (num_slots + num_levels - 1) * dim]``
        """
        learner = self._fitted()
        graph, rows = self._read(data, nodes)
        result = torch.empty(len(rows), learner.network_.head.in_features, device=CPU)
        for _, mine, passed in learner.passes(graph, rows, task):
            result[mine.cpu()] = passed.representation.cpu()
        return result.numpy()

    def explain(self, data: GraphLike, nodes: Numbers, task: Name | None = None) -> list[Match]:
        """The prototypes that :meth:`transform` puts side by side, node by node, and where they come from."""
        learner = self._fitted()
        graph, rows = self._read(data, nodes)
        matches: list[list[Match]] = [[] for _ in range(len(rows))]
        for episode, mine, passed in learner.passes(graph, rows, task):
            for name, level, book in zip(LEVELS, passed.levels, learner.network_.books, strict=False):
                slots = learner.atomic_slots(episode) if name == "atomic" else [(None, None)]
                for entry, prototype in enumerate(level.index.tolist()):
                    at, slot = int(mine[entry // len(slots)]), slots[entry % len(slots)]
                    founder = learner.names_[int(book.founders[prototype])]
                    cosine = float(level.cosine[entry])
                    matches[at].append(Match(int(rows[at]), name, *slot, prototype, cosine, founder))
        return [match for found in matches for match in found]

    def is_certified(self, task: Name) -> bool:
        """Whether everything that predictions for ``task`` depend on is as its fits left it."""
        learner = self._fitted()
        return all(learner.is_certified(episode) for episode in learner.episodes(task))

    def save(self, path: Path | str) -> None:
        """Write the classifier to a folder; what was saved there before stays until the new one is complete.

        Raises:
            CheckpointError: If the folder cannot be written.
        """
        learner, folder = self._fitted(), Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            save_checkpoint(folder, {"classifier": learner.get_params(), "learner": learner.state_dict()})
        except OSError as error:
            raise CheckpointError(f"cannot write {folder} ({error.strerror}); choose another") from error

    @classmethod
    def load(cls, path: Path | str, *, device: str = "auto") -> HPNClassifier:
        """Read what :meth:`save` wrote, on this machine or another.

        Args:
            path: The folder.
            device: Where it computes from now on, wherever it did before.

        Raises:
            CheckpointError: If there is nothing of the kind, or it is damaged or of a newer version.
            ConfigError: If there is no such device.
        """
        folder, place = Path(path), choose_device(device)
        try:
            saved = load_checkpoint(folder)
        except CheckpointError as error:
            raise CheckpointError(f"{str(error).partition(';')[0]}; save the classifier again") from error
        if saved is None or "classifier" not in saved:
            raise CheckpointError(f"{folder} has no saved classifier; give the folder that save() was given")
        try:
            model = cls(device=device, **saved["classifier"])
            learner = EpisodicHPN(**saved["classifier"])
            learner.to(place).load_state_dict(saved["learner"])
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise CheckpointError(f"{folder} is damaged ({error!r}); save the classifier again") from error
        model.learner_ = learner
        return model

    @property
    def classes_(self) -> np.ndarray:
        """Every class so far, sorted."""
        return np.array(self._fitted().known_classes(None), dtype=np.int64)

    @property
    def tasks_(self) -> list[Name]:
        """Names of the tasks in order of arrival; numbers of the fits if they have no names."""
        return list(dict.fromkeys(self._fitted().names_))

    @property
    def n_features_in_(self) -> int:
        """Features a node has."""
        return self._fitted().num_features_

    @property
    def prototype_counts_(self) -> dict[str, int]:
        """Prototypes of each level."""
        return self._fitted().prototype_counts

    @property
    def prototype_bounds_(self) -> dict[str, int]:
        """The most prototypes of each level there can ever be."""
        return self._fitted().prototype_bounds

    def _fitted(self) -> EpisodicHPN:
        if not hasattr(self, "learner_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call partial_fit first")
        return self.learner_

    def _read(self, data: GraphLike, nodes: Numbers) -> tuple[GraphView, Tensor]:
        graph = read_graph(data, self._fitted().num_features_)
        return graph, read_nodes(nodes, graph.num_nodes)

    def _learned(
        self,
        before: EpisodicHPN | None,
        data: GraphLike,
        nodes: Numbers,
        y: Numbers,
        task: Name | None,
        validation: tuple[Numbers, Numbers] | None,
    ) -> EpisodicHPN:
        """A learner that knows what ``before`` knows and one episode more; ``before`` is left alone."""
        given = self.get_params()
        place = choose_device(given.pop("device"))
        params = resolve_params(HPNParams, given, owner=type(self).__name__)
        learner = EpisodicHPN(**params) if before is None else copy.deepcopy(before)
        changed = [key for key, value in learner.get_params().items() if params[key] != value]
        if changed:
            raise ConfigError(
                f"{changed[0]} was changed after the first fit; set it back, or call fit to start over"
            )
        graph = read_graph(data, getattr(learner, "num_features_", None))
        train = read_labelled(nodes, y, graph.num_nodes)
        learner.to(place)
        return learner.fit_episode(task, graph, train, read_validation(validation, graph.num_nodes, train))


# scikit-learn reads hyper-parameters off the signature and does not follow ``**params``.
HPNClassifier.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *declared_params(HPNClassifier).values(),
    ]
)
