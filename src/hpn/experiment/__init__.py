"""One run: configuration, folder, task loop, checkpoints, result."""

from hpn.experiment.config import RunConfig, installed_versions, resolve_config
from hpn.experiment.runner import run
from hpn.experiment.saved import load_learner
from hpn.experiment.watch import Watcher

__all__ = ["RunConfig", "Watcher", "installed_versions", "load_learner", "resolve_config", "run"]
