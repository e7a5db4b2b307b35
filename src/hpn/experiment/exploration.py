"""The data of the node explorer: a map of nodes, the breakdown of each prediction, and the codebook.

Arrays are written as little-endian numbers, compressed (zlib) and in base64, so that a browser reads 20,000
nodes at once.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, model_validator
from scipy.sparse import csr_matrix

from hpn.datasets import Graph
from hpn.errors import ConfigError
from hpn.experiment.run.result import Part
from hpn.experiment.run.views import draw_tsne
from hpn.learners.hpn.explain import SLOTS, Breakdown, break_down
from hpn.learners.hpn.solved import SolvedNetwork
from hpn.learners.hpn.task_extractor import TaskExtractor
from hpn.streams import GraphView, Stream
from hpn.streams.views import Evaluate, hash_nodes

# On one map; of more, those with the smallest hashes of their ids are shown.
MOST_NODES = 20_000
# Neighbours of a node that are highlighted.
MOST_NEIGHBORS = 12
# Nodes that t-SNE is for.
MOST_DRAWN = 3_000
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
GRID = 2**16 - 1

Drawing = Literal["pca", "tsne"]
Founding = Literal["recorded", "derived", "unknown"]


def pack(array: np.ndarray) -> dict[str, Any]:
    """An array of whole numbers as JSON."""
    stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    data = base64.b64encode(zlib.compress(stored.tobytes(), 9)).decode()
    return {"type": array.dtype.name, "shape": list(array.shape), "data": data}


def unpack(content: Any) -> np.ndarray:
    """The array that :func:`pack` was given."""
    if isinstance(content, np.ndarray):
        return content
    try:
        kind, shape = np.dtype(content["type"]), tuple(content["shape"])
        data = zlib.decompress(base64.b64decode(content["data"], validate=True))
        if kind.name not in TYPES:
            raise ValueError(f"type must be one of {', '.join(TYPES)}, got {kind.name}")
        return np.frombuffer(data, kind.newbyteorder("<")).reshape(shape).astype(kind)
    except (TypeError, KeyError, zlib.error) as error:
        raise ValueError(f"not a packed array ({error})") from None


PackedArray = Annotated[np.ndarray, PlainValidator(unpack), PlainSerializer(pack)]


class Prototype(Part):
    """An atomic prototype in use."""

    position: int  # on the lattice; 0 is neutral, positive is evidence for a class
    angle: float  # in degrees; 0 is neutral
    nodes: int  # nodes on the map that a bank matches to it, for the prediction or for the runner-up
    classes: int  # classes for which it is matched
    founded: int | None  # the founding step, if it is known


class Exploration(Part):
    """The data of the explorer. P is 2: the prediction, then the runner-up.

    Shapes:
        - ``group``, ``x``, ``y``, ``label``, ``answer``, ``runner_up``, ``step``, ``degree``: ``[n]``
        - ``probability``, ``node``, ``class_level``: ``[P, n]``
        - ``atomic``, ``evidence``: ``[num_banks, P, n]``, ``[num_slots, P, n]``
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    schema_: Literal[1] = Field(1, alias="schema")
    name: str  # of the data
    is_task_given: bool  # whether predictions are among the classes of the node's own task
    num_nodes: int  # all nodes, of which those on the map are a sample
    drawing: Drawing
    classes: list[str]  # names
    steps: list[str]  # names
    banks: list[str]  # the input of each bank
    slots: list[str]  # the input of each slot; empty if slots are the same as banks
    weights: list[list[float]]  # share of each bank in all weights, per group of nodes; 0 if it is not used
    bounds: dict[str, int]  # the most prototypes of each level there can ever be
    prototypes: list[Prototype]
    founding: Founding  # whether founding steps were recorded, or are those of the first nodes
    most_neighbors: int  # neighbours of a node that are listed
    names: PackedArray  # of the nodes: JSON in UTF-8
    group: PackedArray  # row of ``weights`` that holds for a node
    x: PackedArray
    y: PackedArray
    label: PackedArray  # class, -1 if unknown
    answer: PackedArray  # predicted class
    runner_up: PackedArray  # second likeliest class, -1 if there is none
    probability: PackedArray  # of both, as percentages
    step: PackedArray  # step in which a node arrived, -1 if unknown
    atomic: PackedArray  # positions of prototypes of this level, and of the next two
    node: PackedArray
    class_level: PackedArray
    evidence: PackedArray  # by slot, in hundredths
    degree: PackedArray  # neighbours in the graph
    indptr: PackedArray  # where the neighbours of each node begin in ``indices``
    indices: PackedArray  # neighbours that are on the map

    @model_validator(mode="after")
    def _check(self) -> Exploration:
        n = len(self.x)
        shapes = _shapes(n, len(self.banks), len(self.slots)) | {"indptr": (n + 1,)}
        shapes |= dict.fromkeys(("group", "y", "label", "answer", "runner_up", "step", "degree"), (n,))
        for key, shape in shapes.items():
            if getattr(self, key).shape != shape:
                raise ValueError(f"{key} must have the shape {shape}, got {getattr(self, key).shape}")
        if len(self.node_names) != n:
            raise ValueError(f"{n} nodes but {len(self.node_names)} names")
        return self

    @property
    def node_names(self) -> list[str]:
        """Names of the nodes."""
        return list(json.loads(self.names.tobytes()))


