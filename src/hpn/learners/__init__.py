"""How the steps of a stream are learned: one file per method."""

from __future__ import annotations

from hpn.learners.base import Learner, Observer, Progress, State
from hpn.learners.ergnn import ERGNN
from hpn.learners.ewc import EWC
from hpn.learners.finetune import FineTune
from hpn.learners.gem import GEM
from hpn.learners.hpn import HPN
from hpn.learners.joint import Joint
from hpn.learners.lwf import LwF
from hpn.learners.mas import MAS
from hpn.learners.ncm import NCM
from hpn.learners.probe import Probe
from hpn.learners.ridge import Ridge
from hpn.learners.twp import TWP

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
