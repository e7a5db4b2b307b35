"""One run: configuration, folder, task loop, checkpoints, result."""

from hpn.experiment.bound_check import check_run
from hpn.experiment.comparison import compare
from hpn.experiment.config import RunConfig, installed_versions, resolve_config
from hpn.experiment.jobs import BatchProgress, BatchWatcher
from hpn.experiment.retention import study_retention
from hpn.experiment.runner import run
from hpn.experiment.saved import load_learner
from hpn.experiment.tune_progress import TuneProgress, TuneWatcher
from hpn.experiment.tuning import tune
from hpn.experiment.watch import Watcher

__all__ = [
    "BatchProgress",
    "BatchWatcher",
    "RunConfig",
    "TuneProgress",
    "TuneWatcher",
    "Watcher",
    "check_run",
    "compare",
    "installed_versions",
    "load_learner",
    "resolve_config",
    "run",
    "study_retention",
    "tune",
]
