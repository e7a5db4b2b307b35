"""What answers about many nodes are made of: evidence by bank and by slot, and prototypes of all levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hpn.learners.hpn.evidence import FEW, LAYER_HOPS, MEAN_HOPS, Extractors
from hpn.learners.hpn.solved import ASKED, Evidence, Name, SolvedNetwork
from hpn.nn.encoder import ROWS, STEPS, see
from hpn.nn.fold import cut
from hpn.streams import GraphView

SLOTS = ("its own features", "nodes 1 hop away", "nodes 2 hops away", "nodes 3 hops away", "answers nearby")


class Accounts(NamedTuple):
    """The accounts of some nodes. P is 2: the answer and the runner-up; 1 if there is only one class.

    Args:
        evidence: Evidence of each bank, with the classes in the order asked for.
        pair: Columns of answer and runner-up ``[n, P]``.
        probability: Of both ``[n, P]``.
        shares: Share of each bank in all weights ``[num_banks]``.
        found: Evidence of each bank before matching ``[num_banks, n, P]``.
        atomic: Positions of the atomic prototypes ``[num_banks, n, P]``.
        node: Positions of the node-level prototypes ``[n, P]``.
        class_level: Positions of the class-level prototypes ``[n, P]``.
        slots: What each slot looks at.
        by_slot: Weighted evidence of each slot for each class ``[num_slots, n, C]``.
    """

    evidence: Evidence
    pair: np.ndarray
    probability: np.ndarray
    shares: np.ndarray
    found: np.ndarray
    atomic: np.ndarray
    node: np.ndarray
    class_level: np.ndarray
    slots: tuple[str, ...]
    by_slot: np.ndarray


def find_accounts(
    network: SolvedNetwork,
    view: GraphView,
    nodes: np.ndarray,
    choose: Callable[[list[int]], Sequence[int]],
    task: Name | None = None,
) -> Accounts:
    """Account for the answers about some nodes, all at once.

    Args:
        network: A fitted network.
        view: The graph.
        nodes: Nodes of it ``[n]``.
        choose: Given all class numbers, those that answers come from; of equal ones the first is the answer.
        task: The task, if it is given.
    """
    with ASKED:
        evidence = network.find_evidence(view, nodes, task)
        evidence = evidence.arrange(list(choose(evidence.classes)))
        slots, by_slot = evidence.banks, evidence.found * evidence.weights[:, None, None]
        if isinstance(evidence.extractors, Extractors):
            extractors = evidence.extractors.restrict(evidence.classes)
            evidence = evidence._replace(extractors=extractors)
            slots, by_slot = SLOTS, _split_by_slot(extractors, view, nodes, evidence.found)
    logits, upper = network.combine(evidence), network.match_upper(evidence)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    pair = np.argsort(-odds, axis=1, kind="stable")[:, :2]
    found = np.take_along_axis(evidence.found, pair[None], axis=2)
    return Accounts(
        evidence=evidence,
        pair=pair,
        probability=np.take_along_axis(odds / odds.sum(axis=1, keepdims=True), pair, axis=1),
        shares=evidence.weights / max(float(evidence.weights.sum()), 1e-9),
        found=found,
        atomic=network.planes["atomic"].match(found),
        node=np.take_along_axis(upper["node"], pair, axis=1),
        class_level=np.take_along_axis(upper["class"], pair, axis=1),
        slots=slots,
        by_slot=by_slot,
    )


def _split_by_slot(extractors: Extractors, view: GraphView, nodes: np.ndarray, found: np.ndarray) -> np.ndarray:
    r"""Split the evidence about nodes by slot ``[num_slots, n, C]``.

    With the gate of the random layer known, :math:`W^\top h = \sum_k W^\top (g \odot 2^{k-K} P_k^\top u_k)`
    up to the rounding of h. The intercept, which makes the evidence of an average node 0, is divided among
    the slots as the average of h is.
    """
    slots, factors = see(view), extractors.weights / extractors.scales
    sizes = np.zeros((len(SLOTS), *found.shape[1:]))
    layer_of, are_few = (extractors.width, extractors.seed), len(nodes) < view.num_nodes // FEW
    slots.prepare(LAYER_HOPS, *layer_of)
    for rows in cut(len(nodes), ROWS):
        hidden = slots.layers(LAYER_HOPS, nodes[rows], *layer_of)
        for k in range(LAYER_HOPS[-1] + 1):
            projected = slots.projections(k, nodes[rows], *layer_of, are_few=are_few)
            for factor, hop, layer, h in zip(factors, LAYER_HOPS, extractors.layers, hidden, strict=False):
                if hop >= k:
                    weight = layer.weight - layer.weight.mean(axis=1, keepdims=True)
                    gated = np.where(h > 0, projected, np.float32(0)) @ weight.astype(np.float32)
                    sizes[k, rows] += 2.0 ** (k - hop) * factor * STEPS * gated
    slots.blocks.pop(layer_of, None)  # large, and not needed again
    for factor, hop, layer in zip(factors, LAYER_HOPS, extractors.layers, strict=False):
        share = 4.0 ** np.arange(hop + 1)  # of a slot in the variance of the layer, and so in its mean
        intercept = np.outer(share / share.sum(), factor * (layer.bias - layer.bias.mean()))
        sizes[: hop + 1] += intercept[:, None]
    for bank, hop in enumerate(MEAN_HOPS, start=len(LAYER_HOPS)):
        sizes[hop] += extractors.weights[bank] * found[bank]
    sizes[-1] = extractors.weights[-1] * found[-1]
    return sizes
