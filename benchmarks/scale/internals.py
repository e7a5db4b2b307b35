"""The few places where the suite looks into the package, beside what everybody may call."""

from __future__ import annotations

from torch import Tensor

from hpn.learners.hpn import PaperHPN
from hpn.nn.neighborhoods import NeighborSampler
from hpn.nn.prototypes import PrototypeBook
from hpn.streams import Task


def make_sampler(task: Task, learner: PaperHPN) -> NeighborSampler:
    """What draws neighbours for a learner."""
    counts = learner.settings().counts
    return NeighborSampler(task.graph.indptr, task.graph.indices, counts, learner.seed)


def draw_neighbors(sampler: NeighborSampler, nodes: Tensor, turn: int) -> Tensor:
    """One neighbour of each node ``[len(nodes)]``."""
    return sampler.draw(nodes, 1, turn)[0, :, 0]


def find_rows(task: Task, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Where the features of nodes are: a matrix in memory or mapped into it, and rows of it."""
    features = task.graph.features
    return (features, nodes) if isinstance(features, Tensor) else (features._source, features._nodes[nodes])


def fill_book(vectors: Tensor) -> PrototypeBook:
    """A book that holds given prototypes."""
    book = PrototypeBook(vectors.shape[1], 1e-5)
    book.load_state_dict(
        {"vectors": vectors, "founders": vectors.new_zeros(len(vectors)).long(), "num_frozen": 0}
    )
    return book
