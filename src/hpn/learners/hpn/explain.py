"""Why a node is predicted as it is: evidence by bank and by slot, prototypes, neighbours and features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hpn.learners.hpn.evidence import FEW, Extractors
from hpn.learners.hpn.solved import LOCK, Evidence, Name, SolvedNetwork
from hpn.learners.hpn.statistics import LAYER_HOPS, MEAN_HOPS
from hpn.nn.encoder import ROWS, STEPS, recent_signs, see, slot_bits, to_dense
from hpn.nn.fold import cut
from hpn.streams import GraphView

SLOTS = ("its own features", "nodes 1 hop away", "nodes 2 hops away", "nodes 3 hops away", "nearby evidence")
SHOWN = 5
"""Neighbours and features that are listed."""
LEAST = 0.005
"""Contributions below this are not listed."""
FAINT = 0.05
"""Evidence below this is called neutral."""


class Breakdown(NamedTuple):
    """What the predictions for some nodes are made of.

    P is 2, the predicted class and the runner-up, or 1 if there is only one class.
    """

    evidence: Evidence  # of each bank, with the classes in the requested order
    pair: np.ndarray  # columns of predicted class and runner-up [n, P]
    probability: np.ndarray  # of both [n, P]
    shares: np.ndarray  # share of each bank in the sum of all weights [num_banks]
    unmatched: np.ndarray  # evidence of each bank before matching [num_banks, n, P]
    atomic: np.ndarray  # positions of the atomic prototypes [num_banks, n, P]
    node: np.ndarray  # positions of the node-level prototypes [n, P]
    class_level: np.ndarray  # positions of the class-level prototypes [n, P]
    slots: tuple[str, ...]  # names of the slots
    by_slot: np.ndarray  # weighted evidence of each slot for each class [num_slots, n, C]


def break_down(
    network: SolvedNetwork,
    view: GraphView,
    nodes: np.ndarray,
    choose: Callable[[list[int]], Sequence[int]],
    task: Name | None = None,
) -> Breakdown:
    """Break down the predictions for some nodes, all at once.

    Args:
        network: A fitted network.
        view: The graph.
        nodes: Nodes of it ``[n]``.
        choose: Given all class numbers, the classes to predict from; of equal ones the first is predicted.
        task: The task, if it is given.
    """
    with LOCK:
        evidence = network.find_evidence(view, nodes, task)
        evidence = evidence.arrange(list(choose(evidence.classes)))
        slots, by_slot = evidence.banks, evidence.values * evidence.weights[:, None, None]
        if isinstance(evidence.extractors, Extractors):
            extractors = evidence.extractors.restrict(evidence.classes)
            evidence = evidence._replace(extractors=extractors)
            slots, by_slot = SLOTS, _split_by_slot(extractors, view, nodes, evidence.values)
    logits, upper = network.combine(evidence), network.match_upper(evidence)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    pair = np.argsort(-odds, axis=1, kind="stable")[:, :2]
    unmatched = np.take_along_axis(evidence.values, pair[None], axis=2)
    return Breakdown(
        evidence=evidence,
        pair=pair,
        probability=np.take_along_axis(odds / odds.sum(axis=1, keepdims=True), pair, axis=1),
        shares=evidence.weights / max(float(evidence.weights.sum()), 1e-9),
        unmatched=unmatched,
        atomic=network.planes["atomic"].match(unmatched),
        node=np.take_along_axis(upper["node"], pair, axis=1),
        class_level=np.take_along_axis(upper["class"], pair, axis=1),
        slots=slots,
        by_slot=by_slot,
    )


def _split_by_slot(extractors: Extractors, view: GraphView, nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    r"""Split the evidence about nodes by slot ``[num_slots, n, C]``.

    With the gate of the random layer known, :math:`W^\top h = \sum_k W^\top (g \odot 2^{k-K} P_k^\top u_k)` up to the
    rounding of h. The intercept, which makes the evidence of an average node 0, is divided among the slots in
    proportion to the average of h.
    """
    slots, factors = see(view), extractors.weights / extractors.scales
    by_slot = np.zeros((len(SLOTS), *values.shape[1:]))
    are_few = len(nodes) < view.num_nodes // FEW
    slots.prepare(LAYER_HOPS, *extractors.layer)
    for rows in cut(len(nodes), ROWS):
        hidden = slots.layers(LAYER_HOPS, nodes[rows], *extractors.layer)
        for k in range(LAYER_HOPS[-1] + 1):
            projected = slots.projections(k, nodes[rows], *extractors.layer, are_few=are_few)
            for factor, hop, solved, h in zip(factors, LAYER_HOPS, extractors.layers, hidden, strict=False):
                if hop >= k:
                    weight = solved.weight - solved.weight.mean(axis=1, keepdims=True)
                    gated = np.where(h > 0, projected, np.float32(0)) @ weight.astype(np.float32)
                    by_slot[k, rows] += 2.0 ** (k - hop) * factor * STEPS * gated
    slots.blocks.pop(extractors.layer, None)  # large, and not needed again
    for factor, hop, solved in zip(factors, LAYER_HOPS, extractors.layers, strict=False):
        share = 4.0 ** np.arange(hop + 1)  # of a slot in the variance of the layer, and so in its mean
        intercept = np.outer(share / share.sum(), factor * (solved.bias - solved.bias.mean()))
        by_slot[: hop + 1] += intercept[:, None]
    for bank, hop in enumerate(MEAN_HOPS, start=len(LAYER_HOPS)):
        by_slot[hop] += extractors.weights[bank] * values[bank]
    by_slot[-1] = extractors.weights[-1] * values[-1]
    return by_slot


@dataclass(frozen=True)
class SlotEvidence:
    """The evidence of one slot.

    Args:
        slot: The nodes it covers.
        speaks_for: The class with the most evidence, or ``None`` if it is neutral.
        predicted: Evidence for the predicted class; above 0 supports it.
        runner_up: Evidence for the runner-up, if there is one.
    """

    slot: str
    speaks_for: Any
    predicted: float
    runner_up: float | None


@dataclass(frozen=True)
class BankMatch:
    """One atomic embedding of a node, for the predicted class.

    Args:
        bank: Name of the bank.
        weight: Its share of all weights, between 0 and 1.
        evidence: Evidence for the predicted class before matching.
        prototype: The matched atomic prototype: 0 is neutral, positive supports the class.
        runner_up_prototype: The same for the runner-up.
    """

    bank: str
    weight: float
    evidence: float
    prototype: int
    runner_up_prototype: int | None


@dataclass(frozen=True)
class Share:
    """The contribution of a neighbour or a feature to the lead of the predicted class over the runner-up.

    Args:
        of: The neighbour or the feature: its number, or its name.
        lead: In units of evidence; below 0 it supports the runner-up.
        label: The class of a neighbour, if it is known.
    """

    of: Any
    lead: float
    label: Any = None

    def __str__(self) -> str:
        return f"{self.of}{'' if self.label is None else f' ({self.label})'} {self.lead:+.2f}"


@dataclass(frozen=True)
class Explanation:
    """The explanation of one prediction; ``print`` shows it as text.

    Args:
        node: The node, as it was given.
        predicted: Its predicted class.
        probability: Of that class.
        runner_up: The second likeliest class, if there is one.
        runner_up_probability: Of that class.
        slots: Evidence by slot; adds up to the evidence of the node level.
        banks: Atomic prototypes by bank, in decreasing order of weight.
        node_prototype: Node-level prototype for the predicted class.
        class_prototype: Class-level prototype for the predicted class.
        membership: Its meaning: ``member``, ``borderline`` or ``not a member``.
        neighbors: The nodes up to 3 hops away that matter most.
        features: The features of the node itself that matter most.
    """

    node: Any
    predicted: Any
    probability: float
    runner_up: Any
    runner_up_probability: float | None
    slots: list[SlotEvidence]
    banks: list[BankMatch]
    node_prototype: int
    class_prototype: int
    membership: str
    neighbors: tuple[Share, ...] = ()
    features: tuple[Share, ...] = ()

    def __str__(self) -> str:
        lines = [f"node {self.node}: {self.predicted} ({self.probability:.0%}), {self.membership}"]
        if self.runner_up is not None:
            lines[0] += f"; next {self.runner_up} ({self.runner_up_probability:.0%})"
        for slot in self.slots:
            verdict = "are neutral" if slot.speaks_for is None else f"support {slot.speaks_for}"
            other = "" if slot.runner_up is None else f", {slot.runner_up:+.2f} for {self.runner_up}"
            lines.append(f"  {slot.slot:<18} {verdict}: {slot.predicted:+.2f} for {self.predicted}{other}")
        over = f"that matter most, for {self.predicted} over {self.runner_up}"
        for what, shares in (("neighbours", self.neighbors), ("its features", self.features)):
            lines += [f"  {what} {over}: {', '.join(map(str, shares))}"] if shares else []
        for bank in self.banks:
            other = "" if bank.runner_up_prototype is None else f" (next: {bank.runner_up_prototype:+d})"
            lines.append(f"  atomic prototype {bank.prototype:+d}{other}: {bank.bank}, weight {bank.weight:.0%}")
        upper = f"{self.node_prototype:+d}, class-level {self.class_prototype:+d}"
        return "\n".join([*lines, f"  node-level prototype {upper}"])


def explain(
    network: SolvedNetwork, view: GraphView, nodes: np.ndarray, name: Callable[[int], Any], task: Name | None = None
) -> list[Explanation]:
    """Explain the predictions for some nodes; ``name`` gives the label of a class number."""
    with LOCK:
        found = break_down(network, view, nodes, partial(sorted, key=name), task)
        labels = np.array([name(label) for label in found.evidence.classes], dtype=object)
        return [_explain(view, node, found, row, labels) for row, node in enumerate(nodes.tolist())]


def _explain(view: GraphView, node: int, found: Breakdown, row: int, labels: np.ndarray) -> Explanation:
    pair, extractors = found.pair[row], found.evidence.extractors

    def both(values: np.ndarray) -> tuple[Any, Any]:
        """The value of the predicted class and that of the runner-up, if there is one."""
        return tuple([*values.tolist(), None][:2])

    neighbors, features = (
        _find_shares(extractors, view, node, *pair)
        if isinstance(extractors, Extractors) and len(pair) == 2
        else ((), ())
    )
    predicted, runner_up = both(labels[pair])
    probability, runner_up_probability = both(found.probability[row])
    banks = [
        BankMatch(bank, float(share), float(evidence[0]), *both(positions))
        for bank, share, evidence, positions in zip(
            found.evidence.banks, found.shares, found.unmatched[:, row], found.atomic[:, row], strict=True
        )
        if share > 0
    ]
    position = int(found.class_level[row, 0])
    return Explanation(
        node=node,
        predicted=predicted,
        probability=probability,
        runner_up=runner_up,
        runner_up_probability=runner_up_probability,
        slots=[
            SlotEvidence(slot, labels[part.argmax()] if part.max() > FAINT else None, *both(part[pair]))
            for slot, part in zip(found.slots, found.by_slot[:, row], strict=True)
        ],
        banks=sorted(banks, key=lambda bank: -bank.weight),
        node_prototype=int(found.node[row, 0]),
        class_prototype=position,
        membership="member" if position > 0 else "borderline" if position == 0 else "not a member",
        neighbors=neighbors,
        features=features,
    )


def _find_directions(extractors: Extractors, view: GraphView, node: int) -> np.ndarray:
    r"""What a unit of each feature in each slot adds to the evidence ``[K + 1, num_features, C]``.

    With the gate of the random layer known, :math:`W^\top h = \sum_k d_k^\top u_k` up to the rounding of h.
    """
    slots, at, factors = see(view), np.array([node]), extractors.weights / extractors.scales
    directions = np.zeros((LAYER_HOPS[-1] + 1, slots.num_features, len(extractors.classes)))
    hidden = slots.layers(LAYER_HOPS, at, *extractors.layer)
    for factor, hop, solved, (h,) in zip(factors, LAYER_HOPS, extractors.layers, hidden, strict=False):
        gated = factor * STEPS * (h > 0)[:, None] * (solved.weight - solved.weight.mean(axis=1, keepdims=True))
        for k in range(hop + 1):
            signs = recent_signs(slots.num_features, *extractors.layer, k)
            directions[k] += 2.0 ** (k - hop) * (signs @ gated.astype(np.float32))
    for bank, (hop, means) in enumerate(zip(MEAN_HOPS, extractors.means, strict=True), start=len(LAYER_HOPS)):
        distance = means.distance(slots.products(hop, means.vectors, at))[0]
        directions[hop] += factors[bank] * means.directions.T / distance
    return directions


def _find_shares(
    extractors: Extractors, view: GraphView, node: int, first: int, second: int
) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
    r"""Contributions of neighbours and of the node's own features to the lead of one class over another.

    A slot is a sum over nodes, :math:`(\hat{A}^k X)_v = \sum_u \hat{A}^k_{vu} x_u`. So node u adds
    :math:`\hat{A}^k_{vu}\, x_u \cdot d_k / \lVert (\hat{A}^k X)_v \rVert`.
    """
    slots, at, directions = see(view), np.array([node]), _find_directions(extractors, view, node)
    ahead = directions[:, :, first] - directions[:, :, second]
    lead = np.zeros(view.num_nodes)
    for hop in range(1, len(ahead)):
        reach = slots.smoothing.reach(at, hop)
        length = max(float(np.linalg.norm(to_dense(slots.smoothed(hop, at))[0])), 1e-12)
        lead[reach.indices] += reach.data * (slots.features(reach.indices) @ ahead[hop]) / length
    nearby, added = extractors.nearby_shares(view, node)
    factor = extractors.weights[-1] / extractors.scales[-1]
    lead[nearby] += factor * (added[:, first] - added[:, second])
    lead[node] = 0
    own = to_dense(slots.unit_rows(0, at))[0] * 2.0 ** -slot_bits(slots.num_features)
    return _largest(lead), _largest(ahead[0] * own)


def _largest(lead: np.ndarray) -> tuple[Share, ...]:
    """The largest contributions that are not negligible."""
    order = np.argsort(-abs(lead), kind="stable")[:SHOWN].tolist()
    return tuple(Share(at, float(lead[at])) for at in order if abs(lead[at]) >= LEAST)
