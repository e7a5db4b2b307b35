"""One run: configuration, folder, task loop, checkpoints, result; imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "BatchProgress": "jobs",
    "BatchWatcher": "jobs",
    "RunConfig": "config",
    "TuneProgress": "tune_progress",
    "TuneWatcher": "tune_progress",
    "Watcher": "watch",
    "check_run": "bound_check",
    "compare": "comparison",
    "installed_versions": "config",
    "load_learner": "saved",
    "resolve_config": "config",
    "run": "runner",
    "study_retention": "retention",
    "tune": "tuning",
}

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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"hpn.experiment.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'hpn.experiment' has no attribute {name!r}")
