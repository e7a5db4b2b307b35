"""The memory of a solved prototype network: sums over nodes, and which labelled nodes were held out.

A graph keeps growing, and neighbourhoods with it: a bank that was right about nodes when they arrived may be wrong
about the same nodes today. So the weights of banks are fitted to labelled nodes that were *not* learned from, as they
are in the graph of the query. Only hashes of their ids and their classes are remembered. They are the validation nodes
if there are any, and otherwise a fifth of the learned nodes, chosen by hash. The sums of these are kept separately:
they are excluded when weights are fitted, and included in predictions. All of this is independent of the order of
arrival and can be added and subtracted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from hpn.learners.hpn.evidence import Extractors, Weights
from hpn.learners.hpn.partitions import Labelled, Layer, encode, sum_nodes
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.statistics import LAYER_HOPS, ClassMeans, Sums, solve, sum_encoded
from hpn.nn.encoder import is_csr, see, slot_bits
from hpn.nn.fold import run_threads
from hpn.streams import GraphView
from hpn.streams.views import find_hashes, fingerprint, hash_nodes

HELD_OUT = 5
"""One node in this many is held out if there are no validation nodes."""
WEIGHED_BY = 50
"""Maximum number of remembered nodes per class to which weights are fitted."""
SMALL_FIT = 1024
"""Fits of fewer nodes are summed later, several at once."""
MOST_PENDING = 8192
"""Maximum number of nodes of such fits."""
NO_ROWS = np.zeros((0, 3), np.int64)
"""No remembered nodes."""


class Fit(NamedTuple):
    """Encoded nodes of a small fit."""

    rows: list[Any]  # of each bank
    y: np.ndarray
    is_held: np.ndarray  # which are held out
    remembered: np.ndarray  # as in StoredSums [m, 3]


class StoredSums(NamedTuple):
    """Sums over learned nodes, and the remembered nodes.

    ``remembered`` has one row per node, sorted: hash of the id, class, and 1 if it is in ``held_out`` or 0 if it is a
    validation node.
    """

    learned: Sums  # without held-out nodes
    held_out: Sums  # over held-out nodes
    remembered: np.ndarray = NO_ROWS
    pending: tuple[Fit, ...] = ()  # small fits that are not summed yet

    def merge(self, sums: Sequence[Sums], remembered: np.ndarray, sign: int = 1) -> StoredSums:
        """The same with other sums of both kinds added, or subtracted, and more remembered nodes."""
        learned, held_out = (mine.merge(more, sign) for mine, more in zip(self[:2], sums, strict=True))
        return StoredSums(learned, held_out, _join(self.remembered, remembered))


class LastWeights(NamedTuple):
    """Scales and weights of the banks in the graph of the latest change, and its fingerprint."""

    weights: Weights
    graph: str | None = None


@dataclass(eq=False)
class Memory:
    """Everything that predictions without a task depend on.

    It is never changed: learning and forgetting return another one, so that an interrupted call has no effect.
    """

    settings: SolvedSettings
    num_features: int
    layer: Layer  # the random layers
    _kept: StoredSums
    _latest: GraphView | None = None  # the graph of the latest change, until ``last`` is computed
    _last: LastWeights | None = None
    _solved: dict[str, Extractors] = field(default_factory=dict, init=False)
    _weighed: tuple[GraphView, Extractors] | None = field(default=None, init=False)

    @classmethod
    def empty(cls, settings: SolvedSettings, num_features: int, seed: int) -> Memory:
        """A memory without nodes, for settings with a width."""
        if settings.width is None:
            raise ValueError("the width was not chosen for a graph")
        nothing = Sums.empty(settings.width, num_features)
        return cls(settings, num_features, Layer(settings.width, seed), StoredSums(nothing, nothing))

    def _change(self, kept: StoredSums, latest: GraphView | None, last: LastWeights | None = None) -> Memory:
        return replace(self, _kept=kept, _latest=latest, _last=last)

    @property
    def kept(self) -> StoredSums:
        """Sums and remembered nodes, with all pending fits added."""
        kept = self._kept  # another thread may replace it
        if kept.pending:
            rows, *others = zip(*kept.pending, strict=True)
            y, is_held, remembered = map(np.concatenate, others)
            banks = [_stack(parts) for parts in zip(*rows, strict=True)]
            sums = [self._sum(banks, y, mask) for mask in (~is_held, is_held)]
            self._kept = kept = kept.merge(sums, remembered)
        return kept

    def _sum(self, banks: list[Any], y: np.ndarray, mask: np.ndarray) -> Sums:
        rows = [part[mask] for part in banks]
        return sum_encoded(lambda at: [part[at] for part in rows], y[mask], self.layer.width, self.num_features)

    @property
    def counts(self) -> dict[int, int]:
        """Number of learned nodes by class."""
        both = Counter(self.kept.learned.by_label) + Counter(self.kept.held_out.by_label)
        return dict(sorted(both.items()))

    @property
    def last(self) -> LastWeights | None:
        """Weights of banks in the graph of the latest change, which graphs without remembered nodes use."""
        if self._latest is not None:
            found = self._weigh(self._latest)
            self._last = None if found is None else LastWeights(found, fingerprint(self._latest))
            self._latest = None  # no longer needed
        return self._last

    def without_last(self) -> Memory:
        """The same without these weights, which saves time if every graph has remembered nodes."""
        return self._change(self._kept, None)

    def learn(self, view: GraphView, train: Labelled, val: Labelled, is_held: np.ndarray | None = None) -> Memory:
        """Add nodes; ``is_held`` are held out, by default a fifth, or none if there are validation nodes."""
        nodes, y = train
        if is_held is None:
            is_held = (_rank(hash_nodes(view, nodes)) % HELD_OUT == 0) & (len(val[0]) == 0)
        new = np.concatenate([_rows(view, val, 0), _rows(view, (nodes[is_held], y[is_held]), 1)])
        pending = self._kept.pending
        if len(nodes) < SMALL_FIT and sum(len(fit.y) for fit in pending) < MOST_PENDING:
            fit = Fit(encode(see(view), nodes, self.layer), y, is_held, new)
            return self._change(self._kept._replace(pending=(*pending, fit)), view)
        return self._change(self._fold(view, train, is_held, new), view)

    def unlearn(self, view: GraphView, train: Labelled) -> Memory:
        """Subtract nodes that were learned in this graph."""
        keys = _rows(view, train, 1)
        is_held = _take(keys, self.kept.remembered)
        kept = self._fold(view, train, is_held, sign=-1)
        return self._change(kept._replace(remembered=_without(kept.remembered, keys[is_held])), view)

    def learn_again(self, view: GraphView, train: Labelled) -> Memory:
        """Replace all sums by those over these learned nodes, encoded in this graph."""
        remembered = self.kept.remembered
        is_held = _take(_rows(view, train, 1), remembered)
        fresh = Memory.empty(self.settings, self.num_features, self.layer.seed)
        validation = fresh._kept._replace(remembered=remembered[remembered[:, 2] == 0])
        return fresh._change(validation, view).learn(view, train, (train[0][:0], train[1][:0]), is_held)

    def drop_validation(self, view: GraphView, rows: np.ndarray) -> Memory:
        """Drop validation nodes of this graph from the remembered nodes ``[n, 3]``."""
        return self._change(self.kept._replace(remembered=_without(self.kept.remembered, rows)), view)

    def merge(self, other: Memory) -> Memory:
        """Add the sums of another network with the same settings and seed."""
        kept = self.kept.merge(other.kept[:2], other.kept.remembered)
        return self._change(kept, None, _without_graph(other.last or self.last))

    def forget_class(self, label: int) -> Memory:
        """Drop a class from sums, counts and remembered nodes; its contribution to the Gram matrices stays."""
        learned, held_out, remembered, _ = self.kept
        kept = StoredSums(learned.drop(label), held_out.drop(label), remembered[remembered[:, 1] != label])
        return self._change(kept, None, _without_graph(self.last))

    def extractors(self, view: GraphView) -> Extractors:
        """Extractors solved from all sums, with weights fitted to the remembered nodes in ``view``."""
        if self._weighed is None or self._weighed[0] is not view:
            solved, weights = self._solve("all"), self._find_weights(view)
            if weights is not None:
                solved = replace(solved, scales=weights[0], weights=weights[1])
            self._weighed = view, solved
        return self._weighed[1]

    def _find_weights(self, view: GraphView) -> Weights | None:
        known = None if self._latest is not None else self._last
        if known is not None and known.graph is not None and known.graph == fingerprint(view):
            return known.weights
        found = self._weigh(view)
        return self.last.weights if found is None and self.last is not None else found

    def _weigh(self, view: GraphView) -> Weights | None:
        """Scales and weights fitted to the remembered nodes in a graph; ``None`` if there are none."""
        if not self.counts:
            return None
        solved = self._solve("learned" if self._has_both else "all")
        nodes, y = self._find(view)
        is_known = np.isin(y, solved.classes)
        nodes, y = nodes[is_known], y[is_known]
        if len(nodes) == 0 or len(solved.classes) == 1:
            return None
        return solved.weigh(view, nodes, np.searchsorted(solved.classes, y))

    @property
    def _has_both(self) -> bool:
        """Whether nodes were held out, and others were not."""
        return bool(len(self.kept.learned.labels) and len(self.kept.held_out.labels))

    def _find(self, view: GraphView) -> Labelled:
        """Remembered nodes in a graph, per class those with the smallest hashes."""
        known = np.unique(self.kept.remembered[:, :2], axis=0)
        nodes = find_hashes(view, known[:, 0])
        known, nodes = known[nodes >= 0], nodes[nodes >= 0]
        order = np.lexsort((_rank(known[:, 0]), known[:, 1]))
        y = known[order, 1]
        is_chosen = np.arange(len(y)) - np.searchsorted(y, y) < WEIGHED_BY
        return nodes[order][is_chosen], y[is_chosen]

    def _solve(self, which: str) -> Extractors:
        """Extractors from ``all`` sums, or from those of ``learned`` nodes, with equal weights of banks."""
        if which not in self._solved:
            learned, held_out, *_ = self.kept
            sums, s = learned.merge(held_out) if which == "all" else learned, self.settings
            solve_bank = partial(solve, sums=sums, strength=s.strength, balance=s.balance)
            # One thread per bank: threads that share a factorisation wait for each other.
            layers = run_threads(solve_bank, range(len(LAYER_HOPS)))
            averages, scale = sums.means(), 2.0 ** -slot_bits(self.num_features)
            means = [ClassMeans.of(part * scale) for part in averages[len(LAYER_HOPS) :]]
            at_means = [part.evidence(mean.astype(np.float32)) for part, mean in zip(layers, averages, strict=False)]
            at_means += [part.directions @ part.directions.T for part in means]
            sizes = [_center(part)[1] for part in at_means]  # the scales if there are no remembered nodes
            scales = np.array([*sizes, sizes[len(LAYER_HOPS) - 1]])
            self._solved[which] = Extractors(sums.labels.tolist(), layers, means, self.layer, scales)
        return self._solved[which]

    def typical_evidence(self) -> list[np.ndarray]:
        """Scaled evidence of the class-mean banks at the mean of each class ``[C, C]``; solves nothing."""
        if not self.counts:
            return []
        learned, held_out = (replace(sums, grams=()) for sums in self.kept[:2])
        means = map(ClassMeans.of, learned.merge(held_out).means()[len(LAYER_HOPS) :])
        centred = [_center(bank.directions @ bank.directions.T) for bank in means]
        return [part / size for part, size in centred]

    def _fold(
        self, view: GraphView, train: Labelled, is_held: np.ndarray, new: np.ndarray = NO_ROWS, sign: int = 1
    ) -> StoredSums:
        """The sums with nodes of a graph added, or subtracted, and with new remembered nodes."""
        groups = [(train[0][mask], train[1][mask]) for mask in (~is_held, is_held)]
        return self.kept.merge(sum_nodes(view, groups, self.layer), new, sign)

    def __getstate__(self) -> dict[str, Any]:
        """Without the graph of the latest change, and without what can be solved again."""
        return {**vars(self), "_last": self.last, "_latest": None, "_solved": {}, "_weighed": None}

    def state(self) -> dict[str, Any]:
        """Everything, as tensors and text."""
        state: dict[str, Any] = {"remembered": torch.from_numpy(self.kept.remembered)}
        parts = zip(self.kept._fields, self.kept[:2], strict=False)
        state |= {name: sums.state() for name, sums in parts if len(sums.labels)}
        if self.last is not None:
            state |= {"last": torch.from_numpy(np.stack(self.last.weights)), "graph": self.last.graph}
        return state

    def load(self, state: dict[str, Any]) -> Memory:
        """The memory of which :meth:`state` was the result."""
        learned, held_out = (
            Sums.restore(self.layer.width, self.num_features, state[name]) if name in state else nothing
            for name, nothing in zip(("learned", "held_out"), self._kept[:2], strict=True)
        )
        last = None
        if "last" in state:
            scales, weights = state["last"].numpy().copy()
            last = LastWeights((scales, weights), state.get("graph"))
        return self._change(StoredSums(learned, held_out, state["remembered"].numpy().copy()), None, last)

    @property
    def num_stored(self) -> int:
        """Numbers in :meth:`state`, counted without computing it."""
        weights = 0 if self.last is None else 2 * len(self.last.weights[0])
        return int(self.kept.remembered.size) + self.kept.learned.num_stored + self.kept.held_out.num_stored + weights

    def solved_state(self) -> dict[str, Any]:
        """Extractors as tensors: they can be solved from :meth:`state`, but slowly."""
        parts = ["all", "learned"] if self._has_both else ["all"] if self.counts else []
        return {which: self._solve(which).state() for which in parts}

    def load_solved(self, state: dict[str, Any]) -> None:
        """Load the result of :meth:`solved_state`."""
        self._solved = {which: Extractors.restore(part) for which, part in state.items()}


def _without_graph(last: LastWeights | None) -> LastWeights | None:
    """The same weights, which no longer belong to a graph since the learned nodes have changed."""
    return None if last is None else last._replace(graph=None)


def _center(evidence: np.ndarray) -> tuple[np.ndarray, float]:
    """Evidence centred over the classes, and its size."""
    centred = evidence - evidence.mean(axis=1, keepdims=True)
    return centred, max(float(np.sqrt((centred**2).mean())), 1e-9)


def _stack(parts: tuple[Any, ...]) -> Any:
    return sp.vstack(parts, format="csr") if any(map(is_csr, parts)) else np.concatenate(parts)


def _rows(view: GraphView, labelled: Labelled, is_held: int) -> np.ndarray:
    nodes, y = labelled
    return np.stack([hash_nodes(view, nodes), y, np.full_like(y, is_held)], axis=1)


def _without(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The rows without others, each of which is taken out once."""
    return np.asarray(rows[~_take(rows, others)])


def _rank(hashes: np.ndarray) -> np.ndarray:
    """The order in which nodes are chosen to be held out, and to fit weights to."""
    return np.asarray(hashes.view(np.uint64) >> np.uint64(1))


def _join(*tables: np.ndarray) -> np.ndarray:
    """Remembered nodes, sorted; validation nodes once, held-out nodes as often as they were learned."""
    rows = np.concatenate(tables)
    is_held = rows[:, 2] == 1
    rows = np.concatenate([np.unique(rows[~is_held], axis=0), rows[is_held]])
    return rows[np.lexsort(rows.T[::-1])]


def _take(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which rows are among others; each of these is matched once only."""
    left, taken = Counter(map(tuple, others.tolist())), np.zeros(len(rows), bool)
    for at, row in enumerate(map(tuple, rows.tolist())):
        taken[at] = left[row] > 0
        left[row] -= int(taken[at])
    return taken
