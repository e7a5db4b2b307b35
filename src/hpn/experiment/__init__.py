"""One run: configuration, folder, task loop, checkpoints, result; imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpn.experiment.bound_check import check_run
    from hpn.experiment.comparison import compare
    from hpn.experiment.config import RunConfig, resolve_config
    from hpn.experiment.finished import find_finished
    from hpn.experiment.retention import study_retention
    from hpn.experiment.runner import run
    from hpn.experiment.saved import load_learner
    from hpn.experiment.tune_progress import TuneProgress, TuneWatcher
    from hpn.experiment.tuning import tune
    from hpn.experiment.versions import installed_versions
    from hpn.experiment.watch import BatchProgress, BatchWatcher, Watcher

_HOMES = {
    "BatchProgress": "watch",
    "BatchWatcher": "watch",
    "RunConfig": "config",
    "TuneProgress": "tune_progress",
    "TuneWatcher": "tune_progress",
    "Watcher": "watch",
    "check_run": "bound_check",
    "compare": "comparison",
    "find_finished": "finished",
    "installed_versions": "versions",
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
    "find_finished",
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
