from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hpn.datasets import Graph
from hpn.streams import GraphView


class Trace:
    """Recognises the nodes of the graph ``tagged`` in views of it."""

    @staticmethod
    def ids(view: GraphView, rows: Tensor | None = None) -> list[int]:
        x = view.x if rows is None else view.x[rows]
        return [int(value) for value in x[:, 0]]

    def edges(self, view: GraphView) -> set[tuple[int, int]]:
        names = torch.tensor(self.ids(view))
        return {(a, b) for a, b in names[view.edge_index].t().tolist()}


@pytest.fixture(scope="session")
def trace() -> Trace:
    return Trace()


@pytest.fixture
def tagged() -> Graph:
    """A random graph of six classes whose one feature is the number of the node."""
    generator = torch.Generator().manual_seed(0)
    links = torch.randint(60, (2, 360), generator=generator)
    x, y = torch.arange(60.0).unsqueeze(1), torch.arange(60) % 6
    return Graph.build("tagged", x=x, links=links, y=y)