def _shapes(n: int, num_banks: int, num_slots: int) -> dict[str, tuple[int, ...]]:
    """What is known of the prediction and the runner-up of each node."""
    of_both = dict.fromkeys(("probability", "node", "class_level"), (2, n))
    return {**of_both, "atomic": (num_banks, 2, n), "evidence": (num_slots, 2, n)}


class BreakdownGroup(NamedTuple):
    """Nodes whose breakdowns have the same banks: their rows among the shown nodes, and the breakdown."""

    rows: np.ndarray
    breakdown: Breakdown


class Shown(NamedTuple):
    """The nodes on the map."""

    view: GraphView  # a graph with all of them
    nodes: np.ndarray  # nodes of it [n]
    names: Sequence[Any]
    labels: np.ndarray  # class numbers, -1 if unknown [n]
    steps: np.ndarray  # the step of each, -1 if unknown [n]
    num_nodes: int  # with those that are not shown


def choose_nodes(view: GraphView, nodes: np.ndarray, most: int = MOST_NODES) -> np.ndarray:
    """Indices of the nodes to show: all, or those with the smallest hashes, independent of their order."""
    order = np.argsort(hash_nodes(view, nodes), kind="stable")[:most]
    return np.sort(order)


def explore_run(network: SolvedNetwork, stream: Stream, graph: Graph, evaluate: Evaluate) -> Exploration:
    """The test nodes of all steps after the last one.

    Predictions are those of the evaluation: with the task given, the breakdown is that of the task's extractor.
    The map is that of the network without a task, which places all nodes in one space.
    """
    last = len(stream) - 1
    query, key = stream.query(step=None, after=last, evaluate="global")
    at = choose_nodes(query.graph, query.nodes.numpy())
    numbers = key.node.numpy()[at]
    names = numbers.tolist() if graph.node_ids is None else graph.node_ids[numbers].tolist()
    labels, steps = key.y.numpy()[at], key.step.numpy()[at]
    shown = Shown(query.graph, query.nodes.numpy()[at], names, labels, steps, len(query.nodes))
    groups = []
    for step in range(len(stream)) if evaluate == "oracle" else [None]:
        query, own = stream.query(step=step, after=last, evaluate="oracle" if step is not None else "global")
        place = {node: row for row, node in enumerate(own.node.tolist())}
        rows = np.flatnonzero([number in place for number in numbers.tolist()])
        nodes = query.nodes.numpy()[[place[number] for number in numbers[rows].tolist()]]

        def among(_: list[int], classes: Sequence[int] = query.classes) -> Sequence[int]:
            return classes

        breakdown = break_down(network, query.graph, nodes, among, query.task)
        groups.append(BreakdownGroup(rows, breakdown))
    recorded: dict[int, int] = {}
    if evaluate == "oracle":
        for step, part in enumerate(network.tasks.values()):
            if isinstance(part.extractor, TaskExtractor):
                recorded |= {p: step for p in part.extractor.positions.tolist() if p not in recorded}
    step_names = [
        ", ".join(graph.class_names[label] for label in step.classes) if stream.has_tasks else step.name
        for step in stream.plan.steps
    ]
    names_of = dict(enumerate(graph.class_names))
    return make_exploration(
        graph.name, network, shown, groups, names_of, step_names, is_task_given=evaluate == "oracle", recorded=recorded
    )


