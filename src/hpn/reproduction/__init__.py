"""The whole paper at one command: its experiments, their pages, and what agrees with ours."""

from hpn.reproduction.engine import reproduce
from hpn.reproduction.experiments import EXPERIMENTS

__all__ = ["EXPERIMENTS", "reproduce"]
