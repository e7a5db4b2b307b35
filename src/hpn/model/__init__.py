"""The estimators for people's own graphs."""

from hpn.model.classifier import HPNClassifier, NotFittedError
from hpn.model.node_classifier import NodeClassifier

__all__ = ["HPNClassifier", "NodeClassifier", "NotFittedError"]