def make_exploration(
    name: str,
    network: SolvedNetwork,
    shown: Shown,
    groups: Sequence[BreakdownGroup],
    class_names: Mapping[int, Any],  # in the order to show them in
    step_names: Sequence[str],
    *,
    is_task_given: bool = False,
    recorded: Mapping[int, int] | None = None,  # the founding step by position, if the network has kept it
    drawing: Drawing = "pca",
) -> Exploration:
    """Combine the breakdowns of all groups."""
    n = len(shown.nodes)
    banks = list(dict.fromkeys(bank for group in groups for bank in group.breakdown.evidence.banks))
    is_split = all(group.breakdown.slots == SLOTS for group in groups)
    plane = network.planes["atomic"]
    small = np.int8 if plane.size < 256 else np.int16
    types = {"probability": np.uint8, "evidence": np.int16}
    shapes = _shapes(n, len(banks), len(SLOTS) if is_split else 0)
    found: dict[str, Any] = {name: np.zeros(shape, types.get(name, small)) for name, shape in shapes.items()}
    group, pair = np.zeros(n, np.uint16), np.full((2, n), -1, np.int16)
    weights = np.zeros((len(groups), len(banks)))
    columns = {code: at for at, code in enumerate(class_names)}
    for number, (rows, breakdown) in enumerate(groups):
        codes = np.array([columns[code] for code in breakdown.evidence.classes])
        width, at = breakdown.pair.shape[1], [banks.index(bank) for bank in breakdown.evidence.banks]
        weights[number, at] = breakdown.shares
        group[rows] = number
        pair[:width, rows] = codes[breakdown.pair].T
        found["probability"][:width, rows] = np.rint(100 * breakdown.probability).T
        found["node"][:width, rows] = breakdown.node.T
        found["class_level"][:width, rows] = breakdown.class_level.T
        for bank, positions in zip(at, breakdown.atomic, strict=True):
            found["atomic"][bank][:width, rows] = positions.T
        for slot, part in enumerate(breakdown.by_slot if is_split else ()):
            both = np.take_along_axis(part, breakdown.pair, axis=1)
            found["evidence"][slot][:width, rows] = np.rint(100 * both).clip(-32768, 32767).T
    is_used = (weights[group].T > 0)[:, None] & (pair >= 0)
    prototypes = _serve(found["atomic"], is_used, pair, shown.steps, recorded or {})
    x, y = _draw(network, shown, groups, drawing)
    indptr, indices = _neighbors(shown.view, shown.nodes)
    founding: Founding = "recorded" if recorded else "derived" if (shown.steps >= 0).any() else "unknown"
    return Exploration(
        name=name,
        is_task_given=is_task_given,
        num_nodes=shown.num_nodes,
        drawing=drawing,
        classes=[str(label) for label in class_names.values()],
        steps=list(step_names),
        banks=banks,
        slots=list(SLOTS) if is_split else [],
        weights=weights.round(4).tolist(),
        bounds={level: plane.size for level, plane in network.planes.items()},
        prototypes=[
            Prototype(position=p, angle=round(math.degrees(plane.angle(p)), 1), **served)
            for p, served in prototypes.items()
        ],
        founding=founding,
        most_neighbors=MOST_NEIGHBORS,
        names=np.frombuffer(json.dumps([str(node) for node in shown.names]).encode(), np.uint8),
        group=group,
        x=x,
        y=y,
        label=np.array([columns.get(code, -1) for code in shown.labels.tolist()], np.int16),
        answer=pair[0],
        runner_up=pair[1],
        step=shown.steps.astype(np.int16),
        degree=shown.view.indptr.diff().numpy()[shown.nodes].astype(np.uint32),
        indptr=indptr,
        indices=indices,
        **found,
    )


