"""Tensors in, tensors out: backbones and feature propagation."""

from hpn.nn.backbones import (
    BACKBONES,
    GAT,
    GCN,
    GIN,
    Adjacency,
    Backbone,
    grow_outputs,
    make_backbone,
)
from hpn.nn.propagation import smooth

__all__ = [
    "BACKBONES",
    "GAT",
    "GCN",
    "GIN",
    "Adjacency",
    "Backbone",
    "grow_outputs",
    "make_backbone",
    "smooth",
]
