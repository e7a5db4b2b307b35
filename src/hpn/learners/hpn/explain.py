"""Why a node is answered as it is: evidence by bank and by slot, prototypes, neighbours and features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hpn.learners.hpn.account import Accounts, find_accounts
from hpn.learners.hpn.evidence import LAYER_HOPS, MEAN_HOPS, Extractors
from hpn.learners.hpn.solved import ASKED, Name, SolvedNetwork
from hpn.nn.encoder import STEPS, is_csr, recent_signs, see, slot_bits
from hpn.streams import GraphView

SHOWN = 5
"""Neighbours and features that are named."""
LEAST = 0.005
"""Shares below this are not named."""
FAINT = 0.05
"""Evidence below this is called neutral."""


@dataclass(frozen=True)
class SlotEvidence:
    """How strongly one slot speaks.

    Args:
        slot: What it looks at.
        speaks_for: The class it speaks for most, or ``None`` if it is neutral.
        predicted: Its evidence for the predicted class; above 0 speaks for it.
        runner_up: Its evidence for the runner-up, if there is one.
    """

    slot: str
    speaks_for: Any
    predicted: float
    runner_up: float | None


@dataclass(frozen=True)
class BankMatch:
    """One atomic embedding of a node, for the predicted class.

    Args:
        bank: What the bank looks at.
        weight: Its share of all weights, between 0 and 1.
        evidence: Evidence for the predicted class before matching.
        prototype: The atomic prototype it is matched to: 0 is neutral, positive speaks for the class.
        runner_up_prototype: The same for the runner-up.
    """

    bank: str
    weight: float
    evidence: float
    prototype: int
    runner_up_prototype: int | None


@dataclass(frozen=True)
class Share:
    """What a neighbour or a feature adds to the lead of the predicted class over the runner-up.

    Args:
        of: The neighbour or the feature: its number, or its name.
        lead: In units of evidence; below 0 it speaks for the runner-up.
        label: The class of a neighbour, if that is known.
    """

    of: Any
    lead: float
    label: Any = None

    def __str__(self) -> str:
        return f"{self.of}{'' if self.label is None else f' ({self.label})'} {self.lead:+.2f}"


@dataclass(frozen=True)
class Explanation:
    """The account of one node; ``print`` it to read it.

    Args:
        node: The node, as it was asked about.
        predicted: Its predicted class.
        probability: Of that class.
        runner_up: The second likeliest class, if there is one.
        runner_up_probability: Of that class.
        slots: Evidence by slot; adds up to the evidence of the node level.
        banks: Atomic prototypes by bank, those that weigh most first.
        node_prototype: Node-level prototype for the predicted class.
        class_prototype: Class-level prototype for the predicted class.
        membership: What that one stands for: ``member``, ``borderline`` or ``not a member``.
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
            speaks = "are neutral" if slot.speaks_for is None else f"speak for {slot.speaks_for}"
            other = "" if slot.runner_up is None else f", {slot.runner_up:+.2f} for {self.runner_up}"
            lines.append(f"  {slot.slot:<18} {speaks}: {slot.predicted:+.2f} for {self.predicted}{other}")
        over = f"that matter most, for {self.predicted} over {self.runner_up}"
        for what, shares in (("neighbours", self.neighbors), ("its features", self.features)):
            lines += [f"  {what} {over}: {', '.join(map(str, shares))}"] if shares else []
        for bank in self.banks:
            other = "" if bank.runner_up_prototype is None else f" (next: {bank.runner_up_prototype:+d})"
            matched = f"atomic prototype {bank.prototype:+d}{other}"
            lines.append(f"  {matched}: {bank.bank}, weight {bank.weight:.0%}")
        upper = f"{self.node_prototype:+d}, class-level {self.class_prototype:+d}"
        return "\n".join([*lines, f"  node-level prototype {upper}"])


def explain(
    network: SolvedNetwork, view: GraphView, nodes: np.ndarray, name: Callable[[int], Any], task: Name | None = None
) -> list[Explanation]:
    """Explain the answers about some nodes.

    Args:
        network: A fitted network.
        view: The graph.
        nodes: Nodes of it.
        name: The label of a class number.
        task: The task, if it is given.
    """
    with ASKED:
        accounts = find_accounts(network, view, nodes, partial(sorted, key=name), task)
        labels = np.array([name(label) for label in accounts.evidence.classes], dtype=object)
        return [_explain(view, node, accounts, row, labels) for row, node in enumerate(nodes.tolist())]


