"""How a task is learned: one file a method."""

from hpn.learners.base import Learner, Observer, Progress, State
from hpn.learners.finetune import FineTune
from hpn.learners.hpn import HPN
from hpn.learners.joint import Joint
from hpn.learners.ncm import NCM
from hpn.learners.probe import Probe

LEARNERS: dict[str, type[Learner]] = {
    "hpn": HPN,
    "finetune": FineTune,
    "joint": Joint,
    "probe": Probe,
    "ncm": NCM,
}
"""Names in configurations and on the command line."""

__all__ = [
    "HPN",
    "LEARNERS",
    "NCM",
    "FineTune",
    "Joint",
    "Learner",
    "Observer",
    "Probe",
    "Progress",
    "State",
]
