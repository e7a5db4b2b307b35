"""The estimators for users' own graphs, imported on first use because scikit-learn takes a second."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpn.model.classifier import HPNClassifier
    from hpn.model.node_classifier import NodeClassifier

_HOMES = {"HPNClassifier": "hpn.model.classifier", "NodeClassifier": "hpn.model.node_classifier"}

__all__ = ["HPNClassifier", "NodeClassifier"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hpn.model' has no attribute {name!r}")
