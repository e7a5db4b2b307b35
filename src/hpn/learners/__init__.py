"""How the steps of a stream are learned: one file per method."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hpn.errors import ConfigError, nearest
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


def find_learner(method: str | type[Learner]) -> tuple[str, type[Learner]]:
    """A learner by its name, by ``MODULE:CLASS``, or given as a class; and what configurations call it.

    Raises:
        ConfigError: If there is none.

    Example:
        >>> find_learner("ewc")[1] is find_learner(EWC)[1], find_learner(EWC)[0]
        (True, 'ewc')
    """
    if isinstance(method, type):
        if not issubclass(method, Learner):
            raise ConfigError(f"method must be a name or a subclass of hpn.Learner, got {method.__name__}")
        names = {learner: name for name, learner in LEARNERS.items()}
        return names.get(method, f"{method.__module__}:{method.__qualname__}"), method
    if method in LEARNERS:
        return method, LEARNERS[method]
    module, colon, name = method.partition(":")
    if not colon:
        known = f"{nearest(method, LEARNERS)}known: {', '.join(LEARNERS)}; your own is MODULE:CLASS"
        raise ConfigError(f"unknown method {method!r}; {known}")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"method {method!r} cannot be imported ({error})") from error
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ConfigError(f"method {method!r} is not a subclass of hpn.Learner")
    return method, found


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
    "find_learner",
]
