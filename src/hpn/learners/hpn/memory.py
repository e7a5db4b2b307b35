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
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from hpn.learners.hpn.evidence import LAYER_HOPS, Extractors, Layer, Weights
from hpn.learners.hpn.partitions import Labelled, encode, new_sums, sum_nodes
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.statistics import ClassSums, average, solve_all
from hpn.nn.encoder import is_csr, see, slot_bits
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

    learned: list[ClassSums]  # of each bank, without held-out nodes
    held_out: list[ClassSums]  # of each bank, over held-out nodes
    remembered: np.ndarray  # [n, 3]
    pending: tuple[Fit, ...] = ()  # small fits that are not summed yet

    @property
    def has_both(self) -> bool:
        """Whether nodes were held out, and others were not."""
        return bool(self.learned[0].counts and self.held_out[0].counts)

    def copy(self) -> StoredSums:
        """A copy whose sums may be changed."""
        learned, held_out = ([sums.copy() for sums in banks] for banks in (self.learned, self.held_out))
        return self._replace(learned=learned, held_out=held_out)

    def add(self, rows: list[Any], y: np.ndarray, is_held: np.ndarray) -> None:
        """Add encoded nodes to the sums."""
        for banks, mask in ((self.learned, ~is_held), (self.held_out, is_held)):
            if mask.any():
                for sums, part in zip(banks, rows, strict=True):
                    sums.add(part if mask.all() else part[mask], y[mask])


class LastWeights(NamedTuple):
    """Scales and weights of the banks in the graph of the latest change, and its fingerprint."""

    weights: Weights
    graph: str | None = None


