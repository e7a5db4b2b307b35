"""The node explorer of a classifier: nodes of a graph with the evidence for each, and when they were learned."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from hpn.datasets import Graph
from hpn.datasets.graph import UNLABELLED
from hpn.experiment.exploration import BreakdownGroup, Drawing, Exploration, Shown, choose_nodes, make_exploration
from hpn.learners.hpn.explain import break_down
from hpn.learners.hpn.solved import SolvedNetwork
from hpn.model.inputs import GraphLike, code_of, codes_of, default_labels
from hpn.model.ledger import Ledger
from hpn.streams import GraphView


def explore(
    data: GraphLike,
    network: SolvedNetwork,
    view: GraphView,
    rows: np.ndarray,
    labels: dict[int, Any],
    ledger: Ledger,
    drawing: Drawing,
) -> Exploration:
    """What :meth:`hpn.HPNClassifier.explore` returns."""
    chosen = rows[choose_nodes(view, rows)]
    codes, names, classes = np.full(len(chosen), -1), chosen, dict(labels)
    if isinstance(data, Graph):
        is_known = data.y.numpy()[chosen] != UNLABELLED
        if is_known.any():
            known = default_labels(data, chosen[is_known])
            codes[is_known] = codes_of(known)
            classes |= {code_of(label): label for label in np.unique(known).tolist()}
        names = names if data.node_ids is None else data.node_ids[chosen]
    graphs, learned = ledger.graphs, ledger.find(view)
    steps = np.full(view.num_nodes, len(graphs))
    np.minimum.at(steps, learned[learned >= 0], ledger.rows[learned >= 0, 2])
    steps[steps == len(graphs)] = -1
    shown = Shown(view, chosen, names.tolist(), codes, steps[chosen], len(rows))
    breakdown = break_down(network, view, chosen, partial(sorted, key=labels.__getitem__))
    step_names = [f"learned in a graph of {graph.num_nodes:,} nodes" for graph in graphs]
    classes = dict(sorted(classes.items(), key=lambda pair: str(pair[1])))
    title, groups = getattr(data, "name", None) or "graph", [BreakdownGroup(np.arange(len(chosen)), breakdown)]
    return make_exploration(title, network, shown, groups, classes, step_names, drawing=drawing)
