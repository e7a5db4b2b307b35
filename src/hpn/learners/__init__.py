"""How the steps of a stream are learned: one file per method.

A method is added with one file and one line: its import below. Its name in configurations and on the command
line is that of its class in lower case. Methods outside this package are found by
:func:`hpn.learners.finding.find_learner`.
"""

from __future__ import annotations

from hpn.learners.base import Learner as Learner
from hpn.learners.base import Observer as Observer
from hpn.learners.base import Progress as Progress
from hpn.learners.base import State as State
from hpn.learners.gnn.ergnn import ERGNN as ERGNN
from hpn.learners.gnn.ewc import EWC as EWC
from hpn.learners.gnn.finetune import FineTune as FineTune
from hpn.learners.gnn.gem import GEM as GEM
from hpn.learners.gnn.joint import Joint as Joint
from hpn.learners.gnn.lwf import LwF as LwF
from hpn.learners.gnn.mas import MAS as MAS
from hpn.learners.gnn.twp import TWP as TWP
from hpn.learners.hpn import HPN as HPN
from hpn.learners.linear.ncm import NCM as NCM
from hpn.learners.linear.probe import Probe as Probe
from hpn.learners.linear.ridge import Ridge as Ridge

LEARNERS: dict[str, type[Learner]] = {
    kind.__name__.lower(): kind
    for kind in tuple(globals().values())
    if isinstance(kind, type) and issubclass(kind, Learner) and kind is not Learner
}
"""Every learner of this package by its name."""
