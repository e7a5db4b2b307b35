"""The paper's three backbones, on PyTorch Geometric's layers and with the paper's widths.

Two layers each: GCN with 16 hidden units, GAT with 8 heads of 8, GIN with 32. PyTorch Geometric takes seconds to
import, so it is imported when the first backbone is made.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpn.nn.device import CPU
from hpn.nn.sparse import SparseLinear
from hpn.nn.subgraphs import Adjacency


class Backbone(nn.Module):
    """Two message-passing layers from features to logits.

    Args:
        num_features: Features per node.
        num_outputs: Number of logits.
        dropout: Share of hidden units, and of input features where they are dense, dropped in training.

    Shapes:
        - ``x``: ``[num_nodes, num_features]``, dense or sparse CSR
        - ``adjacency``: result of :meth:`prepare` for ``edge_index`` ``[2, num_entries]``
        - result: ``[num_nodes, num_outputs]``
    """

    sums_neighbors: ClassVar[bool] = True
    """Whether a layer sums over neighbours, so that fewer neighbours make its output smaller."""

    def __init__(self, num_features: int, num_outputs: int, *, dropout: float = 0.5) -> None:
        super().__init__()
        self.num_features, self.num_outputs, self.dropout = num_features, num_outputs, dropout
        self.first, self.second = self._make_layers()
        if hasattr(self.first, "lin"):
            self.first.lin = SparseLinear(self.first.lin)

    def _make_layers(self) -> tuple[nn.Module, nn.Module]:
        raise NotImplementedError

    def prepare(self, edge_index: Tensor, num_nodes: int) -> Adjacency:
        """Compute once per graph what is the same in every pass: self-loops and edge weights."""
        from torch_geometric.utils import add_self_loops

        return (add_self_loops(edge_index, num_nodes=num_nodes)[0],)

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """Compute the logits of every node."""
        hidden = F.dropout(self.embed(x, adjacency), self.dropout, self.training)
        logits: Tensor = self.second(hidden, *adjacency)
        return logits

    def embed(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """Hidden units of every node."""
        return self._activate(self.first(drop(x, self.dropout, self.training), *adjacency))

    def _activate(self, hidden: Tensor) -> Tensor:
        return F.relu(hidden)

    def structure(self, x: Tensor, adjacency: Adjacency) -> list[Tensor]:
        """What each layer takes from the topology: attention to neighbours, or the sum of their features.

        No dropout is applied, even in training.

        Shapes:
            - each: ``[num_entries, num_heads]`` or ``[num_nodes, width]``
        """
        was_training = self.training
        self.eval()
        hidden = self.embed(x, adjacency)
        layers = [self._gathered(self.first, x, adjacency), self._gathered(self.second, hidden, adjacency)]
        self.train(was_training)
        return layers

    def _gathered(self, layer: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        raise NotImplementedError


class GCN(Backbone):
    r"""Graph convolutional network (Kipf and Welling, ICLR 2017).

    .. math:: \hat{A}\,\mathrm{ReLU}(\hat{A} X W_1)\,W_2
    """

    HIDDEN = 16

    def _make_layers(self) -> tuple[nn.Module, nn.Module]:
        from torch_geometric.nn import GCNConv

        first = GCNConv(self.num_features, self.HIDDEN, normalize=False)
        return first, GCNConv(self.HIDDEN, self.num_outputs, normalize=False)

    def prepare(self, edge_index: Tensor, num_nodes: int) -> Adjacency:
        """Entries and weights of the symmetrically normalised adjacency matrix with self-loops."""
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        return tuple(gcn_norm(edge_index, num_nodes=num_nodes))

    def _gathered(self, layer: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        gathered: Tensor = layer(x, *adjacency) - layer.bias
        return gathered


class GAT(Backbone):
    """Graph attention network (Veličković et al., ICLR 2018), 8 heads of 8 hidden units."""

    HIDDEN = 8
    HEADS = 8
    sums_neighbors = False

    def _make_layers(self) -> tuple[nn.Module, nn.Module]:
        from torch_geometric.nn import GATConv

        shared: dict[str, Any] = {"dropout": self.dropout, "add_self_loops": False}
        first = GATConv(self.num_features, self.HIDDEN, heads=self.HEADS, **shared)
        return first, GATConv(self.HIDDEN * self.HEADS, self.num_outputs, heads=1, concat=False, **shared)

    def _activate(self, hidden: Tensor) -> Tensor:
        return F.elu(hidden)

    def _gathered(self, layer: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        hidden = layer.lin(x).view(-1, layer.heads, layer.out_channels)
        source, target = adjacency[0]
        toward = (hidden * layer.att_src).sum(dim=-1)[source] + (hidden * layer.att_dst).sum(dim=-1)[target]
        return F.leaky_relu(toward, layer.negative_slope)


class GIN(Backbone):
    """Graph isomorphism network (Xu et al., ICLR 2019), two-layer perceptrons of 32 hidden units."""

    HIDDEN = 32

    def _make_layers(self) -> tuple[nn.Module, nn.Module]:
        first = ProjectedGINConv(self.num_features, self.HIDDEN, self.HIDDEN)
        return first, ProjectedGINConv(self.HIDDEN, self.HIDDEN, self.num_outputs)

    def prepare(self, edge_index: Tensor, num_nodes: int) -> Adjacency:
        """The edges unchanged: GIN has a separate term for the node itself."""
        return (edge_index,)

    def _gathered(self, layer: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        gathered: Tensor = layer.gather(x, *adjacency)
        return gathered


class ProjectedGINConv(nn.Module):
    r"""A GIN layer whose perceptron's first matrix is applied before the sum over neighbours.

    .. math:: W_2\,\mathrm{ReLU}\Bigl(b_1 + W_1 x_v + \sum_{u \in N(v)} W_1 x_u\Bigr) + b_2

    By linearity the same function as the usual order, but sparse features stay sparse and messages are narrow.
    """

    def __init__(self, num_inputs: int, num_hidden: int, num_outputs: int) -> None:
        from torch_geometric.nn import SimpleConv

        super().__init__()
        self.project = SparseLinear(nn.Linear(num_inputs, num_hidden, bias=False))
        self.shift = nn.Parameter(torch.zeros(num_hidden))
        self.combine = nn.Linear(num_hidden, num_outputs)
        self.aggregate = SimpleConv(aggr="sum", combine_root="sum")

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor | None = None) -> Tensor:
        """Compute the layer's output for every node; neighbours count by ``weight`` if given."""
        hidden: Tensor = self.combine(F.relu(self.gather(x, edge_index, weight) + self.shift))
        return hidden

    def gather(self, x: Tensor, edge_index: Tensor, weight: Tensor | None = None) -> Tensor:
        """Sum over a node and its neighbours, projected."""
        total: Tensor = self.aggregate(self.project(x), edge_index, weight)
        return total


