"""The experiments of the paper: what is run, the pages, and the comparison with its numbers."""

from hpn.reproduction.engine import reproduce
from hpn.reproduction.experiments import EXPERIMENTS

__all__ = ["EXPERIMENTS", "reproduce"]