@dataclass(eq=False)
class Memory:
    """Everything that predictions without a task depend on.

    It is never changed: learning and forgetting return another one, so that an interrupted call has no effect.
    """

    settings: SolvedSettings  # with a width
    num_features: int
    seed: int  # draws the random layers
    _kept: StoredSums
    _latest: GraphView | None = None  # the graph of the latest change, until ``last`` is computed
    _last: LastWeights | None = None
    _solved: dict[str, Extractors] = field(default_factory=dict, init=False)
    _weighed: tuple[GraphView, Extractors] | None = field(default=None, init=False)

    @classmethod
    def empty(cls, settings: SolvedSettings, num_features: int, seed: int) -> Memory:
        """A memory without nodes."""
        memory = cls(settings, num_features, seed, StoredSums([], [], np.zeros((0, 3), np.int64)))
        return replace(memory, _kept=memory._new_sums())

    @property
    def layer(self) -> Layer:
        """Width and seed of the random layers."""
        if self.settings.width is None:
            raise ValueError("the width was not chosen for a graph")
        return Layer(self.settings.width, self.seed)

    def _new_sums(self) -> StoredSums:
        learned, held_out = (new_sums(self.num_features, self.layer.width) for _ in range(2))
        return StoredSums(learned, held_out, np.zeros((0, 3), np.int64))

    def _change(self, kept: StoredSums, latest: GraphView | None, last: LastWeights | None = None) -> Memory:
        return replace(self, _kept=kept, _latest=latest, _last=last)

    @property
    def kept(self) -> StoredSums:
        """Sums and remembered nodes, with all pending fits added."""
        kept = self._kept  # another thread may replace it
        if kept.pending:
            rows, y, is_held, remembered = zip(*kept.pending, strict=True)
            kept = kept.copy()
            banks = [_stack(parts) for parts in zip(*rows, strict=True)]
            kept.add(banks, np.concatenate(y), np.concatenate(is_held))
            self._kept = kept = kept._replace(remembered=_join(kept.remembered, *remembered), pending=())
        return kept

    @property
    def counts(self) -> dict[int, int]:
        """Number of learned nodes by class."""
        both = Counter(self.kept.learned[0].counts) + Counter(self.kept.held_out[0].counts)
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
        kept = self._fold(view, train, is_held)
        return self._change(kept._replace(remembered=_join(kept.remembered, new)), view)

    def unlearn(self, view: GraphView, train: Labelled) -> Memory:
        """Subtract nodes that were learned in this graph."""
        keys = _rows(view, train, 1)
        is_held = _take(keys, self.kept.remembered)
        kept = self._fold(view, train, is_held, sign=-1)
        stays = ~_take(kept.remembered, keys[is_held])
        return self._change(kept._replace(remembered=kept.remembered[stays]), view)

    def learn_again(self, view: GraphView, train: Labelled) -> Memory:
        """Replace all sums by those over these learned nodes, encoded in this graph."""
        remembered = self.kept.remembered
        is_held = _take(_rows(view, train, 1), remembered)
        validation = self._new_sums()._replace(remembered=remembered[remembered[:, 2] == 0])
        return self._change(validation, view).learn(view, train, (train[0][:0], train[1][:0]), is_held)

    def drop_validation(self, view: GraphView, rows: np.ndarray) -> Memory:
        """Drop validation nodes of this graph from the remembered nodes ``[n, 3]``."""
        stays = ~_take(self.kept.remembered, rows)
        return self._change(self.kept._replace(remembered=self.kept.remembered[stays]), view)

    def merge(self, other: Memory) -> Memory:
        """Add the sums of another network with the same settings and seed."""
        kept, more = self.kept.copy(), other.kept
        for sums, extra in zip((*kept.learned, *kept.held_out), (*more.learned, *more.held_out), strict=True):
            sums.merge(extra)
        kept = kept._replace(remembered=_join(kept.remembered, more.remembered))
        return self._change(kept, None, _without_graph(other.last or self.last))

    def forget_class(self, label: int) -> Memory:
        """Drop a class from sums, counts and remembered nodes; its contribution to the Gram matrices stays."""
        kept = self.kept.copy()
        for sums in (*kept.learned, *kept.held_out):
            sums.drop(label)
        kept = kept._replace(remembered=kept.remembered[kept.remembered[:, 1] != label])
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
        solved = self._solve("learned" if self.kept.has_both else "all")
        nodes, y = self._find(view)
        is_known = np.isin(y, solved.classes)
        nodes, y = nodes[is_known], y[is_known]
        if len(nodes) == 0 or len(solved.classes) == 1:
            return None
        return solved.weigh(view, nodes, np.searchsorted(solved.classes, y))

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
            banks, s = self._banks(which), self.settings
            classes = sorted(banks[0].counts)
            layers = solve_all(banks[: len(LAYER_HOPS)], classes, strength=s.strength, balance=s.balance)
            scale = 2.0 ** -slot_bits(self.num_features)
            means = [average(sums, classes, scale) for sums in banks[len(LAYER_HOPS) :]]
            averages = (sums.means(classes)[1].astype(np.float32) for sums in banks)
            at_means = [layer(part) for layer, part in zip(layers, averages, strict=False)]
            at_means += [part.directions @ part.directions.T for part in means]
            sizes = [_center(part)[1] for part in at_means]  # the scales if there are no remembered nodes
            scales = np.array([*sizes, sizes[len(LAYER_HOPS) - 1]])
            self._solved[which] = Extractors(classes, layers, means, self.layer, scales)
        return self._solved[which]

    def _banks(self, which: str, first: int = 0) -> list[ClassSums]:
        """Sums of all banks from the first on."""
        learned, held_out = self.kept.learned[first:], self.kept.held_out[first:]
        if which == "all" and held_out[0].counts:
            return [a.copy().merge(b) for a, b in zip(learned, held_out, strict=True)]
        return learned

    def typical_evidence(self) -> list[np.ndarray]:
        """Scaled evidence of the class-mean banks at the mean of each class ``[C, C]``; solves nothing."""
        if not self.counts:
            return []
        means = [average(sums, sorted(self.counts), 1.0) for sums in self._banks("all", len(LAYER_HOPS))]
        centred = [_center(bank.directions @ bank.directions.T) for bank in means]
        return [part / size for part, size in centred]

    def _fold(self, view: GraphView, train: Labelled, is_held: np.ndarray, sign: int = 1) -> StoredSums:
        """The sums with nodes of a graph added, or subtracted."""
        kept, (nodes, y) = self.kept.copy(), train
        groups = [(nodes[mask], y[mask]) for mask in (~is_held, is_held)]
        for banks, found in zip(kept[:2], sum_nodes(view, groups, self.layer), strict=True):
            for sums, more in zip(banks, found, strict=True):
                sums.merge(more, sign)
        return kept

    def __getstate__(self) -> dict[str, Any]:
        """Without the graph of the latest change, and without what can be solved again."""
        return {**vars(self), "_last": self.last, "_latest": None, "_solved": {}, "_weighed": None}

    def state(self) -> dict[str, Any]:
        """Everything, as tensors and text."""
        kept = self.kept
        state: dict[str, Any] = {"remembered": torch.from_numpy(kept.remembered)}
        for name, banks in (("learned", kept.learned), ("held_out", kept.held_out)):
            if banks[0].counts:
                state[name] = {str(at): sums.state() for at, sums in enumerate(banks)}
        if self.last is not None:
            state |= {"last": torch.from_numpy(np.stack(self.last.weights)), "graph": self.last.graph}
        return state

    def load(self, state: dict[str, Any]) -> Memory:
        """The memory of which :meth:`state` was the result."""
        kept = self._new_sums()
        for name in ("learned", "held_out"):
            for at, sums in enumerate(getattr(kept, name) if name in state else ()):
                getattr(kept, name)[at] = ClassSums.restore(sums.dim, state[name][str(at)])
        last = None
        if "last" in state:
            scales, weights = state["last"].numpy().copy()
            last = LastWeights((scales, weights), state.get("graph"))
        return self._change(kept._replace(remembered=state["remembered"].numpy().copy()), None, last)

    @property
    def num_stored(self) -> int:
        """Numbers in :meth:`state`, counted without computing it."""
        sums = sum(part.num_stored for part in (*self.kept.learned, *self.kept.held_out) if part.counts)
        weights = 0 if self.last is None else 2 * len(self.last.weights[0])
        return int(self.kept.remembered.size) + sums + weights

    def solved_state(self) -> dict[str, Any]:
        """Extractors as tensors: they can be solved from :meth:`state`, but slowly."""
        parts = ["all", "learned"] if self.kept.has_both else ["all"] if self.counts else []
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
