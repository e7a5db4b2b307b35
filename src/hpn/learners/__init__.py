"""How the steps of a stream are learned: one file per method."""

from __future__ import annotations

from hpn.learners.base import Learner, Observer, Progress, State
from hpn.learners.gnn.ergnn import ERGNN
from hpn.learners.gnn.ewc import EWC
from hpn.learners.gnn.finetune import FineTune
from hpn.learners.gnn.gem import GEM
from hpn.learners.gnn.joint import Joint
from hpn.learners.gnn.lwf import LwF
from hpn.learners.gnn.mas import MAS
from hpn.learners.gnn.twp import TWP
from hpn.learners.hpn import HPN
from hpn.learners.linear.ncm import NCM
from hpn.learners.linear.probe import Probe
from hpn.learners.linear.ridge import Ridge

LEARNERS: dict[str, type[Learner]] = {
    "hpn": HPN,  # type: ignore[type-abstract]
    "finetune": FineTune,
    "ewc": EWC,
    "lwf": LwF,
    "gem": GEM,
    "mas": MAS,
    "ergnn": ERGNN,
    "twp": TWP,
    "joint": Joint,
    "probe": Probe,
    "ncm": NCM,
    "ridge": Ridge,
}
"""Names in configurations and on the command line."""

__all__ = [
    "ERGNN",
    "EWC",
    "GEM",
    "HPN",
    "LEARNERS",
    "MAS",
    "NCM",
    "TWP",
    "FineTune",
    "Joint",
    "Learner",
    "LwF",
    "Observer",
    "Probe",
    "Progress",
    "Ridge",
    "State",
]
