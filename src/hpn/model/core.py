"""An estimator for users' own graphs: learn, predict, explain, change, save.

Nothing is announced in advance: every fit may bring new nodes, classes and tasks.
"""

from __future__ import annotations

import copy
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from scipy.special import softmax

from hpn.datasets import Graph
from hpn.errors import ConfigError, DataError, NotFittedError
from hpn.learners.hpn.explain import Explanation, explain
from hpn.learners.hpn.presets import Count, Distance, SolvedSettings
from hpn.learners.hpn.solved import Evidence, Name, SolvedNetwork
from hpn.model.changes import Encoding, Forgotten, Update, drop_tasks, find_changes, refuse_missing
from hpn.model.inputs import (
    Array,
    GraphLike,
    arrange_features,
    check_kind,
    code_of,
    codes_of,
    default_labels,
    default_nodes,
    default_train_nodes,
    find_labelled,
    read_graph,
    read_labelled,
    read_labels,
    read_name,
    read_nodes,
    read_validation,
)
from hpn.model.ledger import Ledger
from hpn.model.saved import load_model, save_model
from hpn.params import NamedArguments, resolve_params
from hpn.streams import GraphView
from hpn.streams.views import hash_nodes

if TYPE_CHECKING:
    from typing_extensions import Self

    from hpn.experiment.exploration import Drawing, Exploration


