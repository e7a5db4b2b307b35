"""Why a node is answered as it is: evidence by bank and by slot, prototypes, neighbours and features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpn.learners.hpn.evidence import LAYER_HOPS, MEAN_HOPS, Extractors
from hpn.learners.hpn.solved import Evidence, Name, SolvedNetwork
from hpn.learners.hpn.task_extractor import TaskExtractor
from hpn.nn.encoder import STEPS, recent_signs, see, slot_bits
from hpn.streams import GraphView

SHOWN = 5
"""Neighbours and features that are named."""
LEAST = 0.005
"""Shares below this are not named."""
SLOTS = ("its own features", "nodes 1 hop away", "nodes 2 hops away", "nodes 3 hops away", "answers nearby")
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
            against = "" if slot.runner_up is None else f", {slot.runner_up:+.2f} for {self.runner_up}"
            lines.append(f"  {slot.slot:<18} {speaks}: {slot.predicted:+.2f} for {self.predicted}{against}")
        for what, shares in (("neighbours", self.neighbors), ("its features", self.features)):
            if shares:
                listed = ", ".join(map(str, shares))
                lines.append(
                    f"  {what} that matter most, for {self.predicted} over {self.runner_up}: {listed}"
                )
        for bank in self.banks:
            other = "" if bank.runner_up_prototype is None else f" (next: {bank.runner_up_prototype:+d})"
            lines.append(
                f"  atomic prototype {bank.prototype:+d}{other}: {bank.bank}, weight {bank.weight:.0%}"
            )
        lines.append(
            f"  node-level prototype {self.node_prototype:+d}, class-level {self.class_prototype:+d}"
        )
        return "\n".join(lines)


def explain(
    network: SolvedNetwork,
    view: GraphView,
    nodes: np.ndarray,
    name: Callable[[int], Any],
    task: Name | None = None,
) -> list[Explanation]:
    """Explain the answers about some nodes.

    Args:
        network: A fitted network.
        view: The graph.
        nodes: Nodes of it.
        name: The label of a class number.
        task: The task, if it is given.
    """
    evidence = network.find_evidence(view, nodes, task)
    slots = _by_slot(network, view, nodes, task, evidence)
    order = np.argsort([name(label) for label in evidence.classes], kind="stable")  # of names, as in answers
    slots = [(slot, part[:, order]) for slot, part in slots]
    evidence = evidence.arrange([evidence.classes[at] for at in order])
    logits = network.combine(evidence)
    logits -= logits.max(axis=1, keepdims=True)
    probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    upper = network.match_upper(evidence)
    matched = network.planes["atomic"].match(evidence.found)
    share = evidence.weights / max(float(evidence.weights.sum()), 1e-9)
    extractors = _extractors(network, view, task)
    found = []
    for row, node in enumerate(nodes.tolist()):
        first, *rest = np.argsort(-probability[row], kind="stable").tolist()
        second = rest[0] if rest else None

        def of_second(values: np.ndarray, second: int | None = second) -> Any:
            return None if second is None else values[second].item()

        labels = [name(label) for label in evidence.classes]
        neighbors: tuple[Share, ...] = ()
        features: tuple[Share, ...] = ()
        if second is not None and isinstance(extractors, Extractors):
            pair = [extractors.classes.index(evidence.classes[at]) for at in (first, second)]
            neighbors, features = _shares(extractors, view, node, *pair)
        found.append(
            Explanation(
                node=node,
                predicted=labels[first],
                probability=float(probability[row, first]),
                runner_up=None if second is None else labels[second],
                runner_up_probability=of_second(probability[row]),
                slots=[
                    SlotEvidence(
                        slot, _loudest(part[row], labels), float(part[row, first]), of_second(part[row])
                    )
                    for slot, part in slots
                ],
                banks=[
                    BankMatch(
                        evidence.banks[bank],
                        float(share[bank]),
                        float(evidence.found[bank, row, first]),
                        int(matched[bank, row, first]),
                        of_second(matched[bank, row]),
                    )
                    for bank in np.argsort(-share, kind="stable")
                    if share[bank] > 0
                ],
                node_prototype=int(upper["node"][row, first]),
                class_prototype=int(upper["class"][row, first]),
                membership=_membership(int(upper["class"][row, first])),
                neighbors=neighbors,
                features=features,
            )
        )
    return found


def _loudest(evidence: np.ndarray, labels: Sequence[Any]) -> Any:
    at = int(evidence.argmax())
    return labels[at] if evidence[at] > FAINT else None


def _membership(position: int) -> str:
    return "member" if position > 0 else "borderline" if position == 0 else "not a member"


def _by_slot(
    network: SolvedNetwork, view: GraphView, nodes: np.ndarray, task: Name | None, evidence: Evidence
) -> list[tuple[str, np.ndarray]]:
    r"""Weighted evidence of each slot ``[n, C]``.

    With the gate of the random layer known, :math:`W^\top h` is a sum over slots:
    :math:`\sum_k W^\top (\mathbb{1}[h > 0] \odot 2^{k-K} P_k^\top u_k)`, up to the rounding of h. The
    intercept, which makes the evidence of an average node 0, is divided among the slots as the average of h
    is.
    """
    extractors = _extractors(network, view, task)
    if not isinstance(extractors, Extractors):
        return [(evidence.banks[0], evidence.found[0] * evidence.weights[0])]
    found = np.zeros((len(SLOTS), *evidence.found.shape[1:]))
    factors = extractors.weights / extractors.scales
    slots = see(view)
    for bank, (hop, layer) in enumerate(zip(LAYER_HOPS, extractors.layers, strict=True)):
        parts = slots.layer_parts(hop, nodes, extractors.width, extractors.seed)
        shares = np.stack([part @ layer.weight for part in parts])
        share = 4.0 ** np.arange(hop + 1)  # of a slot in the variance of the layer, and so in its mean
        shares += (share / share.sum())[:, None, None] * layer.bias
        found[: hop + 1] += factors[bank] * (shares - shares.mean(axis=2, keepdims=True))
    for bank, hop in enumerate(MEAN_HOPS, start=len(LAYER_HOPS)):
        found[hop] += evidence.weights[bank] * evidence.found[bank]
    found[-1] = evidence.weights[-1] * evidence.found[-1]
    return list(zip(SLOTS, found, strict=True))


def _extractors(
    network: SolvedNetwork, view: GraphView, task: Name | None
) -> Extractors | TaskExtractor | None:
    part = None if task is None else network.tasks.get(task)
    return network.memory.extractors(view) if part is None else part.extractor


def _shares(
    extractors: Extractors, view: GraphView, node: int, first: int, second: int
) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
    r"""What neighbours and own features add to the lead of one class over another.

    With gates and lengths as they are, evidence is linear in the slots, and slot k is a sum over nodes:
    :math:`(\hat{A}^k X)_v = \sum_u \hat{A}^k_{vu} x_u`. So node u adds
    :math:`\hat{A}^k_{vu}\, x_u \cdot d_k / \lVert (\hat{A}^k X)_v \rVert`, where :math:`d_k` is what a unit
    of each feature in slot k adds.
    """
    slots, at = see(view), np.array([node])
    directions = _directions(extractors, view, at, first, second)
    own = directions[0] * _row(slots.unit_rows(0, at)) * 2.0 ** -slot_bits(slots.num_features)
    lead = np.zeros(view.num_nodes)
    for hop in range(1, len(directions)):
        reach = slots.smoothing.reach(at, hop)
        length = max(float(np.linalg.norm(_row(slots.smoothed(hop, at)))), 1e-12)
        lead[reach.indices] += reach.data * (slots.features(reach.indices) @ directions[hop]) / length
    nearby = extractors.nearby_shares(view, node)
    factor = extractors.weights[-1] / extractors.scales[-1]
    lead[nearby[0]] += factor * (nearby[1][:, first] - nearby[1][:, second])
    lead[node] = 0
    return _largest(lead), _largest(own)


def _directions(
    extractors: Extractors, view: GraphView, at: np.ndarray, first: int, second: int
) -> np.ndarray:
    """What a unit of each feature in each slot adds to the lead of one class ``[K + 1, num_features]``."""
    slots, factors = see(view), extractors.weights / extractors.scales
    found = np.zeros((LAYER_HOPS[-1] + 1, slots.num_features))
    hidden = slots.layers(LAYER_HOPS, at, extractors.width, extractors.seed)
    for bank, (hop, layer) in enumerate(zip(LAYER_HOPS, extractors.layers, strict=True)):
        gated = (hidden[bank][0] > 0) * (layer.weight[:, first] - layer.weight[:, second])
        for k in range(hop + 1):
            signs = recent_signs(slots.num_features, extractors.width, extractors.seed, k)
            found[k] += factors[bank] * STEPS * 2.0 ** (k - hop) * (signs @ gated.astype(np.float32))
    for bank, (hop, means) in enumerate(zip(MEAN_HOPS, extractors.means, strict=True), start=len(LAYER_HOPS)):
        along = means.directions[first] - means.directions[second]
        found[hop] += factors[bank] * along / means.distance(slots.products(hop, means.vectors, at))[0]
    return found


def _row(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray()[0] if hasattr(rows, "toarray") else rows[0])


def _largest(lead: np.ndarray) -> tuple[Share, ...]:
    """Those that matter most, and matter at all."""
    order = np.argsort(-abs(lead), kind="stable")[:SHOWN].tolist()
    return tuple(Share(at, float(lead[at])) for at in order if abs(lead[at]) >= LEAST)
