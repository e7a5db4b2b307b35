"""Why a node is answered as it is: evidence by bank and by slot, and the prototypes it is matched to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpn.learners.hpn.evidence import LAYER_HOPS, MEAN_HOPS, Extractors
from hpn.learners.hpn.solved import Evidence, Name, SolvedNetwork
from hpn.nn.encoder import see
from hpn.streams import GraphView

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
    """

    node: int
    predicted: Any
    probability: float
    runner_up: Any
    runner_up_probability: float | None
    slots: list[SlotEvidence]
    banks: list[BankMatch]
    node_prototype: int
    class_prototype: int
    membership: str

    def __str__(self) -> str:
        lines = [f"node {self.node}: {self.predicted} ({self.probability:.0%}), {self.membership}"]
        if self.runner_up is not None:
            lines[0] += f"; next {self.runner_up} ({self.runner_up_probability:.0%})"
        for slot in self.slots:
            speaks = "is neutral" if slot.speaks_for is None else f"speaks for {slot.speaks_for}"
            against = "" if slot.runner_up is None else f", {slot.runner_up:+.2f} for {self.runner_up}"
            lines.append(f"  {slot.slot:<18} {speaks}: {slot.predicted:+.2f} for {self.predicted}{against}")
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
    found = []
    for row, node in enumerate(nodes.tolist()):
        first, *rest = np.argsort(-probability[row], kind="stable").tolist()
        second = rest[0] if rest else None

        def of_second(values: np.ndarray, second: int | None = second) -> Any:
            return None if second is None else values[second].item()

        labels = [name(label) for label in evidence.classes]
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
    part = None if task is None else network.tasks.get(task)
    extractors = network.memory.extractors(view) if part is None else part.extractor
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