class ClassifierCore(NamedArguments):
    """All of :class:`hpn.HPNClassifier` but scikit-learn's base classes, which take a second to import."""

    not_fitted_error: ClassVar[type[NotFittedError]] = NotFittedError

    network_: SolvedNetwork
    labels_: dict[int, Any]
    ledger_: Ledger
    feature_names_in_: np.ndarray
    column_kinds_: dict[str, Any] | None

    def __init__(
        self,
        *,
        width: Count | None = None,
        strength: Annotated[float, Field(gt=0)] = 0.1,
        balance: Annotated[float, Field(ge=0, le=1)] = 0.75,
        threshold: Distance = 0.003,
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
    ) -> Self:
        """Forget everything, then learn as :meth:`partial_fit` does."""
        return self._become(self._unfitted().partial_fit(data, nodes, y, task, validation))

    def partial_fit(
        self,
        data: GraphLike,
        nodes: Array | None = None,
        y: Array | None = None,
        task: Name | None = None,
        validation: tuple[Array, Array] | None = None,
    ) -> Self:
        """Learn from some nodes of a graph, in addition to what is known.

        A fit that fails or is interrupted changes nothing. Its cost depends on its own nodes only; the
        network is solved at the first prediction.

        Args:
            data: The graph as it is now; unlabelled nodes and their edges are used as well.
            nodes: Nodes to learn from: numbers, or one Boolean per node of the graph. By default those of
                ``data.train_mask``, or all that have a label.
            y: The class of each of ``nodes``: text, whole numbers or Booleans. By default ``data.y``.
            task: Name of the task they belong to, if predictions with the task given are wanted.
            validation: Further nodes and their classes, by which evidence is weighted and which are not
                learned. By default those of ``data.val_mask`` if ``nodes`` are not given either; where there
                are none, a fifth of the nodes is held out, chosen by a hash of their ids.

        Raises:
            ConfigError: If a parameter is out of range or was changed after the first fit.
            DataError: If the graph, nodes or labels are not as described here.
        """
        settings, seed = self._settings()
        network = getattr(self, "network_", None)
        if network is not None and settings.width is None:  # that of the first fit
            settings = replace(settings, width=network.settings.width)
        if network is not None and (network.settings, network.memory.layer.seed) != (settings, seed):
            raise ConfigError("a parameter was changed after the first fit; call fit to start over")
        view = self._read_graph(data)
        settings = settings.fit_to(view.num_nodes)
        if nodes is None and y is None and validation is None and (held := default_nodes(data, "val_mask")) is not None:
            validation = held, None
        train = read_labelled(data, default_train_nodes(data, y) if nodes is None else nodes, y, view.num_nodes)
        held_out = read_validation(data, validation, view.num_nodes, train)
        labels = dict(getattr(self, "labels_", {}))
        check_kind([*labels.values(), *train.y[:1].tolist(), *held_out.y[:1].tolist()])
        labels |= {code_of(label): label for label in np.unique(train.y).tolist()}
        if network is None:
            network = SolvedNetwork(settings, view.num_features, seed)
        learned, unlearned = ((part.nodes, codes_of(part.y)) for part in (train, held_out))
        ledger = getattr(self, "ledger_", Ledger()).add(view, *learned)
        network.learn(view, learned, unlearned, None if task is None else read_name(task))
        if not hasattr(self, "network_"):
            if isinstance(data, Graph) and data.feature_names is not None:
                self.feature_names_in_ = np.array(data.feature_names, dtype=np.object_)
            self.column_kinds_ = getattr(data, "column_kinds", None)
        self.network_, self.labels_, self.ledger_ = network, labels, ledger
        return self

    def predict(self, data: GraphLike, nodes: Array | None = None, task: Name | None = None) -> np.ndarray:
        """The most probable class of each node ``[n]``; see :meth:`predict_proba`."""
        probabilities = self.predict_proba(data, nodes, task)
        predicted: np.ndarray = self.known_classes(task)[probabilities.argmax(axis=1)]
        return predicted

    def predict_proba(self, data: GraphLike, nodes: Array | None = None, task: Name | None = None) -> np.ndarray:
        """Probability of each class for each node.

        Args:
            data: A graph, the one fitted on or any other with the same features. Nodes of another graph need
                ``n_id``; without it, a node is taken for the one learned under the same number.
            nodes: Nodes to predict: numbers, or one Boolean per node of the graph. By default those of
                ``data.test_mask``, or all.
            task: The task they belong to, if it is known.

        Shapes:
            - result: ``[n, num_classes]``, rows sum to 1; columns follow ``classes_`` or, with a task, its
              classes in sorted order
        """
        network, evidence = self._find_evidence(data, nodes, task)
        logits = network.combine(evidence)
        return np.asarray(softmax(logits, axis=1))

    def score(
        self, data: GraphLike, nodes: Array | None = None, y: Array | None = None, task: Name | None = None
    ) -> float:
        """Share of ``nodes`` whose predicted class is ``y``; by default ``data.test_mask`` and ``data.y``."""
        _, view, _ = self._open(data, nodes, task)
        rows = default_nodes(data, "test_mask") if nodes is None else read_nodes(nodes, view.num_nodes)
        if rows is None:
            rows = default_train_nodes(data, y)
        predicted = self.predict(data, rows, task)
        truth = read_labels(default_labels(data, rows) if y is None else y, len(predicted))
        check_kind([*predicted[:1].tolist(), *truth[:1].tolist()])
        return float((predicted == truth).mean())

    def transform(self, data: GraphLike, nodes: Array | None = None, task: Name | None = None) -> np.ndarray:
        """Matched prototypes of each node, one number per class for every bank and for the upper levels.

        A prototype is a direction in a plane; the number is its coordinate along the evidence, between -1
        and 1.

        Shapes:
            - result: ``[n, (num_banks + 2) * num_classes]``
        """
        network, evidence = self._find_evidence(data, nodes, task)
        return network.represent(evidence)

    def explain(self, data: GraphLike, nodes: Array | None = None, task: Name | None = None) -> list[Explanation]:
        """Why each node is predicted as it is: evidence by slot, prototypes, neighbours and features."""
        network, view, rows = self._open(data, nodes, task)
        found = explain(network, view, rows, self.labels_.__getitem__, self._known_task(task))
        near = np.unique([share.of for entry in found for share in entry.neighbors]).astype(np.int64)
        classes = dict(zip(near.tolist(), self.predict(data, near, task), strict=True)) if len(near) else {}
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return [
            replace(
                entry,
                neighbors=tuple(replace(share, label=classes[share.of].item()) for share in entry.neighbors),
                features=tuple(replace(share, of=names[share.of]) for share in entry.features),
            )
            for entry in found
        ]

    def explore(self, data: GraphLike, nodes: Array | None = None, *, drawing: Drawing = "pca") -> Exploration:
        """Nodes of a graph, by default all, with the evidence for each: the data of the node explorer.

        A node belongs to the step in which it was learned first: the steps are the graphs in which nodes were
        learned, the smallest first.

        Args:
            data: The graph.
            nodes: Nodes to show; of more than 20,000, those with the smallest hashes of their ids.
            drawing: ``pca``, or ``tsne`` for up to 3,000 nodes.
        """
        from hpn.model.exploring import explore

        every = np.arange(self._read_graph(data).num_nodes)
        network, view, rows = self._open(data, every if nodes is None else nodes)
        return explore(data, network, view, rows, self.labels_, self.ledger_, drawing)

    def merge(self, other: ClassifierCore) -> Self:
        """Add what another classifier with the same parameters learned, as if it had been learned here.

        There is one exception: in a graph that has no remembered node, the weights of evidence are not found
        again. They stay as in the latest graph of the other classifier until the next fit.

        Raises:
            ConfigError: If parameters, features or the kind of labels differ, or both have a task of the same
                name.
        """
        mine, theirs = self._fitted(), other._fitted()
        if mine is theirs:
            raise ConfigError("merge needs another classifier, not this one")
        if (mine.settings, mine.memory.layer.seed) != (theirs.settings, theirs.memory.layer.seed):
            raise ConfigError(
                "merge needs two classifiers with the same parameters; if the widths were "
                "chosen by the sizes of the graphs, give both the same width"
            )
        if self.n_features_in_ != other.n_features_in_:
            raise ConfigError(f"merge needs the same features, got {self.n_features_in_} and {other.n_features_in_}")
        names = [getattr(model, "feature_names_in_", None) for model in (self, other)]
        if names[0] is not None and names[1] is not None and names[0].tolist() != names[1].tolist():
            raise ConfigError("merge needs the same features, got other names or another order")
        try:
            check_kind([*self.labels_.values(), *other.labels_.values()])
        except DataError as error:
            raise ConfigError(str(error)) from None
        if shared := mine.tasks.keys() & theirs.tasks.keys():
            raise ConfigError(f"both classifiers have a task {min(map(str, shared))!r}")
        draft = self._draft()
        draft.network_.memory = mine.memory.merge(theirs.memory)
        draft.network_.tasks = {**mine.tasks, **theirs.tasks}
        draft.ledger_ = self.ledger_.merge(other.ledger_)
        draft.labels_ = {**self.labels_, **other.labels_}
        return self._become(draft)

    def unlearn(self, data: GraphLike, nodes: Array, y: Array | None = None) -> Self:
        """Remove nodes as if they had never been learned without a task.

        Tasks that were learned are frozen and stay as they are.

        Args:
            data: The graph as it was when they were learned; in a grown graph they have other neighbours, and
                traces would remain. Where that graph is unavailable, use :meth:`refresh` with the nodes to
                keep.
            nodes: The nodes.
            y: The classes they were learned with; by default ``data.y``.

        Raises:
            DataError: If these nodes were not learned like this.
        """
        network, view, rows = self._open(data, nodes)
        train = read_labelled(data, rows, y, view.num_nodes)
        unlearned = train.nodes, codes_of(train.y)
        draft = self._draft()
        draft.ledger_ = self.ledger_.keep(~self.ledger_.locate(view, *unlearned))
        draft.network_.memory = network.memory.unlearn(view, unlearned)
        return self._become(draft._drop_labels())

    def forget_class(self, label: Any) -> Self:
        """Remove a class from the predictions.

        Its sum, its count and its remembered nodes are dropped, and so are tasks that have the class. What
        remains is its part of the pooled Gram matrices: second moments of its encoded nodes, without their
        labels. Until the next fit it also remains in the weights of evidence in graphs without remembered
        nodes. To remove that too, :meth:`unlearn` its nodes.
        """
        network, code = self._fitted(), self._known_code(label)
        draft = self._draft()
        draft.ledger_ = self.ledger_.keep(self.ledger_.rows[:, 1] != code)
        draft.network_.memory = network.memory.forget_class(code)
        draft.network_.tasks = {name: part for name, part in network.tasks.items() if code not in part.classes}
        return self._become(draft._drop_labels())

    def refresh(
        self,
        data: GraphLike,
        nodes: Array | None = None,
        y: Array | None = None,
        validation: tuple[Array, Array] | None = None,
    ) -> Self:
        """Learn all labelled nodes again in the graph as it is now, in place of what was learned before.

        Equals a new fit without a task, bit for bit; tasks stay as they are.
        """
        tasks = self._fitted().tasks
        if tasks:  # their features are known by position
            data = self._arrange(data)
        fresh = self._unfitted().partial_fit(data, nodes, y, validation=validation)
        fresh.network_.tasks = tasks
        fresh.labels_ = {**self.labels_, **fresh.labels_}
        return self._become(fresh._drop_labels())

    def update(self, data: GraphLike, *, refresh: bool = False) -> Update:
        """Learn the labels of a graph that are new or have changed.

        The cost depends on these nodes only. A node whose label changed is forgotten with the old one as
        :meth:`forget` does it, then learned with the new one. Nodes that were learned and have no label now
        stay learned.

        Args:
            data: The graph as it is now, with ``y``; all labelled nodes are learned, whatever masks it has.
            refresh: Learn all labelled nodes of the graph again instead, and nothing else: equals a new fit
                on them, bit for bit. Tasks stay as they are.

        Returns:
            What was done.

        Raises:
            DataError: If labels have changed, and nodes to keep that were learned in another graph are not in
                this one; nothing is changed then.
        """
        rows = find_labelled(data)
        labels = default_labels(data, rows)
        if not hasattr(self, "network_"):
            self.partial_fit(data, rows, labels)
            return Update(new=len(rows), new_classes=tuple(self.classes_.tolist()))
        view = self._read_graph(data)
        found = find_changes(self.ledger_, self.network_.memory, view, (rows, codes_of(labels)))
        if not refresh and len(self.ledger_.rows) and (self.ledger_.find(view) < 0).all():
            raise DataError(
                "the graph has none of the nodes that were learned, so its ids are not those of the model; give "
                "the graph with the same ids, or refresh (--refresh), which learns this graph and nothing else"
            )
        draft, again = self._draft(), Encoding()
        dropped: tuple[Name, ...] = ()
        if refresh:
            start = time.monotonic()
            draft.refresh(data, rows, labels)
            again = Encoding(len(rows), time.monotonic() - start)
        else:
            if found.is_stale.any() or len(found.stale_validation):
                again, dropped = draft._take_out(view, found.is_stale, found.stale_validation)
            if found.is_fresh.any():
                draft.partial_fit(data, rows[found.is_fresh], labels[found.is_fresh])
        new_classes = tuple(np.setdiff1d(draft.classes_, self.classes_).tolist())
        self._become(draft)
        return replace(found.counts, encoded_again=again, new_classes=new_classes, dropped_tasks=dropped)

    def forget(self, data: GraphLike, nodes: Array | None = None, *, label: Any = None) -> Forgotten:
        """Forget nodes or a class exactly, as if they had never been learned.

        If everything was learned in the given graph, the sums of these nodes are subtracted. Otherwise, as
        when the graph has grown since, subtracting would leave traces; then all other learned nodes are
        encoded again in the given graph. Either way the model equals one that was fitted to it and never
        learned them, bit for bit. Tasks that have learned from them are dropped.

        Args:
            data: The graph as it is now.
            nodes: Nodes to forget: numbers, or one Boolean per node of the graph.
            label: A class to forget with all its nodes; give this or ``nodes``.

        Returns:
            What was done.

        Raises:
            DataError: If nodes to forget, or nodes to keep that must be encoded again, are not in the graph;
                nothing is changed then.
        """
        if (nodes is None) == (label is None):
            raise ConfigError("forget takes either nodes or a label, got both or neither")
        memory, view = self._fitted().memory, self._read_graph(data)
        rows, validation = self.ledger_.rows, memory.kept.remembered
        validation = validation[validation[:, 2] == 0]
        if nodes is None:
            code = self._known_code(label)
            is_gone, validation, num_others = rows[:, 1] == code, validation[validation[:, 1] == code], 0
            refuse_missing(self.ledger_.find(view)[is_gone], f"to forget (class {label!r})")
        else:
            hashes = hash_nodes(view, np.unique(read_nodes(nodes, view.num_nodes)))
            is_gone, validation = np.isin(rows[:, 0], hashes), validation[np.isin(validation[:, 0], hashes)]
            num_others = int((~np.isin(hashes, np.concatenate([rows[:, 0], validation[:, 0]]))).sum())
        draft = self._draft()
        again, dropped = draft._take_out(view, is_gone, validation)
        num_gone = len(np.unique(np.concatenate([rows[is_gone, 0], validation[:, 0]])))
        gone = np.setdiff1d(self.classes_, draft.classes_).tolist() if len(self.classes_) else []
        self._become(draft)
        return Forgotten(num_gone, num_others, again, tuple(gone), dropped)

    def _take_out(
        self, view: GraphView, is_gone: np.ndarray, validation: np.ndarray
    ) -> tuple[Encoding, tuple[Name, ...]]:
        """Remove rows of the ledger and everything made of them from a draft, which is discarded on errors."""
        ledger, rows, network = self.ledger_, self.ledger_.rows, self.network_
        nodes, again = ledger.find(view), Encoding()
        if len(validation):
            network.memory = network.memory.drop_validation(view, validation)
        if is_gone.any() and ledger.is_about(view):
            network.memory = network.memory.unlearn(view, (nodes[is_gone], rows[is_gone, 1]))
            self.ledger_ = ledger.keep(~is_gone)
        elif is_gone.any():
            refuse_missing(nodes[~is_gone], "to keep, which were learned in another graph,")
            start, kept = time.monotonic(), (nodes[~is_gone], rows[~is_gone, 1])
            network.memory = network.memory.learn_again(view, kept)
            self.ledger_ = Ledger().add(view, *kept)
            again = Encoding(len(kept[0]), time.monotonic() - start)
        dropped = drop_tasks(network, {*rows[is_gone, 1].tolist(), *validation[:, 1].tolist()})
        self._drop_labels()
        return again, dropped

    def is_certified(self, task: Name) -> bool:
        """Whether predictions with ``task`` given use exactly the numbers that its last fit left.

        Then the same input gives the same output, bit for bit. When the graph around a node has grown, its
        input has changed.
        """
        return self._fitted().is_certified(self._known_task(task))  # type: ignore[arg-type]

    def save(self, path: Path | str) -> None:
        """Write the classifier to a folder; what was saved there before stays until the new one is complete.

        Raises:
            CheckpointError: If the folder cannot be written.
        """
        network, summary = self._fitted(), self.summarize()
        names = getattr(self, "feature_names_in_", None)
        content = {
            "summary": summary,
            "params": summary["parameters"],
            "num_features": self.n_features_in_,
            "feature_names": None if names is None else names.tolist(),
            "column_kinds": self.column_kinds_,
            "labels": [[code, label] for code, label in sorted(self.labels_.items())],
            "ledger": self.ledger_.state(),
            "network": network.state(),
            "solved": network.memory.solved_state(),
        }
        save_model(Path(path), content)

    def summarize(self) -> dict[str, Any]:
        """What was learned, as plain data; ``classes`` has pairs, as classes may be numbers."""
        network, names = self._fitted(), getattr(self, "feature_names_in_", ())
        settings = network.settings
        return {
            "classes": [list(pair) for pair in self.counts_.items()],
            "features": self.n_features_in_,
            "columns": list(dict.fromkeys(name.partition("[")[0] for name in names)),
            "column_kinds": self.column_kinds_,
            "fits": [{**graph._asdict(), "learned": number} for graph, number in self.ledger_.counts()],
            "tasks": self.tasks_,
            "prototypes": self.prototype_counts_,
            "bounds": self.prototype_bounds_,
            "parameters": {
                "width": settings.width,
                "strength": settings.strength,
                "balance": settings.balance,
                "threshold": settings.threshold_atomic,
                "random_state": network.memory.layer.seed,
            },
        }

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what :meth:`save` wrote, on this machine or another. Nothing is unpickled.

        Raises:
            CheckpointError: If there is no saved model, or it is damaged or of another version.
        """
        content = load_model(Path(path))
        model = cls(**content["params"])
        settings, seed = model._settings()
        model.network_ = SolvedNetwork(settings, content["num_features"], seed)
        model.network_.load(content["network"])
        model.network_.memory.load_solved(content["solved"])
        model.labels_ = {int(code): label for code, label in content["labels"]}
        model.ledger_ = Ledger.restore(content["ledger"])
        if content["feature_names"] is not None:
            model.feature_names_in_ = np.array(content["feature_names"], dtype=np.object_)
        model.column_kinds_ = content["column_kinds"]
        return model

    @property
    def n_features_in_(self) -> int:
        """Features of a node."""
        return self._fitted().memory.num_features

    @property
    def classes_(self) -> np.ndarray:
        """Every class so far, sorted."""
        return self.known_classes()

    def known_classes(self, task: Name | None = None) -> np.ndarray:
        """The classes of a task, or all of them, sorted."""
        name, network = self._known_task(task), self._fitted()
        codes = network.memory.counts if name is None else network.tasks[name].classes
        return np.unique(np.array([self.labels_[code] for code in codes]))

    @property
    def tasks_(self) -> list[Name]:
        """Names of the tasks so far, in order of arrival."""
        return list(self._fitted().tasks)

    @property
    def counts_(self) -> dict[Any, int]:
        """Learned nodes of each class."""
        counts = self._fitted().memory.counts
        return {label: counts[code_of(label)] for label in self.classes_.tolist()}

    @property
    def prototype_counts_(self) -> dict[str, int]:
        """Prototypes of each level."""
        return self._fitted().prototype_counts

    @property
    def prototype_bounds_(self) -> dict[str, int]:
        """The most prototypes of each level there can ever be."""
        return {level: plane.size for level, plane in self._fitted().planes.items()}

    def _settings(self) -> tuple[SolvedSettings, int]:
        """The parameters, checked, and the seed."""
        given = {name: getattr(self, name) for name in self.__signature__.parameters}
        width, strength, balance, threshold, seed = resolve_params(ClassifierCore, given, owner="model").values()
        if seed is None:  # drawn by the first fit
            is_fitted = hasattr(self, "network_")
            seed = self.network_.memory.layer.seed if is_fitted else int(np.random.default_rng().integers(2**31))
        return SolvedSettings(width, strength, balance, threshold), seed

    def _fitted(self) -> SolvedNetwork:
        if not hasattr(self, "network_"):
            raise self.not_fitted_error("this model is not fitted yet; call fit or partial_fit first")
        return self.network_

    def _unfitted(self) -> ClassifierCore:
        return ClassifierCore(**{name: getattr(self, name) for name in self.__signature__.parameters})

    def _draft(self) -> Self:
        """A copy to be changed; :meth:`_become` takes the changes over, so that a failure changes nothing."""
        draft = copy.copy(self)
        draft.network_ = copy.copy(self._fitted())
        return draft

    def _become(self, other: ClassifierCore) -> Self:
        if not hasattr(other, "feature_names_in_"):
            self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(vars(other))
        return self

    def _read_graph(self, data: GraphLike) -> GraphView:
        return read_graph(self._arrange(data), self.n_features_in_ if hasattr(self, "network_") else None)

    def _arrange(self, data: GraphLike) -> GraphLike:
        """The graph with its features in the order of the first fit, where both have names."""
        names = getattr(self, "feature_names_in_", None)
        return data if names is None else arrange_features(data, names.tolist())

    def _open(
        self, data: GraphLike, nodes: Array | None, task: Name | None = None
    ) -> tuple[SolvedNetwork, GraphView, np.ndarray]:
        """The network, the graph and the query nodes."""
        network, view = self._fitted(), self._read_graph(data)
        if task is None and not network.memory.counts:
            raise self.not_fitted_error("this model has no class left; learn some labelled nodes first")
        if nodes is None:
            nodes = default_nodes(data, "test_mask")
        return network, view, np.arange(view.num_nodes) if nodes is None else read_nodes(nodes, view.num_nodes)

    def _find_evidence(self, data: GraphLike, nodes: Array | None, task: Name | None) -> tuple[SolvedNetwork, Evidence]:
        """The network, and evidence with the classes in sorted order."""
        network, view, rows = self._open(data, nodes, task)
        evidence = network.find_evidence(view, rows, self._known_task(task))
        return network, evidence.arrange([code_of(label) for label in self.known_classes(task).tolist()])

    def _known_code(self, label: Any) -> int:
        code = code_of(read_labels([label], 1).tolist()[0])
        if code not in self.labels_:
            raise ConfigError(f"there is no class {label!r}; classes are {_list(self.classes_.tolist())}")
        return code

    def _known_task(self, task: Name | None) -> Name | None:
        if task is None:
            return None
        name, known = read_name(task), self._fitted().tasks
        if name not in known:
            raise ConfigError(f"there is no task {task!r}; tasks are {_list(list(known))}")
        return name

    def _drop_labels(self) -> Self:
        """Drop the labels that nothing refers to any more."""
        known = {*self.network_.memory.counts, *(c for part in self.network_.tasks.values() for c in part.classes)}
        self.labels_ = {code: label for code, label in self.labels_.items() if code in known}
        return self


def _list(values: list[Any]) -> str:
    return ", ".join(map(repr, values[:10])) or "none"