def _explain(view: GraphView, node: int, accounts: Accounts, row: int, labels: np.ndarray) -> Explanation:
    pair, extractors = accounts.pair[row], accounts.evidence.extractors

    def of_pair(values: np.ndarray) -> tuple[Any, Any]:
        """The value of the predicted class and that of the runner-up, if there is one."""
        return tuple([*values.tolist(), None][:2])

    neighbors: tuple[Share, ...] = ()
    features: tuple[Share, ...] = ()
    if isinstance(extractors, Extractors) and len(pair) == 2:
        neighbors, features = _find_shares(extractors, view, node, *pair)
    predicted, runner_up = of_pair(labels[pair])
    probability, runner_up_probability = of_pair(accounts.probability[row])
    position, share = int(accounts.class_level[row, 0]), accounts.shares
    return Explanation(
        node=node,
        predicted=predicted,
        probability=probability,
        runner_up=runner_up,
        runner_up_probability=runner_up_probability,
        slots=[
            SlotEvidence(slot, labels[part.argmax()] if part.max() > FAINT else None, *of_pair(part[pair]))
            for slot, part in zip(accounts.slots, accounts.by_slot[:, row], strict=True)
        ],
        banks=[
            BankMatch(
                accounts.evidence.banks[at],
                float(share[at]),
                float(accounts.found[at, row, 0]),
                *of_pair(accounts.atomic[at, row]),
            )
            for at in np.argsort(-share, kind="stable")
            if share[at] > 0
        ],
        node_prototype=int(accounts.node[row, 0]),
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
    hidden = slots.layers(LAYER_HOPS, at, extractors.width, extractors.seed)
    for factor, hop, layer, (h,) in zip(factors, LAYER_HOPS, extractors.layers, hidden, strict=False):
        gated = factor * STEPS * (h > 0)[:, None] * (layer.weight - layer.weight.mean(axis=1, keepdims=True))
        for k in range(hop + 1):
            signs = recent_signs(slots.num_features, extractors.width, extractors.seed, k)
            directions[k] += 2.0 ** (k - hop) * (signs @ gated.astype(np.float32))
    for bank, (hop, means) in enumerate(zip(MEAN_HOPS, extractors.means, strict=True), start=len(LAYER_HOPS)):
        distance = means.distance(slots.products(hop, means.vectors, at))[0]
        directions[hop] += factors[bank] * means.directions.T / distance
    return directions


def _find_shares(
    extractors: Extractors, view: GraphView, node: int, first: int, second: int
) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
    r"""What neighbours and own features add to the lead of one class over another.

    A slot is a sum over nodes, :math:`(\hat{A}^k X)_v = \sum_u \hat{A}^k_{vu} x_u`. So node u adds
    :math:`\hat{A}^k_{vu}\, x_u \cdot d_k / \lVert (\hat{A}^k X)_v \rVert`.
    """
    slots, at, directions = see(view), np.array([node]), _find_directions(extractors, view, node)
    ahead = directions[:, :, first] - directions[:, :, second]
    lead = np.zeros(view.num_nodes)
    for hop in range(1, len(ahead)):
        reach = slots.smoothing.reach(at, hop)
        length = max(float(np.linalg.norm(_dense_row(slots.smoothed(hop, at)))), 1e-12)
        lead[reach.indices] += reach.data * (slots.features(reach.indices) @ ahead[hop]) / length
    nearby, added = extractors.nearby_shares(view, node)
    factor = extractors.weights[-1] / extractors.scales[-1]
    lead[nearby] += factor * (added[:, first] - added[:, second])
    lead[node] = 0
    return _largest(lead), _largest(ahead[0] * _unit_row(view, node, 0))


def _unit_row(view: GraphView, node: int, hop: int) -> np.ndarray:
    """A slot of a node, of length 1."""
    slots = see(view)
    return _dense_row(slots.unit_rows(hop, np.array([node]))) * 2.0 ** -slot_bits(slots.num_features)


def _dense_row(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray()[0] if is_csr(rows) else rows[0])


def _largest(lead: np.ndarray) -> tuple[Share, ...]:
    """Those that matter most, and matter at all."""
    order = np.argsort(-abs(lead), kind="stable")[:SHOWN].tolist()
    return tuple(Share(at, float(lead[at])) for at in order if abs(lead[at]) >= LEAST)
