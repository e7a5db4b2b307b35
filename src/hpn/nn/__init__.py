"""Networks on tensors: backbones and feature propagation."""

from hpn.nn.backbones import BACKBONES, GAT, GCN, GIN, Backbone, grow_outputs, make_backbone
from hpn.nn.subgraphs import Adjacency, SubgraphCutter

__all__ = ["BACKBONES", "GAT", "GCN", "GIN", "Adjacency", "Backbone", "SubgraphCutter", "grow_outputs", "make_backbone"]
