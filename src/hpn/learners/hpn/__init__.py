"""Hierarchical prototype networks: the network solved from sums (``best``), and the paper's."""

from hpn.learners.hpn.paper import PaperHPN
from hpn.learners.hpn.presets import HPN
from hpn.learners.hpn.solved import SolvedHPN

__all__ = ["HPN", "PaperHPN", "SolvedHPN"]