def _serve(
    atomic: np.ndarray, is_used: np.ndarray, pair: np.ndarray, steps: np.ndarray, recorded: Mapping[int, int]
) -> dict[int, dict[str, Any]]:
    """Numbers of nodes and classes that are matched to each position, and its founding step."""
    served = {}
    for position in np.unique(atomic[is_used]).tolist():
        matched = (atomic == position) & is_used
        is_node = matched.any(axis=(0, 1))
        arrived = steps[is_node & (steps >= 0)]
        founded = recorded.get(position, int(arrived.min()) if len(arrived) else None)
        classes = len(np.unique(pair[matched.any(axis=0)]))
        served[position] = {"nodes": int(is_node.sum()), "classes": classes, "founded": founded}
    return served


def _draw(network: SolvedNetwork, shown: Shown, groups: Sequence[BreakdownGroup], drawing: Drawing) -> np.ndarray:
    """Coordinates ``[2, n]`` on a grid with the same unit in both directions."""
    is_one = len(groups) == 1
    evidence = groups[0].breakdown.evidence if is_one else network.find_evidence(shown.view, shown.nodes)
    represented = network.represent(evidence)
    if drawing == "tsne" and len(represented) > MOST_DRAWN:
        raise ConfigError(f"t-SNE is for at most {MOST_DRAWN:,} nodes, got {len(represented):,}; use pca")
    drawn = draw_tsne(represented, seed=0) if drawing == "tsne" else project(represented)
    middle = (drawn.max(axis=0) + drawn.min(axis=0)) / 2
    size = max(float(np.ptp(drawn, axis=0).max()), 1e-9)
    places = ((drawn - middle) / size + 0.5) * GRID
    return np.asarray(np.rint(places.T).astype(np.uint16))


def project(x: np.ndarray) -> np.ndarray:
    """The first two principal components; the largest loading of each is positive ``[n, 2]``."""
    from scipy.sparse.linalg import eigsh

    centred = x - x.mean(axis=0)
    scatter = centred.T @ centred
    is_wide = len(scatter) > 500
    _, vectors = eigsh(scatter, k=2, v0=np.ones(len(scatter))) if is_wide else np.linalg.eigh(scatter)
    vectors = vectors[:, :-3:-1]
    largest = np.take_along_axis(vectors, abs(vectors).argmax(axis=0)[None], axis=0)
    return np.asarray(centred @ (vectors * np.sign(largest)))


def _neighbors(view: GraphView, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first few neighbours of each node that are shown as well: pointers and indices."""
    entries = (np.ones(len(view.indices), bool), view.indices[:].numpy(), view.indptr.numpy())
    adjacency = csr_matrix(entries, shape=(view.num_nodes, view.num_nodes))[nodes][:, nodes]
    counts = np.diff(adjacency.indptr)
    rank = np.arange(adjacency.nnz) - np.repeat(adjacency.indptr[:-1], counts)
    indptr = np.append(0, np.minimum(counts, MOST_NEIGHBORS).cumsum())
    return indptr.astype(np.uint32), adjacency.indices[rank < MOST_NEIGHBORS].astype(np.uint16)
