"""The paper's three backbones, on PyTorch Geometric's layers and with the paper's widths.

Two layers each: GCN with 16 hidden units, GAT with 8 heads of 8, GIN with 32. PyTorch Geometric takes
seconds to import, so it waits until a backbone is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpn.nn.device import CPU
from hpn.nn.sparse_linear import SparseLinear
from hpn.nn.subgraphs import Adjacency


class Backbone(nn.Module):
    """Two message-passing layers from features to logits.

    Args:
        num_features: Features a node has.
        num_outputs: Logits.
        dropout: Share of hidden units, and of input features where they are dense, dropped in training.

    Shapes:
        - ``x``: ``[num_nodes, num_features]``, dense or sparse CSR
        - ``adjacency``: what :meth:`prepare` made of ``edge_index`` ``[2, num_entries]``
        - result: ``[num_nodes, num_outputs]``
    """

    sums_neighbors: ClassVar[bool] = True
    """Whether a layer sums over neighbours, so that fewer neighbours make its output smaller."""

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        first: nn.Module,
        second: nn.Module,
        *,
        activation: Callable[[Tensor], Tensor],
        dropout: float,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.num_outputs = num_outputs
        self.first = first
        if hasattr(first, "lin"):
            first.lin = SparseLinear(first.lin)
        self.second = second
        self.activation = activation
        self.dropout = dropout

    def prepare(self, edge_index: Tensor, num_nodes: int) -> Adjacency:
        """Do once for a graph what would be the same in every pass: self-loops and edge weights."""
        from torch_geometric.utils import add_self_loops

        return (add_self_loops(edge_index, num_nodes=num_nodes)[0],)

    def forward(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """Compute the logits of every node."""
        hidden = F.dropout(self.embed(x, adjacency), self.dropout, self.training)
        logits: Tensor = self.second(hidden, *adjacency)
        return logits

    def embed(self, x: Tensor, adjacency: Adjacency) -> Tensor:
        """Hidden units of every node."""
        return self.activation(self.first(drop(x, self.dropout, self.training), *adjacency))

    def structure(self, x: Tensor, adjacency: Adjacency) -> list[Tensor]:
        """What each layer takes from the topology: attention to neighbours, or their features summed.

        Nothing is dropped, in training either.

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

    def __init__(self, num_features: int, num_outputs: int, *, dropout: float = 0.5) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__(
            num_features,
            num_outputs,
            GCNConv(num_features, self.HIDDEN, normalize=False),
            GCNConv(self.HIDDEN, num_outputs, normalize=False),
            activation=F.relu,
            dropout=dropout,
        )

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

    def __init__(self, num_features: int, num_outputs: int, *, dropout: float = 0.5) -> None:
        from torch_geometric.nn import GATConv

        width = self.HIDDEN * self.HEADS
        super().__init__(
            num_features,
            num_outputs,
            GATConv(num_features, self.HIDDEN, heads=self.HEADS, dropout=dropout, add_self_loops=False),
            GATConv(width, num_outputs, heads=1, concat=False, dropout=dropout, add_self_loops=False),
            activation=F.elu,
            dropout=dropout,
        )

    def _gathered(self, layer: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        hidden = layer.lin(x).view(-1, layer.heads, layer.out_channels)
        source, target = adjacency[0]
        toward = (hidden * layer.att_src).sum(dim=-1)[source] + (hidden * layer.att_dst).sum(dim=-1)[target]
        return F.leaky_relu(toward, layer.negative_slope)


class GIN(Backbone):
    """Graph isomorphism network (Xu et al., ICLR 2019), two-layer perceptrons of 32 hidden units."""

    HIDDEN = 32

    def __init__(self, num_features: int, num_outputs: int, *, dropout: float = 0.5) -> None:
        super().__init__(
            num_features,
            num_outputs,
            ProjectedGINConv(num_features, self.HIDDEN, self.HIDDEN),
            ProjectedGINConv(self.HIDDEN, self.HIDDEN, num_outputs),
            activation=F.relu,
            dropout=dropout,
        )

    def prepare(self, edge_index: Tensor, num_nodes: int) -> Adjacency:
        """The edges as they are: GIN adds the node itself by its own term."""
        return (edge_index,)

    def _gathered(self, layer: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        gathered: Tensor = layer.gather(x, *adjacency)
        return gathered


class ProjectedGINConv(nn.Module):
    r"""A GIN layer whose perceptron's first matrix is applied before the sum over neighbours.

    .. math:: W_2\,\mathrm{ReLU}\Bigl(b_1 + W_1 x_v + \sum_{u \in N(v)} W_1 x_u\Bigr) + b_2

    The same function as the usual order, by linearity, but sparse features stay sparse and messages
    are as narrow as the hidden layer.
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


BACKBONES: dict[str, type[GCN] | type[GAT] | type[GIN]] = {"gcn": GCN, "gat": GAT, "gin": GIN}


def make_backbone(name: str, num_features: int, num_outputs: int, *, dropout: float) -> Backbone:
    """Make a backbone by its name on the command line.

    On the CPU, where a seed draws the same weights whatever device they then go to.
    """
    with CPU:
        return BACKBONES[name](num_features, num_outputs, dropout=dropout)


def grow_outputs(network: Backbone, num_outputs: int) -> Backbone:
    """A copy of ``network``, on the CPU, with more logits; what was learned so far stays as it was.

    Every parameter of the output layer has the logits as one of its dimensions, so the old values are
    the leading block of the new ones.

    Example:
        >>> small = GCN(4, 2)
        >>> large = grow_outputs(small, 5)
        >>> torch.equal(large.second.lin.weight[:2], small.second.lin.weight)
        True
    """
    with CPU:
        grown = type(network)(network.num_features, num_outputs, dropout=network.dropout)  # type: ignore[call-arg]
    old = dict(network.named_parameters())
    with torch.no_grad():
        for name, parameter in grown.named_parameters():
            if "att_" in name:
                parameter.zero_()  # attention sums over outputs: new ones are not to change it yet
            block = tuple(slice(size) for size in old[name].shape)
            parameter[block] = old[name]
    return grown


def drop(x: Tensor, share: float, training: bool) -> Tensor:
    """Dropout on features that may be sparse: of a sparse row, stored values are dropped."""
    if x.layout != torch.sparse_csr:
        return F.dropout(x, share, training)
    if not training or share == 0:
        return x
    values = F.dropout(x.values(), share)
    return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False)
