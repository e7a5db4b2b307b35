r"""What a solved prototype network remembers: sums over nodes, and which labelled nodes were held out.

A graph keeps growing, and neighbourhoods with it: a bank that was right about nodes when they arrived may be
wrong about the same nodes today. So banks are weighed by labelled nodes that were *not* learned from, as they
look in the graph that is asked about. Of these only hashes of ids and classes are remembered. They are the
validation nodes where such are given, and otherwise a fifth of what is learned, chosen by that hash: their
sums are kept apart, left out when banks are weighed, and used in answers. All of this is independent of the
order of arrival and can be added and subtracted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from hpn.errors import DataError
from hpn.learners.hpn.evidence import LAYER_HOPS, Extractors, Weights
from hpn.learners.hpn.partitions import Labelled, Layer, encode, new_sums, sum_nodes
from hpn.learners.hpn.presets import SolvedSettings
from hpn.learners.hpn.statistics import ClassSums, average, solve_all
from hpn.nn.encoder import is_csr, see, slot_bits
from hpn.streams import GraphView

HELD_OUT = 5
"""One node in so many is held out where no validation nodes are given."""
WEIGHED_BY = 50
"""Remembered nodes of a class by which banks are weighed at most."""
SMALL_FIT = 1024
"""Fits of fewer nodes are added up later, several at once."""
MOST_PENDING = 8192
"""Nodes of such fits that are kept at most."""


class Kept(NamedTuple):
    """What is remembered; replaced as a whole, so that an interrupted fit changes nothing.

    Args:
        learned: Sums of each bank over nodes that banks may be weighed without.
        held_out: The same over held-out nodes.
        remembered: Hashes of ids, classes, and whether a node is in ``held_out`` (else it is a validation
            node), sorted ``[n, 3]``.
        pending: Small fits whose nodes are encoded and not yet added up: rows of each bank, classes, and
            which nodes are held out.
    """

    learned: list[ClassSums]
    held_out: list[ClassSums]
    remembered: np.ndarray
    pending: tuple[tuple[list[Any], np.ndarray, np.ndarray], ...] = ()


class Memory:
    """Everything that answers without a task are made of.

    Args:
        settings: Hyper-parameters, with a width.
        num_features: Features of a node.
        seed: Draws the random layers.

    Attributes:
        layer: Width and seed of the random layers.
        kept: Sums and remembered nodes.
        last: Scales and weights of the banks in the graph of the latest fit, once they were needed.
    """

    def __init__(self, settings: SolvedSettings, num_features: int, seed: int) -> None:
        self.settings = settings
        self.num_features = num_features
        self.seed = seed
        assert settings.width is not None  # noqa: S101  (it was chosen for a graph)
        self.layer = Layer(settings.width, seed)
        self.kept = Kept(self._new_sums(), self._new_sums(), np.zeros((0, 3), np.int64))
        self.last: Weights | None = None
        self._latest: GraphView | None = None
        self._solved: dict[str, Extractors] = {}
        self._weighed: tuple[GraphView, Weights | None] | None = None

    @property
    def counts(self) -> dict[int, int]:
        """Nodes learned from, by class."""
        kept = self._add_up()
        both = (kept.learned[0].counts, kept.held_out[0].counts)
        labels = sorted({*both[0], *both[1]})
        return {label: sum(part.get(label, 0) for part in both) for label in labels}

    def learn(
        self, view: GraphView, train: Labelled, val: Labelled, is_held: np.ndarray | None = None
    ) -> None:
        """Add nodes.

        Args:
            view: The graph.
            train: Nodes to learn.
            val: Validation nodes.
            is_held: Which of the learned nodes are held out; by default a fifth of them, or none where there
                are validation nodes.
        """
        nodes, y = train
        if is_held is None:
            is_held = _rank(hash_ids(view.ids.numpy()[nodes])) % HELD_OUT == 0
            is_held &= len(val[0]) == 0
        new = np.concatenate([_rows(view, *val, 0), _rows(view, nodes[is_held], y[is_held], 1)])
        if len(nodes) < SMALL_FIT and sum(len(entry[1]) for entry in self.kept.pending) < MOST_PENDING:
            kept = self.kept._replace(pending=(*self.kept.pending, (self._encode(view, nodes), y, is_held)))
        else:
            kept = self._fold(view, train, is_held)
        self._replace(kept._replace(remembered=_join(kept.remembered, new)))
        self._latest = view

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Put back what was kept if an error or an interrupt comes."""
        kept, last, latest = self.kept, self.last, self._latest
        try:
            yield
        except BaseException:
            self._replace(kept)
            self.last, self._latest = last, latest
            raise

    def __getstate__(self) -> dict[str, Any]:
        """Without the graph of the latest fit, and what can be solved again."""
        self._settle()
        return {**self.__dict__, "_latest": None, "_solved": {}, "_weighed": None}

    def unlearn(self, view: GraphView, train: Labelled) -> None:
        """Subtract nodes that were learned in this very graph.

        Raises:
            DataError: If counts or sums show that they were not.
        """
        nodes, y = train
        keys = _rows(view, nodes, y, 1)
        is_held = _take(keys, self.kept.remembered)
        kept = self._fold(view, train, is_held, sign=-1)
        for sums in (*kept.learned, *kept.held_out):
            if any(count <= 0 for count in sums.counts.values()) or sums.is_negative:
                raise DataError(
                    "unlearn: these nodes were not learned with these labels in this graph; give the graph "
                    "as it was at the time of the fit, or call refresh with the nodes to keep"
                )
        self._replace(kept._replace(remembered=_take_out(kept.remembered, keys[is_held])))
        self._latest = self._latest or view

    def learn_again(self, view: GraphView, train: Labelled) -> None:
        """Encode all learned nodes that are to be kept in this graph, in place of what was kept of them."""
        remembered = self.kept.remembered
        is_held = _take(_rows(view, *train, 1), remembered)
        validation = remembered[remembered[:, 2] == 0]
        self._replace(Kept(self._new_sums(), self._new_sums(), validation))
        self.learn(view, train, (train[0][:0], train[1][:0]), is_held)

    def drop_validation(self, rows: np.ndarray, view: GraphView) -> None:
        """Drop validation nodes from those remembered ``[n, 3]``, and weigh banks in ``view``."""
        stays = (self.kept.remembered[:, 2] == 1) | ~_is_in(self.kept.remembered, rows)
        self._replace(self.kept._replace(remembered=self.kept.remembered[stays]))
        self._latest = view

    def copy(self) -> Memory:
        """A copy that shares only what is replaced as a whole."""
        copied = Memory.__new__(Memory)
        copied.__dict__.update(self.__dict__)
        return copied

    def merge(self, other: Memory) -> None:
        """Add what another network learned with the same settings and seed."""
        kept, more = _copy(self._add_up()), other._add_up()
        for sums, extra in zip((*kept.learned, *kept.held_out), (*more.learned, *more.held_out), strict=True):
            sums.merge(extra)
        remembered, last = _join(kept.remembered, more.remembered), self.last or other.last
        self._replace(kept._replace(remembered=remembered))
        self._latest = other._latest or self._latest
        self.last = last if self._latest is None else None

    def forget_class(self, label: int) -> None:
        """Drop a class from sums, counts and remembered nodes; its part of the Gram matrices stays."""
        kept = _copy(self._add_up())
        for sums in (*kept.learned, *kept.held_out):
            sums.drop(label)
        remembered = kept.remembered[kept.remembered[:, 1] != label]
        last = self.last
        self._replace(kept._replace(remembered=remembered))
        self.last = last

    def extractors(self, view: GraphView) -> Extractors:
        """Extractors solved from all sums, their banks weighed by the remembered nodes in ``view``."""
        solved = self._solve("all")
        solved.scales, solved.weights = self._weigh_once(view) or self._settle() or solved.usual
        return solved

    def drop_latest(self) -> None:
        """Do without the weights of banks in the graph of the latest fit, which take time to find."""
        self._latest = None

    def _settle(self) -> Weights | None:
        """Weigh banks in the graph of the latest fit, so that the graph itself is not needed any more."""
        if self._latest is not None:
            self.last, self._latest = self._weigh_once(self._latest) or self.last, None
        return self.last

    def _weigh_once(self, view: GraphView) -> Weights | None:
        if self._weighed is None or self._weighed[0] is not view:
            self._weighed = view, self._weigh(view)
        return self._weighed[1]

    def _weigh(self, view: GraphView) -> Weights | None:
        """Scales and weights by remembered nodes in a graph; ``None`` if there are none."""
        kept = self._add_up()
        if not self.counts:
            return None
        solved = self._solve("learned" if kept.held_out[0].counts and kept.learned[0].counts else "all")
        nodes, y = self._find(view)
        is_known = np.isin(y, solved.classes)
        nodes, y = nodes[is_known], y[is_known]
        if len(nodes) == 0 or len(solved.classes) == 1:
            return None
        return solved.weigh(view, nodes, np.searchsorted(solved.classes, y))

    def _find(self, view: GraphView) -> Labelled:
        """Remembered nodes that are in a graph, of each class those with the smallest hashes."""
        remembered = self.kept.remembered
        known = np.unique(remembered[:, :2], axis=0)
        nodes = find_hashes(view, known[:, 0])
        known, nodes = known[nodes >= 0], nodes[nodes >= 0]
        return _first_of_each(nodes, known[:, 1], _rank(known[:, 0]))

    def _solve(self, which: str) -> Extractors:
        if which not in self._solved:
            banks, s = self._banks(which), self.settings
            classes = sorted(banks[0].counts)
            layers = solve_all(banks[: len(LAYER_HOPS)], classes, strength=s.strength, balance=s.balance)
            scale = 2.0 ** -slot_bits(self.num_features)
            means = [average(sums, classes, scale) for sums in banks[len(LAYER_HOPS) :]]
            solved = Extractors(classes, layers, means, *self.layer)
            solved.usual = solved.typical(self.class_evidence(solved, banks)), solved.weights
            self._solved[which] = solved
        return self._solved[which]

    def _banks(self, which: str) -> list[ClassSums]:
        kept = self._add_up()
        if which == "all" and kept.held_out[0].counts:
            return [a.copy().merge(b) for a, b in zip(kept.learned, kept.held_out, strict=True)]
        return kept.learned

    def typical_evidence(self) -> list[np.ndarray]:
        """Scaled evidence of the class-mean banks at the mean of each class ``[C, C]``; nothing is solved."""
        if not self.counts:
            return []
        means = [average(sums, sorted(self.counts), 1.0) for sums in self._banks("all")[len(LAYER_HOPS) :]]
        found = [bank.directions @ bank.directions.T for bank in means]
        centred = [part - part.mean(axis=1, keepdims=True) for part in found]
        return [part / max(float(np.sqrt((part**2).mean())), 1e-9) for part in centred]

    def class_evidence(self, solved: Extractors, banks: list[ClassSums]) -> list[np.ndarray]:
        """Evidence of each bank at the mean of each class ``[C, C]``, not scaled."""
        found = []
        for layer, sums in zip(solved.layers, banks, strict=False):
            found.append(layer(sums.means(solved.classes)[1].astype(np.float32)))
        for means in solved.means:
            found.append(means.directions @ means.directions.T)
        return found

    def _encode(self, view: GraphView, nodes: np.ndarray) -> list[Any]:
        """Rows of each bank."""
        return encode(see(view), nodes, self.layer)

    def _fold(self, view: GraphView, train: Labelled, is_held: np.ndarray, sign: int = 1) -> Kept:
        """What is kept with nodes of a graph added, or subtracted."""
        kept, (nodes, y) = _copy(self._add_up()), train
        groups = [(nodes[mask], y[mask]) for mask in (~is_held, is_held)]
        for banks, found in zip(kept[:2], sum_nodes(view, groups, self.layer), strict=True):
            for sums, more in zip(banks, found, strict=True):
                sums.merge(more, sign)
        return kept

    def _add_up(self) -> Kept:
        """Add up what is pending."""
        if self.kept.pending:
            kept = _copy(self.kept)
            fits, y, is_held = zip(*kept.pending, strict=True)
            rows = [_stack(parts) for parts in zip(*fits, strict=True)]
            _add(kept, rows, np.concatenate(y), np.concatenate(is_held))
            self.kept = kept._replace(pending=())
        return self.kept

    def _replace(self, kept: Kept) -> None:
        self.kept, self.last = kept, None
        self._solved, self._weighed = {}, None

    def _new_sums(self) -> list[ClassSums]:
        return new_sums(self.num_features, self.layer.width)

    def state(self) -> dict[str, Any]:
        """Everything, as tensors."""
        self._settle()
        kept = self._add_up()
        state: dict[str, Any] = {"remembered": torch.from_numpy(kept.remembered)}
        for name, banks in (("learned", kept.learned), ("held_out", kept.held_out)):
            if banks[0].counts:
                state[name] = {str(at): sums.state() for at, sums in enumerate(banks)}
        return state if self.last is None else {**state, "last": torch.from_numpy(np.stack(self.last))}

    def solved_state(self) -> dict[str, Any]:
        """What can be solved from :meth:`state`, as tensors: not needed, but slow to solve again."""
        kept = self._add_up()
        has_both = bool(kept.held_out[0].counts and kept.learned[0].counts)
        parts = ["all", "learned"] if has_both else ["all"] if self.counts else []
        return {which: self._solve(which).usual_state() for which in parts}

    def load_solved(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`solved_state` gave."""
        for which, part in state.items():
            self._solved[which] = Extractors.restore(part)
            self._solved[which].usual = self._solved[which].scales, self._solved[which].weights

    def trust_last(self, view: GraphView) -> None:
        """Use the last weights of banks for a graph, as they were found in it."""
        if self._weighed is None and self._latest is None and self.last is not None:
            self._weighed = view, self.last

    @property
    def is_settled(self) -> bool:
        """Whether the weights of banks are those of a graph that is not at hand any more."""
        return self._latest is None

    @property
    def num_stored(self) -> int:
        """Numbers in :meth:`state`."""
        self._settle()
        kept = self._add_up()
        sums = sum(part.num_stored for part in (*kept.learned, *kept.held_out) if part.counts)
        weights = 0 if self.last is None else 2 * len(self.last[0])
        return int(kept.remembered.size) + sums + weights

    def load(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        banks = {
            name: [
                ClassSums.restore(sums.dim, state[name][str(at)]) for at, sums in enumerate(self._new_sums())
            ]
            for name in ("learned", "held_out")
            if name in state
        }
        kept = Kept(
            banks.get("learned", self.kept.learned),
            banks.get("held_out", self.kept.held_out),
            state["remembered"].numpy().copy(),
        )
        self._replace(kept)
        if "last" in state:
            scales, weights = state["last"].numpy().copy()
            self.last = scales, weights


def _copy(kept: Kept) -> Kept:
    learned, held_out = ([sums.copy() for sums in banks] for banks in (kept.learned, kept.held_out))
    return kept._replace(learned=learned, held_out=held_out)


def _add(kept: Kept, rows: list[Any], y: np.ndarray, is_held: np.ndarray) -> None:
    for banks, mask in ((kept.learned, ~is_held), (kept.held_out, is_held)):
        if mask.any():
            for sums, part in zip(banks, rows, strict=True):
                sums.add(part if mask.all() else part[mask], y[mask])


def _stack(parts: Sequence[Any]) -> Any:
    return sp.vstack(parts, format="csr") if any(map(is_csr, parts)) else np.concatenate(parts)


def _rows(view: GraphView, nodes: np.ndarray, y: np.ndarray, is_held: int) -> np.ndarray:
    return np.stack([hash_ids(view.ids.numpy()[nodes]), y, np.full_like(y, is_held)], axis=1)


def _first_of_each(nodes: np.ndarray, y: np.ndarray, rank: np.ndarray) -> Labelled:
    """The first nodes of each class by rank."""
    order = np.lexsort((rank, y))
    place = np.arange(len(y)) - np.searchsorted(y[order], y[order])
    chosen = order[place < WEIGHED_BY]
    return nodes[chosen], y[chosen]


def hash_ids(ids: np.ndarray) -> np.ndarray:
    """A fixed, well mixed number for each id, another for every other (the finaliser of SplitMix64)."""
    mixed = ids.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((mixed ^ (mixed >> np.uint64(31))).view(np.int64))


def find_hashes(view: GraphView, hashes: np.ndarray) -> np.ndarray:
    """The nodes of a view whose ids have these hashes, -1 where there is none ``[n]``."""
    here = hash_ids(view.ids.numpy())
    order = np.argsort(here)
    place = order[np.searchsorted(here[order], hashes).clip(max=len(here) - 1)]
    return np.where(here[place] == hashes, place, -1)


def _rank(hashes: np.ndarray) -> np.ndarray:
    """The order in which nodes are chosen to be held out, and to weigh banks by."""
    return np.asarray(hashes.view(np.uint64) >> np.uint64(1))


def _join(rows: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Remembered nodes, sorted; validation nodes once, held-out nodes as often as they were learned."""
    rows = np.concatenate([rows, more])
    held = rows[rows[:, 2] == 1]
    rows = np.concatenate([np.unique(rows[rows[:, 2] == 0], axis=0), held])
    return rows[np.lexsort(rows.T[::-1])]


def _is_in(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which rows are among others."""
    known = set(map(tuple, others.tolist()))
    return np.array([tuple(row) in known for row in rows.tolist()], dtype=bool)


def _take(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which rows are among others, each of which is taken by one row only."""
    left, taken = Counter(map(tuple, others.tolist())), np.zeros(len(rows), bool)
    for at, row in enumerate(map(tuple, rows.tolist())):
        taken[at] = left[row] > 0
        left[row] -= int(taken[at])
    return taken


def _take_out(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Rows without the others, each of which is taken out once."""
    left = Counter(map(tuple, others.tolist()))
    stays = np.ones(len(rows), bool)
    for at, row in enumerate(map(tuple, rows.tolist())):
        if left[row]:
            left[row] -= 1
            stays[at] = False
    return rows[stays]