BACKBONES: dict[str, type[Backbone]] = {"gcn": GCN, "gat": GAT, "gin": GIN}


def make_backbone(name: str, num_features: int, num_outputs: int, *, dropout: float) -> Backbone:
    """Make a backbone by its name on the command line, on the CPU, where a seed always draws the same weights."""
    with CPU:
        return BACKBONES[name](num_features, num_outputs, dropout=dropout)


def grow_outputs(network: Backbone, num_outputs: int) -> Backbone:
    """A copy of ``network``, on the CPU, with more logits and all learned parameters.

    Every parameter of the output layer has the logits as one of its dimensions, so the old values are the leading
    block of the new ones.
    """
    with CPU:
        grown = type(network)(network.num_features, num_outputs, dropout=network.dropout)
    old = dict(network.named_parameters())
    with torch.no_grad():
        for name, parameter in grown.named_parameters():
            if "att_" in name:
                parameter.zero_()  # attention sums over outputs: new ones must not change it yet
            parameter[tuple(slice(size) for size in old[name].shape)] = old[name]
    return grown


def drop(x: Tensor, share: float, training: bool) -> Tensor:
    """Dropout on features that may be sparse: of sparse rows, stored values are dropped."""
    if x.layout != torch.sparse_csr:
        return F.dropout(x, share, training)
    if not training or share == 0:
        return x
    values = F.dropout(x.values(), share)
    return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False)
